"""Two runs side by side, for a person at a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gradguard.compare import Change, Comparison
from gradguard.findings import Leak
from gradguard.report.console import clean, wrapped
from gradguard.report.run_words import holder, rate, size, what, where

NOISE = 0.02
"""Less than this share is no change: memory and time differ a little from run to run."""


def report(comparison: Comparison, console: Console) -> None:
    """Print the measures of both runs, and the leaks that are gone, still there, or new."""
    wrapped(console, _headline(comparison), 0)
    console.print(_table(comparison, console))
    for leak in comparison.gone:
        _leak("gone", "bold green", leak, rate(leak), console)
    for before, after in comparison.still:
        _leak("still", "bold yellow", after, f"{rate(before)} before, {rate(after)} after", console)
    for leak in comparison.new:
        _leak("named" if _was_unnamed(comparison) else "new", "bold red", leak, rate(leak), console)


def _headline(comparison: Comparison) -> Text:
    if comparison.leaks_more:
        return Text.assemble(("gradguard ", "bold"), ("Worse", "bold red"), ": the second run leaks more.")
    if comparison.gone and not comparison.still and not comparison.new:
        return Text.assemble(("gradguard ", "bold"), ("Fixed", "bold green"), ": what leaked in the first run is gone.")
    if comparison.still or comparison.after.verdict == "leak":
        title = Text.assemble(("gradguard ", "bold"), ("Still leaking", "bold yellow"), ": no more than before")
        if _was_unnamed(comparison):
            title.append("; what holds it was not named in the first run")
        elif comparison.new:
            title.append(", but something else" if not comparison.still else ", and something new")
        return title.append(".")
    return Text.assemble(("gradguard ", "bold"), ("No leak", "bold green"), " in the second run.")


def _was_unnamed(comparison: Comparison) -> bool:
    """Whether the first run grew, and did not tell what holds it."""
    return comparison.before.verdict == "suspect" and not comparison.before.leaks


def _table(comparison: Comparison, console: Console) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 2), header_style="bold")
    table.add_column("")
    for title in ("before", "after", "change"):
        table.add_column(title, justify="right")
    before, after = comparison.before, comparison.after
    table.add_row("verdict", before.verdict, after.verdict, "")
    table.add_row("steps", str(before.steps), str(after.steps), "")
    for change in comparison.changes:
        if change.before or change.after:
            table.add_row(clean(change.name, console), *_cells(change))
    return table


def _cells(change: Change) -> tuple[str, str, Text]:
    return _shown(change.before, change.unit), _shown(change.after, change.unit), _difference(change)


def _shown(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    if unit == "seconds":
        return f"{value * 1000:.3g} ms"
    if unit == "graphs per step":
        return f"{value:+.2g} a step" if value else "flat"
    if unit == "bytes per step":
        return f"+{size(value)} a step" if value else "flat"
    return size(value)


def _difference(change: Change) -> Text:
    if change.before is None or change.after is None:
        return Text("")
    gained = change.after - change.before
    if abs(gained) <= NOISE * abs(change.before):
        return Text("same", "dim")
    style = "green" if gained < 0 else "red" if change.unit != "seconds" else ""
    if not change.before or not change.after:
        return Text("gone" if gained < 0 else "new", style)
    return Text(f"{gained / change.before:+.0%}", style)


def _leak(word: str, style: str, leak: Leak, rates: str, console: Console) -> None:
    at = f" ({where(leak)})" if leak.stored_at else ""
    code = f"{leak.rule} " if leak.rule else ""
    wrapped(
        console, Text.assemble((f"{word} ", style), clean(f"{code}{holder(leak)} {what(leak)}, {rates}{at}", console))
    )
