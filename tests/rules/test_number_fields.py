"""A record has a number beside what is attached: only the attached one keeps a graph."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged

CODE = "GG104"

SUMMARY = """
        class Output:
            def __init__(self, tokens, loss: Union[torch.Tensor, float] = 0, {declared} = 0, weights=None):
                self.tokens, self.loss, self.weights = tokens, loss, weights
                self.loss_value = {assigned}

        class Summarizer(nn.Module):
            def __init__(self):
                super().__init__()
                self.cell = nn.Linear(4, 4)

            def forward(self, x, y, criterion=None):
                out = Output(torch.zeros(4, dtype=torch.long))
                for i in range(4):
                    scores = self.cell(x)
                    loss = criterion(scores, y[i])
                    out.loss += loss
                    out.loss_value += loss{cut}
                return out

        def train_batch(batch, model: Summarizer, criterion, optimizer, rate=0):
            optimizer.zero_grad()
            out = model(batch.x, batch.y, criterion)
            if rate > 0:
                loss = (1 - rate) * out.loss
                loss_value = (1 - rate) * out.{field}
            else:
                loss = out.loss
                loss_value = out.{field}
            loss.backward()
            optimizer.step()
            return loss_value / 4

        def train(batches, model: Summarizer, criterion, optimizer):
            losses = []
            for epoch in range(100):
                loss = train_batch(next(batches), model, criterion, optimizer)
                losses.append(loss){mark}
            return losses
"""


@pytest.mark.parametrize("declared", ["value: float", "value: int", "value: bool"])
def test_a_field_that_is_declared_as_a_number(declared: str) -> None:
    made = SUMMARY.format(declared=declared, assigned="value", cut=".item()", field="loss_value", mark="")
    assert_clean(made, CODE)
    assert_clean(
        made.replace("value: ", "loss_value: ").replace("self.loss_value = value", "self.loss_value = loss_value"), CODE
    )


@pytest.mark.parametrize(
    ("declared", "assigned", "field"),
    [
        ("value: float", "value", "loss"),
        ("value: torch.Tensor", "value", "loss_value"),
        ("value: Union[torch.Tensor, float]", "value", "loss_value"),
        ("value: float", "loss", "loss_value"),
        ("value: float", "value * loss", "loss_value"),
    ],
)
def test_a_field_that_may_be_attached(declared: str, assigned: str, field: str) -> None:
    made = SUMMARY.format(declared=declared, assigned=assigned, cut="", field=field, mark="  # !")
    assert_flagged(made, CODE)
