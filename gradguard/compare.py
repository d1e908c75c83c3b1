"""Two runs side by side: pure functions over their reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gradguard.findings import Growth, Leak, RunReport, is_beside

LEAST = 1_024.0
"""Bytes a step: less than this more is no worse."""

WORSE = 1.1
"""Times the growth before, from which on a leak that was there is worse."""


@dataclass(frozen=True, slots=True)
class Change:
    """One measure of both runs.

    Args:
        name: ``heap``, ``cuda:0 peak``, ``step time`` ...
        unit: bytes per step, graphs per step, bytes or seconds.
        before: None where it is not known.
        after: likewise.
    """

    name: str
    unit: str
    before: float | None
    after: float | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs of one program.

    Args:
        before: the report of the first.
        after: the report of the second.
        changes: every measure that at least one of them has.
        gone: leaks of the first that the second has not.
        new: leaks of the second that the first had not.
        still: leaks of both, as they were and as they are.
        leaks_more: the second run leaks more than the first.
    """

    before: RunReport
    after: RunReport
    changes: tuple[Change, ...]
    gone: tuple[Leak, ...]
    new: tuple[Leak, ...]
    still: tuple[tuple[Leak, Leak], ...]
    leaks_more: bool


def compare(
    before: RunReport, after: RunReport, step_seconds: tuple[float | None, float | None] = (None, None)
) -> Comparison:
    """Put two runs side by side.

    Args:
        before: the first.
        after: the second, after an edit.
        step_seconds: how long a step took in each, where a recording says so.
    """
    known = {_key(leak): leak for leak in before.leaks}
    now = {_key(leak): leak for leak in after.leaks}
    still = tuple((known[key], leak) for key, leak in now.items() if key in known)
    return Comparison(
        before,
        after,
        changes=(*_growth(before, after), *_peaks(before, after), Change("step time", "seconds", *step_seconds)),
        gone=tuple(leak for key, leak in known.items() if key not in now),
        new=tuple(leak for key, leak in now.items() if key not in known),
        still=still,
        leaks_more=_rate(after) > max(_rate(before) * WORSE, _rate(before) + LEAST),
    )


def _key(leak: Leak) -> tuple[str, str]:
    """What makes two leaks the same one: who holds it. Lines move with every edit."""
    return ("hook" if leak.kind == "hook" else "memory", leak.holder.path if leak.holder else "?")


def _rate(run: RunReport) -> float:
    """Bytes a step that a run leaks; what it collects on purpose is no leak."""
    leaks = [leak for leak in run.leaks if leak.kind != "collected"]
    if run.verdict == "leak":  # a hook's bytes are not known, and it weighs something too
        return sum(max(leak.bytes_per_step or 0.0, 2 * LEAST) for leak in leaks)
    if run.verdict == "suspect" and (leaks or not run.leaks):
        known = (g for name, g in run.growth.items() if g is not None and not is_beside(name))
        return max((g.bytes_per_step or 0.0 for g in known), default=0.0)
    return 0.0


def _growth(before: RunReport, after: RunReport) -> Iterator[Change]:
    for name in dict.fromkeys((*before.growth, *after.growth)):
        pair = before.growth.get(name), after.growth.get(name)
        if name == "graphs" or any(each is not None and each.per_step is not None for each in pair):
            yield Change(name, f"{name} per step", *_each(pair, lambda g: g.per_step))
        else:
            yield Change(name, "bytes per step", *_each(pair, lambda g: g.bytes_per_step))


def _each(
    pair: tuple[Growth | None, Growth | None], value: Callable[[Growth], float | None]
) -> tuple[float | None, float | None]:
    first, second = (value(grown) if grown is not None else None for grown in pair)
    return first, second


def _peaks(before: RunReport, after: RunReport) -> Iterator[Change]:
    for name in dict.fromkeys((*before.peak, *after.peak)):
        yield Change(f"{name} peak", "bytes", before.peak.get(name), after.peak.get(name))
