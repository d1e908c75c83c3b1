"""Dicts of lists that get a gradient in each step, and of which only the ends are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files, twin

CODE = "GG402"

HISTORY = """
        class History:
            WINDOW = 10

            def __init__(self, model):
                self.model = model
                self.seen = defaultdict(list)

            @torch.no_grad()
            def capture(self):
                for name, p in self.model.named_parameters():
                    if p.grad is None:
                        continue
                    self.seen[name].append(p.grad.flatten().clone())  # !

            def agreement(self):
                out = {}
                for name, grads in self.seen.items():
                    recent = grads[-self.WINDOW :]
                    if len(recent) > 1:
                        out[name] = F.cosine_similarity(recent[0], recent[-1], dim=0).item()
                return out

        def train(model, loader, optimizer):
            history = History(model)
            for x, y in loader:
                loss = F.mse_loss(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                history.capture()
                optimizer.step()
            print(history.agreement())
"""
ADDED = "self.seen[name].append(p.grad.flatten().clone())"
READ = "for name, grads in self.seen.items():"
RECENT = "recent = grads[-self.WINDOW :]"
MADE = "self.seen = defaultdict(list)"
PLAIN = (
    HISTORY.replace(ADDED, "self.seen.append(p.grad.clone())")
    .replace(MADE, "self.seen = []")
    .replace(READ, 'for name in "ab":')
    .replace(RECENT, "recent = self.seen[-self.WINDOW :]")
)

FLAGGED = {
    "of each parameter": HISTORY,
    "by key": HISTORY.replace(READ, "for name in self.seen:").replace(RECENT, "recent = self.seen[name][-4:]"),
    "the last one": HISTORY.replace(READ, "for name in self.seen.keys():").replace(
        RECENT, "grads = self.seen[name]\n                    recent = [grads[-2], grads[-1]]"
    ),
    "in a comprehension": HISTORY.replace(
        RECENT, "recent = [each[-1] for each in self.seen.values()]\n                    print(len(grads))"
    ),
    "by setdefault": HISTORY.replace("self.seen[name].append", "self.seen.setdefault(name, []).append").replace(
        MADE, "self.seen = {}"
    ),
    "made for each": HISTORY.replace(MADE, "self.seen = {name: [] for name, _ in model.named_parameters()}"),
    "what is there": HISTORY.replace(
        READ,
        'if "head" not in self.seen or len(self.seen["head"]) < 2:\n                    return out\n                '
        + READ,
    ),
    "one list": PLAIN,
}

CLEAN = {
    "all are read": twin(HISTORY, (RECENT, "recent = grads[:]")),
    "the first are read": twin(HISTORY, (RECENT, "recent = grads[: self.WINDOW]")),
    "the mean of all": twin(HISTORY, (RECENT, RECENT + "\n                    mean = torch.stack(grads).mean(0)")),
    "handed on": twin(HISTORY, ("return out", "return out, self.seen")),
    "written to a file": twin(HISTORY, ("return out", 'torch.save(self.seen, "grads.pt")\n                return out')),
    "trimmed": twin(HISTORY, (ADDED, ADDED + "\n                    del self.seen[name][: -self.WINDOW]")),
    "popped": twin(
        HISTORY,
        (
            ADDED,
            ADDED
            + "\n                    if len(self.seen[name]) > 9:\n                        self.seen[name].pop(0)",
        ),
    ),
    "emptied": twin(HISTORY, ("return out", "self.seen.clear()\n                return out")),
    "begun anew": twin(HISTORY, ("return out", "self.seen = self.fresh()\n                return out")),
    "kept short": twin(HISTORY, (MADE, "self.seen = defaultdict(lambda: deque(maxlen=10))")),
    "by another name": twin(HISTORY, ("out = {}", "out = dict(all=self.seen)")),
    "read by the key": twin(HISTORY, ("out = {}", 'out = {"first": self.seen["head"][0]}')),
    "by getattr": twin(HISTORY, ("print(history.agreement())", 'print(getattr(history, "seen"))')),
    "read outside": twin(HISTORY, ("print(history.agreement())", "print(history.seen)")),
    "the variable is read": twin(HISTORY, ("out[name] =", "out[name] = sum(grads) +")),
    "nothing reads it": twin(HISTORY, (RECENT, "recent = [0.0, 1.0]"), (READ, 'for name in "ab":')),
    "a number": twin(HISTORY, (ADDED, "self.seen[name].append(p.grad.norm().item())")),
    "now and then": twin(HISTORY, ("history.capture()", "if x.sum() > 9:\n                    history.capture()")),
    "no training": twin(HISTORY, ("loss.backward()", "pass")),
    "of each step": twin(HISTORY, ("self.seen[name]", "self.seen[self.step]")),
    "all of one list": twin(PLAIN, ("recent = self.seen[-self.WINDOW :]", "recent = self.seen")),
    "in a nested function": twin(
        HISTORY,
        ("out = {}", "out = {}\n\n                def every(key):\n                    return self.seen[key]\n"),
    ),
}


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name: str) -> None:
    assert_flagged(FLAGGED[name], CODE)


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name: str) -> None:
    assert_clean(CLEAN[name], CODE)


def test_in_several_files(tmp_path: Path) -> None:
    files = {
        "probe.py": """
            from collections import defaultdict

            class Probe:
                def __init__(self, net):
                    self.net, self.past = net, defaultdict(list)

                def look(self):
                    for key, weight in self.net.named_parameters():
                        if weight.grad is not None:
                            self.past[key].append(weight.grad.detach().clone())

                def turn(self, key):
                    return (self.past[key][-1] * self.past[key][-2]).sum().item()
        """,
        "train.py": """
            import torch
            from probe import Probe
            import report

            class Trainer:
                def __init__(self, net, optimizer):
                    self.net, self.optimizer, self.probe = net, optimizer, Probe(net)

                def step(self, batch):
                    self.optimizer.zero_grad()
                    self.net(batch).mean().backward()
                    self.probe.look()
                    self.optimizer.step()

                def fit(self, batches):
                    for batch in batches:
                        self.step(batch)
        """,
        "report.py": "def write(probe):\n    print(probe.turn('head'))\n",
    }
    assert lines_in_files(tmp_path, files, CODE) == [("probe.py", 11)]
    files["report.py"] = "import torch\n\ndef write(probe):\n    torch.save(dict(probe.past), 'past.pt')\n"
    assert not lines_in_files(tmp_path, files, CODE)
