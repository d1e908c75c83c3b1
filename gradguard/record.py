"""A run and its recording: what is written while it goes on and at its end, and the report of a run that is on disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from gradguard import __version__
from gradguard.findings import Leak, RunReport
from gradguard.report import run_json
from gradguard.runtime import verdict
from gradguard.runtime.recording import FOLDER, Recorded, Recording, RecordingError, default_path, keep_out_of_git, read
from gradguard.runtime.source import lines_around
from gradguard.runtime.trend import Trend
from gradguard.runtime.usercode import START

__all__ = ["RecordingError", "begin", "finish", "load", "note_found", "note_leak"]


def begin(path: Path | None, command: tuple[str, ...]) -> Recording:
    """Begin to record.

    Args:
        path: the file, which must not exist; None for one of its own below ``.gradguard/runs``.
        command: what is run.

    Raises:
        OSError: it cannot be written.
    """
    start = Path(START)
    recording = Recording(path or default_path(start), command=command, start=START, tool=__version__)
    if path is None:
        keep_out_of_git(start / FOLDER.parts[0])
    return recording


def note_leak(recording: Recording, leak: Leak) -> None:
    """Write down a leak the moment it is confirmed: the run may not come to its end."""
    recording.leak(run_json.leak_as_dict(leak), lines_around([leak]))


def note_found(recording: Recording, leaks: Sequence[Leak]) -> None:
    """Write down what is diagnosed by now, certain or not."""
    recording.found([run_json.leak_as_dict(leak) for leak in leaks], lines_around(leaks))


def finish(recording: Recording, report: RunReport) -> None:
    """Write down the report."""
    recording.end(run_json.as_dict(report), report.source)


def load(path: Path) -> tuple[RunReport, Recorded]:
    """The report of a run on disk, and its samples.

    A run whose end was not seen (it was killed) is judged by its samples, with what was confirmed or found by then.

    Args:
        path: a recording.

    Raises:
        RecordingError: it cannot be read, or is none.
    """
    recorded = read(path)
    try:
        report = _ended(recorded) if recorded.report is not None else _broken_off(recorded)
    except (KeyError, TypeError, ValueError) as error:
        raise RecordingError(f"{path}: the recording is damaged: {error!r}") from error
    return replace(report, source=recorded.source), recorded


def _ended(recorded: Recorded) -> RunReport:
    assert recorded.report is not None
    return run_json.from_dict(recorded.report, recorded.start["directory"])


def _broken_off(recorded: Recorded) -> RunReport:
    growing = verdict.growing(recorded.series)
    steps = recorded.timing[-1][0] if recorded.timing else 0
    leaks = _leaks_so_far(recorded, grows=bool(verdict.telling(growing, recorded.series)))
    return RunReport(
        verdict=_verdict_so_far(recorded, growing, steps),
        steps=steps,
        step_source=recorded.step_source,
        growth=verdict.growth_of(recorded.series, growing),
        leaks=tuple(leaks),
        peak={name: peak for name, peak in recorded.peaks.items() if name not in verdict.COUNTS},
        notes=(f"the end of this run was not seen: this is what was recorded up to step {steps}",),
        command=tuple(recorded.start["command"]),
        start=recorded.start["directory"],
    )


def _leaks_so_far(recorded: Recorded, grows: bool) -> list[Leak]:
    """What was confirmed; where memory still grew at the end, also what was only found."""
    leaks = [run_json.leak_from_dict(each) for each in recorded.leaks]
    known = {leak.holder.path for leak in leaks if leak.holder is not None}
    found = [run_json.leak_from_dict(each) for each in recorded.found] if grows else []
    leaks += [leak for leak in found if leak.holder is None or leak.holder.path not in known]
    return sorted(leaks, key=lambda leak: -(leak.bytes_per_step or 0.0))


def _verdict_so_far(recorded: Recorded, growing: Mapping[str, Trend], steps: int) -> str:
    if recorded.leaks:
        return "leak"
    if steps < verdict.SHORT:
        return "too-short"
    return "suspect" if verdict.telling(growing, recorded.series) else "clean"
