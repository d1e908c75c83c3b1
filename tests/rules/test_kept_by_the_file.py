"""A collection of the whole file, which a function beside the forward fills, and which nobody empties."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import lines_in_files

LAYERS = """\
import collections
import torch
from torch import nn

START

def note(term):
    STORE

def noted():
    return list(terms)

EMPTY

class Gate(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.score = nn.Linear(width, 4)

    def forward(self, x):
        scores = self.score(x).softmax(-1)
        note(scores.mean(0))
        return scores
"""
NET = """\
from torch import nn
from layers import Gate

class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gates = nn.ModuleList(Gate(width) for _ in range(3))
        self.out = nn.Linear(4, 1)

    def forward(self, x):
        return self.out(sum(gate(x) for gate in self.gates))
"""
MAIN = """\
import torch
import layers
from net import Net

def train(loader):
    net = Net(8)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        loss = (net(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        END

START
"""
SCRIPT = 'if __name__ == "__main__":\n    train([])\n'
FORGET = "def forget():\n    terms.clear()\n"
FORGET_BY_NAME = "def forget():\n    global terms\n    terms = []\n"


def told(folder: Path, *, start: str, store: str, empty: str, end: str = "pass", script: str = SCRIPT) -> list[str]:
    layers = LAYERS.replace("START", start).replace("STORE", store).replace("EMPTY", empty)
    files = {"layers.py": layers, "net.py": NET, "main.py": MAIN.replace("END", end).replace("START", script)}
    return [name for name, _ in lines_in_files(folder, files, "GG107")]


@pytest.mark.parametrize(
    ("start", "store"),
    [
        ("terms = []", "terms.append(term)"),
        ("terms: list[torch.Tensor] = []", "terms.append(term)"),
        ("terms = list()", "terms.append((term, 1))"),
        ("terms = collections.deque()", "terms.extend([term])"),
    ],
)
@pytest.mark.parametrize("empty", ["", FORGET, FORGET_BY_NAME, "def forget():\n    del terms[:]\n"])
def test_what_nobody_empties(tmp_path: Path, start: str, store: str, empty: str) -> None:
    assert told(tmp_path, start=start, store=store, empty=empty) == ["layers.py"]


@pytest.mark.parametrize(
    ("store", "empty", "end", "script"),
    [
        ("terms.append(term)", FORGET, "layers.forget()", SCRIPT),
        ("terms.append(term)", FORGET_BY_NAME, "layers.forget()", SCRIPT),
        ("terms.append(term)", FORGET, "clean = layers.forget; clean()", SCRIPT),
        ("terms.append(term)", FORGET, "layers.terms.clear()", SCRIPT),
        ("terms.append(term)", FORGET, "pass", "from layers import forget\n" + SCRIPT),
        ("terms.append(term)", FORGET, "pass", ""),  # a library: its users call it
        ("terms.append(term)", FORGET, 'getattr(layers, "for" + "get")()', SCRIPT),
        ("terms.append(term.detach().mean().item())", FORGET, "pass", SCRIPT),
        ("terms.append(term)\n    del terms[:-9]", "", "pass", SCRIPT),
        ("terms[:] = [term]", "", "pass", SCRIPT),
        ("terms = [term]", "", "pass", SCRIPT),
    ],
)
def test_what_is_emptied(tmp_path: Path, store: str, empty: str, end: str, script: str) -> None:
    assert told(tmp_path, start="terms = []", store=store, empty=empty, end=end, script=script) == []
