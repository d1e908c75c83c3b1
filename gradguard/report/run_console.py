"""A run for a person at a terminal: the verdict, the growth, and each leak with its holder, line and edit."""

from __future__ import annotations

import linecache
import os
import sys

from rich.console import Console
from rich.text import Text

from gradguard.findings import Growth, Leak, Place, RunReport, Span
from gradguard.report.console import SourceLines, wrapped
from gradguard.report.excerpt import excerpt, printable
from gradguard.report.run_words import KINDS, duration, gains, headline, holder, rate, size
from gradguard.report.terminal import console as console_for

_STYLE = {"leak": "bold red", "suspect": "bold yellow", "clean": "bold green", "too-short": "bold cyan"}
INDENT = 2


def report(run: RunReport, sources: SourceLines, console: Console) -> None:
    """Print the whole report."""
    word, _, rest = headline(run).partition(":")
    _line(console, Text.assemble(("gradguard ", "bold"), (word, _STYLE[run.verdict]), ":", _clean(rest, console, " ")))
    _growth(run, console)
    for leak in run.leaks:
        console.print()
        _leak(leak, sources, console)
    _endings(run, console)


def to_stderr(run: RunReport) -> None:
    """Print the report where the watched program's own output is not."""
    report(run, source_lines(run), console_for("auto", sys.stderr))


def source_lines(run: RunReport) -> SourceLines:
    """Reads the lines of the run's files, as they were when the run first read them."""

    def read(path: str, cell: int | None) -> list[str]:
        file = path if path.startswith("<") else os.path.join(run.start, path)  # a notebook's cell is no file
        return [line.rstrip("\r\n") for line in linecache.getlines(file)]

    return read


def _growth(run: RunReport, console: Console) -> None:
    known = {name: grown for name, grown in run.growth.items() if grown is not None}
    if len(known) > 1 and not known.get("process", Growth(1.0, None, None, None)).bytes_per_step:
        del known["process"]  # too noisy to call it flat beside what grows
    if run.leaks and not known.get("graphs", Growth(None, 1.0, None, None)).per_step:
        del known["graphs"]  # it counts the graphs that were handed to backward: others may be held
    parts = [f"{name} {_rate(grown)}" for name, grown in known.items()]
    if parts:
        _wrapped(console, Text.assemble(("growth: ", "bold"), ", ".join(parts)))


def _rate(grown: Growth) -> str:
    if grown.per_step is not None:
        return f"+{grown.per_step:.2g} a step" if grown.per_step else "flat"
    slope = grown.bytes_per_step or 0.0
    since = f" since step {grown.since_step}" if grown.since_step and grown.since_step > 30 else ""
    return f"+{size(slope)} a step{since}" if slope else "flat"


def _leak(leak: Leak, sources: SourceLines, console: Console) -> None:
    code = [(f"{leak.rule} ", "bold red")] if leak.rule else []
    title = Text.assemble(*code, (_clean(holder(leak), console), "bold"), _clean(gains(leak), console, " "))
    title.append(f" {KINDS[leak.kind]}, ").append(rate(leak), "bold")
    if leak.explained is not None and leak.kind != "hook":
        title.append(f" ({leak.explained:.0%} of the growth)")
    _line(console, title)
    if leak.stored_at is not None:
        _place("stored at", leak.stored_at, sources, console)
    for place in leak.also_stored_at:
        _wrapped(console, Text(_clean(f"also stored at {place.path}:{place.line}: {place.code or ''}", console)))
    if leak.made_at is not None and leak.made_at != leak.stored_at:
        made = f"{leak.made_at.path}:{leak.made_at.line}: {leak.made_at.code or ''}"
        operation = f" ({leak.operation})" if leak.operation else ""
        _wrapped(console, Text.assemble(("made at: ", "bold cyan"), _clean(made + operation, console)))
    if leak.advice:
        _wrapped(console, Text.assemble(("help: ", "bold green"), _clean(leak.advice, console)))


def _place(what: str, place: Place, sources: SourceLines, console: Console) -> None:
    _line(console, Text.assemble("  ", (f"{what} ", "bold cyan"), (f"{place.path}:{place.line}", "bold")))
    lines = sources(place.path, None)
    if not 1 <= place.line <= len(lines):
        if place.code:
            _wrapped(console, Text(_clean(place.code, console)))
        return
    text = lines[place.line - 1]
    at = text.find(place.code) if place.code else -1
    begin = at + 1 if at >= 0 else len(text) - len(text.lstrip()) + 1
    end = at + len(place.code or "") + 1 if at >= 0 else max(len(text.split("  #")[0].rstrip()) + 1, begin + 1)
    digits = len(str(place.line + 1))
    rows = excerpt(
        lines, Span(place.line, begin, place.line, end), max(console.width, 40) - digits - 5, console.encoding
    )
    for row in rows:
        _line(console, Text.assemble((f"  {row.number or '':>{digits}} | ", "blue"), row.text))
        if row.mark:
            _line(console, Text.assemble((f"  {'':>{digits}} | ", "blue"), (row.mark, "bold red")))


def _endings(run: RunReport, console: Console) -> None:
    if run.leaks or run.notes or run.out_of_memory:
        console.print()
    if run.out_of_memory is not None:
        text = (
            f"out of memory at step {run.out_of_memory.step} ({run.out_of_memory.device}): {run.out_of_memory.message}"
        )
        _wrapped(console, Text(_clean(text, console), "bold red"))
    if run.forecast is not None:
        left = f" ({duration(run.forecast.seconds_left)})" if run.forecast.seconds_left is not None else ""
        _wrapped(console, Text(f"At this rate {run.forecast.device} is full in {run.forecast.steps_left} steps{left}."))
    for note in run.notes:
        _wrapped(console, Text.assemble(("note: ", "bold cyan"), _clean(note, console)))
    rules = [leak.rule for leak in run.leaks if leak.rule]
    if rules:
        _wrapped(console, Text.assemble("For the whole story: ", (f"gradguard explain {rules[0]}", "bold")), 0)


def _clean(text: str, console: Console, before: str = "") -> str:
    return before + printable(" ".join(text.split()), console.encoding)


def _line(console: Console, text: Text) -> None:
    console.print(text, soft_wrap=True, highlight=False)


def _wrapped(console: Console, text: Text, indent: int = INDENT) -> None:
    wrapped(console, text, indent)
