"""What the message says that stays: a sum saves nothing for backward. Torch has the last word."""

from __future__ import annotations

import pytest

from tests.rules.snippets import findings

LANGEVIN = """
    from torch import autograd
    def sample(net, x, steps, noise, rate):
        x = x.clone().requires_grad_()
        for _ in range(steps):
            noise.normal_()
            grad = autograd.grad(net(x).sum(), x)[0]
            x = {next}
        return x.detach()
"""


def _message(made: str) -> str:
    (finding,) = findings(LANGEVIN.format(next=made))
    return finding.message


@pytest.mark.parametrize(
    "made",
    [
        "x - rate * grad + noise",
        "x + 0.1 * grad",
        "noise + (x - grad)",
        "x - rate * grad * noise",
        "0.9 * x - rate * grad",
        "x / 2 + noise",
    ],
)
def test_a_sum_saves_nothing(made: str) -> None:
    message = _message(made)
    assert message.startswith("`x` is ")  # what is added has no graph
    assert "a sum saves nothing" in message


@pytest.mark.parametrize(
    "made",
    [
        "x + net(x)",
        "(x - rate * grad).clamp(0, 1)",
        "x - rate * x * noise",
        "x * noise + grad",
        "x + noise * net.layer(noise)",
        "x - grad / x.norm()",
        "noise + 2 / x",
    ],
)
def test_what_saves_tensors(made: str) -> None:
    assert "what each iteration saved" in _message(made)


@pytest.mark.parametrize(
    ("made", "is_sum"),
    [
        ("x - 0.1 * g + n", True),
        ("0.9 * x + n", True),
        ("x / 2 + n", True),
        ("x * n", False),
        ("x + x.tanh()", False),
        ("n + 2 / x", False),
    ],
)
def test_torch_says_so_too(made: str, is_sum: bool) -> None:
    torch = pytest.importorskip("torch")
    names = {"x": torch.ones(3, requires_grad=True), "g": torch.ones(3), "n": torch.ones(3)}
    saved: list[object] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: saved.append(tensor), lambda kept: kept):
        eval(made, names)
    assert (not saved) == is_sum
