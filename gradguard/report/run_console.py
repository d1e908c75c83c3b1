"""A run for a person at a terminal: the verdict, the growth, and each leak with its holder, line and edit."""

from __future__ import annotations

import linecache
import os
import sys

from rich.console import Console
from rich.text import Text

from gradguard.findings import Growth, Leak, Place, RunReport, Span, is_beside
from gradguard.report.console import SourceLines, clean, line, show_excerpt, wrapped
from gradguard.report.run_words import (
    adds_up,
    cost,
    failed_at_once,
    forecast,
    gains,
    growth_rate,
    headline,
    holder,
    memory_ended,
    rate,
    unexplained,
    what,
)
from gradguard.report.terminal import console as console_for

_STYLE = {"leak": "bold red", "suspect": "bold yellow", "clean": "bold green", "too-short": "bold cyan"}


def report(run: RunReport, sources: SourceLines, console: Console) -> None:
    """Print the whole report."""
    word, _, rest = headline(run).partition(":")
    said = Text.assemble(("gradguard ", "bold"), (word, _style(run)), ":", " " + clean(rest.strip(), console))
    wrapped(console, said, 0)
    if failed_at_once(run):
        return
    _growth(run, console)
    for leak in run.leaks:
        console.print()
        _leak(leak, sources, console)
    _endings(run, console)


def _style(run: RunReport) -> str:
    if run.out_of_memory is not None:
        return _STYLE["leak"]
    return _STYLE["suspect" if run.verdict == "clean" and adds_up(run) else run.verdict]


def to_stderr(run: RunReport) -> None:
    """Print the report where the watched program's own output is not."""
    report(run, source_lines(run), console_for("auto", sys.stderr))


def source_lines(run: RunReport) -> SourceLines:
    """The lines of the run's files around its statements, as the run read them; where it kept none, what is on disk."""

    def read(path: str, cell: int | None) -> list[str]:
        known = run.source.get(path)
        if known is None:
            return [line.rstrip("\r\n") for line in linecache.getlines(os.path.join(run.start, path))]
        return [known.get(number, "") for number in range(1, max(known, default=0) + 1)]

    return read


def _growth(run: RunReport, console: Console) -> None:
    grown = {
        name: growth for name, growth in run.growth.items() if growth is not None and _is_telling(name, growth, run)
    }
    if grown:
        text = ", ".join(f"{name} {growth_rate(growth)}" for name, growth in grown.items())
        wrapped(console, Text.assemble(("growth: ", "bold"), text))


def _is_telling(name: str, growth: Growth, run: RunReport) -> bool:
    """Whether a signal says something; that it is flat does where nothing leaks, if no other says it better."""
    if growth.bytes_per_step or growth.per_step:
        return True
    return name != "process" and not is_beside(name) and not run.leaks


def _leak(leak: Leak, sources: SourceLines, console: Console) -> None:
    code = [(f"{leak.rule} ", "bold red")] if leak.rule else []
    title = Text.assemble(*code, (clean(holder(leak), console), "bold"), f" {clean(gains(leak), console)}")
    title.append(f" {what(leak)}, ").append(rate(leak), "bold")
    if leak.explained is not None and leak.kind != "hook":
        title.append(f" ({leak.explained:.0%} of the growth)")
    wrapped(console, title, 0)
    if leak.stored_at is not None:
        _place("stored at", leak.stored_at, sources, console)
    for place in leak.also_stored_at:
        wrapped(console, Text(clean(f"also stored at {place.path}:{place.line}: {place.code or ''}", console)))
    if leak.made_at is not None and leak.made_at != leak.stored_at:
        made = f"{leak.made_at.path}:{leak.made_at.line}: {leak.made_at.code or ''}"
        operation = f" ({leak.operation})" if leak.operation else ""
        wrapped(console, Text.assemble(("made at: ", "bold cyan"), clean(made + operation, console)))
    if leak.advice:
        wrapped(console, Text.assemble(("help: ", "bold green"), clean(leak.advice, console)))


def _place(what: str, place: Place, sources: SourceLines, console: Console) -> None:
    line(console, Text.assemble("  ", (f"{what} ", "bold cyan"), (f"{place.path}:{place.line}", "bold")))
    lines = sources(place.path, None)
    if not 1 <= place.line <= len(lines):
        if place.code:
            wrapped(console, Text(clean(place.code, console)))
        return
    show_excerpt(_span(lines[place.line - 1], place), lines, console, "bold red")


def _span(text: str, place: Place) -> Span:
    """The statement on its first line; where it is not written as ``ast`` would, all of the line but a comment."""
    begin = text.find(place.code) if place.code else -1
    if begin >= 0:
        return Span(place.line, begin + 1, place.line, begin + 1 + len(place.code or ""))
    indent = len(text) - len(text.lstrip())
    return Span(place.line, indent + 1, place.line, max(len(text.split("  #")[0].rstrip()) + 1, indent + 2))


def _endings(run: RunReport, console: Console) -> None:
    if run.leaks or run.notes or run.out_of_memory:
        console.print()
    rest = unexplained(run)
    if rest is not None:
        wrapped(console, Text(rest))
    if run.out_of_memory is not None:
        wrapped(console, Text(clean(memory_ended(run.out_of_memory), console), "bold red"))
    if run.forecast is not None:
        wrapped(console, Text(forecast(run.forecast)))
    for note in run.notes:
        wrapped(console, Text.assemble(("note: ", "bold cyan"), clean(note, console)))
    spent = cost(run)
    if spent is not None:
        wrapped(console, Text(f"{spent}.", "dim"))
    rules = [leak.rule for leak in run.leaks if leak.rule]
    if rules:
        wrapped(console, Text.assemble("For the whole story: ", (f"gradguard explain {rules[0]}", "bold")), 0)
