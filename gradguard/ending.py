"""What is done with a leak and with a report, where nothing of ours may get in the program's way.

Memory may have ended, the disk may be full, stderr may be closed: what cannot be done is left out, and said.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, TextIO

from gradguard.findings import Leak, RunReport

if TYPE_CHECKING:
    from gradguard.runtime.recording import Recording


def explained(report: RunReport, *, reads_source: bool) -> RunReport:
    """``report`` with the rules that know its leaks, as far as they can be asked.

    Args:
        reads_source: whether to read the files that leak, too.
    """
    try:
        from gradguard.join import with_findings, with_rules

        return (with_findings if reads_source else with_rules)(report)
    except Exception as fault:
        return _noted(report, "the rules could not be asked", fault)


def written_down(recording: Recording | None, report: RunReport) -> RunReport:
    """``report``, after it was recorded."""
    try:
        if recording is not None:
            from gradguard.record import finish

            finish(recording, report)
    except Exception as fault:
        return _noted(report, "the end of the run could not be recorded", fault)
    return report


def write_down(recording: Recording | None, leak: Leak) -> None:
    """Record a leak the moment it is confirmed; if that fails, the report has it."""
    with suppress(Exception):
        if recording is not None:
            from gradguard.record import note_leak

            note_leak(recording, leak)


def write_found(recording: Recording | None, leaks: Sequence[Leak]) -> None:
    """Record what is diagnosed by now: the run may be killed."""
    with suppress(Exception):
        if recording is not None:
            from gradguard.record import note_found

            note_found(recording, leaks)


def say_plainly(report: RunReport, fault: Exception, file: TextIO | None) -> None:
    """The report in single lines, for what could not be made of it."""
    with suppress(Exception):
        from gradguard.report.run_line import lines

        for line in lines(_noted(report, "the report is short", fault)):
            print(line, file=file)


def _noted(report: RunReport, what: str, fault: Exception) -> RunReport:
    return replace(report, notes=(*report.notes, f"{what}: {fault!r}"))
