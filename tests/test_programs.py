"""Ordinary training programs: silent as they are, and with a slip laid over them it is named at its line."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gradguard import catalogue
from gradguard.config import Settings
from gradguard.findings import Finding
from gradguard.static.engine import check
from tests.support import CHECKOUT
from tests.test_fixtures import MARK, culprits

PROGRAMS = sorted(p.parent for p in (CHECKOUT / "fixtures" / "programs").glob("*/train.py"))
ONLY_IN_A_RUN = {
    "gpt": "a list of maps without a graph, kept by a module that is run for evaluation now and then",
    "lightning": "outputs without a graph, collected on purpose and not cleared",
    "trainer": "a hook that a method registers which only the framework calls",
}


def lay_out(program: Path, into: Path, *, leaks: bool) -> None:
    """Copy a program, with its slip over it if it ``leaks``, without the mark."""
    for source in (program, program / "leak") if leaks else (program,):
        for file in source.glob("*.py"):
            shutil.copy(file, into)
    for file in into.glob("*.py"):
        file.write_text(MARK.sub("", file.read_text(encoding="utf-8")), encoding="utf-8")


def findings(folder: Path) -> list[Finding]:
    """What is found in a program."""
    result = check(sorted(folder.glob("*.py")), Settings(folder), catalogue.load())
    assert not result.errors
    return list(result.findings)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_program_is_silent(program: Path, tmp_path: Path) -> None:
    lay_out(program, tmp_path, leaks=False)
    assert [(f.path, f.span.line, f.code, f.message) for f in findings(tmp_path)] == []


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_slip_is_named_at_its_line(program: Path, tmp_path: Path) -> None:
    lay_out(program, tmp_path, leaks=True)
    found = findings(tmp_path)
    named = {(Path(f.path).name, f.span.line) for f in found}
    named |= {(Path(r.path).name, r.line) for f in found if f.code == "GG107" for r in f.related}
    assert (culprits(program / "leak") <= named) == (program.name not in ONLY_IN_A_RUN)
    assert len(found) <= 1
