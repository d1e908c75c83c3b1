"""Sums in the cells of a table, which a name was given to: ``cell = table[key]``, ``cell[0] += loss``."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, twin

TRACKER = """
        class Tracker:
            def __init__(self, *keys):
                self.keys = keys
                self.cells = {}
                self.reset()

            def reset(self):
                for key in self.keys:
                    self.cells[key] = [0.0, 0]

            def update(self, key, value, n=1):
                cell = self.cells[key]
                cell[0] += value * n
                cell[1] += n

            def result(self):
                return {key: float(total) / max(count, 1) for key, (total, count) in self.cells.items()}

        class Trainer:
            def __init__(self, net, optimizer, loader):
                self.net, self.optimizer, self.loader = net, optimizer, loader
                self.train_metrics, self.valid_metrics = Tracker("loss"), Tracker("loss")

            def epoch(self):
                self.valid_metrics.reset()
                for x, y in self.loader:
                    self.optimizer.zero_grad()
                    loss = F.cross_entropy(self.net(x), y)
                    loss.backward()
                    self.optimizer.step()
                    self.train_metrics.update("loss", loss)  # !
                return self.train_metrics.result()
"""

LOCAL = """
        def train(net, loader, optimizer, names):
            sums = {name: [0.0, 0] for name in names}
            for name, x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(net(x), y)
                loss.backward()
                optimizer.step()
                cell = sums[name]
                cell[0] += loss  # !
                cell[1] += 1
            return {name: float(total) / count for name, (total, count) in sums.items()}
"""

TAKEN = "cell = self.cells[key]\n                cell[0] += value * n"
MADE_FIRST = """if key not in self.cells:
                    self.cells[key] = [0.0, 0]
                cell = self.cells[key]
                cell[0] += value * n"""


def _tracker(taken: str) -> str:
    assert TAKEN in TRACKER
    return TRACKER.replace(TAKEN, taken)


FLAGGED = {
    "a tracker": (TRACKER, "GG107"),
    "a tracker that is reset before each epoch": (
        TRACKER.replace("self.valid_metrics.reset", "self.train_metrics.reset"),
        "GG107",
    ),
    "cells with words": (_tracker('cell = self.cells[key]\n                cell["sum"] += value * n'), "GG107"),
    "written out": (_tracker("cell = self.cells[key]\n                cell[0] = cell[0] + value * n"), "GG107"),
    "get": (_tracker("cell = self.cells.get(key)\n                cell[0] += value * n"), "GG107"),
    "setdefault": (_tracker("cell = self.cells.setdefault(key, [0, 0])\n                cell[0] += value"), "GG107"),
    "fields of a record": (_tracker("cell = self.cells[key]\n                cell.total += value * n"), "GG107"),
    "made where it is missing": (_tracker(MADE_FIRST), "GG107"),
    "not named, made where it is missing": (
        _tracker("self.cells.setdefault(key, [0, 0])\n                self.cells[key][0] += value * n"),
        "GG107",
    ),
    "a local table": (LOCAL, "GG103"),
    "a local table, written out": (LOCAL.replace("cell[0] += loss", "cell[0] = cell[0] + loss"), "GG103"),
    "a local table, one word": (LOCAL.replace("sums[name]", 'sums["loss"]'), "GG103"),
    "a local table, setdefault": (LOCAL.replace("sums[name]", "sums.setdefault(name, [0, 0])"), "GG103"),
}

LOOKALIKES = {
    "a number is given": twin(TRACKER, ('"loss", loss)', '"loss", loss.item())')),
    "a number is added": twin(TRACKER, ("value * n", "float(value) * n")),
    "what is added is detached": twin(TRACKER, ("value * n", "value.detach() * n")),
    "a copy of the cell": twin(TRACKER, ("cell = self.cells[key]", "cell = list(self.cells[key])")),
    "a slice of the cell": twin(TRACKER, ("cell = self.cells[key]", "cell = self.cells[key][:]")),
    "the name is given to another list": twin(TRACKER, ("cell[0] +=", "cell = [0, 0]\n                cell[0] +=")),
    "the cell is made anew by each update": twin(
        TRACKER, ("cell = self.cells[key]", "self.cells[key] = [0, 0]\n                cell = self.cells[key]")
    ),
    "without a name, made anew by each update": twin(
        TRACKER,
        ("cell = self.cells[key]", "self.cells[key] = [0, 0]"),
        ("cell[0]", "self.cells[key][0]"),
        ("cell[1]", "self.cells[key][1]"),
    ),
    "under no_grad": twin(TRACKER, ("self.train_metrics.update", "with torch.no_grad(): self.train_metrics.update")),
    "a local table of numbers": twin(LOCAL, ("+= loss", "+= loss.item()")),
    "a local table, set to zero in each iteration": twin(LOCAL, ("cell[1] += 1", "cell[0] = 0")),
    "a local table, made anew in each iteration": twin(
        LOCAL, ("cell = sums[name]", "sums = {name: [0, 0] for name in names}\n                cell = sums[name]")
    ),
    "a local table, the cell made anew in each iteration": twin(LOCAL, ("cell[1] += 1", "sums[name] = [0, 0]")),
    "rows of an output": """
        def train(net, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                out = net(x)
                first, second = out[0], out[1]
                first = first * 2
                first[0] += second[0]
                F.mse_loss(first, y).backward()
                optimizer.step()
    """,
}


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name: str) -> None:
    assert_flagged(*FLAGGED[name])


@pytest.mark.parametrize("name", LOOKALIKES)
def test_lookalikes(name: str) -> None:
    assert_clean(LOOKALIKES[name])
