"""States of an optimizer that average gradients with graphs (GG106)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files, twin

CODE = "GG106"

TRAINING = """
def train(net, loader):
    opt = Curvature(net.parameters(), lr=0.1)
    for x, y in loader:
        loss = F.mse_loss(net(x), y)
        opt.zero_grad()
        loss.backward(create_graph=True)
        opt.step()
"""

REBOUND = (
    """
class Curvature(torch.optim.Optimizer):
    def step(self, closure=None):
        params, grads = [], []
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    params.append(p)
                    grads.append(p.grad)
        curved = torch.autograd.grad(grads, params, [torch.ones_like(p) for p in params], retain_graph=True)
        for p, g, h in zip(params, grads, curved):
            state = self.state[p]
            if not state:
                state["mean"] = torch.zeros_like(p.data)
                state["curve"] = torch.zeros_like(p.data)
            state["mean"] = 0.9 * state["mean"] + 0.1 * g  # !
            state["curve"] = 0.99 * state["curve"] + 0.01 * h.pow(2)
            p.data.addcdiv_(state["mean"].detach(), state["curve"].sqrt() + 1e-4, value=-0.1)
""".replace(".detach(), state", ".data, state")
    + TRAINING
)

IN_PLACE = (
    """
class Curvature(torch.optim.Optimizer):
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                grad = p.grad
                if group["decay"]:
                    grad = grad.add(p, alpha=group["decay"])
                state = self.state[p]
                if len(state) == 0:
                    state["first"], state["second"] = torch.zeros_like(p.data), torch.zeros_like(p.data)
                first, second = state["first"], state["second"]
                first.mul_(0.9).add_(grad, alpha=0.1)  # !
                second.mul_(0.99).addcmul_(grad, grad, value=0.01)  # !
                p.data.addcdiv_(first, second.sqrt().add_(1e-8), value=-group["lr"])
"""
    + TRAINING
)

AUGMENTED = (
    """
class Curvature(torch.optim.Optimizer):
    def step(self):
        for p in self.param_groups[0]["params"]:
            if "sum" not in self.state[p]:
                self.state[p]["sum"] = torch.zeros_like(p)
            self.state[p]["sum"] += p.grad ** 2  # !
            p.data -= 0.1 * p.grad.data / self.state[p]["sum"].data.sqrt()
"""
    + TRAINING
)

EVERY = [REBOUND, IN_PLACE, AUGMENTED]


@pytest.mark.parametrize("snippet", EVERY)
def test_gradients_with_graphs(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    ("snippet", "old", "new"),
    [
        (REBOUND, "grads.append(p.grad)", "grads.append(p.grad.detach())"),
        (REBOUND, "+ 0.1 * g\n", "+ 0.1 * g.detach()\n"),
        (REBOUND, "+ 0.1 * g\n", "+ 0.1 * g.data\n"),
        (REBOUND, '0.9 * state["mean"] +', ""),
        (REBOUND, '0.9 * state["mean"] + 0.1 * g', '(0.9 * state["mean"] + 0.1 * g).detach()'),
        (REBOUND, '0.9 * state["mean"] +', '0.9 * state["mean"].detach() +'),
        (REBOUND, "    def step", "    @torch.no_grad()\n    def step"),
        (REBOUND, "            state = self.state[p]", "            g = g.detach()\n            state = self.state[p]"),
        (REBOUND, "create_graph=True", "create_graph=second"),
        (REBOUND, "create_graph=True", "retain_graph=True"),
        (REBOUND, "opt = Curvature(net.parameters(), lr=0.1)", "opt = torch.optim.SGD(net.parameters(), lr=0.1)"),
        (REBOUND, "Curvature(net.parameters(), lr=0.1)", "choose(Curvature(net.parameters()), torch.optim.Adam(net))"),
        (REBOUND, "class Curvature(torch.optim.Optimizer)", "class Curvature(Averages)"),
        (IN_PLACE, "grad = p.grad\n", "grad = p.grad.data\n"),
        (IN_PLACE, "grad = p.grad\n", "grad = p.grad.detach().clone()\n"),
        (IN_PLACE, "        for group in self", "      with torch.no_grad():\n        for group in self"),
        (IN_PLACE, "        for group in self", "        torch.set_grad_enabled(False)\n        for group in self"),
        (IN_PLACE, "        opt.step()", "        with torch.no_grad():\n            opt.step()"),
        (IN_PLACE, "grad = grad.add", "grad = hooked"),
        (AUGMENTED, "+= p.grad ** 2", "+= p.grad.norm().item() ** 2"),
        (AUGMENTED, "+= p.grad ** 2", "= p.grad ** 2"),
        (AUGMENTED, 'self.state[p]["sum"] += p.grad', 'self.state[p]["sum"].detach_(); self.state[p]["sum"] += p.grad'),
    ],
)
def test_without_graphs(snippet: str, old: str, new: str) -> None:
    assert_clean(twin(snippet, (old, new)), CODE)


def test_in_two_files(tmp_path: Path) -> None:
    head = "import torch\nimport torch.nn.functional as F\n"
    own, training = REBOUND.split("def train")
    files = {"curvature.py": f"{head}{own}", "main.py": f"{head}from curvature import Curvature\n\ndef train{training}"}
    assert [name for name, _ in lines_in_files(tmp_path, files, CODE)] == ["curvature.py"]
    files["main.py"] = files["main.py"].replace("create_graph=True", "retain_graph=True")
    assert lines_in_files(tmp_path, files, CODE) == []
