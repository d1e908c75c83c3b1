"""GG401: a method that puts a handle in the place of the one before, and who removes the hook, and when."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files, twin

CODE = "GG401"

GATE = """
    class Gate:
        def __init__(self, layer):
            self.weight, self.layer, self.handle, self.armed = layer.weight, layer, None, False

        def arm(self, scale):
            self.handle = self.weight.register_hook(lambda grad: grad * scale)  # !

        def disarm(self):
            if self.handle is not None:
                self.handle.remove()
                self.handle = None

    def run_task(net, opt, gate, loader):
        for x, y in loader:
            loss = F.cross_entropy(net(x), y)
            opt.zero_grad()
            gate.arm(loss.item())
            loss.backward()
            opt.step()
        gate.disarm()

    def main(net, opt, tasks):
        gate = Gate(net.mid)
        for loader in tasks:
            run_task(net, opt, gate, loader)
"""
FORWARD = """
    class Watch:
        def __init__(self, net):
            self.net, self.tap = net, None

        def look(self, layer, given, output):
            print(output.norm().item())

        def attach(self):
            self.tap = self.net.body.register_forward_hook(self.look)  # !

        def detach(self):
            self.tap.remove()

    class Trainer:
        def __init__(self, net, opt):
            self.net, self.opt, self.watch = net, opt, Watch(net)

        def one_batch(self, x, y):
            self.watch.attach()
            self.opt.zero_grad()
            F.mse_loss(self.net(x), y).backward()
            self.opt.step()

        def fit(self, loader):
            for x, y in loader:
                self.one_batch(x, y)

        def run(self, loader):
            self.fit(loader)
            self.watch.detach()
"""
FLAGGED = {
    "a gate on a parameter": GATE,
    "removed by who calls the loop": twin(
        GATE,
        ("        gate.disarm()\n", ""),
        (
            "run_task(net, opt, gate, loader)\n",
            "run_task(net, opt, gate, loader)\n            gate.disarm()\n",
        ),
    )
    .replace("grad * scale)", "grad * scale)  # !")
    .replace(
        "def run_task(net, opt, gate, loader)\n            gate.disarm()\n", "def run_task(net, opt, gate, loader)\n"
    ),
    "a forward hook, attached a call below the loop": FORWARD,
    "within a condition that holds again": GATE.replace(
        "            gate.arm(loss.item())", "            if loss.item() < 2:\n                gate.arm(loss.item())"
    ),
    "taken off once more before the loop": GATE.replace(
        "        for x, y in loader:\n", "        gate.disarm()\n        for x, y in loader:\n"
    ),
}
CLEAN = {
    "armed in the first iteration only": (
        GATE,
        ("for x, y in loader:\n", "for step, (x, y) in enumerate(loader):\n"),
        ("            gate.arm(loss.item())", "            if step == 0:\n                gate.arm(loss.item())"),
    ),
    "armed once, by a flag of the object": (
        GATE,
        ("def arm(self, scale):", "def arm(self, scale):\n            self.armed = True"),
        ("            gate.arm(loss.item())", "            if not gate.armed:\n                gate.arm(loss.item())"),
    ),
    "taken off in each iteration": (GATE, ("opt.step()", "opt.step()\n            gate.disarm()")),
    "taken off before, in each iteration": (GATE, ("opt.zero_grad()", "opt.zero_grad()\n            gate.disarm()")),
    "the method takes off the one before": (
        GATE,
        ("def arm(self, scale):", "def arm(self, scale):\n            self.disarm()"),
    ),
    "the method takes off the one before, itself": (
        GATE,
        (
            "def arm(self, scale):",
            "def arm(self, scale):\n            if self.handle:\n                self.handle.remove()",
        ),
    ),
    "only where there is none": (
        GATE,
        (
            "def arm(self, scale):",
            "def arm(self, scale):\n            if self.handle is not None:\n                return",
        ),
    ),
    "a list of all handles": (
        GATE,
        (
            "self.handle = self.weight.register_hook(lambda grad: grad * scale)",
            "self.handle.append(self.weight.register_hook(lambda grad: grad * scale))",
        ),
        ("self.handle.remove()", "[handle.remove() for handle in self.handle]"),
    ),
    "armed once, before the loop": (
        GATE,
        ("            gate.arm(loss.item())\n", ""),
        ("        for x, y in loader:", "        gate.arm(0.5)\n        for x, y in loader:"),
    ),
    "taken off by another method that the loop calls": (
        GATE,
        ("def disarm(self):", "def rest(self):\n            self.disarm()\n\n        def disarm(self):"),
        ("opt.step()", "opt.step()\n            gate.rest()"),
    ),
    "taken off by a function that the loop calls": (
        GATE,
        (
            "    def run_task",
            "    def after(opt, gate):\n        opt.step()\n        gate.disarm()\n\n    def run_task",
        ),
        ("            opt.step()\n        gate", "            after(opt, gate)\n        gate"),
    ),
    "taken off by who runs each step": (GATE, ("opt.step()", "opt.step(); gate.handle.remove()")),
    "handed over to be called": (GATE, ("loss.backward()", "loss.backward()\n            later(gate.disarm)")),
    "a context": (
        GATE,
        ("def disarm(self):", "def __enter__(self):\n            return self\n\n        def __exit__(self, *error):"),
        (
            "            gate.arm(loss.item())\n            loss.backward()",
            "            with gate:\n                gate.arm(loss.item())\n                loss.backward()",
        ),
        ("        gate.disarm()\n", ""),
    ),
    "taken off below the loop": (FORWARD, ("self.opt.step()", "self.opt.step()\n            self.watch.detach()")),
    "taken off by the loop, attached below": (
        FORWARD,
        ("self.one_batch(x, y)", "self.one_batch(x, y)\n                self.watch.detach()"),
    ),
    "a pair of calls beside a small loop": (
        FORWARD,
        (
            "self.watch.attach()",
            "self.watch.attach()\n            for part in x:\n                print(part)\n"
            "            self.watch.detach()",
        ),
    ),
    "a method of a class derived from it": (
        FORWARD,
        (
            "    class Trainer:",
            "    class Quiet(Watch):\n        def look(self, layer, given, output):\n"
            "            self.tap.remove()\n\n    class Trainer:",
        ),
    ),
    "the handle is given back": (FORWARD, ("(self.look)", "(self.look)\n            return self.tap")),
}


@pytest.mark.parametrize("snippet", FLAGGED.values(), ids=FLAGGED)
def test_only_the_last_handle_is_removed(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize("case", CLEAN.values(), ids=CLEAN)
def test_each_hook_is_removed_in_its_iteration(case: tuple[Any, ...]) -> None:
    snippet, *edits = case
    assert_clean(twin(snippet, *edits), CODE)


def test_the_loop_is_in_another_file(tmp_path: Path) -> None:
    cut = GATE.index("    def run_task")
    files = {
        "gates.py": GATE[:cut],
        "main.py": "    import torch.nn.functional as F\n    from gates import Gate\n\n" + GATE[cut:],
    }
    assert [name for name, _ in lines_in_files(tmp_path, files)] == ["gates.py"]
    mended = files["main.py"].replace("opt.step()", "opt.step()\n            gate.disarm()")
    assert lines_in_files(tmp_path, {**files, "main.py": mended}) == []
