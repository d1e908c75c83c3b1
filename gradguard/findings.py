"""What both halves report, as plain frozen data.

Nothing here imports torch, libcst, rich or click: a finding crosses processes and caches.
"""

from __future__ import annotations

from dataclasses import dataclass
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
