"""`backward(create_graph=True)` in a function that makes a model for each fold: the last gradients tie it for ever."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, findings, twin

CODE = "GG102"

FOLD = """
        def train_fold(x, y, held):
            net = nn.Sequential(nn.Linear(12, 128), nn.Tanh(), nn.Linear(128, 1))
            opt = torch.optim.SGD(net.parameters(), lr=0.1)
            for _ in range(8):
                loss = F.mse_loss(net(x), y)
                opt.zero_grad()
                loss.backward(create_graph=True)  # !
                opt.step()
            with torch.no_grad():
                return F.mse_loss(net(held), y).item()

        def main(x, y, folds):
            scores = []
            for held in folds:
                scores.append(train_fold(x, y, held))
            print(scores)
"""
ENDS = "            with torch.no_grad():\n                return"


def test_a_model_for_each_fold() -> None:
    assert_flagged(FOLD, CODE)


def test_in_a_comprehension() -> None:
    start, end = FOLD.index("            scores = []"), FOLD.index("            print(scores)")
    each = "            scores = [train_fold(x, y, held) for held in folds]\n"
    assert_flagged(FOLD[:start] + each + FOLD[end:], CODE)


def test_the_model_that_stays_is_named() -> None:
    [finding] = findings(FOLD, CODE)
    assert "the model of each call stays" in finding.message
    assert "after the last iteration, too" in (finding.help or "")


@pytest.mark.parametrize(
    "edit",
    {
        "reset at the end": (ENDS, "            opt.zero_grad()\n" + ENDS),
        "by the model": (ENDS, "            net.zero_grad()\n" + ENDS),
        "by hand": (ENDS, "            for p in net.parameters(): p.grad = None\n" + ENDS),
        "reset after the step": ("opt.step()\n", "opt.step()\n                opt.zero_grad()\n"),
        "autograd.grad": (
            "loss.backward(create_graph=True)",
            "torch.autograd.grad(loss, net.parameters(), create_graph=True)",
        ),
        "no graph of gradients": ("loss.backward(create_graph=True)", "loss.backward()"),
        "once": (
            "for held in folds:\n                ",
            "if folds:\n                held = folds[0]\n                ",
        ),
        "given back": ("return F.mse_loss(net(held), y).item()", "return net"),
        "handed on": ("return F.mse_loss(net(held), y).item()", "return evaluate(net, held)"),
        "kept": ("            opt = torch", "            train_fold.net = net\n            opt = torch"),
        "of the caller": (
            "def train_fold(x, y, held):",
            "def train_fold(x, y, held, make=None, net=None):\n            net = net or make()",
        ),
        "a part of a larger model": ("nn.Sequential(nn.Linear(12, 128), nn.Tanh(), nn.Linear(128, 1))", "shared"),
    }.values(),
)
def test_a_model_that_is_reset_or_lives_on(edit: tuple[str, str]) -> None:
    assert_clean(twin(FOLD, edit), CODE)
