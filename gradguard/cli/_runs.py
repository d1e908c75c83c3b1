"""Runs on disk and runs on a screen: what ``run``, ``report`` and ``compare`` share."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TextIO

import click

from gradguard import ending
from gradguard.findings import RunReport
from gradguard.runtime.recording import FOLDER, Recorded

FORMATS = ("console", "json")


def load(path: Path | None) -> tuple[RunReport, Recorded | None]:
    """The report of a run on disk, with its samples if it is a recording.

    Args:
        path: a recording, or the JSON form of a report; None for the latest recording.

    Raises:
        click.UsageError: there is none, or it cannot be read.
    """
    from gradguard.record import RecordingError
    from gradguard.record import load as load_recording

    found = path or _latest()
    if found.is_dir():
        raise click.UsageError(f"{found}: is a folder; name one recording in it")
    report = _json_report(found)
    if report is not None:
        return report, None
    try:
        report, recorded = load_recording(found)
    except RecordingError as error:
        raise click.UsageError(str(error)) from error
    if recorded.report is None:  # it was killed before the rules were asked
        report = ending.explained(report, reads_source=True)
    return report, recorded


def _latest() -> Path:
    recordings = sorted(FOLDER.glob("*.jsonl"), key=lambda p: p.stat().st_mtime)
    if not recordings:
        raise click.UsageError(f"no run is recorded in {FOLDER}; `gradguard run SCRIPT` records one")
    return recordings[-1]


def _json_report(path: Path) -> RunReport | None:
    """What ``--format json`` wrote; None where it is something else."""
    from gradguard.report import run_json

    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return replace(run_json.from_dict(document, str(path.parent)), start=".")
    except (OSError, ValueError, KeyError, TypeError):
        return None


def render(report: RunReport, style: str, file: TextIO, color: str) -> None:
    """Write a report.

    Args:
        style: one of ``FORMATS``.
        file: where to.
        color: auto, always or never.
    """
    if style == "json":
        from gradguard.report import run_json

        file.write(run_json.render(report))
        return
    from gradguard.report.run_console import report as show
    from gradguard.report.run_console import source_lines
    from gradguard.report.terminal import console

    show(report, source_lines(report), console(color, file))
