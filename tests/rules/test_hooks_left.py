"""Hooks that a stack of an object was to remove, and those of optimizers (GG401)."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, twin

CODE = "GG401"

STACK = """
    from contextlib import ExitStack

    class Taps:
        def __init__(self, net, names):
            self.net, self.names = net, names
            self.undo = ExitStack()

        def __enter__(self):
            self.seen = {}
            layers = dict(self.net.named_modules())
            for name in self.names:
                handle = layers[name].register_forward_hook(self.saver(name))  # !
                self.undo.callback(handle.remove)
            return self.seen

        def __exit__(self, *exc):
            self.seen = None

        def saver(self, name):
            def save(module, given, out):
                self.seen[name] = out
            return save

    def distill(student, teacher, loader, optimizer):
        taps = Taps(teacher, ["body"])
        for x, y in loader:
            with taps as seen, torch.no_grad():
                teacher(x)
                wanted = seen["body"]
            loss = F.mse_loss(student(x), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
"""

STEPS = """
    def fit(net, optimizer, loader, epochs):
        for epoch in range(epochs):
            handle = optimizer.register_step_post_hook(note)  # !
            for x, y in loader:
                loss = F.cross_entropy(net(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
"""

AVERAGE = """
    class Average:
        def __init__(self, net):
            self.shadow = [p.detach().clone() for p in net.parameters()]

        def attach(self, optimizer, net):
            return optimizer.register_step_post_hook(lambda *_: self.update(net))  # !

        def update(self, net):
            for s, p in zip(self.shadow, net.parameters()):
                s.lerp_(p.detach(), 0.01)

    class Run:
        def __init__(self, net, loader):
            self.net, self.loader = net, loader
            self.optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            self.start_cycle()

        def start_cycle(self):
            self.average = Average(self.net)
            self.handle = self.average.attach(self.optimizer, self.net)

        def fit(self):
            for step, (x, y) in enumerate(self.loader):
                loss = F.cross_entropy(self.net(x), y)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                if step % 50 == 0:
                    self.start_cycle()
"""


@pytest.mark.parametrize("snippet", [STACK, STEPS, AVERAGE])
def test_hooks_that_stay(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    ("snippet", "old", "new"),
    [
        (STACK, "self.seen = None", "self.undo.close()"),
        (STACK, "self.seen = None", "self.undo.__exit__(*exc)"),
        (STACK, "self.seen = None", "self.undo.pop_all().close()"),
        (STACK, "self.seen = None", "with self.undo: pass"),
        (STACK, "self.seen = None", "leave(self.undo)"),
        (STACK, "return self.seen\n", "stack = self.undo\n            return self.seen, stack\n"),
        (STACK, "teacher(x)\n", "teacher(x)\n                taps.undo.close()\n"),
        (STACK, "self.undo.callback(handle.remove)", "self.undo.callback(handle.remove); self.handles.append(handle)"),
        (STACK, "taps = Taps(teacher, ['body'])".replace("'", '"'), "taps = contextlib.nullcontext({})"),
        (STEPS, "optimizer.step()\n", "optimizer.step()\n            handle.remove()\n"),
        (STEPS, "handle = optimizer", "optimizer = torch.optim.SGD(net.parameters(), lr=0.1); handle = optimizer"),
        (STEPS, "            handle =", "            if epoch == 0: handle ="),
        (STEPS, "        for epoch in range(epochs):\n            handle = optimizer.register_step_post_hook(note)\n",
         "        handle = optimizer.register_step_post_hook(note)\n        for epoch in range(epochs):\n"),
        (AVERAGE, "self.average =", "if self.handle: self.handle.remove()\n            self.average ="),
        (AVERAGE, "if step % 50 == 0:", "if step == 0:"),
        (AVERAGE, "if step % 50 == 0:\n                    self.start_cycle()", "pass"),
    ],
)  # fmt: skip
def test_hooks_that_are_removed(snippet: str, old: str, new: str) -> None:
    assert_clean(twin(snippet, (old, new)), CODE)
