"""Optimizers of two passes, whose second one adds to the gradients of the first."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files, source, twin

CODE = "GG201"

CLOSURE = """
    class SAM(torch.optim.Optimizer):
        def __init__(self, params, base, rho=0.05, **kwargs):
            super().__init__(params, dict(rho=rho, **kwargs))
            self.base = base(self.param_groups, **kwargs)

        @torch.no_grad()
        def ascend(self):
            norm = torch.stack([p.grad.norm() for g in self.param_groups for p in g["params"]]).norm()
            for group in self.param_groups:
                for p in group["params"]:
                    self.state[p]["origin"] = p.detach().clone()
                    p.add_(p.grad * group["rho"] / norm)

        @torch.no_grad()
        def descend(self):
            for group in self.param_groups:
                for p in group["params"]:
                    p.copy_(self.state[p].pop("origin"))
            self.base.step()

        def step(self, closure):
            with torch.enable_grad():
                self.zero_grad()
                loss = closure()
                self.ascend()
                closure()  # !
                self.descend()
            return loss

    def train(model, loader):
        optimizer = SAM(model.parameters(), torch.optim.SGD, lr=0.1)
        for x, y in loader:
            def closure():
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                return loss.detach()

            optimizer.step(closure)
"""
TWO_STEPS = """
    class SAM(torch.optim.Optimizer):
        @torch.no_grad()
        def first_step(self, zero_grad=False):
            for group in self.param_groups:
                for p in group["params"]:
                    e_w = p.grad * group["rho"]
                    p.add_(e_w)
                    self.state[p]["e_w"] = e_w
            if zero_grad:
                self.zero_grad()

        @torch.no_grad()
        def second_step(self, zero_grad=False):
            for group in self.param_groups:
                for p in group["params"]:
                    p.sub_(self.state[p]["e_w"])
            self.base_optimizer.step()
            if zero_grad:
                self.zero_grad()

    def train(model, loader):
        opt = SAM(model.parameters(), torch.optim.SGD, lr=0.1)
        for x, y in loader:
            F.cross_entropy(model(x), y).backward()
            opt.first_step()
            F.cross_entropy(model(x), y).backward()  # !
            opt.second_step(zero_grad=True)
"""


@pytest.mark.parametrize(
    "change",
    [
        ("self.ascend()", "self.ascend()"),
        ("                self.zero_grad()\n", ""),
        ('p.add_(p.grad * group["rho"] / norm)', 'p.data.add_(p.grad, alpha=group["rho"])'),
        ("optimizer.step(closure)", "optimizer.step(closure=closure)"),
        ("loss = closure()\n", "first = loss = closure()\n"),
    ],
)
def test_a_closure_that_runs_twice(change: tuple[str, str]) -> None:
    assert_flagged(CLOSURE.replace(*change), CODE)


@pytest.mark.parametrize(
    "change",
    [
        ("self.ascend()", "self.ascend()\n                self.zero_grad()"),
        ("self.ascend()", "self.ascend()\n                self.base.zero_grad()"),
        ("                    p.add_(", "                    p.grad = p.grad.detach()\n                    p.add_("),
        ('p.add_(p.grad * group["rho"] / norm)', 'p.add_(p.grad * group["rho"] / norm); p.grad.zero_()'),
        ("    loss.backward()", "    optimizer.zero_grad(); loss.backward()"),
        ("    loss.backward()", "    model.zero_grad(); loss.backward()"),
        ("    loss.backward()", "    pass"),
        ("self.ascend()", "pass"),
        ("self.ascend()", "self.note(loss)"),
        ("loss = closure()\n                self.ascend()", "loss = closure()"),
        ("                closure()\n", "                pass\n"),
        ("                closure()\n", "                self.again(closure)\n"),
        ("self.state[p][\"origin\"] = p.detach().clone()", "self.state[p]['first'] = p.grad.clone()"),
        ("self.state[p][\"origin\"] = p.detach().clone()", "self.state[p]['first'] = p.grad"),
        ("self.state[p][\"origin\"] = p.detach().clone()", "pass"),
        ("class SAM(torch.optim.Optimizer)", "class SAM(Base)"),
        ("optimizer.step(closure)", "optimizer.step(closures(closure))"),
        ("                loss = closure()\n                self.ascend()\n                closure()\n",
         "                if self.simple:\n                    loss = closure()\n                else:\n"
         "                    self.ascend()\n                    loss = closure()\n"),
    ],
)  # fmt: skip
def test_closures_that_are_reset_or_run_once(change: tuple[str, str]) -> None:
    assert_clean(twin(CLOSURE, change), CODE)


@pytest.mark.parametrize(
    "change",
    [
        ("opt.first_step()", "opt.first_step()"),
        ("opt.first_step()", "opt.first_step(zero_grad=False)"),
        ("opt.first_step()", "opt.first_step(False)"),
        ("opt.first_step()", "opt.first_step()\n            print(x.shape)"),
    ],
)
def test_two_steps(change: tuple[str, str]) -> None:
    assert_flagged(TWO_STEPS.replace(*change), CODE)


@pytest.mark.parametrize(
    "change",
    [
        ("opt.first_step()", "opt.first_step(zero_grad=True)"),
        ("opt.first_step()", "opt.first_step(True)"),
        ("opt.first_step()", "opt.first_step(**model.options)"),
        ("opt.first_step()", "opt.first_step(x.reset)"),
        ("opt.first_step()", "opt.first_step(); opt.zero_grad()"),
        ("opt.first_step()", "opt.first_step(); model.zero_grad()"),
        (
            "opt.first_step()",
            "opt.first_step()\n            for p in model.parameters():\n                p.grad = None",
        ),
        ("opt.first_step()", "model.first_step()"),
        ("opt.first_step()", "pass"),
        ("def first_step(self, zero_grad=False)", "def first_step(self, zero_grad=True)"),
        (
            "            if zero_grad:\n                self.zero_grad()\n\n        @",
            "            self.zero_grad()\n\n        @",
        ),
        ("class SAM(torch.optim.Optimizer)", "class FGM"),
        ("p.add_(e_w)", "print(e_w)"),
    ],
)
def test_two_steps_that_are_reset(change: tuple[str, str]) -> None:
    old, new = change
    snippet = twin(TWO_STEPS)
    assert old in snippet
    assert_clean(snippet.replace(old, new, 1), CODE)


def test_the_gradients_of_an_attack_are_added_on_purpose() -> None:
    """FGM: the loss of the adversarial example is trained besides that of the plain one."""
    snippet = """
    class FGM:
        def attack(self, epsilon=1.0):
            for name, param in self.model.named_parameters():
                if "emb" in name:
                    self.backup[name] = param.data.clone()
                    param.data.add_(epsilon * param.grad / torch.norm(param.grad))

        def restore(self):
            for name, param in self.model.named_parameters():
                if "emb" in name:
                    param.data = self.backup[name]

    def train(model, loader):
        fgm = FGM(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in loader:
            F.cross_entropy(model(x), y).backward()
            fgm.attack()
            F.cross_entropy(model(x), y).backward()
            fgm.restore()
            optimizer.step()
            optimizer.zero_grad()
    """
    assert_clean(snippet, CODE)


def test_an_optimizer_of_another_file(tmp_path: Path) -> None:
    sam, train = source(TWO_STEPS).split("def train(")
    header = "import torch\nimport torch.nn.functional as F\nfrom sam import SAM\n\ndef train("
    files = {"sam.py": sam, "train.py": header + train}
    assert [name for name, _ in lines_in_files(tmp_path, files, CODE)] == ["train.py"]
