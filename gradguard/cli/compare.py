"""``gradguard compare``: two runs side by side."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from gradguard.cli._runs import FORMATS, load


@click.command("compare")
@click.option("--format", "style", type=click.Choice(FORMATS), default="console", help="How to report.")
@click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="When to use colour.")
@click.argument("before", type=click.Path(path_type=Path))
@click.argument("after", type=click.Path(path_type=Path))
def command(style: str, color: str, before: Path, after: Path) -> int:
    """Put two recorded runs side by side: growth, peaks, step time, and the leaks that are gone, new or still there.

    Exit with 1 when AFTER leaks more than BEFORE.
    """
    from gradguard.compare import compare

    (first, one), (second, two) = load(before), load(after)
    seconds = tuple(run.seconds_per_step if run is not None else None for run in (one, two))
    comparison = compare(first, second, (seconds[0], seconds[1]))
    if style == "json":
        from gradguard.report import compare_json

        sys.stdout.write(compare_json.render(comparison))
    else:
        from gradguard.report.compare_console import report
        from gradguard.report.terminal import console

        report(comparison, console(color))
    return int(comparison.leaks_more)
