"""What several outputs say in the same words."""

from __future__ import annotations

from collections import Counter

from gradguard.findings import CheckResult, FileError, Severity

_NOUN = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}


def summary(result: CheckResult) -> str:
    """One line: how many problems of which severity, in how many files."""
    files = count(result.files, "file")
    if result.findings:
        severities = Counter(f.severity for f in result.findings)
        parts = ", ".join(count(severities[s], _NOUN[s]) for s in Severity if severities[s])
        text = f"Found {count(len(result.findings), 'problem')} ({parts}) in {files}."
    else:
        text = f"Nothing found in {files}."
    if result.errors:
        text += f" {count(len({e.path for e in result.errors}), 'path')} not fully checked."
    return text


def offer(result: CheckResult) -> str:
    """What ``gradguard fix`` can do of it; empty where it can do nothing."""
    fixes = [finding.fix for finding in result.findings if finding.fix is not None]
    safe = sum(fix.safe for fix in fixes)
    if not fixes:
        return ""
    if not safe:
        return f"`gradguard fix --unsafe-fixes` has an edit for {len(fixes)}."
    more = f", with --unsafe-fixes for {len(fixes) - safe} more" if safe < len(fixes) else ""
    return f"`gradguard fix` has an edit for {safe}{more}."


def place(path: str, cell: int | None, *numbers: int) -> str:
    """``path:line:column``, with the cell in between for a notebook."""
    return ":".join([path, *([f"cell {cell}"] if cell is not None else []), *map(str, numbers)])


def describe(error: FileError) -> str:
    """``path:line: what is wrong``."""
    return f"{place(error.path, None, *([error.line] if error.line is not None else []))}: {error.message}"


def count(number: int, noun: str) -> str:
    """``3 files``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
