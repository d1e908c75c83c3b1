"""What both halves report, as plain frozen data.

Nothing here imports torch, libcst, rich or click: a finding crosses processes and caches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class Severity(str, Enum):
    """How much a finding matters, from what was measured."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Confidence(str, Enum):
    """How sure the analysis is. ``HIGH`` is reported by default."""

    HIGH = "high"
    LOW = "low"


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A stretch of source text.

    Args:
        line: first line, from 1 (within the cell in a notebook).
        column: first column in Unicode code points, from 1.
        end_line: last line, from 1.
        end_column: the column after the last one (exclusive).
    """

    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """Replace the text of ``span`` by ``text``; an empty span inserts."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Fix:
    """Edits to the finding's own file and cell, applied at once, without overlap.

    Args:
        description: what the edit does, in a few words.
        edits: the text edits.
        safe: the program's results cannot change except for the memory that it keeps.
    """

    description: str
    edits: tuple[Edit, ...]
    safe: bool


@dataclass(frozen=True, slots=True)
class Related:
    """Another place that explains a finding."""

    path: str
    cell: int | None
    line: int
    message: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a run said about a static finding (filled in by ``gradguard.join``).

    Args:
        status: ``confirmed``, ``flat`` or ``not-reached``.
        bytes_per_step: measured growth in bytes per step, if any.
        run: the recording that says so.
    """

    status: str
    bytes_per_step: float | None
    run: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One leak pattern at one place in the source."""

    code: str
    name: str
    severity: Severity
    confidence: Confidence
    path: str
    cell: int | None
    span: Span
    message: str
    help: str | None = None
    fix: Fix | None = None
    related: tuple[Related, ...] = ()
    evidence: Evidence | None = None

    @property
    def sort_key(self) -> tuple[str, int, int, int, str]:
        """Path, cell, line, column, code: the order of every output."""
        return (self.path, self.cell or 0, self.span.line, self.span.column, self.code)


@dataclass(frozen=True, slots=True, order=True)
class FileError:
    """A file (or a part of one) that could not be analysed."""

    path: str
    line: int | None
    message: str


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The outcome of ``gradguard check``.

    Args:
        files: how many files were looked at.
        findings: sorted by :attr:`Finding.sort_key`.
        errors: files that could not be analysed.
    """

    files: int
    findings: tuple[Finding, ...]
    errors: tuple[FileError, ...]

    @property
    def exit_status(self) -> int:
        """0 nothing found, 1 findings, 2 something could not be analysed."""
        if self.errors:
            return 2
        return 1 if self.findings else 0


# --- what a run says ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Place:
    """A statement of the user's code.

    Args:
        path: relative to the starting directory when inside it, else absolute.
        line: the statement's first line, from 1.
        code: the statement's text on one line; None when the source cannot be read.
    """

    path: str
    line: int
    code: str | None


@dataclass(frozen=True, slots=True)
class Holder:
    """The variable that keeps a leak alive.

    Args:
        name: the last identifier stored into, without ``self.`` or subscripts: ``history``.
        path: the whole path: ``train_epoch.running``, ``Trainer.history[*]["loss"]``.
        type: the qualified type name of what the variable holds.
        scope: local, global, attribute, closure, class, default, cache, exception, worker or internal.
    """

    name: str
    path: str
    type: str
    scope: str


def is_beside(signal: str) -> bool:
    """Whether a signal is read beside another one, and no verdict rests on it: ``cuda:0.reserved``."""
    return "." in signal


@dataclass(frozen=True, slots=True)
class Growth:
    """How a signal grows.

    Args:
        bytes_per_step: for a signal in bytes.
        per_step: for a signal that counts.
        since_step: the first step of the growth.
        confidence: from 0 to 1.
    """

    bytes_per_step: float | None
    per_step: float | None
    since_step: int | None
    confidence: float | None


@dataclass(frozen=True, slots=True)
class Leak:
    """What keeps growing, who holds it, and which statement stores it.

    Args:
        kind: graph, tensor, view, gradient, hook, cache, cycle, exception, snapshot, optimizer, worker, collected
            or heap.
        holder: None when no variable was found that explains it.
        bytes_per_step: bytes that it adds in a step, over all devices.
        per_step: tensors (or hooks, graphs) that it gains in a step.
        explained: its share, from 0 to 1, of the growth that was measured.
        form: how the statement stores: sum, average, append, assign, index, carried, hook, call, or None.
        rule: the code of the matching rule.
        operation: the autograd operation at the head of the graph that was stored last.
        freed_by_gc: whether ``gc.collect()`` frees it; None when that was not tried.
        advice: the edit that ends it, in a few words.
    """

    kind: str
    holder: Holder | None
    bytes_per_step: float | None
    per_step: float | None
    explained: float | None
    stored_at: Place | None = None
    also_stored_at: tuple[Place, ...] = ()
    made_at: Place | None = None
    form: str | None = None
    rule: str | None = None
    operation: str | None = None
    devices: tuple[str, ...] = ()
    freed_by_gc: bool | None = None
    advice: str | None = None
    ranks: tuple[int, ...] = (0,)


@dataclass(frozen=True, slots=True)
class Forecast:
    """When memory ends at the measured rate."""

    device: str
    steps_left: int
    seconds_left: float | None


@dataclass(frozen=True, slots=True)
class OutOfMemory:
    """An out-of-memory error that ended the watched code."""

    device: str
    step: int
    message: str


@dataclass(frozen=True, slots=True)
class RunReport:
    """The outcome of a watch.

    Args:
        verdict: leak, suspect, clean or too-short.
        steps: how many steps ended.
        step_source: what ended them: explicit, optimizer, loader, backward or module.
        growth: by signal (graphs, heap, process, cuda:0 ...); None for one that is not available, and no entry
            values for one that is flat.
        leaks: one for each holder, by bytes per step.
        unexplained_bytes_per_step: the growth that no leak explains.
        peak: by signal, in bytes.
        microseconds_per_step: GradGuard's own work in the steady state.
        diagnosis_seconds: GradGuard's own work in censuses and tracing.
        notes: what the reader should know about this run, in sentences.
        exit_status: of the program; None when it is not known.
        command: what was run.
        start: the directory in which the run began; paths of places are relative to it.
        source: the lines around the leaks' statements as the run read them, by path and number.
    """

    verdict: str
    steps: int
    step_source: str | None
    growth: Mapping[str, Growth | None]
    leaks: tuple[Leak, ...]
    unexplained_bytes_per_step: float | None = None
    forecast: Forecast | None = None
    out_of_memory: OutOfMemory | None = None
    peak: Mapping[str, int | None] = field(default_factory=dict)
    microseconds_per_step: float | None = None
    diagnosis_seconds: float | None = None
    notes: tuple[str, ...] = ()
    exit_status: int | None = None
    command: tuple[str, ...] = ()
    start: str = "."
    source: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
