"""What all tests of the watch need."""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.util
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gradguard.findings import RunReport
from gradguard.runtime.watch import Watch


@pytest.fixture(autouse=True)
def _time(time_does_not_decide: None) -> None:
    """All of them look as long as it takes."""


OTHER_TESTS = ("tests.rules.", "tests.static.", "tests.cli.", "tests.report.", "tests.test_")


@pytest.fixture(autouse=True, scope="session")
def _imported_late() -> None:
    """What torch and the watch import when they first need it, and then belongs to the heap of every test."""
    for name in ("torch._dynamo", "libcst"):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


@pytest.fixture(autouse=True, scope="module")
def _own_heap(_imported_late: None) -> Iterator[None]:
    """What is alive before the tests of a module is out of the collector's sight, and other tests are no user's code.

    A look goes over all objects that the collector tracks, and over the variables of all modules of the user: there are
    far more of both in a tester's process than in a program.
    """
    others = {name: sys.modules.pop(name) for name in list(sys.modules) if name.startswith(OTHER_TESTS)}
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
    sys.modules.update(others)


@pytest.fixture
def whole_heap() -> Iterator[None]:
    """For tests whose leak is kept by something that was there before: the standard library's own registries."""
    gc.unfreeze()
    yield
    gc.freeze()


HEAD = """
import functools, itertools, copy
from collections import defaultdict, deque, namedtuple
import torch
from torch import nn

def training():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(70):
        output = model(torch.randn(32, 8))
        loss = output.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield model, output, loss
"""

_names = itertools.count()


@pytest.fixture
def run(tmp_path: Path) -> Iterator[object]:
    """Runs a body of code, after ``HEAD``, as a module of its own under a watch; gives the report and the text."""
    loaded = []

    def watch(body: str) -> tuple[RunReport, str]:
        name = f"program_{next(_names)}"
        file = tmp_path / f"{name}.py"
        file.write_text(HEAD + body, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        loaded.append(name)
        with Watch() as guard:
            spec.loader.exec_module(module)
        assert guard.report is not None
        assert not [note for note in guard.report.notes if "failed" in note]
        return guard.report, file.read_text(encoding="utf-8")

    yield watch
    for name in loaded:
        sys.modules.pop(name, None)
