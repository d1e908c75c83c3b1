"""Findings for a person at a terminal: what, where, why, and the edit that ends it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console
from rich.text import Text

from gradguard.findings import CheckResult, Finding, Related, Severity, Span
from gradguard.report.excerpt import changes, excerpt, printable
from gradguard.report.words import describe, offer, place, summary

SourceLines = Callable[[str, int | None], Sequence[str]]
"""The lines of a path (of one cell, in a notebook), without their ends; none when they cannot be read."""

MIN_WIDTH = 40
INDENT = 2

_STYLE = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow", Severity.INFO: "bold cyan"}


def report(result: CheckResult, sources: SourceLines, console: Console, *, offers: bool = True) -> None:
    """Print every finding, every file that could not be checked, and a summary.

    Args:
        offers: say for how many ``gradguard fix`` has an edit.
    """
    for finding in result.findings:
        _finding(finding, sources, console)
        console.print()
    for error in result.errors:
        line(console, Text.assemble(("error: ", "bold red"), clean(describe(error), console)))
    if result.errors:
        console.print()
    wrapped(console, Text(summary(result)), 0)
    if offers and (offered := offer(result)):
        wrapped(console, Text(offered), 0)
    if result.findings:
        worst = min(result.findings, key=lambda f: list(Severity).index(f.severity))
        wrapped(console, Text.assemble("For the whole story: ", (f"gradguard explain {worst.code}", "bold")), 0)


def _finding(finding: Finding, sources: SourceLines, console: Console) -> None:
    style = _STYLE[finding.severity]
    where = place(finding.path, finding.cell, finding.span.line, finding.span.column)
    certainty = "" if finding.confidence.value == "high" else ", low confidence"
    header = Text.assemble((clean(where, console), "bold"), " ", (finding.code, style), f" {finding.name} ")
    line(console, header.append(f"[{finding.severity.value}{certainty}]", style))
    wrapped(console, Text(clean(finding.message, console)))
    lines = sources(finding.path, finding.cell)
    show_excerpt(finding.span, lines, console, style)
    for related in finding.related:
        _note(related, console)
    _help(finding, lines, console)


def show_excerpt(span: Span, lines: Sequence[str], console: Console, style: str) -> None:
    """Print the lines of ``span`` and one around it, with the span underlined in ``style``; nothing without lines."""
    digits = len(str(span.end_line + 1))
    gutter = INDENT + digits + len(" | ")
    rows = excerpt(lines, span, _width(console) - gutter, console.encoding)
    if rows:
        _row(console, digits, "", "")
    for row in rows:
        context = row.number is not None and not row.mark
        _row(console, digits, str(row.number or ""), row.text, "dim" if context else "")
        if row.mark:
            _row(console, digits, "", row.mark, style)


def _row(console: Console, digits: int, number: str, text: str, style: str = "") -> None:
    gutter = f"{' ' * INDENT}{number:>{digits}} |"
    line(console, Text.assemble((gutter, "blue"), (f" {text}".rstrip(), style)))


def _note(related: Related, console: Console) -> None:
    where = place(related.path, related.cell, related.line)
    text = clean(f"{where}: {related.message}", console)
    wrapped(console, Text.assemble(("note: ", "bold cyan"), text))


def _help(finding: Finding, lines: Sequence[str], console: Console) -> None:
    advice = finding.help or (finding.fix.description if finding.fix else None)
    if advice is None:
        return
    wrapped(console, Text.assemble(("help: ", "bold green"), clean(advice, console)))
    if finding.fix is None or not lines:
        return
    for change in changes(lines, finding.fix.edits, _width(console) - INDENT - len("  - "), console.encoding):
        style = {"-": "red", "+": "green"}.get(change.sign, "dim")
        line(console, Text(f"{' ' * INDENT}  {change.sign} {change.text}", style))
    if not finding.fix.safe:
        wrapped(console, Text("(this edit can change what the program computes: look at it first)", "dim"), INDENT + 2)


def clean(text: str, console: Console) -> str:
    """``text`` on one line, without what a terminal would obey or cannot show."""
    return printable(" ".join(text.split("\n")), console.encoding)


def _width(console: Console) -> int:
    return max(console.width, MIN_WIDTH)


def line(console: Console, text: Text) -> None:
    """Print without wrapping: a terminal makes a path of one piece clickable."""
    console.print(text, soft_wrap=True, highlight=False)


def wrapped(console: Console, text: Text, indent: int = INDENT) -> None:
    """Print ``text`` within the width of the terminal, each line indented by ``indent`` columns."""
    for part in text.wrap(console, _width(console) - indent):
        part.rstrip()
        line(console, Text(" " * indent).append_text(part))
