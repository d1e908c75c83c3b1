"""Edits are made, and kept when their findings are gone."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from gradguard import catalogue
from gradguard.config import Settings
from gradguard.findings import CheckResult, Confidence, Edit, FileError, Finding, Fix, Severity, Span
from gradguard.static.discover import shown
from gradguard.static.engine import check
from gradguard.static.fix import MOST_ROUNDS, Checks, Outcome, edited_file, fix
from gradguard.static.last_run import InMemory
from tests.support import write

LEAK = """\
import torch
import torch.nn.functional as F

def train(model, loader, optimizer):
    total = 0
    history = []
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss
        history.append(loss)
    return total, history
"""


def fixed(files: list[Path], *, unsafe: bool = False) -> Outcome:
    store = InMemory(None)

    def checks(instead: Mapping[Path, bytes]) -> CheckResult:
        return check(files, Settings(Path.cwd()), catalogue.load(), store=store, instead=instead)

    return fix(files, checks, Path.read_bytes, unsafe=unsafe)


@pytest.fixture
def fix_text(project: Path) -> Callable[..., str]:
    """What becomes of a text."""

    def made(text: str, *, unsafe: bool = False) -> str:
        write(project, {"train.py": text})
        path = project / "train.py"
        return fixed([path], unsafe=unsafe).contents.get(path, text.encode()).decode()

    return made


def test_several_edits_of_a_file(fix_text: Callable[..., str]) -> None:
    after = LEAK.replace("total += loss", "total += loss.detach()").replace("append(loss)", "append(loss.detach())")
    assert fix_text(LEAK) == after
    assert fix_text(after) == after


def test_nothing_is_written(project: Path) -> None:
    write(project, {"train.py": LEAK})
    outcome = fixed([project / "train.py"])
    assert (project / "train.py").read_text() == LEAK
    assert [finding.code for finding in outcome.made] == ["GG103", "GG104"]
    assert outcome.result.findings == ()


def test_an_edit_that_can_change_results_waits(fix_text: Callable[..., str]) -> None:
    text = LEAK.replace("        optimizer.zero_grad()\n", "").replace("total += loss\n", "total += loss.item()\n")
    text = text.replace("append(loss)", "append(loss.item())")
    assert fix_text(text) == text
    assert fix_text(text, unsafe=True).count("optimizer.zero_grad()") == 1


def test_what_is_left_is_told_as_if_it_were_written(project: Path) -> None:
    write(project, {"train.py": LEAK.replace("        optimizer.zero_grad()\n", "")})
    result = fixed([project / "train.py"]).result
    assert [finding.code for finding in result.findings] == ["GG201"]


def test_a_leak_behind_the_fixed_one_is_found_in_the_next_round(project: Path) -> None:
    helpers = "def keep(log, loss):\n    log.append(loss)\n"
    write(project, {"helpers.py": helpers, "train.py": "from helpers import keep\n" + LEAK + "\n"})
    outcome = fixed([project / "helpers.py", project / "train.py"])
    assert set(outcome.contents) == {project / "train.py"}
    assert outcome.result.findings == ()


def test_ends_of_lines_and_the_encoding_stay() -> None:
    text = "# -*- coding: latin-1 -*-\r\ns = 'é'; total += loss\r\n"
    edits = {None: [Edit(Span(2, 19, 2, 23), "loss.detach()"), Edit(Span(2, 1, 2, 1), "x = 1\n")]}
    after = edited_file(text.encode("latin-1"), False, edits)
    assert after.decode("latin-1") == text.replace("s =", "x = 1\r\ns =").replace("loss", "loss.detach()")
    marked = edited_file("﻿x = y\n".encode(), False, {None: [Edit(Span(1, 5, 1, 6), "z")]})
    assert marked == "﻿x = z\n".encode()


# --- notebooks ----------------------------------------------------------------------------------------------------


def notebook(*cells: str | list[str], **layout: int | None) -> bytes:
    made = [{"cell_type": "markdown", "source": ["# é\n"]}]
    made += [{"cell_type": "code", "metadata": {}, "outputs": [], "source": cell} for cell in cells]  # type: ignore[dict-item]
    return (json.dumps({"cells": made, "nbformat": 4}, ensure_ascii=False, **layout) + "\n").encode()  # type: ignore[arg-type]


@pytest.mark.parametrize("indent", [1, 2, None])
def test_a_cell_of_a_notebook(project: Path, indent: int | None) -> None:
    path = project / "train.ipynb"
    cells = "%matplotlib inline\nx = 'é'\n", LEAK.splitlines(keepends=True)
    path.write_bytes(notebook(*cells, indent=indent))
    outcome = fixed([path])
    after = LEAK.replace("+= loss", "+= loss.detach()").replace("append(loss)", "append(loss.detach())")
    assert outcome.contents[path] == notebook(cells[0], after.splitlines(keepends=True), indent=indent)
    assert [finding.cell for finding in outcome.made] == [2, 2]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_notebook_in_another_encoding(encoding: str) -> None:
    data = notebook("x = 'é'").decode().encode(encoding)
    after = edited_file(data, True, {1: [Edit(Span(1, 1, 1, 2), "y")]})
    assert after == notebook("y = 'é'").decode().encode(encoding)


def test_half_a_character_in_a_notebook_stays_an_escape() -> None:
    data = notebook("x = 1").replace(b'"# \xc3\xa9\\n"', b'"\xc3\xa9 \\ud83d"')
    after = edited_file(data, True, {1: [Edit(Span(1, 1, 1, 2), "y")]})
    assert json.loads(after)["cells"][0]["source"] == ["é \ud83d"]
    assert b"y = 1" in after


def test_a_cell_that_is_one_text_stays_one() -> None:
    after = edited_file(notebook("x = y", "z"), True, {1: [Edit(Span(1, 5, 1, 6), "a\nb")]})
    assert after == notebook("x = a\nb", "z")


# --- proof --------------------------------------------------------------------------------------------------------

TEXT = "a\nb\nc\n"


def finding(line: int, text: str | None, code: str = "GG103", severity: Severity = Severity.ERROR) -> Finding:
    """A finding on the only letter of a line, with the edit that puts a text there, if any."""
    span = Span(line, 1, line, 2)
    edit = Fix("edit", (Edit(span, text),), safe=True) if text is not None else None
    return Finding(code, code, severity, Confidence.HIGH, "x.py", None, span, code, fix=edit)


def outcome_of(project: Path, judge: Callable[[list[str]], list[Finding]], errors: str = "") -> tuple[str, Outcome]:
    """What becomes of :data:`TEXT` when some function of its lines says what is found."""
    path = project / "x.py"

    def checks(instead: Mapping[Path, bytes]) -> CheckResult:
        lines = instead.get(path, TEXT.encode()).decode().split("\n")
        told = (FileError(shown(path), None, "broken"),) if errors and errors in lines else ()
        return CheckResult(1, tuple(judge(lines)), told)

    made: Checks = checks
    outcome = fix([path], made, lambda _: TEXT.encode())
    return outcome.contents.get(path, TEXT.encode()).decode(), outcome


def test_an_edit_that_ends_nothing_is_not_made(project: Path) -> None:
    text, outcome = outcome_of(project, lambda lines: [finding(1, "still")])
    assert text == TEXT
    assert (len(outcome.made), len(outcome.undone), len(outcome.result.findings)) == (0, 1, 1)


def test_the_others_of_its_file_are(project: Path) -> None:
    def judge(lines: list[str]) -> list[Finding]:
        second = [finding(2, "B")] if lines[1] == "b" else []
        return [finding(1, "still"), *second, *([finding(3, "C")] if lines[2] == "c" else [])]

    text, outcome = outcome_of(project, judge)
    assert text == "a\nB\nC\n"
    assert (len(outcome.made), len(outcome.undone)) == (2, 1)


def test_an_edit_for_which_another_error_comes_is_not_made(project: Path) -> None:
    def judge(lines: list[str]) -> list[Finding]:
        return [finding(1, "A")] if lines[0] == "a" else [finding(3, None, "GG203")]

    assert outcome_of(project, judge)[0] == TEXT


def test_what_it_hid_elsewhere_may_come_to_light(project: Path) -> None:
    def judge(lines: list[str]) -> list[Finding]:
        return [finding(1, "A") if lines[0] == "a" else finding(3, None, "GG301", Severity.WARNING)]

    assert outcome_of(project, judge)[0] == "A\nb\nc\n"


def test_the_same_leak_in_another_form_is_no_end_of_it(project: Path) -> None:
    def judge(lines: list[str]) -> list[Finding]:
        return [finding(1, "A") if lines[0] == "a" else finding(1, None, "GG409", Severity.INFO)]

    assert outcome_of(project, judge)[0] == TEXT


@pytest.mark.parametrize("text", ["def (", "A"])
def test_an_edit_that_breaks_the_file_is_not_made(project: Path, text: str) -> None:
    text, _ = outcome_of(project, lambda lines: [finding(1, text)] if lines[0] == "a" else [], errors="A")
    assert text == TEXT


def test_an_edit_that_ends_two_findings_is_made_once(project: Path) -> None:
    def judge(lines: list[str]) -> list[Finding]:
        return [finding(1, "A"), finding(1, "A", "GG104")] if lines[0] == "a" else []

    text, outcome = outcome_of(project, judge)
    assert (text, len(outcome.made)) == ("A\nb\nc\n", 2)


def test_edits_of_one_place_are_made_one_after_the_other(project: Path) -> None:
    def judge(lines: list[str]) -> list[Finding]:
        return {"a": [finding(1, "A"), finding(1, "Z", "GG104")], "A": [finding(1, "y", "GG104")]}.get(lines[0], [])

    assert outcome_of(project, judge)[0] == "y\nb\nc\n"


def test_another_finding_in_the_same_line_stays(project: Path) -> None:
    def judge(lines: list[str]) -> list[Finding]:
        return [*([finding(1, "A")] if lines[0] == "a" else []), finding(1, None)]

    assert outcome_of(project, judge)[0] == "A\nb\nc\n"


def test_a_line_that_goes_leaves_the_one_above_it(project: Path) -> None:
    def judge(lines: list[str]) -> list[Finding]:
        edit = Fix("remove", (Edit(Span(2, 1, 3, 1), ""),), safe=True)
        gone = dataclasses.replace(finding(2, ""), fix=edit)
        return [finding(1, None), *([gone] if lines[1] == "b" else [])]

    assert outcome_of(project, judge)[0] == "a\nc\n"


def test_edits_without_end_end(project: Path) -> None:
    def judge(lines: list[str]) -> list[Finding]:
        first, second = lines[:2]
        return (
            [finding(1, first.swapcase())] if first.islower() == second.islower() else [finding(2, second.swapcase())]
        )

    _, outcome = outcome_of(project, judge)
    assert len(outcome.made) == MOST_ROUNDS
