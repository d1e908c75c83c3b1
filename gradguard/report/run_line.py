"""A run in single lines, without rich: what is said while it goes on, and where rich is not installed."""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.findings import Leak, RunReport
from gradguard.report.run_words import (
    failed_at_once,
    forecast,
    headline,
    holder,
    memory_ended,
    rate,
    unexplained,
    what,
    where,
)


def confirmed(leak: Leak) -> str:
    """One line the moment a leak is confirmed."""
    stored = f" {_stored(leak)}" if leak.stored_at else ""
    return f"gradguard: leak confirmed: {holder(leak)} {what(leak)}, {rate(leak)};{stored}"


def lines(report: RunReport) -> Iterator[str]:
    """The report, one line for each thing to say."""
    yield f"gradguard: {headline(report)}"
    if failed_at_once(report):
        return
    for leak in report.leaks:
        yield f"gradguard: {holder(leak)} {what(leak)}, {rate(leak)}"
        if leak.stored_at:
            yield f"gradguard:   stored at {_stored(leak)}"
        if leak.advice:
            yield f"gradguard:   help: {leak.advice}"
    if rest := unexplained(report):
        yield f"gradguard: {rest}"
    if report.out_of_memory:
        yield f"gradguard: {memory_ended(report.out_of_memory)}"
    if report.forecast:
        yield f"gradguard: {forecast(report.forecast)}"
    for note in report.notes:
        yield f"gradguard: note: {note}"


def _stored(leak: Leak) -> str:
    """``train.py:41: history.append(loss)``; of a file whose text is not known, the place alone."""
    code = leak.stored_at.code if leak.stored_at else None
    return f"{where(leak)}: {code}" if code else where(leak)
