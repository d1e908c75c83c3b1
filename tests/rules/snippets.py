"""Checking pieces of training code for one rule.

In a snippet, a line that must be flagged ends in ``# !``. Everything else must not be.
"""

from __future__ import annotations

import textwrap
from functools import cache
from pathlib import Path

from gradguard import catalogue
from gradguard.config import Settings
from gradguard.findings import Confidence, Finding
from gradguard.static.engine import check, check_text
from gradguard.static.screen import Screen

HEADER = """\
import torch
import torch.nn as nn
import torch.nn.functional as F
from collections import defaultdict, deque
"""


def findings(
    snippet: str, code: str = "", confidence: Confidence = Confidence.HIGH, *, path: str = "snippet.py"
) -> list[Finding]:
    """The findings of one rule (of all when ``code`` is empty) in a snippet below the usual imports."""
    settings = Settings(Path.cwd(), select=(code or "ALL",), min_confidence=confidence)
    result = check_text(source(snippet), path, settings, catalogue.load())
    assert not result.errors
    return list(result.findings)


def lines_in_files(folder: Path, files: dict[str, str], code: str = "") -> list[tuple[str, int]]:
    """File and line of each finding of one rule (of all when ``code`` is empty) in some files of one folder."""
    for name, text in files.items():
        (folder / name).write_text(textwrap.dedent(text))
    settings = Settings(folder, select=(code or "ALL",))
    result = check(sorted(folder / name for name in files), settings, catalogue.load())
    assert not result.errors
    return [(Path(finding.path).name, finding.span.line) for finding in result.findings]


def source(snippet: str) -> str:
    return HEADER + textwrap.dedent(snippet)


def marked(snippet: str) -> set[int]:
    """The lines that must be flagged."""
    return {number for number, line in enumerate(source(snippet).splitlines(), 1) if line.rstrip().endswith("# !")}


def assert_flagged(snippet: str, code: str, confidence: Confidence = Confidence.HIGH) -> None:
    """Exactly the marked lines are flagged by the rule, at this confidence or above."""
    expected = marked(snippet)
    assert expected, "the snippet marks no line"
    assert _screen(code).passes(source(snippet).encode()), "the signs of the rule do not show"
    assert {f.span.line for f in findings(snippet, code, confidence)} == expected


@cache
def _screen(code: str) -> Screen:
    """What one rule alone would have read: that others have it read as well is chance."""
    return Screen([rule for rule in catalogue.load() if code in ("", rule.code)])


def assert_clean(snippet: str, code: str = "", confidence: Confidence = Confidence.HIGH) -> None:
    """No rule (or not this one) says anything, at this confidence or above."""
    assert [(f.span.line, f.code, f.message) for f in findings(snippet, code, confidence)] == []


def twin(snippet: str, *edits: tuple[str, str]) -> str:
    """The look-alike of a snippet: the same code with a few words of it replaced, and no line marked."""
    twin = snippet.replace("  # !", "")
    for old, new in edits:
        assert old in twin, f"{old!r} is not in the snippet"
        twin = twin.replace(old, new)
    return twin
