"""One line for each finding, as editors and grep like it: ``path:line:column: GG103 message``."""

from __future__ import annotations

from gradguard.findings import CheckResult, Finding
from gradguard.report.words import describe, place


def render(result: CheckResult) -> str:
    """The findings, then the files that could not be checked."""
    lines = [_finding(f) for f in result.findings] + [f"error: {describe(e)}" for e in result.errors]
    return "".join(f"{line}\n" for line in lines)


def _finding(finding: Finding) -> str:
    where = place(finding.path, finding.cell, finding.span.line, finding.span.column)
    return f"{where}: {finding.code} {' '.join(finding.message.splitlines())}"
