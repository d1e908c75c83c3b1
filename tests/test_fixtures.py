"""Every leak fixture is named at its line, every clean twin is silent."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gradguard import catalogue
from gradguard.config import Settings
from gradguard.findings import Finding
from gradguard.static.engine import check
from tests.support import CHECKOUT

TRAPS = sorted((CHECKOUT / "fixtures" / "traps").glob("*.py"))
ONLY_IN_A_RUN = {
    "eval_logits_kept": "whether results are kept on purpose: GG409 says it at low confidence",
    "router_balance_terms": "the terms are collected under a condition that only the run decides",
    "sharpness_candidates": "the cycle is broken by the next zero_grad, but each candidate is another model",
}
"""Leaks that `check` does not report by default, and why."""

LEAKS = sorted(p for p in (CHECKOUT / "fixtures" / "leaks").iterdir() if p.is_dir())
MARK = re.compile(r"# leak: (?P<holder>.+)$", re.M)


def findings(folder: Path, twin: str, copy: Path) -> list[Finding]:
    """What is found in one program, in a copy without the mark, without what only the other twin uses.

    Args:
        folder: the fixture.
        twin: ``leak`` or ``clean``.
        copy: an empty folder.
    """
    other = {"leak": "clean", "clean": "leak"}[twin]
    for file in folder.glob("*.py"):
        if not file.name.startswith(other):
            (copy / file.name).write_text(MARK.sub("", file.read_text(encoding="utf-8")), encoding="utf-8")
    result = check(sorted(copy.glob("*.py")), Settings(copy), catalogue.load())
    assert not result.errors
    return list(result.findings)


def culprits(folder: Path) -> set[tuple[str, int]]:
    return {
        (file.name, number)
        for file in folder.glob("*.py")
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if MARK.search(line)
    }


@pytest.mark.parametrize("folder", LEAKS, ids=lambda p: p.name)
def test_leak_is_named_at_its_line(folder: Path, tmp_path: Path) -> None:
    """At the line itself; where a callee stores what it is given, at the call, with the line as related."""
    marked = culprits(folder)
    assert len(marked) == 1
    named = set()
    for finding in findings(folder, "leak", tmp_path):
        named.add((Path(finding.path).name, finding.span.line))
        if finding.code == "GG107":
            named.update((Path(r.path).name, r.line) for r in finding.related)
    assert (marked <= named) == (folder.name not in ONLY_IN_A_RUN)


@pytest.mark.parametrize("folder", LEAKS, ids=lambda p: p.name)
def test_clean_twin_is_silent(folder: Path, tmp_path: Path) -> None:
    assert [(f.path, f.span.line, f.code, f.message) for f in findings(folder, "clean", tmp_path)] == []


@pytest.mark.parametrize("program", TRAPS, ids=lambda p: p.stem)
def test_trap_is_silent(program: Path) -> None:
    result = check([program], Settings(CHECKOUT), catalogue.load())
    assert [(f.span.line, f.code, f.message) for f in result.findings] == []


def test_there_are_enough_patterns() -> None:
    ids = {m[0] for p in LEAKS if (m := re.search(r"\bA\d\d\b", (p / "leak.py").read_text(encoding="utf-8")))}
    assert len(ids) >= 30
    assert len(TRAPS) >= 15


def test_programs_beside_each_other_do_not_mix() -> None:
    """All fixtures in one run: what one program clears says nothing about another one's list."""
    files = sorted((CHECKOUT / "fixtures").rglob("*.py"))
    named: set[tuple[Path, int]] = set()
    for finding in check(files, Settings(CHECKOUT), catalogue.load()).findings:
        named.add((Path(finding.path).resolve(), finding.span.line))
        named.update((Path(r.path).resolve(), r.line) for r in finding.related)
    seen = [folder for folder in LEAKS if folder.name not in ONLY_IN_A_RUN]
    marked = {(folder / name, line) for folder in seen for name, line in culprits(folder)}
    assert marked <= named
    assert not [place for place in named if place[0].name.startswith("clean") or place[0].parent.name == "traps"]
