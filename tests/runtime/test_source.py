"""The user's files as the run read them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gradguard.findings import Leak, Place
from gradguard.runtime import source
from gradguard.runtime.source import changed_files, lines_around, lines_of


@pytest.fixture
def train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(source, "START", str(tmp_path))
    path = tmp_path / "train.py"
    path.write_text("".join(f"line {n}\n" for n in range(1, 11)))
    return path


def a_leak(line: int) -> Leak:
    return Leak("graph", None, 1.0, 1.0, 1.0, stored_at=Place("train.py", line, f"line {line}"))


def test_the_first_reading_counts(train: Path) -> None:
    assert lines_of(str(train))[0] == "line 1\n"
    train.write_text("edited\n")
    assert lines_of(str(train))[0] == "line 1\n"
    assert lines_of(os.path.join(train.parent, ".", "train.py"))[0] == "line 1\n"
    assert changed_files(["train.py"]) == ["train.py"]


def test_lines_around_a_statement(train: Path) -> None:
    assert lines_around([a_leak(5)]) == {"train.py": {n: f"line {n}" for n in range(3, 8)}}
    assert lines_around([a_leak(1)]) == {"train.py": {n: f"line {n}" for n in range(1, 4)}}
    assert lines_around([a_leak(99)]) == {}
    assert changed_files(["train.py"]) == []


def test_a_file_that_is_gone_has_changed(train: Path) -> None:
    lines_of(str(train))
    train.unlink()
    assert changed_files(["train.py", "<ipython-input-1>"]) == ["train.py"]
