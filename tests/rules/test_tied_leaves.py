"""Inputs whose gradient holds the graph that it was computed in (GG102)."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, findings, twin

CODE = "GG102"

LOOP = """
    def train(field, optimizer, steps):
        for step in range(steps):
            t = torch.rand(64, 1, requires_grad=True)
            u = field(t)
            u.sum().backward(create_graph=True)  # !
            loss = (t.grad - u).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
"""
HELPER = """
    def derivative(u, t):
        u.backward(torch.ones_like(u), create_graph=True, inputs=[t])  # !
        return t.grad

    def residual(field):
        t = torch.rand(64, 1).requires_grad_()
        u = field(t)
        return (derivative(u, t) + u).pow(2).mean()

    def train(field, optimizer, steps):
        for step in range(steps):
            optimizer.zero_grad()
            residual(field).backward()
            optimizer.step()
"""
METHOD = """
    class Physics:
        def __init__(self, net):
            self.net = net
            self.optimizer = torch.optim.Adam(net.parameters())

        def loss(self, points):
            x = torch.tensor(points)
            x.requires_grad = True
            u = self.net(x)
            u.sum().backward(create_graph=True)  # !
            return (x.grad + u).pow(2).mean()

        def fit(self, batches):
            for points in batches:
                loss = self.loss(points)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
"""

CLEAN = {
    "dropped": twin(LOOP, ("optimizer.step()", "optimizer.step(); t.grad = None")),
    "detached": twin(LOOP, ("optimizer.step()", "optimizer.step(); t.grad.detach_()")),
    "autograd.grad": twin(
        LOOP,
        ("u.sum().backward(create_graph=True)", "(du,) = torch.autograd.grad(u.sum(), t, create_graph=True)"),
        ("t.grad - u", "du - u"),
    ),
    "without a graph": twin(LOOP, ("backward(create_graph=True)", "backward(retain_graph=True)")),
    "a helper drops it": twin(HELPER, ("return t.grad", "du = t.grad\n        t.grad = None\n        return du")),
    "a helper is given a parameter": twin(HELPER, ("torch.rand(64, 1).requires_grad_()", "field.times")),
    "the caller drops it": twin(
        METHOD,
        ("return (x.grad + u)", "du, x.grad = x.grad, None\n            x.grad = None\n            return (du + u)"),
    ),
}


NOT_READ = LOOP.replace("t.grad - u", "u - 1").replace("field(t)", "field.scale * t")


@pytest.mark.parametrize("snippet", [LOOP, NOT_READ, HELPER, METHOD])
def test_it_stays_with_its_graph(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize("snippet", CLEAN.values(), ids=CLEAN)
def test_what_looks_like_it_is_not_flagged(snippet: str) -> None:
    assert_clean(snippet, CODE)


def test_it_says_which_and_what_ends_it() -> None:
    (finding,) = findings(LOOP, CODE)
    assert "`t` to the graph of `t.grad`" in finding.message
    assert "`t.grad = None`" in (finding.help or "")
    assert finding.fix is None  # a reset of the parameters would not end it


def test_torch_cannot_free_it() -> None:
    torch = pytest.importorskip("torch")
    import gc
    import weakref

    def a_step(is_dropped: bool) -> weakref.ref[object]:
        t = torch.rand(4, 1, requires_grad=True)
        net = torch.nn.Sequential(torch.nn.Linear(1, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
        held = weakref.ref(net[0].weight)
        net(t).sum().backward(create_graph=True, inputs=[t])
        if is_dropped:
            t.grad = None
        return held

    kept, freed = a_step(is_dropped=False), a_step(is_dropped=True)
    gc.collect()
    assert kept() is not None
    assert freed() is None


PENALTY = METHOD.replace("x = torch.tensor(points)", "x = 0.5 * points + 0.5 * self.others")


def test_an_input_that_is_computed_and_marked() -> None:
    assert_flagged(PENALTY, CODE)
    assert_clean(twin(PENALTY, ("x.requires_grad = True", "pass")), CODE)
    dropped = "du = x.grad\n            x.grad = None\n            return (du"
    assert_clean(twin(PENALTY, ("return (x.grad", dropped)), CODE)
