"""Do the edits end the leaks? Each leaking fixture, or any other script, is run, fixed, and run again.

    python benchmarks/fixes.py [--steps 200] [--safe] [SCRIPT ...]

Of each program: what ``gradguard fix --unsafe-fixes`` edits in a copy of its folder, and what a run says before and
after. ``gone`` is a run that is clean after the edits. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from _environment import CHECKOUT, environment

LEAKS = CHECKOUT / "fixtures" / "leaks"


@dataclass(frozen=True)
class Row:
    """What became of one program."""

    name: str
    edits: list[str]
    before: str
    after: str

    @property
    def outcome(self) -> str:
        """gone, left, or why it cannot be said."""
        if not self.edits:
            return "no edit"
        return (
            "gone" if self.before in ("leak", "suspect") and self.after == "clean" else f"{self.before}, {self.after}"
        )


def verdict(folder: Path, script: str, steps: int) -> str:
    """What a run says of a script."""
    output = folder / "report.json"
    command = [sys.executable, "-m", "gradguard", "run", "--no-record", "--format", "json", "--output", str(output)]
    ended = subprocess.run(
        [*command, script], cwd=folder, env=environment(steps, "cpu"), capture_output=True, text=True
    )
    report: dict[str, Any] = json.loads(output.read_text(encoding="utf-8")) if output.exists() else {}
    if ended.returncode:
        return f"failed: {(ended.stderr.strip().splitlines() or ['nothing said'])[-1]}"
    return str(report["verdict"])


def row(script: Path, steps: int, options: list[str]) -> Row:
    """Run, fix, and run again, in a copy."""
    name = script.parent.name if script.parent.parent == LEAKS else script.stem
    with tempfile.TemporaryDirectory() as above:
        folder = Path(above) / "program"
        if script.parent.parent == LEAKS:
            shutil.copytree(script.parent, folder)
            (folder / "clean.py").unlink(missing_ok=True)
        else:
            folder.mkdir()
            shutil.copy(script, folder)
        before = verdict(folder, script.name, steps)
        fix = [sys.executable, "-m", "gradguard", "fix", "--isolated", "--no-cache", "--color", "never", *options]
        said = subprocess.run([*fix, "."], cwd=folder, env=environment(steps, "cpu"), capture_output=True, text=True)
        edits = [line.removeprefix("fixed: ") for line in said.stdout.splitlines() if line.startswith("fixed: ")]
        return Row(name, edits, before, verdict(folder, script.name, steps) if edits else before)


def main() -> None:
    """Run all, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scripts", nargs="*", type=Path)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--safe", action="store_true", help="only edits that change nothing but memory")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    scripts = [path.resolve() for path in arguments.scripts] or sorted(LEAKS.glob("*/leak.py"))
    one = partial(row, steps=arguments.steps, options=[] if arguments.safe else ["--unsafe-fixes"])
    rows = []
    print("| program | edits | after them |\n|---|---|---|")
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for each in pool.map(one, scripts):
            rows.append(each)
            print(f"| {each.name} | {'; '.join(each.edits)} | {each.outcome} |", flush=True)
    edited = [each for each in rows if each.edits]
    print(f"\n{sum(each.outcome == 'gone' for each in rows)} of {len(edited)} edited, of {len(rows)}")


if __name__ == "__main__":
    main()
