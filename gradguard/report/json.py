"""Findings for programs: the JSON form, version 1."""

from __future__ import annotations

import json
from typing import Any

from gradguard import __version__
from gradguard.findings import CheckResult, Evidence, FileError, Finding, Fix, Related, Span

VERSION = 1


def render(result: CheckResult) -> str:
    """``result`` as a JSON document; ASCII only, so that no terminal or pipe can spoil it."""
    return json.dumps(as_dict(result), indent=1) + "\n"


def as_dict(result: CheckResult) -> dict[str, Any]:
    """``result`` in the form of the schema: every key present, null when unknown."""
    return {
        "version": VERSION,
        "tool": {"name": "gradguard", "version": __version__},
        "files": result.files,
        "findings": [_finding(f) for f in result.findings],
        "errors": [_error(e) for e in result.errors],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity.value,
        "confidence": finding.confidence.value,
        "path": finding.path,
        "cell": finding.cell,
        **_span(finding.span),
        "message": finding.message,
        "help": finding.help,
        "fix": _fix(finding.fix) if finding.fix else None,
        "related": [_related(r) for r in finding.related],
        "evidence": _evidence(finding.evidence) if finding.evidence else None,
    }


def _span(span: Span) -> dict[str, int]:
    return {"line": span.line, "column": span.column, "end_line": span.end_line, "end_column": span.end_column}


def _fix(fix: Fix) -> dict[str, Any]:
    edits = [{**_span(edit.span), "text": edit.text} for edit in fix.edits]
    return {"safe": fix.safe, "description": fix.description, "edits": edits}


def _related(related: Related) -> dict[str, Any]:
    return {"path": related.path, "cell": related.cell, "line": related.line, "message": related.message}


def _evidence(evidence: Evidence) -> dict[str, Any]:
    return {"status": evidence.status, "bytes_per_step": evidence.bytes_per_step, "run": evidence.run}


def _error(error: FileError) -> dict[str, Any]:
    return {"path": error.path, "line": error.line, "message": error.message}
