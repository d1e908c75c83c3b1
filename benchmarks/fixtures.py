"""What the watch says of every fixture: leaks, clean twins and traps, at several lengths.

    python benchmarks/fixtures.py --steps 60 200 1000 [--device cuda]

Prints a Markdown table with one row for each wrong judgement, and the counts.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _environment import CHECKOUT, environment

FIXTURES = CHECKOUT / "fixtures"
MARK = re.compile(r"# leak: (?P<holder>.+)$", re.M)


@dataclass(frozen=True)
class Job:
    """One program at one length.

    Args:
        role: ``leak``, ``clean`` or ``trap``.
        steps: how many optimizer steps, or iterations.
        device: where its tensors are made.
    """

    script: Path
    role: str
    steps: int
    device: str


def jobs(steps: list[int], device: str) -> Iterator[Job]:
    """Every program at every length."""
    for length in steps:
        for folder in sorted(p for p in (FIXTURES / "leaks").iterdir() if p.is_dir()):
            yield Job(folder / "leak.py", "leak", length, device)
            yield Job(folder / "clean.py", "clean", length, device)
        for trap in sorted((FIXTURES / "traps").glob("*.py")):
            yield Job(trap, "trap", length, device)


def run(job: Job) -> dict[str, Any]:
    """The report of one program, watched in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "report.json"
        command = [sys.executable, "-m", "gradguard", "run", "--no-record", "--format", "json", "--output", str(output)]
        around = environment(job.steps, job.device)
        ended = subprocess.run(
            [*command, job.script.name], cwd=job.script.parent, env=around, capture_output=True, text=True
        )
        report: dict[str, Any] = json.loads(output.read_text(encoding="utf-8")) if output.exists() else {}
    return {**report, "said": (ended.stderr.strip().splitlines() or ["nothing"])[-1]} if ended.returncode else report


def truth(folder: Path) -> tuple[str, int, str]:
    """File, line and holder of a fixture's leak."""
    return next(
        (file.name, number, match["holder"])
        for file in sorted(folder.glob("*.py"))
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if (match := MARK.search(line))
    )


def judge(job: Job, report: dict[str, Any]) -> str:
    """``right``, or what is wrong."""
    if "said" in report:
        return f"did not run: {report['said']}"
    verdict, leaks = report["verdict"], report["leaks"]
    if verdict == "suspect" and [leak["kind"] for leak in leaks] == ["collected"]:
        verdict = {"leak": "leak", "trap": "clean"}.get(job.role, verdict)  # results kept on purpose: growth, no leak
    if job.role != "leak":
        return "right" if verdict == "clean" else f"called {verdict}"
    if not leaks or leaks[0]["holder"] is None or leaks[0]["stored_at"] is None:
        return f"called {verdict}, no holder"
    found = leaks[0]
    named = (found["stored_at"]["path"], found["stored_at"]["line"], found["holder"]["path"])
    if named != truth(job.script.parent):
        return f"named {named[2]} at {named[0]}:{named[1]}"
    return "right" if verdict == "leak" else f"named, called {verdict}"


def main() -> None:
    """Run all, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, nargs="+", default=[60, 200, 1000])
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--device", default="cpu", help="where the tensors are made (default: cpu)")
    arguments = parser.parse_args()
    todo = list(jobs(arguments.steps, arguments.device))
    counts: Counter[tuple[str, int, bool]] = Counter()
    print("| program | as | steps | judgement |\n|---|---|---:|---|")
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for job, report in zip(todo, pool.map(run, todo)):
            said = judge(job, report)
            counts[job.role, job.steps, said == "right"] += 1
            if said != "right":
                print(f"| {job.script.relative_to(FIXTURES)} | {job.role} | {job.steps} | {said} |", flush=True)
    print("\n| | " + " | ".join(f"{n} steps" for n in arguments.steps) + " |\n|---|" + "---:|" * len(arguments.steps))
    for role in ("leak", "clean", "trap"):
        cells = (
            f"{counts[role, n, True]} of {counts[role, n, True] + counts[role, n, False]}" for n in arguments.steps
        )
        print(f"| {role} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
