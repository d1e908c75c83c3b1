"""After a run: its leaks beside the static findings of the same lines, rules and fixes attached.

The only place that knows both halves.
"""

from __future__ import annotations

import os
import tokenize
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gradguard import catalogue
from gradguard.config import Settings
from gradguard.findings import Confidence, Finding, Leak, RunReport


def with_rules(report: RunReport) -> RunReport:
    """``report`` with the rule on each leak that a rule knows from how it looks in a run.

    Reads no source and needs no libcst: for inside of the watched process.
    """
    rules = catalogue.load()
    return replace(report, leaks=tuple(_matched(leak, rules) for leak in report.leaks))


def with_rule(leak: Leak) -> Leak:
    """``leak`` with the rule that knows it from how it looks in a run, if there is one."""
    return _matched(leak, catalogue.load())


def with_findings(report: RunReport) -> RunReport:
    """``report`` with the rule and the advice of the finding that reading the source makes at the same statement.

    A leak whose statement has no finding keeps what :func:`with_rules` says.
    """
    joined = with_rules(report)
    findings = [f for f in _findings(joined) if _is_as_run(f.path, report)]
    return replace(joined, leaks=tuple(_explained(leak, findings, report.start) for leak in joined.leaks))


def _is_as_run(path: str, report: RunReport) -> bool:
    """Whether a file has on disk the lines that the run had around its statements."""
    file = _absolute(path, os.getcwd())
    kept = [lines for name, lines in report.source.items() if _absolute(name, report.start) == file]
    try:
        with tokenize.open(file) as text:
            now = [line.rstrip("\r\n") for line in text] if kept else []
    except (OSError, SyntaxError, UnicodeDecodeError):
        return False
    return all(lines and all(now[n - 1 : n] == [text] for n, text in lines.items()) for lines in kept)


def _matched(leak: Leak, rules: catalogue.Catalogue) -> Leak:
    for rule in rules:
        if rule.run_check is not None and rule.run_check(leak):
            return replace(leak, rule=rule.code)
    return leak


def _explained(leak: Leak, findings: Sequence[Finding], start: str) -> Leak:
    if leak.stored_at is None or leak.kind in ("heap", "collected"):
        return leak
    stored = (_absolute(leak.stored_at.path, start), leak.stored_at.line)
    exact = [f for f in findings if (_absolute(f.path, os.getcwd()), f.span.line) == stored]
    behind = [f for f in findings if any((_absolute(r.path, os.getcwd()), r.line) == stored for r in f.related)]
    # The rule that the run recognised is the best of several; one that is only about the call stands back.
    chosen = sorted(exact, key=lambda f: f.code != leak.rule) or [f for f in behind if leak.rule is None]
    if not chosen:
        return leak
    first = chosen[0]
    advice = first.help or (first.fix.description if first.fix else None)
    return replace(leak, rule=first.code, advice=advice or leak.advice)


def _findings(report: RunReport) -> Sequence[Finding]:
    """What reading says about the files in which something is stored or made, together: calls are followed.

    The program's own script is read with them: often it alone has the loop that calls into the others.
    """
    places = [p.path for leak in report.leaks for p in (leak.stored_at, leak.made_at) if p is not None]
    named = [*places, *_program(report)] if places else []
    files = sorted({Path(_absolute(path, report.start)) for path in named if path.endswith(".py")})
    files = [file for file in files if file.is_file()]
    if not files:
        return ()
    try:
        from gradguard.static.engine import check
    except ImportError:  # no libcst
        return ()
    settings = Settings(Path(report.start), min_confidence=Confidence.LOW)
    return check(files, settings, catalogue.load()).findings


def _program(report: RunReport) -> list[str]:
    """The file of the program; of a module (``-m``) what it may be, from where the run began."""
    if report.command[:1] != ("-m",):
        return list(report.command[:1])
    folders = "/".join(report.command[1:2]).replace(".", "/")
    return [f"{folders}.py", f"{folders}/__main__.py"]


def _absolute(path: str, start: str) -> str:
    return os.path.realpath(os.path.join(start, path))
