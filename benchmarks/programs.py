"""What the watch says of ordinary training programs, as they are and with one slip each.

    python benchmarks/programs.py --steps 200 1000 [--device cuda]

Prints a Markdown table for each length. A program whose package is not installed is skipped, with a row that says so.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _environment import CHECKOUT, environment

PROGRAMS = CHECKOUT / "fixtures" / "programs"
MARK = re.compile(r"# leak: (?P<holder>.+)$", re.M)
NEEDS = {"lightning": ("lightning",), "trainer": ("transformers", "accelerate")}
HEAD = (
    "| program | what it is | clean: verdict | leak: verdict, variable, line | bytes a step |\n|---|---|---|---|---:|"
)


@dataclass(frozen=True)
class Job:
    """One run of one program.

    Args:
        leaks: whether the slip is laid over the program.
        steps: how many optimizer steps, or iterations.
        device: where its tensors are made.
    """

    folder: Path
    leaks: bool
    steps: int
    device: str


@dataclass(frozen=True)
class Truth:
    """Where a program's slip is, and what holds the memory."""

    file: str
    line: int
    holder: str

    @classmethod
    def of(cls, folder: Path) -> Truth:
        """Read from the mark in the overlay."""
        return next(
            cls(file.name, number, match["holder"])
            for file in sorted((folder / "leak").glob("*.py"))
            for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
            if (match := MARK.search(line))
        )


@dataclass(frozen=True)
class Said:
    """What the watch said of one run.

    Args:
        failure: why there is no report, or the program's own bad end.
    """

    verdict: str = ""
    holder: str | None = None
    file: str | None = None
    line: int | None = None
    bytes_per_step: float | None = None
    failure: str = ""

    @classmethod
    def of(cls, report: dict[str, Any]) -> Said:
        """Taken from the JSON form of a report."""
        if report["exit_status"]:
            return cls(failure=f"ended with {report['exit_status']}")
        if not report["leaks"]:
            return cls(report["verdict"])
        first = report["leaks"][0]
        holder, stored = first["holder"] or {}, first["stored_at"] or {}
        return cls(
            report["verdict"], holder.get("path"), stored.get("path"), stored.get("line"), first["bytes_per_step"]
        )

    def names(self, truth: Truth) -> bool:
        """Whether it is called a leak, by the right name, at the right line."""
        return (self.verdict, self.file, self.line, self.holder) == ("leak", truth.file, truth.line, truth.holder)

    def __str__(self) -> str:
        if self.failure:
            return self.failure
        named = f", `{self.holder}`" if self.holder else ""
        return f"{self.verdict}{named}" + (f", {self.file}:{self.line}" if self.file else "")


def lay_out(job: Job, into: Path) -> None:
    """Copy a program, and its slip over it where the job has one."""
    for source in [job.folder, job.folder / "leak"] if job.leaks else [job.folder]:
        for file in source.glob("*.py"):
            shutil.copy(file, into)


def run(job: Job) -> Said:
    """What is said of one program, watched in a process of its own."""
    around = environment(job.steps, job.device)
    with tempfile.TemporaryDirectory() as folder:
        lay_out(job, Path(folder))
        output = Path(folder) / "report.json"
        command = [sys.executable, "-m", "gradguard", "run", "--no-record", "--format", "json", "--output", str(output)]
        ended = subprocess.run([*command, "train.py"], cwd=folder, env=around, capture_output=True, text=True)
        if not output.exists() or ended.returncode:
            return Said(failure=f"did not run: {(ended.stderr.strip().splitlines() or ['nothing on stderr'])[-1]}")
        return Said.of(json.loads(output.read_text(encoding="utf-8")))


def subject(folder: Path) -> str:
    """The first line of a program's docstring."""
    text = ast.get_docstring(ast.parse((folder / "train.py").read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0].rstrip(".")


def missing(folder: Path) -> list[str]:
    """The packages that a program needs and that are not here."""
    return [name for name in NEEDS.get(folder.name, ()) if importlib.util.find_spec(name) is None]


def programs(only: list[str]) -> list[Path]:
    """The folders of the programs.

    Args:
        only: their names; all when empty.
    """
    return [p.parent for p in sorted(PROGRAMS.glob("*/train.py")) if not only or p.parent.name in only]


def row(folder: Path, clean: Said, leak: Said) -> tuple[str, bool, bool]:
    """A line of the table, and which of the two runs were judged rightly."""
    truth = Truth.of(folder)
    silent, named = clean.verdict == "clean", leak.names(truth)
    first = str(clean) if silent else f"**{clean}**"
    second = str(leak) if named else f"**{leak}** (it is `{truth.holder}`, {truth.file}:{truth.line})"
    size = "" if leak.bytes_per_step is None else f"{leak.bytes_per_step:,.0f}"
    return f"| {folder.name} | {subject(folder)} | {first} | {second} | {size} |", silent, named


def table(folders: list[Path], steps: int, device: str, pool: ThreadPoolExecutor) -> Iterator[str]:
    """The table of one length, line by line as the runs end, and how many were judged rightly."""
    here = [folder for folder in folders if not missing(folder)]
    runs = {
        (folder, leaks): pool.submit(run, Job(folder, leaks, steps, device))
        for folder in here
        for leaks in (False, True)
    }
    silent = named = 0
    yield f"\n{steps} steps\n\n{HEAD}"
    for folder in folders:
        if absent := missing(folder):
            yield f"| {folder.name} | {subject(folder)} | skipped: no {' and '.join(absent)} here | | |"
            continue
        line, quiet, right = row(folder, runs[folder, False].result(), runs[folder, True].result())
        silent, named = silent + quiet, named + right
        yield line
    yield f"\n{silent} of {len(here)} clean programs called clean, {named} of {len(here)} leaks named at their line."


def main() -> None:
    """Run all, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", nargs="*", help="names of programs; all when none is given")
    parser.add_argument("--steps", type=int, nargs="+", default=[200, 1000])
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--device", default="cpu", help="where the tensors are made (default: cpu)")
    arguments = parser.parse_args()
    if unknown := sorted({*arguments.programs} - {folder.name for folder in programs([])}):
        parser.error(f"no such program: {', '.join(unknown)}")
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for steps in arguments.steps:
            for line in table(programs(arguments.programs), steps, arguments.device, pool):
                print(line, flush=True)


if __name__ == "__main__":
    main()
