"""The user's files as the run read them."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gradguard.findings import Leak, Place
from gradguard.runtime import launch, source
from gradguard.runtime.source import changed_files, lines_around, unknown_files
from gradguard.runtime.texts import is_unknown, lines_of, remember


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


LOADED = """
def keep(store, value):
    store.append(value)
"""


def load(path: Path, name: str) -> object:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def helper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(source, "START", str(tmp_path))
    path = tmp_path / "kept_helper.py"
    path.write_text(LOADED)
    load(path, "kept_helper")
    yield path
    sys.modules.pop("kept_helper")


def test_a_loaded_file_that_was_not_edited_is_known(helper: Path) -> None:
    remember()
    assert lines_of(str(helper)) == LOADED.splitlines(keepends=True)
    assert not is_unknown(str(helper))


@pytest.mark.parametrize(
    "edited",
    [
        "\n" + LOADED,  # it has moved
        LOADED.replace("value)\n", "value.detach())\n"),
        "",
        "def keep(",
    ],
)
def test_a_file_that_was_edited_after_it_was_loaded_has_no_lines(helper: Path, edited: str) -> None:
    helper.write_text(edited)
    assert lines_of(str(helper)) == []
    leak = Leak("graph", None, 1.0, 1.0, 1.0, stored_at=Place("kept_helper.py", 3, None))
    if edited:
        assert unknown_files([leak]) == ["kept_helper.py"]
        assert lines_around([leak]) == {"kept_helper.py": {}}


def test_the_text_that_is_compiled_is_known(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("a = 1\nb = 2\n")
    launch.script(str(path))
    path.write_text("edited\n")
    assert lines_of(str(path)) == ["a = 1\n", "b = 2\n"]
