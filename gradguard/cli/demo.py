"""``gradguard demo``: see it work on a script that leaks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gradguard import catalogue
from gradguard.cli._common import console, split_lines
from gradguard.config import Settings

if TYPE_CHECKING:
    from rich.console import Console

SCRIPTS = Path(__file__).parent.parent / "demo"


@click.command("demo")
def command() -> None:
    """See it work on a script that leaks.

    Checks a small training script with two planted leaks, then the same script without them. Needs no torch.
    """
    out = console()
    out.print("GradGuard demo: a training script with two planted leaks, and the same script without them.")
    out.print("One of them shows twice: its evaluation records graphs, and keeps them.\n")
    show_check(out, "leaky.py")
    out.print()
    show_check(out, "fixed.py")
    out.print("\nBoth scripts are real and run alone, in this folder:", f"  {SCRIPTS}", sep="\n", soft_wrap=True)
    out.print("Next, your own code:", "  gradguard check path/to/your/project", sep="\n")


def show_check(out: Console, script: str) -> None:
    """Print the command that checks a script of the demo, and what it says."""
    # Imported here because libcst takes longer to load than `gradguard --help` to answer.
    from gradguard.report.console import report
    from gradguard.static.engine import check_text

    text = (SCRIPTS / script).read_text(encoding="utf-8")
    out.print(f"$ gradguard check {script}", style="bold")
    result = check_text(text, script, Settings(SCRIPTS), catalogue.load())
    report(result, lambda _, __: split_lines(text), out)
