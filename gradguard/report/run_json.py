"""A run for programs: the JSON form, version 1."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from gradguard import __version__
from gradguard.findings import Forecast, Growth, Holder, Leak, OutOfMemory, Place, RunReport

VERSION = 1


def render(report: RunReport) -> str:
    """``report`` as a JSON document; ASCII only."""
    return json.dumps(as_dict(report), indent=1) + "\n"


def parse(text: str, start: str) -> RunReport:
    """The report of a JSON document that :func:`render` has made.

    Args:
        text: the document.
        start: the directory in which the run began, to which its paths are relative.
    """
    return from_dict(json.loads(text), start)


def from_dict(document: Mapping[str, Any], start: str) -> RunReport:
    """The report that :func:`as_dict` has made a document of.

    Raises:
        KeyError, TypeError: it is none.
    """
    taken = {"verdict", "steps", "step_source", "unexplained_bytes_per_step", "peak", "exit_status"}
    return RunReport(
        **{key: document[key] for key in taken},
        growth={name: Growth(**grown) if grown else None for name, grown in document["growth"].items()},
        leaks=tuple(leak_from_dict(leak) for leak in document["leaks"]),
        forecast=Forecast(**document["forecast"]) if document["forecast"] else None,
        out_of_memory=OutOfMemory(**document["out_of_memory"]) if document["out_of_memory"] else None,
        microseconds_per_step=document["overhead"]["microseconds_per_step"],
        diagnosis_seconds=document["overhead"]["diagnosis_seconds"],
        notes=tuple(document["notes"]),
        command=tuple(document["command"]),
        start=start,
    )


def leak_from_dict(leak: Mapping[str, Any]) -> Leak:
    """The leak that :func:`leak_as_dict` has made a document of."""
    parts = {
        "holder": Holder(**leak["holder"]) if leak["holder"] else None,
        "stored_at": Place(**leak["stored_at"]) if leak["stored_at"] else None,
        "made_at": Place(**leak["made_at"]) if leak["made_at"] else None,
        "also_stored_at": tuple(Place(**each) for each in leak["also_stored_at"]),
        "devices": tuple(leak["devices"]),
        "ranks": tuple(leak["ranks"]),
    }
    return Leak(**{**leak, **parts})


def as_dict(report: RunReport) -> dict[str, Any]:
    """``report`` in the form of the schema: every key present, null when unknown."""
    growth = _growth(report.growth)
    return {
        "version": VERSION,
        "tool": {"name": "gradguard", "version": __version__},
        "verdict": report.verdict,
        "steps": report.steps,
        "step_source": report.step_source,
        "exit_status": report.exit_status,
        "command": list(report.command),
        "growth": growth,
        "leaks": [leak_as_dict(leak) for leak in report.leaks],
        "unexplained_bytes_per_step": report.unexplained_bytes_per_step,
        "forecast": asdict(report.forecast) if report.forecast else None,
        "out_of_memory": asdict(report.out_of_memory) if report.out_of_memory else None,
        "peak": dict(report.peak),
        "overhead": {
            "microseconds_per_step": report.microseconds_per_step,
            "diagnosis_seconds": report.diagnosis_seconds,
        },
        "notes": list(report.notes),
        "ranks": [0],
        "ranks_missing": [],
        "per_rank": {
            "0": {
                "growth": growth,
                "steps": report.steps,
                "verdict": report.verdict,
                "exit_status": report.exit_status,
            }
        },
    }


def _growth(growth: Mapping[str, Growth | None]) -> dict[str, Any]:
    return {name: asdict(grown) if grown else None for name, grown in growth.items()}


def leak_as_dict(leak: Leak) -> dict[str, Any]:
    """``leak`` in the form of the schema."""
    return {
        "kind": leak.kind,
        "rule": leak.rule,
        "bytes_per_step": leak.bytes_per_step,
        "per_step": leak.per_step,
        "explained": leak.explained,
        "holder": asdict(leak.holder) if leak.holder else None,
        "stored_at": _place(leak.stored_at),
        "also_stored_at": [_place(place) for place in leak.also_stored_at],
        "made_at": _place(leak.made_at),
        "operation": leak.operation,
        "devices": list(leak.devices),
        "freed_by_gc": leak.freed_by_gc,
        "advice": leak.advice,
        "ranks": list(leak.ranks),
    }


def _place(place: Place | None) -> dict[str, Any] | None:
    return asdict(place) if place else None
