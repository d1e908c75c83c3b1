"""A state that is unrolled, and what is computed of it goes to a caller by way of other variables."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged

CODE = "GG105"

RULE = """
        class Rule(nn.Module):
            def __init__(self):
                super().__init__()
                self.cell = nn.LSTM(1, 1)

            def forward(self, slopes, state):
                return self.cell(slopes, state)
"""

LEARNED = (
    RULE
    + """
        class Learner:
            def __init__(self, f, rule, retain=False):
                self.f, self.rule, self.retain = f, rule, retain

            def __call__(self, x, w, state):
                f, rule = self.f, self.rule
                total, losses = 0, []
                for i in range(20):
                    loss = f(w, x)
                    {add}
                    loss.backward(retain_graph=self.retain)
                    update, state = rule(x.grad.clone().detach(), state){mark}
                    {goes_on}
                self.state = (state[0].detach(), state[1].detach())
                {end}

        def energy(w, x):
            return ((w @ x) ** 2).sum()

        def train(x, w, optimizer, state):
            learner = Learner(energy, Rule(), retain=True)
            for _ in range(100):
                total = learner(x, w, state)
                optimizer.zero_grad()
                total.backward()
                optimizer.step()
"""
)


@pytest.mark.parametrize("add", ["total += loss", "total = total + (i / 20 + 1) * loss", "losses.append(loss)"])
@pytest.mark.parametrize(
    "goes_on", ["x = x + update", "x = x - 0.1 * update; x.retain_grad()", "y = x + update; x = y.clone()"]
)
def test_the_steps_of_a_learned_optimizer(add: str, goes_on: str) -> None:
    end = "return sum(losses)" if "append" in add else "return total"
    assert_clean(LEARNED.format(add=add, goes_on=goes_on, end=end, mark=""), CODE)


ATTRIBUTES = (
    RULE
    + """
        class Learner:
            def __init__(self, f, rule, retain=False):
                self.f, self.rule, self.retain = f, rule, retain
                self.x, self.state, self.total, self.losses = torch.rand(3), None, 0, []

            def start(self, x, state, roll):
                if roll == 0:
                    x, state = torch.rand(3).requires_grad_(), None
                return x, state

            def __call__(self, w, roll):
                f, rule = self.f, self.rule
                x, state = self.start(self.x, self.state, roll)
                self.total = 0
                for i in range(20):
                    loss = f(w, x)
                    self.total += loss
                    loss.backward(retain_graph=self.retain)
                    update, state = rule({given}, state){mark}
                    self.losses.append(loss.item())
                    x = x + update
                    x.retain_grad()
                self.state = (state[0].detach(), state[1].detach())
                return {end}

        def train(w, rule, optimizer, energy):
            learner = Learner(energy, {rule}, retain=True)
            for _ in range(100):
                losses, total = learner(w, 0)
                optimizer.zero_grad()
                total.backward()
                optimizer.step()
"""
)


@pytest.mark.parametrize("given", ["x.grad", "x.grad.clone().detach()"])
@pytest.mark.parametrize("end", ["self.losses, self.total", "self.total", "sum([self.total])"])
@pytest.mark.parametrize("rule", ["Rule()", "rule"])
def test_a_sum_in_an_attribute(given: str, end: str, rule: str) -> None:
    assert_clean(ATTRIBUTES.format(given=given, end=end, rule=rule, mark=""), CODE)


@pytest.mark.parametrize("given", ["x.grad", "x.grad.clone().detach()"])
def test_a_sum_of_numbers_in_an_attribute(given: str) -> None:
    snippet = ATTRIBUTES.replace("+= loss", "+= loss.item()").replace("total.backward()", "print(total)")
    assert_flagged(snippet.format(given=given, end="None", rule="Rule()", mark="  # !"), CODE)


def test_a_loss_that_is_returned_by_another_call() -> None:
    snippet = LEARNED.format(add="total += loss", goes_on="x = x + update", end="return losses, total", mark="")
    assert_clean(snippet.replace("total = learner(", "_, total = learner("), CODE)


@pytest.mark.parametrize(
    ("goes_on", "end"),
    [
        ("x = x + update.detach()", "return total.item()"),
        ("x = (x + update).detach().requires_grad_()", "return total.item()"),
        ("x = x + update", "return x.detach()"),
        ("x.data.add_(update.data)", "return None"),
    ],
)
def test_a_state_that_nothing_backpropagated_was_computed_from(goes_on: str, end: str) -> None:
    snippet = LEARNED.replace("total.backward()", "print(total)").replace("retain_graph=self.retain", "")
    assert_flagged(snippet.format(add="total += loss.item()", goes_on=goes_on, end=end, mark="  # !"), CODE)


OTHER = """
        class Rule(nn.Module):
            def __init__(self):
                super().__init__()
                self.cell = nn.LSTM(1, 1)

            def forward(self, slopes, state):
                return self.cell(slopes.detach(), None)

        class Runner:
            def __init__(self, net: Rule):
                self.net = net

            def evaluate(self, loader):
                self.net.eval()
                h = torch.zeros(1, 4)
                for x, y in loader:
                    h = self.net({given}){mark}
                return None
"""


def test_a_module_that_cannot_take_the_arguments_is_another_one() -> None:
    assert_flagged(OTHER.format(given="x, y, h", mark="  # !"), CODE)
    assert_clean(OTHER.format(given="x, h", mark=""), CODE)
