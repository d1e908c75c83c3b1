"""``gradguard check``: find leaks in source code."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from gradguard.cli import _checking
from gradguard.cli._common import console, source_reader
from gradguard.findings import CheckResult

if TYPE_CHECKING:
    from gradguard.report.console import SourceLines

FORMATS = ("console", "concise", "json")


@click.command("check")
@_checking.options
@click.option("--format", "style", type=click.Choice(FORMATS), default="console", help="How to report.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the report to this file.")
@click.option("--exit-zero", is_flag=True, help="Exit with 0 also when something is found.")
def command(style: str, output: Path | None, exit_zero: bool, **options: Any) -> int:
    """Find leaks in source code.

    PATHS are Python files, notebooks and folders; the working directory when none is given. A path of - reads
    standard input. The exit status is 0 when nothing is found, 1 when something is, and 2 when something could not
    be checked.
    """
    asked = _checking.Asked(**options)
    task = _checking.task(asked)
    result = task.check({})
    _report(result, source_reader(task.read), style, output, asked.color)
    return 0 if exit_zero and result.exit_status == 1 else result.exit_status


def _report(result: CheckResult, sources: SourceLines, style: str, output: Path | None, color: str) -> None:
    if output is None:
        _write(result, sources, style, sys.stdout, color)
        return
    try:
        with output.open("w", encoding="utf-8") as file:
            _write(result, sources, style, file, "never")
    except OSError as error:
        raise click.UsageError(f"--output: cannot write {output}: {error.strerror}") from error


def _write(result: CheckResult, sources: SourceLines, style: str, file: TextIO, color: str) -> None:
    if style == "json":
        from gradguard.report import json

        file.write(json.render(result))
    elif style == "concise":
        from gradguard.report import concise
        from gradguard.report.words import summary

        file.write(concise.render(result))
        click.echo(summary(result), err=True)
    elif not result.findings and not result.errors:
        from gradguard.report.words import summary

        click.echo(summary(result), file=file)  # rich takes a quarter of the time that a small file does
    else:
        from gradguard.report.console import report

        report(result, sources, console(color, file))
