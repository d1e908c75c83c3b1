"""What checking costs: processor seconds, wall seconds and peak memory, beside other linters.

    python benchmarks/lint.py [--rounds N] [--envs DIR] [--tree DIR] [--compiled ENV]

Two trees come from the package index: a large library that hardly trains (transformers 4.57.1) and a small one that is
nearly all training code (stable-baselines3 2.7.0); `--tree` adds others. On the large one GradGuard runs cold, with two
processes, warm, and after one file has changed, beside ruff; on the small one also beside torch-preflight and TorchFix,
each in an environment of its own at a fixed version, with one process. `--compiled` names an environment where the
static half of GradGuard is compiled, to be measured beside the one that runs this. The tools take turns in each round,
and the medians are printed, as Markdown for docs/benchmarks.md; on the large tree there is one round. The memory of
several processes is that of the largest. GradGuard runs once before anything is measured: what is installed has its
bytecode.

    python benchmarks/lint.py screen DIR [DIR ...]

compares what is found with the screen and without, at every confidence: what only the second finds is listed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter

from peers import PEERS, SECONDS_TO_INSTALL, Failure, Reading, Tool, called, installed

LARGE = "transformers==4.57.1"
SMALL = "stable-baselines3==2.7.0"
RUFF = Tool("ruff", "0.14.4", ("ruff", "check", "--isolated", "--no-cache", "--quiet"), lambda _: Reading(()))
MEGABYTE = 1024  # ru_maxrss is in kilobytes on Linux
WITH_BYTECODE = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""An installed package has its bytecode beside it; one that is edited in place gets it from the first run."""
SCRIPT = Path(__file__).resolve().parent.parent / "gradguard" / "demo" / "leaky.py"


@dataclass(frozen=True)
class Cost:
    """What one run of a command took: seconds and bytes."""

    processor: float
    wall: float
    peak: int


@dataclass(frozen=True)
class Command:
    """A command to measure.

    Args:
        name: as it is printed.
        words: the command.
        before: what is done before each run, unmeasured.
    """

    name: str
    words: tuple[str, ...]
    before: Callable[[], None] = lambda: None


# --- measuring ----------------------------------------------------------------------------------------------------


def measured(words: tuple[str, ...]) -> Cost:
    """Run a command to its end; whatever it finds is no failure."""
    start = perf_counter()
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=WITH_BYTECODE)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode < 0 or process.returncode > 2:
        raise Failure(f"{' '.join(words)} ended with {process.returncode}")
    return Cost(used.ru_utime + used.ru_stime, perf_counter() - start, used.ru_maxrss)


def compared(commands: list[Command], rounds: int) -> Iterator[tuple[Command, Cost | Failure]]:
    """The medians of each command; they take turns."""
    costs: dict[str, list[Cost]] = {command.name: [] for command in commands}
    failed: dict[str, Failure] = {}
    for _ in range(rounds):
        for command in (c for c in commands if c.name not in failed):
            try:
                command.before()
                costs[command.name].append(measured(command.words))
            except Failure as failure:
                failed[command.name] = failure
    for command in commands:
        yield command, failed.get(command.name) or median(costs[command.name])


def median(costs: list[Cost]) -> Cost:
    return Cost(
        statistics.median(cost.processor for cost in costs),
        statistics.median(cost.wall for cost in costs),
        int(statistics.median(cost.peak for cost in costs)),
    )


# --- commands -----------------------------------------------------------------------------------------------------


def own(tree: Path, scratch: Path, compiled: Path | None) -> list[Command]:
    """GradGuard over a tree: cold, with two processes, warm, and after one file has changed; cold where it is C."""
    check = (here(), "check", "--isolated", "--exit-zero", "--format=json")
    cold = ("--no-cache", "--jobs=1", str(tree))
    cache = scratch / "cache" / tree.name
    kept = (*check, f"--cache-dir={cache}", "--jobs=1", str(tree))
    changing = max(tree.rglob("*.py"), key=lambda path: path.stat().st_size)

    def warm() -> None:
        measured(kept)

    def change() -> None:
        warm()
        changing.write_text(changing.read_text(encoding="utf-8") + "\n", encoding="utf-8")

    return [
        Command("GradGuard, cold", (*check, *cold)),
        *(Command("GradGuard as C, cold", (there, *check[1:], *cold)) for there in in_c(compiled)),
        Command("GradGuard, cold, two processes", (*check, "--no-cache", "--jobs=2", str(tree))),
        Command("GradGuard, its largest file changed", kept, change),
        Command("GradGuard, warm", kept, warm),
    ]


def small(compiled: Path | None) -> list[Command]:
    """What an editor or a pre-commit hook waits for."""
    check = ("check", "--isolated", "--exit-zero", "--no-cache", str(SCRIPT))
    name = f"`gradguard check` of a script of {len(SCRIPT.read_text().splitlines())} lines"
    return [
        Command("Python itself", (sys.executable, "-c", "pass")),
        Command("`gradguard --version`", (here(), "--version")),
        Command(name, (here(), *check)),
        *(Command(f"{name}, as C", (there, *check)) for there in in_c(compiled)),
    ]


