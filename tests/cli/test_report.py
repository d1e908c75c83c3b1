"""``gradguard report`` and ``gradguard compare``: runs on disk."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import jsonschema
import pytest

from tests.cli.test_run import CLEAN, LEAKING
from tests.support import CHECKOUT, Run, Shell, write

SCHEMA = CHECKOUT.parent / "shared" / "schema" / "run.schema.json"


@pytest.fixture
def runs(shell: Shell, project: Path) -> tuple[str, str]:
    """A leaking run and a clean one, recorded."""
    pytest.importorskip("torch")
    write(project, {"leak.py": LEAKING, "clean.py": CLEAN})
    for name in ("leak", "clean"):
        ended = shell("-m", "gradguard", "run", "--record", f"{name}.jsonl", f"{name}.py", "80")
        assert ended.returncode == 0, ended.stderr.decode()
    return "leak.jsonl", "clean.jsonl"


def test_runs_on_disk(gradguard: Run, project: Path, runs: tuple[str, str]) -> None:
    leak, clean = runs
    shown = gradguard("report", leak)
    assert shown.status == 0
    assert "gradguard Leak: `history` keeps autograd graphs" in shown.out
    assert "history.append(loss)\n" in shown.out
    assert "stored at leak.py:13" in shown.out

    document = json.loads(gradguard("report", "--format", "json", leak).out)
    if SCHEMA.exists():
        jsonschema.validate(document, json.loads(SCHEMA.read_text()))
    write(project, {"leak.json": json.dumps(document)})
    assert gradguard("report", "leak.json").out.splitlines()[0] == shown.out.splitlines()[0]
    assert "history.append(loss)\n" in gradguard("report", "leak.json").out
    assert gradguard("report", "--output", "out.txt", leak).out == ""
    assert (project / "out.txt").read_text().splitlines()[0] == shown.out.splitlines()[0]

    fixed = gradguard("compare", leak, clean)
    assert (fixed.status, fixed.out.splitlines()[0]) == (0, "gradguard Fixed: what leaked in the first run is gone.")
    assert "gone GG104 `history`" in fixed.out
    worse = gradguard("compare", clean, "leak.json")
    assert (worse.status, worse.out.splitlines()[0]) == (1, "gradguard Worse: the second run leaks more.")
    assert gradguard("compare", leak, leak).status == 0
    both = json.loads(gradguard("compare", "--format", "json", leak, clean).out)
    assert both["leaks_more"] is False
    assert [each["holder"]["path"] for each in both["gone"]] == ["history"]
    times = next(each for each in both["changes"] if each["name"] == "step time")
    assert 0 < times["before"] < 1
    assert 0 < times["after"] < 1

    # The file is edited after the run: the excerpt is the run's.
    write(project, {"leak.py": "# nothing of it is left\n"})
    assert "history.append(loss)\n" in gradguard("report", leak).out


def test_a_run_is_recorded_below_the_start_and_kept_out_of_git(shell: Shell, gradguard: Run, project: Path) -> None:
    write(project, {"end.py": "import os; os.mkdir('other'); os.chdir('other'); print('x')"})
    assert shell("-m", "gradguard", "run", "end.py").returncode == 0
    (recording,) = (project / ".gradguard" / "runs").iterdir()
    assert recording.suffix == ".jsonl"
    assert (project / ".gradguard" / ".gitignore").read_text() == "*\n"
    assert "Too short" in gradguard("report").out
    assert shell("-m", "gradguard", "run", "--no-record", "end.py").returncode == 1  # `other` exists
    assert len(list((project / ".gradguard" / "runs").iterdir())) == 1


def test_where_nothing_can_be_written_the_program_runs(shell: Shell, project: Path) -> None:
    write(project, {"end.py": "print('x')", ".gradguard": "a file"})
    ended = shell("-m", "gradguard", "run", "end.py")
    assert ended.returncode == 0
    assert b"gradguard: the run is not recorded" in ended.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["report"], "no run is recorded in"),
        (["report", "nowhere.jsonl"], "nowhere.jsonl: cannot be read: No such file"),
        (["report", "."], "is a folder"),
        (["report", "text.txt"], "text.txt: is no recording"),
        (["compare", "text.txt", "text.txt"], "text.txt: is no recording"),
        (["compare", "text.txt"], "Missing argument 'AFTER'"),
        (["run", "--record", "text.txt", "end.py"], "text.txt exists"),
        (["run", "--record", f"text.txt{os.sep}a{os.sep}b", "end.py"], "cannot"),
        (["report", "--format", "xml", "text.txt"], "'xml' is not one of"),
    ],
)
def test_what_cannot_be_is_named(gradguard: Run, project: Path, words: list[str], message: str) -> None:
    write(project, {"text.txt": "hello\n", "end.py": ""})
    ended = gradguard(*words)
    assert ended.status == 2
    assert message in ended.err.replace("\n", " ")


def test_a_damaged_recording_is_named(gradguard: Run, project: Path) -> None:
    lines = [{"start": {"version": 1, "command": [], "directory": "."}}, {"end": {"report": {"x": 1}, "source": {}}}]
    write(project, {"run.jsonl": "\n".join(map(json.dumps, lines))})
    ended = gradguard("report", "run.jsonl")
    assert ended.status == 2
    assert "run.jsonl: the recording is damaged" in ended.err


KILLED = """
import os, signal
import torch
from torch import nn

def train():
    kept = []
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(200):
        model(torch.randn(4, 8)).mean().backward()
        optimizer.step()
        kept.append({what})
        if step == 150:
            os.kill(os.getpid(), signal.SIGKILL)

train()
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="the signal is one of POSIX")
@pytest.mark.parametrize(
    ("what", "title"),
    [
        ("torch.randn(2000)", "`train.kept` (list, +1 a step) keeps tensors"),
        ("model(torch.randn(4, 8)).mean()", "GG104 `train.kept` (list, +1 a step) keeps autograd graphs"),
    ],
)
def test_a_run_that_was_killed_names_what_was_found(shell: Shell, project: Path, what: str, title: str) -> None:
    pytest.importorskip("torch")
    write(project, {"train.py": KILLED.format(what=what)})
    assert shell("-m", "gradguard", "run", "--record", "run.jsonl", "train.py").returncode != 0
    text = " ".join(shell("-m", "gradguard", "report", "run.jsonl").stdout.decode().split())
    assert title in text
    assert "stored at train.py:13" in text
    assert "the end of this run was not seen" in text
    document = json.loads(shell("-m", "gradguard", "report", "--format", "json", "run.jsonl").stdout)
    assert document["step_source"] == "optimizer"
