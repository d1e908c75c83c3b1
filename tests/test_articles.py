"""The cases that articles about autograd are about: what torch does when each is run, and what GradGuard says of it.

The first line of a case says what torch does (``# torch: RuntimeError at line 20: ...`` or ``# torch: runs ...``), the
last one what the static half reports. Both are checked here against what happens.
"""

from __future__ import annotations

import re
import traceback
from pathlib import Path

import pytest

from gradguard import catalogue
from gradguard.config import Settings
from gradguard.findings import Confidence
from gradguard.static.engine import check
from tests.support import CHECKOUT

CASES = sorted((CHECKOUT / "fixtures" / "articles").glob("*.py"))
_RAISES = re.compile(r"# torch: (?P<type>\w+) at line (?P<line>\d+): (?P<message>.*)")
_FOUND = re.compile(r"(GG\d{3}) at line (\d+)")


def lines(case: Path) -> list[str]:
    return case.read_text(encoding="utf-8").splitlines()


def run(case: Path) -> Exception | None:
    """Run a case; what it raised."""
    code = compile(case.read_text(encoding="utf-8"), str(case), "exec")
    try:
        exec(code, {"__name__": "__main__"})
    except Exception as error:
        return error
    return None


@pytest.mark.parametrize("case", CASES, ids=lambda p: p.stem)
@pytest.mark.filterwarnings("ignore")
def test_torch_does_what_the_first_line_says(case: Path) -> None:
    pytest.importorskip("torch")
    expected = _RAISES.match(lines(case)[0])
    error = run(case)
    if expected is None:
        assert error is None
        return
    assert error is not None
    line = next(f.lineno for f in reversed(traceback.extract_tb(error.__traceback__)) if f.filename == str(case))
    assert (type(error).__name__, line) == (expected["type"], int(expected["line"]))
    assert str(error).startswith(expected["message"].removesuffix("...")[:60])


@pytest.mark.parametrize("case", CASES, ids=lambda p: p.stem)
def test_gradguard_says_what_the_last_line_says(case: Path) -> None:
    verdict = lines(case)[-1]
    assert verdict.startswith("# gradguard: ")
    found = check([case], Settings(case.parent, min_confidence=Confidence.LOW), catalogue.load()).findings
    assert {(f.code, str(f.span.line)) for f in found} == set(_FOUND.findall(verdict))


@pytest.mark.parametrize("case", [c for c in CASES if _RAISES.match(lines(c)[0])], ids=lambda p: p.stem)
def test_what_is_said_to_raise_raises_there(case: Path) -> None:
    """A rule that says "this raises" names the very line at which torch does."""
    raised = _RAISES.match(lines(case)[0])
    assert raised is not None
    for code, line in _FOUND.findall(lines(case)[-1]):
        if code in ("GG203", "GG204", "GG250", "GG302"):
            assert line == raised["line"]


def test_the_right_ways_are_not_called_errors() -> None:
    for case in CASES:
        if "__right" in case.stem and "wasteful" not in case.stem:
            codes = {code for code, _ in _FOUND.findall(lines(case)[-1])}
            assert codes <= {"GG301"}, case.stem  # evaluating without no_grad, where only numbers are kept
