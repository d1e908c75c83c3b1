"""What is alive, as tables at a terminal."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gradguard.alive import Snapshot
from gradguard.report.console import clean, wrapped
from gradguard.report.run_words import size
from gradguard.report.snapshot_line import headline, notes
from gradguard.report.terminal import console as console_for


def to_stderr(snapshot: Snapshot) -> None:
    """Print the tables where the program's own output is not."""
    report(snapshot, console_for("auto", sys.stderr))


def report(snapshot: Snapshot, console: Console) -> None:
    """Print what is alive by kind and device, and who holds most."""
    wrapped(console, Text.assemble(("gradguard ", "bold"), headline(snapshot)), 0)
    if snapshot.amounts:
        console.print(_amounts(snapshot))
    if snapshot.holders:
        console.print()
        console.print(_holders(snapshot, console))
    for note in notes(snapshot):
        wrapped(console, Text(clean(note, console)))


def _table() -> Table:
    return Table(box=None, pad_edge=False, padding=(0, 2, 0, 2), header_style="bold cyan", highlight=False)


def _amounts(snapshot: Snapshot) -> Table:
    table = _table()
    table.add_column("alive")
    table.add_column("device")
    table.add_column("storages", justify="right")
    table.add_column("bytes", justify="right")
    for amount in snapshot.amounts:
        table.add_row(amount.kind, amount.device, f"{amount.count:,}", Text(size(amount.bytes), "yellow"))
    return table


def _holders(snapshot: Snapshot, console: Console) -> Table:
    table = _table()
    table.add_column("held by", overflow="fold", ratio=1)
    table.add_column("type", overflow="fold")
    table.add_column("bytes", justify="right", no_wrap=True)
    table.add_column("in graphs", justify="right", no_wrap=True)
    for holder in snapshot.holders:
        graphs = size(holder.in_graphs) if holder.in_graphs else ""
        name, kind = clean(holder.path, console), clean(holder.type, console)
        table.add_row(Text(name, "bold"), kind, Text(size(holder.bytes), "yellow"), graphs)
    return table
