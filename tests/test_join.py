"""After a run: its leaks beside the findings of the same lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradguard.findings import Holder, Leak, Place, RunReport
from gradguard.join import with_findings
from tests.support import write

AVERAGE = """
class Average:
    def __init__(self, model):
        self.shadow = {name: p.detach().clone() for name, p in model.named_parameters()}

    def update(self, model):
        for name, p in model.named_parameters():
            self.shadow[name] = 0.9 * self.shadow[name] + 0.1 * p
"""

SUM = """import torch
def train(model, optimizer, data):
    total = 0
    for x in data:
        loss = model(x).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        total += loss
    return total
"""

TRAIN = """
import torch
from torch import nn

from average import Average

def train(data):
    model = nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    average = Average(model)
    for x in data:
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
        average.update(model)

train([torch.randn(4, 8)])
"""


@pytest.mark.parametrize(
    ("file", "command"),
    [
        ("train.py", ("train.py", "--fast")),
        ("train.py", ("-m", "train", "--fast")),
        ("jobs/train.py", ("-m", "jobs.train")),
        ("jobs/__main__.py", ("-m", "jobs")),
    ],
)
def test_the_program_that_calls_is_read_too(tmp_path: Path, file: str, command: tuple[str, ...]) -> None:
    write(tmp_path, {"average.py": AVERAGE, file: TRAIN})
    leak = Leak(
        kind="graph",
        holder=Holder("shadow", "Average.shadow", "dict", "attribute"),
        bytes_per_step=4_000.0,
        per_step=1.0,
        explained=1.0,
        stored_at=Place("average.py", 8, None),
        form="index",
    )
    report = RunReport(
        verdict="leak",
        steps=60,
        step_source="optimizer",
        growth={},
        leaks=(leak,),
        command=command,
        start=str(tmp_path),
    )
    (joined,) = with_findings(report).leaks
    assert joined.rule == "GG106"


@pytest.mark.parametrize(
    ("kept", "rule"),
    [
        ({}, "GG103"),
        ({"train.py": {9: "        total += loss"}}, "GG103"),
        ({"train.py": {9: "        other.append(loss)"}}, None),  # edited since
        ({"train.py": {}}, None),  # the text that ran is not known
    ],
)
def test_a_file_that_is_another_by_now_says_nothing(
    tmp_path: Path, kept: dict[str, dict[int, str]], rule: str | None
) -> None:
    write(tmp_path, {"train.py": SUM})
    leak = Leak(
        kind="graph",
        holder=Holder("total", "train.total", "torch.Tensor", "local"),
        bytes_per_step=5_000.0,
        per_step=1.0,
        explained=1.0,
        stored_at=Place("train.py", 9, None),
    )
    report = RunReport("leak", 60, "optimizer", {}, leaks=(leak,), start=str(tmp_path), source=kept)
    assert with_findings(report).leaks[0].rule == rule
