"""A run on disk: JSON Lines, append-only, readable after ``kill -9``.

One object a line, with one key that says what it is:

- ``start``: when, where, what was run; the first line.
- ``torch``: its version, once it is imported.
- ``sample``: the signals at the end of one step: ``step``, ``seconds`` since the start, and a value by signal.
- ``restart``: a better source of steps was found; what was counted before does not count.
- ``step_source``: what ends steps from now on.
- ``found``: all that is diagnosed by now, certain or not, in the same form; it takes the place of the one before.
- ``leak``: one that is confirmed, as in the report, with the source lines around its statements.
- ``end``: the report, in the form of ``--format json``, with the source lines around its statements.

Steps are thinned the longer the run lasts: some thousand lines for ten million steps.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, TextIO

from gradguard.runtime.series import Series

VERSION = 1
FOLDER = Path(".gradguard", "runs")

DENSE = 256
"""So many samples are written in full; after that, one for each 256th part of the steps so far."""

Document = Mapping[str, Any]
SourceLines = Mapping[str, Mapping[int, str]]
"""Lines of source by path and number."""


class Recording:
    """Writes one run down.

    Args:
        path: the file; it must not exist yet.
        command: what is run.
        start: the directory in which it began.
        tool: GradGuard's version.

    Raises:
        OSError: it cannot be written.
    """

    def __init__(self, path: Path, *, command: tuple[str, ...], start: str, tool: str) -> None:
        self.path = path
        self._pid = os.getpid()
        self._next = 1
        self._step_source: str | None = None
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: TextIO | None = path.open("x", encoding="utf-8", buffering=1)
        self._write(
            "start",
            {
                "version": VERSION,
                "gradguard": tool,
                "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "pid": self._pid,
                "command": command,
                "directory": start,
                "python": platform.python_version(),
            },
        )

    def torch(self, version: str) -> None:
        """Note which torch the program uses."""
        self._write("torch", str(version))

    def sample(self, step: int, seconds: float, values: Mapping[str, float]) -> None:
        """Note the signals at the end of ``step``, ``seconds`` after the start; not every step of a long run is."""
        if step >= self._next:
            self._next = step + max(step // DENSE, 1)
            self._write("sample", {"step": step, "seconds": round(seconds, 4), **values})

    def start_over(self) -> None:
        """Steps are counted in another unit from now on."""
        self._next = 1
        self._write("restart", True)

    def step_source(self, source: str | None) -> None:
        """Note what ends steps, where it is another than before."""
        if source != self._step_source:
            self._step_source = source
            self._write("step_source", source)

    def found(self, leaks: Sequence[Document], source: SourceLines) -> None:
        """Note all that is diagnosed by now."""
        self._write("found", {"leaks": leaks, "source": source})

    def leak(self, leak: Document, source: SourceLines) -> None:
        """Note a leak the moment it is confirmed."""
        self._write("leak", {"leak": leak, "source": source})

    def end(self, report: Document, source: SourceLines) -> None:
        """Note the report, and write no more."""
        self._write("end", {"report": report, "source": source})
        if self._file is not None and os.getpid() == self._pid:
            self._file.close()
            self._file = None

    def _write(self, what: str, value: object) -> None:
        """One line, in the kernel's hands when this returns; a full disk ends the recording, never the program."""
        if self._file is None or os.getpid() != self._pid:  # a forked child has its parent's file
            return
        try:
            self._file.write(json.dumps({what: value}, separators=(",", ":")) + "\n")
        except (OSError, ValueError):
            self._file = None


def default_path(start: Path) -> Path:
    """Where a run that begins now is recorded: ``.gradguard/runs/<time>-<pid>.jsonl`` below ``start``."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    return start / FOLDER / f"{stamp}-{os.getpid()}.jsonl"


def keep_out_of_git(folder: Path) -> None:
    """Recordings are nobody's source: the folder tells git to ignore it, as tools do with their caches."""
    ignore = folder / ".gitignore"
    if folder.is_dir() and not ignore.exists():
        ignore.write_text("*\n", encoding="utf-8")


# --- reading ------------------------------------------------------------------------------------------------------


class RecordingError(Exception):
    """A file is no recording; the message names it and says why."""


@dataclass(slots=True)
class Recorded:
    """What a recording tells.

    Args:
        path: the file.
        start: the first line: version, gradguard, time, pid, command, directory, python.
        series: the samples, by signal.
        timing: step and seconds of each sample.
        leaks: those that were confirmed while it ran, as documents.
        found: all that was diagnosed by its end, certain or not.
        step_source: what ended steps.
        report: as a document; None when the end of the run was not seen.
        source: lines around the statements, as they were in the run.
        torch: its version.
    """

    path: Path
    start: Document
    series: dict[str, Series] = field(default_factory=dict)
    timing: list[tuple[int, float]] = field(default_factory=list)
    leaks: list[Document] = field(default_factory=list)
    found: list[Document] = field(default_factory=list)
    step_source: str | None = None
    report: Document | None = None
    source: dict[str, dict[int, str]] = field(default_factory=dict)
    torch: str | None = None

    @property
    def seconds_per_step(self) -> float | None:
        """The median over the run: the first steps, and those in which something was looked at closely, are slower."""
        pairs = [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(self.timing) if b[0] > a[0]]
        return median(seconds / steps for steps, seconds in pairs) if pairs else None

    @property
    def peaks(self) -> dict[str, int]:
        """The most of each signal."""
        return {name: int(s.peak) for name, s in self.series.items() if s.peak is not None}


def read(path: Path) -> Recorded:
    """Read a recording; a last line that was cut off in the midst is left out.

    Raises:
        RecordingError: it cannot be read, or is none.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise RecordingError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    first = _parsed(lines[0])
    start = first.get("start")
    if not isinstance(start, dict) or "version" not in start:
        raise RecordingError(f"{path}: is no recording of `gradguard run` (its first line has no `start`)")
    if start["version"] != VERSION:
        raise RecordingError(f"{path}: is a recording of version {start['version']}; this GradGuard reads {VERSION}")
    recorded = Recorded(path, start)
    for line in lines[1:]:
        for what, value in _parsed(line).items():
            _take(recorded, what, value)
    return recorded


def _parsed(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line) if line else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _take(recorded: Recorded, what: str, value: Any) -> None:
    if what == "sample":
        sample = dict(value)
        step, seconds = sample.pop("step"), sample.pop("seconds")
        recorded.timing.append((step, seconds))
        for name, number in sample.items():
            recorded.series.setdefault(name, Series()).add(step, number)
    elif what == "restart":
        recorded.series, recorded.timing = {}, []
    elif what == "torch":
        recorded.torch = value
    elif what == "step_source":
        recorded.step_source = value
    elif what in ("leak", "found", "end"):
        for path, lines in value["source"].items():
            recorded.source.setdefault(path, {}).update((int(number), text) for number, text in lines.items())
        if what == "leak":
            recorded.leaks.append(value["leak"])
        elif what == "found":
            recorded.found = value["leaks"]
        else:
            recorded.report = value["report"]
