"""A variable that each iteration binds anew, or leaves as it was: it goes on from itself, or it does not."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged

CODE = "GG105"

RETRIED = """
        class Trainer:
            def step(self, batch, device):
                used = device
                loss = None
                {loop}:
                    try:
                        batch = move(batch, used)
                        output = self.model(batch, train=True)
                        loss = {value}
                        self.backward(loss)
                        {leave}
                    except RuntimeError as error:
                        if "out of memory" not in str(error):
                            raise error
                        used = "cpu"
                        torch.cuda.empty_cache()
                return batch, output, loss

            def backward(self, loss):
                loss.backward()

            def get_loss(self, batch, output):
                return self.criterion(batch, output)
"""

VALUES = ["self.get_loss(batch, output)", "F.mse_loss(output, batch)", "self.criterion(output, batch).mean()"]


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize(
    ("loop", "leave"),
    [
        ("while True", "break"),
        ("for attempt in range(3)", "break"),
        ("for attempt in range(3)", "return batch, output, loss"),
        ("for attempt in itertools.count()", "break"),
        ("while loss is None", "pass"),
    ],
)
def test_a_step_that_is_tried_again(loop: str, leave: str, value: str) -> None:
    assert_clean(RETRIED.format(loop=loop, leave=leave, value=value), CODE)


LEFT = """
        def train(model, loader, optimizer):
            last = None
            for x, y in loader:
                {skip}
                loss = F.cross_entropy(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                {bind}
            return last
"""


@pytest.mark.parametrize("skip", ["if x is None: continue", "pass"])
@pytest.mark.parametrize(
    "bind",
    [
        "last = loss",
        "last = loss if last is None else last",
        "last, before = loss, x",
        "if loss < 1: last = loss",
        "last = loss if loss < 1 else last",
        "last = last or loss",
        "last = last if last is not None else loss",
        "last = loss * 2",
    ],
)
def test_the_last_one_that_was_made(skip: str, bind: str) -> None:
    assert_clean(LEFT.format(skip=skip, bind=bind), CODE)


GOES_ON = """
        def evaluate(model, cell, loader):
            model.eval()
            h = seen = torch.zeros(1, 4)
            for x in loader:
                {steps}{mark}
            return None
"""


@pytest.mark.parametrize(
    "steps",
    [
        "h = cell(x, h)",
        "out, h = cell(x, h)",
        "h = cell(x, before) if (before := h) is not None else cell(x, h)",
        "h = torch.tanh(cell(x, h)) * 2",
        "h = cell(x, h) if h is not None else cell(x, x)",
        "h = cell(x, h) if len(x) else h",
    ],
)
def test_a_state_that_goes_on(steps: str) -> None:
    assert_flagged(GOES_ON.format(steps=steps, mark="  # !"), CODE)


def test_a_state_that_goes_on_by_way_of_another_variable() -> None:
    assert_flagged(
        GOES_ON.format(steps="seen = torch.cat([x, h])\n                h = cell(seen, h)", mark="  # !"), CODE
    )


def test_a_state_that_goes_on_where_a_step_is_tried_again() -> None:
    assert_flagged(
        """
        def evaluate(model, cell, loader):
            model.eval()
            h = torch.zeros(1, 4)
            for x in loader:
                try:
                    out, h = cell(x, h)  # !
                except RuntimeError:
                    continue
        """,
        CODE,
    )
