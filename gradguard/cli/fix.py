"""``gradguard fix``: make the edits that end what ``gradguard check`` finds."""

from __future__ import annotations

import dataclasses
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gradguard.cli import _checking
from gradguard.cli._common import cell_texts, console, source_reader
from gradguard.findings import CheckResult, FileError

if TYPE_CHECKING:
    from rich.console import Console

    from gradguard.static.fix import Outcome


@click.command("fix")
@_checking.options
@click.option("--diff", is_flag=True, help="Show what would change, and change nothing.")
@click.option("--unsafe-fixes", is_flag=True, help="Make edits too that can change what the program computes.")
def command(diff: bool, unsafe_fixes: bool, **options: Any) -> int:
    """Make the edits that end what `gradguard check` finds.

    An edit is kept when its finding is gone after it and nothing else has come. Those that can change what a program
    computes wait for --unsafe-fixes. With a path of - the text is read from standard input and written to standard
    output. The exit status is 0 when nothing is left to do, 1 when something is found still or a diff was printed,
    and 2 when something could not be checked or written.
    """
    from gradguard.static.fix import fix

    asked = _checking.Asked(**options)
    task = _checking.task(asked, repeated=True)
    outcome = fix(task.files, task.check, task.read, unsafe=unsafe_fixes)
    if diff:
        _print_diff(task, outcome, console(asked.color))
    elif asked.reads_stdin:
        _print_text(task, outcome)
    else:
        outcome = _written(task, outcome)
    _report(task, outcome, diff, console(asked.color, sys.stderr if diff or asked.reads_stdin else sys.stdout))
    return 1 if diff and outcome.contents and not outcome.result.errors else outcome.result.exit_status


def _written(task: _checking.Task, outcome: Outcome) -> Outcome:
    """Write the files; what could not be written is an error of the outcome, and not made."""
    from gradguard.static.discover import shown

    problems: list[FileError] = []
    for path, content in outcome.contents.items():
        try:
            _write(path, content)
        except OSError as error:
            problems.append(
                FileError(shown(path), None, f"cannot be written: {(error.strerror or str(error)).lower()}")
            )
    failed = {problem.path for problem in problems}
    made = tuple(finding for finding in outcome.made if finding.path not in failed)
    contents = {path: content for path, content in outcome.contents.items() if shown(path) not in failed}
    result: CheckResult = task.check({}) if failed else outcome.result
    result = dataclasses.replace(result, errors=tuple(sorted({*result.errors, *problems}, key=_checking.error_key)))
    return dataclasses.replace(outcome, contents=contents, made=made, result=result)


def _write(path: Path, content: bytes) -> None:
    """Put a new file in the place of the old one, whole or not at all; a link still leads to it, its mode stays."""
    place = path.resolve()
    if place.stat().st_nlink > 1 or not os.access(place, os.W_OK):
        place.write_bytes(content)  # it has another name, too; or the reason why it cannot be written is told
        return
    handle, name = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        shutil.copymode(place, name)
        os.replace(name, place)
    except BaseException:
        os.unlink(name)
        raise


def _print_diff(task: _checking.Task, outcome: Outcome, out: Console) -> None:
    from gradguard.report import diff
    from gradguard.static.discover import shown

    for path, content in sorted(outcome.contents.items()):
        name = shown(path)
        diff.show(name, cell_texts(task.read(path), name), cell_texts(content, name), out)


def _print_text(task: _checking.Task, outcome: Outcome) -> None:
    """The text of standard input after the edits, byte by byte."""
    for path in task.files:
        content = outcome.contents[path] if path in outcome.contents else task.read(path)
        sys.stdout.buffer.write(content)
        sys.stdout.flush()


def _report(task: _checking.Task, outcome: Outcome, diff: bool, out: Console) -> None:
    from gradguard.report import fix_console

    if diff:
        fix_console.errors(outcome.result, out)
    else:
        fix_console.made(outcome.made, out)
        contents = {str(path): content for path, content in outcome.contents.items()}
        sources = source_reader(lambda path: contents.get(str(path.absolute())) or task.read(path))
        fix_console.left(outcome.result, sources, out)
    fix_console.summary(outcome.made, outcome.undone, outcome.result, out, diff=diff)
