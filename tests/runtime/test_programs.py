"""Ordinary training programs: clean as they are, and with a slip laid over them it is named, at its line."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.test_fixtures import mark, run
from tests.test_programs import PROGRAMS, lay_out

pytest.importorskip("torch")

STEPS = 200
NEEDS = {"lightning": "lightning", "trainer": "transformers"}
HERE = [p for p in PROGRAMS if p.name not in NEEDS or importlib.util.find_spec(NEEDS[p.name]) is not None]

Job = tuple[Path, bool]


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[Job, Future[dict[str, Any]]]]:
    """All runs, begun at once and spread over the cores."""
    folder = tmp_path_factory.mktemp("programs")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield {
            job: pool.submit(_watched, *job, folder) for program in HERE for job in ((program, False), (program, True))
        }
        pool.shutdown(cancel_futures=True)


def _watched(program: Path, leaks: bool, folder: Path) -> dict[str, Any]:
    copy = folder / f"{program.name}-{'leak' if leaks else 'clean'}"
    copy.mkdir()
    lay_out(program, copy, leaks=leaks)
    return run(copy / "train.py", STEPS, copy / "report.json")


@pytest.mark.parametrize("program", HERE, ids=lambda p: p.name)
def test_program_is_clean(program: Path, reports: dict[Job, Future[dict[str, Any]]]) -> None:
    report = reports[program, False].result()
    assert (report["verdict"], report["leaks"]) == ("clean", [])


@pytest.mark.parametrize("program", HERE, ids=lambda p: p.name)
def test_slip_is_named(program: Path, reports: dict[Job, Future[dict[str, Any]]]) -> None:
    report = reports[program, True].result()
    assert report["verdict"] == "leak", report
    leak = report["leaks"][0]
    named = (leak["stored_at"]["path"], leak["stored_at"]["line"], leak["holder"]["path"])
    assert named == mark(program / "leak")
    assert leak["advice"]


LAYERS = """
import torch
from torch import nn

class Attention(nn.Module):
    weights = []

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 64)

    def forward(self, x):
        w = self.layer(x).softmax(-1)
        self.weights.append(w)
        return w * x

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = Attention()
        self.head = nn.Linear(64, 1)

    def forward(self, x):
        return self.head(self.attention(x))
"""
TRAIN = """
import torch
from layers import Net

def run():
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    for step in range(200):
        loss = net(torch.randn(32, 64)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

run()
"""


def test_a_list_of_a_class_in_another_file_is_not_taken_for_what_the_watch_knows_of_it(tmp_path: Path) -> None:
    (tmp_path / "layers.py").write_text(LAYERS)
    (tmp_path / "train.py").write_text(TRAIN)
    leak = run(tmp_path / "train.py", STEPS, tmp_path / "report.json")["leaks"][0]
    line = 1 + LAYERS.splitlines().index("        self.weights.append(w)")
    assert leak["holder"]["path"] == "Attention.weights"
    assert (Path(leak["stored_at"]["path"]).name, leak["stored_at"]["line"]) == ("layers.py", line)
