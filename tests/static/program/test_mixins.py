"""A method of a mixin runs on an object of the class that it is mixed into."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, twin

IMPORTANCE = """
    class Importance:
        def begin(self):
            self.weights = {n: torch.zeros_like(p) for n, p in self.named_parameters()}
            self.before = {n: p.detach().clone() for n, p in self.named_parameters()}

        def learning(self):
            return ((n, p) for n, p in self.named_parameters() if p.requires_grad)

        def accumulate(self):
            for n, p in self.learning():
                if p.grad is not None:
                    self.weights[n] = self.weights[n] - p.grad * (p - self.before[n])  # !
                    self.before[n] = p.detach().clone()

    class Net(nn.Module, Importance):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 2)

        def forward(self, x):
            return self.layer(x)

    def train(loader):
        net = Net()
        net.begin()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(net(x), y).backward()
            optimizer.step()
            net.accumulate()
"""
NO_MODULE = ("class Net(nn.Module, Importance):", "class Net(Importance):")


@pytest.mark.parametrize(
    "edits",
    [
        (),
        (("self.learning()", "self.named_parameters()"),),
        (("class Net(nn.Module, Importance)", "class Net(Importance, nn.Module)"),),
        (
            (
                "class Net(nn.Module, Importance)",
                "class Base(nn.Module, Importance):\n        pass\n\n    class Net(Base)",
            ),
        ),
    ],
)
def test_a_mixin_of_a_module_goes_over_its_parameters(edits: tuple[tuple[str, str], ...]) -> None:
    code = IMPORTANCE
    for old, new in edits:
        assert old in code
        code = code.replace(old, new)
    assert_flagged(code, "GG103")


@pytest.mark.parametrize(
    "edits",
    [
        (("(p - self.before[n])", "(p.detach() - self.before[n])"),),
        (("p.grad * (p - self.before[n])", "p.grad * (p.data - self.before[n])"),),
        (("        def accumulate(self):", "        @torch.no_grad()\n        def accumulate(self):"),),
        (("self.named_parameters()", "self.named_buffers()"),),
        (NO_MODULE, ("super().__init__()", "self.named_parameters = dict().items")),
    ],
)
def test_a_mixin_that_keeps_no_graph(edits: tuple[tuple[str, str], ...]) -> None:
    assert_clean(twin(IMPORTANCE, *edits), "GG103")
