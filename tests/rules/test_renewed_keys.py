"""Keys that are made of a tensor for the moment: ``self.state[p.data]``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files, twin

CODE = "GG412"

OPTIMIZER = """
class Signum(torch.optim.Optimizer):
    def __init__(self, params, lr):
        super().__init__(params, dict(lr=lr))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p.data]  # !
                if "mean" not in state:
                    state["mean"] = torch.zeros_like(p)
                state["mean"].lerp_(p.grad, 0.1)
                p.sub_(state["mean"].sign(), alpha=group["lr"])
"""
HELPER = """
from torch.optim import Optimizer

class Momentum(Optimizer):
    def _buffer(self, tensor, like):
        slot = self.state[tensor]
        if not slot:
            slot["buffer"] = torch.zeros_like(like)
        return slot["buffer"]

    def step(self, closure=None):
        for group in self.param_groups:
            for weight in group["params"]:
                values = weight.detach()  # !
                buffer = self._buffer(values, like=weight)
                buffer.mul_(0.9).add_(weight.grad)
                values.add_(buffer, alpha=-group["lr"])
"""
AVERAGE = """
class Average:
    def __init__(self):
        self.shadow = {}

    def update(self, model):
        for param in model.parameters():
            old = self.shadow.get(param)
            if old is not None:
                self.shadow[param.data] = torch.lerp(old, param.detach(), 0.01)  # !
            else:
                self.shadow[param.data] = param.detach().clone()  # !

def fit(model, loader, optimizer):
    average = Average()
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        average.update(model)
"""
COUNTS = """
seen = defaultdict(list)

def clip(model, most):
    for p in model.parameters():
        seen[p.data].append(p.grad.norm().item())  # !
        p.grad.clamp_(-most, most)
"""
FLAGGED = {"an optimizer": OPTIMIZER, "a method": HELPER, "an average": AVERAGE, "of the file": COUNTS}
CLEAN = {
    "the parameter": twin(OPTIMIZER, ("self.state[p.data]", "self.state[p]")),
    "its memory": twin(OPTIMIZER, ("self.state[p.data]", "self.state[p.data.data_ptr()]")),
    "no optimizer": twin(OPTIMIZER, ("(torch.optim.Optimizer)", ""), ("super().__init__(params, dict(lr=lr))", "pass")),
    "the parameter is handed on": twin(HELPER, ("self._buffer(values,", "self._buffer(weight,")),
    "no key": twin(HELPER, ("self.state[tensor]", "self.state[like]")),
    "a key of its own": twin(HELPER, ("        slot =", "        tensor = like\n        slot =")),
    "begun anew": twin(AVERAGE, ("        for param", "        self.shadow = {}\n        for param")),
    "taken out": twin(AVERAGE, ("            old =", "            self.shadow.clear()\n            old =")),
    "by their names": twin(
        AVERAGE,
        ("for param in model.parameters", "for name, param in model.named_parameters"),
        ("[param.data]", "[name]"),
    ),
    "a node with its data": twin(AVERAGE, ("in model.parameters()", "in model.nodes")),
    "weak keys": twin(AVERAGE, ("= {}", "= WeakKeyDictionary()")),
    "a tensor with rows": twin(AVERAGE, ("= {}", "= torch.zeros(9)")),
    "a variable of the call": twin(
        COUNTS, ("seen = defaultdict(list)\n", ""), ("    for p", "    seen = defaultdict(list)\n    for p")
    ),
    "a plain dict, which raises": twin(COUNTS, ("defaultdict(list)", "{}")),
    "made once": twin(
        AVERAGE,
        ("def update(self, model):", "def __init__(self, model):\n        self.shadow = {}"),
        ("    def __init__(self):\n        self.shadow = {}\n\n", ""),
    ),
}


@pytest.mark.parametrize("snippet", FLAGGED.values(), ids=FLAGGED)
def test_flagged(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize("snippet", CLEAN.values(), ids=CLEAN)
def test_clean(snippet: str) -> None:
    assert_clean(snippet, CODE)


def test_method_of_a_base_in_another_file(tmp_path: Path) -> None:
    base, _, step = HELPER.partition("    def step")
    files = {
        "base.py": f"import torch\n{base}",
        "own.py": "from base import Momentum\n\nclass Own(Momentum):\n    def step" + step,
    }
    assert lines_in_files(tmp_path, files, CODE) == [("own.py", 7)]
