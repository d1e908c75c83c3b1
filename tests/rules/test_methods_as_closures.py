"""What an optimizer is given to run: a method of an object does what it does to that object, not to the optimizer."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, twin

SOLVER = """
        class Monitor:
            def __init__(self):
                self.evals, self.terms = 0, {}

            def log(self, **terms):
                self.evals += 1
                self.terms[self.evals] = terms

            def last(self):
                return self.terms[self.evals]

        class Residual:
            def __init__(self):
                self.t = torch.linspace(0, 1, 32).view(-1, 1).requires_grad_()

            def of(self, net):
                u = net(self.t)
                du = torch.autograd.grad(u, self.t, torch.ones_like(u), create_graph=True)[0]
                return (du + u).pow(2).mean()

        class Solver:
            def __init__(self, net):
                self.net, self.residual, self.monitor = net, Residual(), Monitor()
                self.opt = torch.optim.LBFGS(net.parameters())

            def closure(self):
                self.opt.zero_grad()
                loss = self.residual.of(self.net)
                loss.backward()
                self.monitor.log(total=loss)  # !
                return loss

            def solve(self, steps):
                for step in range(steps):
                    self.opt.step(self.closure)
                    if step % 50 == 0:
                        print(self.monitor.last())
"""

HISTORY = """
        class Fit:
            def __init__(self, net, x, y):
                self.net, self.x, self.y = net, x, y
                self.calls, self.history = 0, {}

            def evaluate(self):
                self.net.zero_grad()
                loss = F.mse_loss(self.net(self.x), self.y)
                loss.backward()
                self.calls += 1
                self.history[self.calls] = loss  # !
                return loss

        def run(net, x, y, steps):
            fit = Fit(net, x, y)
            optimizer = torch.optim.LBFGS(net.parameters())
            for _ in range(steps):
                optimizer.step(fit.evaluate)
"""

FLAGGED = {
    "its own method": (SOLVER, "GG107"),
    "by keyword": (SOLVER.replace("step(self.closure)", "step(closure=self.closure)"), "GG107"),
    "by another name": (
        SOLVER.replace(
            "self.opt.step(self.closure)", "closure = self.closure\n                    self.opt.step(closure)"
        ),
        "GG107",
    ),
    "in a lambda": (SOLVER.replace("step(self.closure)", "step(lambda: self.closure())"), "GG107"),
    "the result is used": (
        SOLVER.replace("self.opt.step(self.closure)", "value = self.opt.step(self.closure).item()"),
        "GG107",
    ),
    "a method of another object": (HISTORY, "GG104"),
    "of another object, by keyword": (HISTORY.replace("step(fit.evaluate)", "step(closure=fit.evaluate)"), "GG104"),
}

LOOKALIKES = {
    "numbers": twin(SOLVER, ("total=loss", "total=loss.item()")),
    "detached": twin(SOLVER, ("total=loss", "total=loss.detach()")),
    "emptied in each step": twin(SOLVER, ("print(self.monitor.last())", "self.monitor.terms.clear()")),
    "under few keys": twin(SOLVER, ("self.terms[self.evals] = terms", "self.terms[self.evals % 10] = terms")),
    "only the last": twin(SOLVER, ("self.terms[self.evals] = terms", "self.terms = terms")),
    "numbers in another object": twin(HISTORY, ("= loss\n", "= loss.item()\n")),
    "another object, emptied": twin(
        HISTORY, ("optimizer.step(fit.evaluate)", "optimizer.step(fit.evaluate)\n                fit.history.clear()")
    ),
    "another object, made anew": twin(
        HISTORY,
        ("for _ in range(steps):\n", "for _ in range(steps):\n                fit = Fit(net, x, y)\n"),
    ),
    "gradients are reset by the closure": twin(HISTORY, ("= loss\n", "= float(loss)\n")),
}


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name: str) -> None:
    assert_flagged(*FLAGGED[name])


@pytest.mark.parametrize("name", LOOKALIKES)
def test_lookalikes(name: str) -> None:
    assert_clean(LOOKALIKES[name])