def here() -> str:
    """The GradGuard of the environment that runs this."""
    return str(Path(sysconfig.get_path("scripts")) / "gradguard")


def in_c(environment: Path | None) -> list[str]:
    """The GradGuard of the environment where it is compiled, if one is given."""
    return [] if environment is None else [str(environment.resolve() / "bin" / "gradguard")]


def others(tools: tuple[Tool, ...], tree: Path, environments: Path) -> list[Command]:
    """Other linters over a tree."""
    found = []
    for tool in tools:
        try:
            commands = installed(tool, environments)
        except Failure as failure:
            print(f"\n{tool.name} is left out: {failure}", file=sys.stderr)
            continue
        found.append(
            Command(f"{tool.name} {tool.version}", (str(commands / tool.command[0]), *tool.command[1:], str(tree)))
        )
    return found


def unpacked(requirement: str, scratch: Path) -> Path:
    """The wheel of a package, unpacked."""
    wheels, tree = scratch / "wheels", scratch / "trees" / requirement
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(wheels), requirement]
    called(command, SECONDS_TO_INSTALL)
    name = requirement.split("==")[0].replace("-", "_")
    with zipfile.ZipFile(next(wheels.glob(f"{name}-*.whl"))) as wheel:
        wheel.extractall(tree)
    return tree


# --- printing -----------------------------------------------------------------------------------------------------


def lines_of(tree: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in tree.rglob("*.py"))


def print_table(commands: list[Command], rounds: int, lines: int | None = None) -> None:
    print(f"| tool | CPU seconds | wall seconds | peak memory, MB |{' lines a CPU second |' if lines else ''}")
    print(f"| --- | ---: | ---: | ---: |{' ---: |' if lines else ''}", flush=True)
    for command, cost in compared(commands, rounds):
        if isinstance(cost, Failure):
            print(f"| {command.name} | not run: {cost} | | |", flush=True)
            continue
        speed = f" {lines / cost.processor:,.0f} |" if lines else ""
        print(
            f"| {command.name} | {cost.processor:.2f} | {cost.wall:.2f} | {cost.peak / MEGABYTE:.0f} |{speed}",
            flush=True,
        )


def print_costs(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(prefix="lint-") as folder:
        scratch = Path(folder)
        environments = (options.envs or scratch / "environments").resolve()
        for command in small(options.compiled):
            measured(command.words)
        print("A small call:\n")
        print_table(small(options.compiled), options.rounds)
        for requirement, tools, rounds in ((SMALL, (*PEERS[:2], RUFF), options.rounds), (LARGE, (RUFF,), 1)):
            commands = own(tree := unpacked(requirement, scratch), scratch, options.compiled)
            print_tree(tree, requirement, [*commands, *others(tools, tree, environments)], rounds)
        for tree in options.tree:
            copy = shutil.copytree(tree, scratch / "trees" / tree.resolve().name)
            peers = others((*PEERS[:2], RUFF), copy, environments)
            print_tree(copy, tree.name, [*own(copy, scratch, options.compiled), *peers], options.rounds)


def print_tree(tree: Path, name: str, commands: list[Command], rounds: int) -> None:
    lines = lines_of(tree)
    print(f"\n{name}, {lines:,} lines:\n")
    print_table(commands, rounds, lines)


def print_screen(folders: list[Path]) -> None:
    """What is found without the screen, and what of it is not found with it."""
    from gradguard import catalogue
    from gradguard.config import Settings
    from gradguard.findings import Confidence
    from gradguard.static.discover import discover
    from gradguard.static.engine import check

    total = missed = 0
    for folder in folders:
        settings = replace(Settings(folder.resolve()), min_confidence=Confidence.LOW)
        files = discover([folder], settings).files
        screened, whole = (set(check(files, settings, catalogue.load(), screened=s).findings) for s in (True, False))
        total, missed = total + len(whole), missed + len(whole - screened)
        for finding in sorted(whole - screened, key=lambda f: f.sort_key):
            print(f"{finding.path}:{finding.span.line}: {finding.code}, {finding.confidence.value}, only without it")
        for finding in sorted(screened - whole, key=lambda f: f.sort_key):
            print(f"{finding.path}:{finding.span.line}: {finding.code}, {finding.confidence.value}, only with it")
    print(f"{total} findings in {len(folders)} folders without the screen, {total - missed} of them with it")


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what checking costs.")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured (default: 3)")
    parser.add_argument("--envs", type=Path, metavar="DIR", help="keep the peers' environments here for the next run")
    parser.add_argument("--tree", type=Path, metavar="DIR", action="append", default=[], help="measure this too")
    parser.add_argument("--compiled", type=Path, metavar="ENV", help="where GradGuard is compiled: measure it, too")
    commands = parser.add_subparsers(dest="command")
    screen = commands.add_parser("screen", help="what is found with the screen and without")
    screen.add_argument("folders", type=Path, nargs="+", metavar="DIR")
    options = parser.parse_args()
    if missing := [script for script in in_c(options.compiled) if not Path(script).is_file()]:
        parser.error(f"--compiled: there is no {missing[0]}; install GradGuard in that environment first")
    if options.command == "screen":
        print_screen(options.folders)
    else:
        print_costs(options)


if __name__ == "__main__":
    main()
