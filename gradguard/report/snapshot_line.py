"""What is alive, in single lines, without rich."""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.alive import HeldBy, Snapshot
from gradguard.report.run_words import size


def lines(snapshot: Snapshot) -> Iterator[str]:
    """The snapshot, one line for each thing to say."""
    yield f"gradguard: {headline(snapshot)}"
    for amount in snapshot.amounts:
        yield f"  {amount.kind:<16} {amount.device:<7} {amount.count:>7,} {size(amount.bytes):>8}"
    for holder in snapshot.holders:
        yield f"  {size(holder.bytes):>8}  {holder.path} ({said_of(holder)})"
    yield from (f"  {note}" for note in notes(snapshot))


def headline(snapshot: Snapshot) -> str:
    """How much there is in all."""
    if not snapshot.amounts:
        return "no tensor is alive"
    step = f" after step {snapshot.step}" if snapshot.step else ""
    count = snapshot.count()
    return f"{size(snapshot.bytes())} in {count:,} storage{'s' * (count != 1)} alive{step}"


def said_of(holder: HeldBy) -> str:
    """What a holder is, and how much of what it holds is behind graphs: ``list, 8.1 MB of it in graphs``."""
    return holder.type + (f", {size(holder.in_graphs)} of it in graphs" if holder.in_graphs else "")


def notes(snapshot: Snapshot) -> Iterator[str]:
    """What else there is to say."""
    for each in snapshot.allocators:
        yield f"{each.device}: {size(each.allocated)} allocated, {size(each.reserved)} reserved"
    if snapshot.unnamed:
        yield f"no variable leads to {size(snapshot.unnamed)} of it"
    if not snapshot.complete:
        yield "there is more than could be looked at in a second"
