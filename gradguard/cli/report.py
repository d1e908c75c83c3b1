"""``gradguard report``: a recorded run again."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from gradguard.cli._runs import FORMATS, load, render


@click.command("report")
@click.option("--format", "style", type=click.Choice(FORMATS), default="console", help="How to report.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the report to this file.")
@click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="When to use colour.")
@click.argument("run", type=click.Path(path_type=Path), required=False, metavar="[RUN]")
def command(style: str, output: Path | None, color: str, run: Path | None) -> None:
    """Show a recorded run again: RUN is a recording, or what `gradguard run --format json` wrote.

    Without RUN, the latest recording below .gradguard/runs is shown.
    """
    report, _ = load(run)
    if output is None:
        render(report, style, sys.stdout, color)
        return
    try:
        with output.open("w", encoding="utf-8") as file:
            render(report, style, file, "never")
    except OSError as error:
        raise click.UsageError(f"--output: cannot write {output}: {error.strerror}") from error
