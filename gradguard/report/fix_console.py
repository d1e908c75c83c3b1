"""What ``gradguard fix`` did, for a person at a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from gradguard.findings import CheckResult, Finding
from gradguard.report.console import SourceLines, clean, line, report, wrapped
from gradguard.report.words import count, describe, place


def made(findings: Sequence[Finding], console: Console) -> None:
    """Print the edits that were made, a line for each."""
    for finding in sorted(findings, key=lambda f: f.sort_key):
        where = place(finding.path, finding.cell, finding.span.line)
        what = finding.fix.description if finding.fix else ""
        text = Text.assemble(("fixed: ", "bold green"), (f"{where} {finding.code} ", "bold"), what)
        line(console, Text(clean(text.plain, console), spans=text.spans))
    if findings:
        console.print()


def errors(result: CheckResult, console: Console) -> None:
    """Print what could not be checked."""
    for error in result.errors:
        line(console, Text.assemble(("error: ", "bold red"), clean(describe(error), console)))


def left(result: CheckResult, sources: SourceLines, console: Console) -> None:
    """Print what is left, as ``gradguard check`` does."""
    if result.findings or result.errors:
        report(result, sources, console, offers=False)


def summary(
    made: Sequence[Finding], undone: Sequence[Finding], result: CheckResult, console: Console, *, diff: bool
) -> None:
    """Print what was done, or would be, and what else could be.

    Args:
        made: what the edits ended.
        undone: what they did not end when they were tried.
        result: what is left.
        diff: nothing was written.
    """
    said = ["Nothing to fix."]
    if made:
        files = len({finding.path for finding in made})
        said = [f"{'Would fix' if diff else 'Fixed'} {count(len(made), 'problem')} in {count(files, 'file')}."]
    if undone:
        said.append(f"Edits that were tried and not kept, as they did not end it: {len(undone)}.")
    tried = {(f.path, f.code, f.message) for f in undone}
    offered = [f for f in result.findings if f.fix is not None and (f.path, f.code, f.message) not in tried]
    if offered:
        said.append(f"Left with an edit that can change what the program computes: {len(offered)} (--unsafe-fixes).")
    wrapped(console, Text(" ".join(said)), 0)
