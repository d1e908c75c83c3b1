"""``gradguard demo``: see both halves work on a script that leaks."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gradguard import catalogue
from gradguard.cli._common import console
from gradguard.config import Settings
from gradguard.editing import split_lines

if TYPE_CHECKING:
    from rich.console import Console

    from gradguard.findings import RunReport

SCRIPTS = Path(__file__).parent.parent / "demo"
STEPS = 200


class DemoError(click.ClickException):
    """A script of the demo did not run; the message has what it said."""


@click.command("demo")
def command() -> None:
    """See it work on a script that leaks.

    Checks and runs a small training script with two planted leaks, then the same script without them, and compares.
    Without torch it shows the half that reads code.
    """
    out = console()
    out.print("GradGuard demo: a training script with two planted leaks, and the same script without them.")
    out.print("One of them shows twice: its evaluation records graphs, and keeps them.\n")
    show_check(out, "leaky.py")
    out.print()
    if importlib.util.find_spec("torch") is None:
        show_check(out, "fixed.py")
        out.print("\nThe other half runs the script and measures it, and needs torch:")
        out.print("  pip install 'gradguard[torch]' && gradguard demo", soft_wrap=True)
    else:
        before = show_run(out, "leaky.py")
        out.print()
        show_check(out, "fixed.py")
        out.print()
        after = show_run(out, "fixed.py")
        show_comparison(out, before, after)
    out.print("\nBoth scripts are real and run alone, in this folder:", f"  {SCRIPTS}", sep="\n", soft_wrap=True)
    out.print("Next, your own code:", "  gradguard check path/to/your/project", "  gradguard fix --diff", sep="\n")
    out.print("  gradguard run train.py --your --arguments")


def show_check(out: Console, script: str) -> None:
    """Print the command that checks a script of the demo, and what it says."""
    # Imported here because libcst takes longer to load than `gradguard --help` to answer.
    from gradguard.report.console import report
    from gradguard.static.engine import check_text

    text = (SCRIPTS / script).read_text(encoding="utf-8")
    out.print(f"$ gradguard check {script}", style="bold")
    result = check_text(text, script, Settings(SCRIPTS), catalogue.load())
    report(result, lambda _, __: split_lines(text), out)


def show_run(out: Console, script: str) -> RunReport:
    """Run a script of the demo under GradGuard, in a process of its own, and print what it says.

    Raises:
        DemoError: it failed.
    """
    from gradguard.report import run_console, run_json

    out.print(f"$ gradguard run {script}", style="bold")
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "run.json"
        command = [
            sys.executable,
            "-m",
            "gradguard",
            "run",
            "--no-record",
            "--format",
            "json",
            "--output",
            str(output),
            script,
        ]
        environment = {**os.environ, "STEPS": str(STEPS), "PYTHONPATH": _path()}
        done = subprocess.run(
            command, cwd=SCRIPTS, env=environment, capture_output=True, text=True, encoding="utf-8", check=False
        )
        if done.returncode:
            raise DemoError(f"{script} did not run (exit status {done.returncode}):\n{done.stderr}")
        report = run_json.parse(output.read_text(encoding="utf-8"), str(SCRIPTS))
    out.print(done.stderr, end="", soft_wrap=True)  # what was said while it ran
    run_console.report(report, run_console.source_lines(report), out)
    return report


def _path() -> str:
    """This GradGuard is the one that is imported, wherever it was started from."""
    here = str(Path(__file__).resolve().parent.parent.parent)
    return os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])


def show_comparison(out: Console, before: RunReport, after: RunReport) -> None:
    """Print what the fixes changed, measured."""
    from rich.table import Table

    from gradguard.report.run_words import growth_rate, size

    def growth(run: RunReport, signal: str) -> str:
        grown = run.growth.get(signal)
        return growth_rate(grown) if grown is not None else "not known here"

    def holders(run: RunReport) -> str:
        return ", ".join(leak.holder.name for leak in run.leaks if leak.holder) or "none"

    runs = (before, after)
    table = Table("", "leaky.py", "fixed.py", box=None, pad_edge=False, header_style="bold")
    table.add_row("verdict", *(run.verdict for run in runs))
    table.add_row("held by", *(holders(run) for run in runs))
    table.add_row("live graphs", *(growth(run, "graphs") for run in runs))
    table.add_row("heap", *(growth(run, "heap") for run in runs))
    table.add_row("heap at its peak", *(size(run.peak.get("heap")) for run in runs))
    out.print()
    out.print(f"Before and after, over {before.steps} steps:", style="bold")
    out.print(table)
