"""Hooks that a method registers, and whose handles only its object has: who calls the method that removes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files, twin

CODE = "GG401"

WATCHER = """
    class Tap:
        def __init__(self):
            self.seen, self.handles = {}, []

        def listen(self, layer, name):
            def keep(module, args, out):
                self.seen[name] = out.detach()
            self.handles.append(layer.register_forward_hook(keep))  # !

        def spread(self):
            return {name: out.std().item() for name, out in self.seen.items()}

        def release(self):
            for handle in self.handles:
                handle.remove()
            self.handles = []

    def tapped(net):
        tap = Tap()
        for name, layer in net.named_modules():
            if isinstance(layer, nn.Linear):
                tap.listen(layer, name)
        return tap

    def fit(net, loader, optimizer):
        for x, y in loader:
            tap = tapped(net)
            loss = F.mse_loss(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(tap.spread())
"""

SCRIPT = """
    class Norms:
        def __init__(self):
            self.sizes = {}
            self.kept = {}

        def on(self, module, key):
            self.kept[key] = module.register_forward_pre_hook(lambda m, args: self.sizes.update({key: args[0].norm().item()}))  # !

        def off(self):
            for handle in self.kept.values():
                handle.remove()

    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(1000):
        norms = Norms()
        norms.on(model[0], "first")
        norms.on(model[2], "last")
        loss = model(torch.randn(8, 4)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""  # noqa: E501

TRAINER = """
    class Meter:
        def __init__(self):
            self.rate = 0.0
            self._hooks = []

        def follow(self, layer):
            self._hooks.append(layer.register_full_backward_hook(self.count))  # !

        def count(self, module, grad_in, grad_out):
            self.rate = (grad_out[0] == 0).float().mean().item()

        def stop(self):
            while self._hooks:
                self._hooks.pop().remove()

    class Trainer:
        def __init__(self, net):
            self.net = net
            self.optimizer = torch.optim.Adam(net.parameters())

        def measured(self):
            meter = Meter()
            meter.follow(self.net.head)
            return meter

        def step(self, x, y):
            meter = self.measured()
            loss = F.cross_entropy(self.net(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            return meter.rate

        def run(self, batches):
            for x, y in batches:
                print(self.step(x, y))
"""

REPORTED = "print(tap.spread())"
HELPED = "report(tap)\n\n    def report(tap):\n        print(tap.spread())\n        tap.release()"
LOOP, MADE = "        for x, y in loader:", "            tap = tapped(net)\n"
LAYERS = "        tap = Tap()\n        for part in net.children():\n            tap.listen(part, '')\n"
NETWORK = "model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))"
RETURNED = "return meter.rate"
FLAGGED = {"a helper goes over the modules": WATCHER, "a script": SCRIPT, "in each step of a trainer": TRAINER}

CLEAN = {
    "it is told to remove them": twin(WATCHER, (REPORTED, "print(tap.spread()); tap.release()")),
    "a helper removes them": twin(WATCHER, (REPORTED, HELPED)),
    "somebody else takes the handles": twin(WATCHER, (REPORTED, "[handle.remove() for handle in tap.handles]")),
    "once, before the loop": twin(WATCHER, (MADE, ""), (LOOP, MADE[4:] + LOOP)),
    "another layer each time": twin(
        WATCHER,
        (LOOP + "\n" + MADE, LAYERS + "            x, y = next(loader)\n"), ("(net(x), y)", "(part(x), y)")
    ),
    "a new network each time": twin(SCRIPT, ("norms = Norms()", f"norms = Norms(); {NETWORK}")),
    "at its end": twin(WATCHER, ("def release(self)", "def __del__(self)")),
    "what removes them is called by the step": twin(TRAINER, (RETURNED, f"meter.stop(); {RETURNED}")),
    "it is handed to somebody": twin(TRAINER, (RETURNED, f"self.later.append(meter.stop); {RETURNED}")),
    "all hooks are dropped": twin(TRAINER, (RETURNED, f"self.net.head._backward_hooks.clear(); {RETURNED}")),
}  # fmt: skip


@pytest.mark.parametrize("name", FLAGGED)
def test_nothing_calls_what_removes_them(name: str) -> None:
    assert_flagged(FLAGGED[name], CODE)


@pytest.mark.parametrize("name", CLEAN)
def test_they_are_removed_or_few(name: str) -> None:
    assert_clean(CLEAN[name], CODE)


@pytest.mark.parametrize(("after", "lines"), [("pass", [("taps.py", 10)]), ("tap.release()", [])])
def test_in_another_file(after: str, lines: list[tuple[str, int]], tmp_path: Path) -> None:
    library, training = WATCHER.replace("  # !", "").split("    def fit(")
    imports = "    import torch.nn.functional as F\n    from taps import tapped\n\n    def fit("
    files = {"taps.py": f"    import torch.nn as nn\n{library}", "train.py": f"{imports}{training}            {after}"}
    assert lines_in_files(tmp_path, files, CODE) == lines
