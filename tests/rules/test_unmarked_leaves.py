"""A tensor that is marked for a gradient and unmarked again: what is computed of it then has no graph."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged

CODE = "GG105"

HELPED = """
        class Sampler:
            def slope(self, net: nn.Module, x: torch.Tensor):
                {on}
                (slope,) = torch.autograd.grad(net(x).sum(), x)
                {off}
                return slope

            def step(self, net: nn.Module, x: torch.Tensor, rate):
                slope = self.slope(net, x)
                return (x - rate * slope).clamp(-1, 1)

            def sample(self, net: nn.Module, x: torch.Tensor):
                for i in range(self.steps):
                    x = self.step(net, x, self.rate){mark}
                return x
"""

WRITTEN = """
        def sample(net: nn.Module, x: torch.Tensor):
            for i in range(1000):
                {on}
                (slope,) = torch.autograd.grad(net(x).sum(), x)
                {off}
                x = (x - 0.1 * slope).clamp(-1, 1){mark}
            return x
"""

MARKS = ("x.requires_grad_(True)", "x.requires_grad_()", "x.requires_grad = True")
UNMARKED = ("x.requires_grad_(False)", "x.requires_grad_(requires_grad=False)", "x.requires_grad = False")


@pytest.mark.parametrize("snippet", [HELPED, WRITTEN])
@pytest.mark.parametrize("on", MARKS)
@pytest.mark.parametrize("off", UNMARKED)
def test_what_asks_for_no_gradient_any_more_has_no_graph(snippet: str, on: str, off: str) -> None:
    assert_clean(snippet.format(on=on, off=off, mark=""), CODE)


@pytest.mark.parametrize("snippet", [HELPED, WRITTEN])
@pytest.mark.parametrize("on", MARKS)
@pytest.mark.parametrize("off", ["pass", "net.requires_grad_(False)"])
def test_what_goes_on_asking_has_one(snippet: str, on: str, off: str) -> None:
    assert_flagged(snippet.format(on=on, off=off, mark="  # !"), CODE)


def test_another_tensor_of_the_helper_is_not_the_callers() -> None:
    off = "y = x.detach(); y.requires_grad_(False)"
    assert_flagged(HELPED.format(on="x.requires_grad_()", off=off, mark="  # !"), CODE)
