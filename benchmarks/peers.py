"""What other static tools find in the fixtures, beside what GradGuard finds.

    python benchmarks/peers.py [--set DIR] [--envs DIR] [--list]

Each peer is installed from the package index, at a fixed version, into a virtual environment of its own, and runs with
the rules its documentation has it run with. Every program is checked by itself, on a copy without the comment that
marks its culprit line. Prints Markdown for docs/benchmarks.md: a row for each tool, then a row for each of its rules.
A peer that cannot be installed or run has a row that says why. `--list` adds every finding that is not on a culprit
line.

A set is a folder of folders, DIR/<name>/, each with leak.py and clean.py (helpers of one alone start with leak or
clean) or with two folders, leak and clean. A culprit line ends in `# leak: ...` or `# CULPRIT`. A finding is on it
if it starts anywhere in that statement, whatever its rule; of several such lines in a program, one is enough. What is
reported only elsewhere may still speak of the culprit line, as a related place: that is counted in brackets.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures" / "leaks"
MARK = re.compile(r"#\s*(leak:|CULPRIT\b)")
OTHER_TWIN = {"leak": "clean", "clean": "leak"}

SECONDS_TO_INSTALL = 900
SECONDS_TO_CHECK = 300

Process = subprocess.CompletedProcess[str]
Place = tuple[str, int]
"""A file, relative to its program's folder, and a line."""


class Failure(Exception):
    """A tool that cannot be installed or run, and why."""


@dataclass(frozen=True)
class Program:
    """One twin of a case, copied without its mark."""

    name: str
    twin: str
    folder: Path
    files: tuple[str, ...]
    culprits: frozenset[Place]


@dataclass(frozen=True)
class Finding:
    """What a tool reports at one place, and which other places it names."""

    rule: str
    place: Place
    message: str
    related: tuple[Place, ...] = ()


@dataclass(frozen=True)
class Reading:
    """What a tool says of one program: findings, and the files that it could not read."""

    findings: tuple[Finding, ...]
    unread: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tool:
    """A tool: its command, how its output is read, and the Pythons it can be installed on (empty: this one)."""

    name: str
    version: str
    command: tuple[str, ...]
    read: Callable[[Process], Reading]
    pythons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What a tool says of every program."""

    tool: Tool
    readings: tuple[tuple[Program, Reading], ...]

    def of(self, twin: str) -> Iterator[tuple[Program, Reading]]:
        """Its readings of the leaks, or of the clean twins."""
        return (pair for pair in self.readings if pair[0].twin == twin)


# The programs


def programs(source: Path, target: Path) -> list[Program]:
    """Every program of the set ``source``, copied into ``target``."""
    found = []
    for case in sorted(p for p in source.iterdir() if p.is_dir()):
        for twin in OTHER_TWIN:
            files = files_of(case, twin)
            if files:
                found.append(copied(case.name, twin, files, target / case.name / twin))
    return found


def files_of(case: Path, twin: str) -> dict[str, Path]:
    """The files of one twin, by their path in its folder."""
    if (case / twin).is_dir():
        return {p.relative_to(case / twin).as_posix(): p for p in sorted((case / twin).rglob("*.py"))}
    if not (case / f"{twin}.py").is_file():
        return {}
    return {p.name: p for p in sorted(case.glob("*.py")) if not p.name.startswith(OTHER_TWIN[twin])}


def copied(name: str, twin: str, files: dict[str, Path], folder: Path) -> Program:
    """One program, copied into ``folder``."""
    culprits: set[Place] = set()
    for path, original in files.items():
        text, marked = without_marks(original.read_text(encoding="utf-8"))
        for line in marked:
            culprits.update((path, number) for number in statement_lines(text, line))
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    if bool(culprits) != (twin == "leak"):
        raise SystemExit(f"{name}: a leak has a culprit line, and a clean program has none")
    return Program(name, twin, folder, tuple(files), frozenset(culprits))


def without_marks(text: str) -> tuple[str, list[int]]:
    """A program without the comments that mark its culprit lines, and the numbers of those lines."""
    lines = text.splitlines(keepends=True)
    marked = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and MARK.search(token.string):
            number, column = token.start
            lines[number - 1] = lines[number - 1][:column].rstrip() + "\n"
            marked.append(number)
    return "".join(lines), marked


def statement_lines(text: str, line: int) -> range:
    """The lines of the statement that ``line`` is part of; of a compound statement, those of its head."""
    heads = [head(node) for node in ast.walk(ast.parse(text)) if isinstance(node, ast.stmt)]
    return min((lines for lines in heads if line in lines), key=len, default=range(line, line + 1))


def head(statement: ast.stmt) -> range:
    """The lines of a statement up to its body."""
    body: list[ast.stmt] = getattr(statement, "body", [])
    last = body[0].lineno - 1 if body else statement.end_lineno or statement.lineno
    return range(statement.lineno, max(last, statement.lineno) + 1)


# The tools


def read_torch_preflight(process: Process) -> Reading:
    """Its JSON report."""
    report = parsed(process)
    findings = (Finding(d["code"], place(d), d["message"]) for d in report["diagnostics"])
    return Reading(tuple(findings), tuple(f["path"] for f in report["failures"]))


def read_torchfix(process: Process) -> Reading:
    """Its lines of text (it has no other format), between which are the diffs it proposes."""
    if process.returncode and "Finished checking" not in process.stderr:
        raise Failure(last_line(process.stderr))
    lines = re.findall(r"^([^\s:][^:\n]*):(\d+):\d+: (TOR\d+) (.+)$", process.stdout, re.M)
    findings = (Finding(rule, (path, int(line)), message) for path, line, rule, message in lines)
    return Reading(tuple(findings), tuple(re.findall(r"^Failed to codemod (.+)$", process.stderr, re.M)))


def read_pylint(process: Process) -> Reading:
    """Pylint's JSON report, where a file that it could not read is a message too."""
    messages = [m for m in parsed(process) if m["symbol"] not in UNREAD]
    unread = {m["path"] for m in parsed(process) if m["symbol"] in UNREAD}
    return Reading(tuple(Finding(m["symbol"], place(m), m["message"]) for m in messages), tuple(sorted(unread)))


def read_gradguard(process: Process) -> Reading:
    """Its JSON report."""
    report = parsed(process)
    findings = (
        Finding(f["code"], place(f), f["message"], tuple(place(r) for r in f["related"])) for f in report["findings"]
    )
    return Reading(tuple(findings), tuple(e["path"] for e in report["errors"]))


def parsed(process: Process) -> Any:
    """What a tool printed as JSON."""
    try:
        return json.loads(process.stdout)
    except ValueError:
        raise Failure(last_line(process.stderr)) from None


def place(item: dict[str, Any]) -> Place:
    """Where something is, in the words that all three JSON reports share."""
    return item["path"], item["line"]


UNREAD = "syntax-error", "parse-error", "astroid-error", "fatal"
"""Pylint's messages that say that a file was not read."""

DSLINTER_RULES = """
    import unnecessary-iteration-pandas unnecessary-iteration-tensorflow nan-numpy chain-indexing-pandas datatype-pandas
    column-selection-pandas merge-parameter-pandas inplace-pandas dataframe-conversion-pandas scaler-missing-scikitlearn
    hyperparameters-scikitlearn hyperparameters-tensorflow hyperparameters-pytorch memory-release-tensorflow
    deterministic-pytorch randomness-control-numpy randomness-control-scikitlearn randomness-control-tensorflow
    randomness-control-pytorch randomness-control-dataloader-pytorch missing-mask-tensorflow missing-mask-pytorch
    tensor-array-tensorflow forward-pytorch gradient-clear-pytorch pipeline-not-used-scikitlearn
    dependent-threshold-scikitlearn dependent-threshold-tensorflow dependent-threshold-pytorch
""".split()
"""What DSLinter's README enables: all of its rules but two deprecated ones, and none of pylint's."""

PYLINT = (
    *("pylint", f"--rcfile={os.devnull}", "--persistent=n", "--output-format=json", "--load-plugins=dslinter"),
    *("--disable=all", f"--enable={','.join((*DSLINTER_RULES, *UNREAD))}"),
)

PEERS = (
    Tool("torch-preflight", "0.5.0", ("torch-preflight", "check", "--format=json", "--jobs=1"), read_torch_preflight),
    Tool("TorchFix", "0.7.0", ("torchfix", "--jobs=1", "--show-stderr"), read_torchfix),
    Tool("DSLinter", "2.0.9", PYLINT, read_pylint, ("3.10", "3.9", "3.8", "3.7")),
)


def gradguard() -> Tool:
    """GradGuard, as it is installed beside this Python."""
    try:
        version = metadata.version("gradguard")
    except metadata.PackageNotFoundError:
        version = "(no version)"
    return Tool("GradGuard", version, ("gradguard", "check", "--isolated", "--format=json"), read_gradguard)


# Installing and running them


def installed(tool: Tool, environments: Path) -> Path:
    """The folder of the commands of a virtual environment with the tool in it, made if there is none yet."""
    environment = environments / f"{tool.name}-{tool.version}"
    commands = environment / ("Scripts" if os.name == "nt" else "bin")
    done = environment / "installed"
    if not done.exists():
        called([interpreter(tool.pythons), "-m", "venv", "--clear", str(environment)], SECONDS_TO_INSTALL)
        install = ["-m", "pip", "install", "--quiet", f"{tool.name}=={tool.version}"]
        called([str(commands / "python"), *install], SECONDS_TO_INSTALL)
        done.touch()
    return commands


def interpreter(versions: tuple[str, ...]) -> str:
    """A Python of one of these versions, on the path or among pyenv's."""
    if not versions or "{}.{}".format(*sys.version_info) in versions:
        return sys.executable
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for version in versions:
        on_path = shutil.which(f"python{version}")
        for python in ([on_path] if on_path else []) + [str(p) for p in pyenv.glob(f"{version}.*/bin/python")]:
            if subprocess.run([python, "--version"], capture_output=True).returncode == 0:
                return python
    raise Failure(f"needs Python {' or '.join(versions)}, and there is none here")


def called(command: list[str], seconds: float) -> None:
    """Run a command that has to succeed."""
    process = finished(command, Path.cwd(), seconds)
    if process.returncode:
        raise Failure(last_line(process.stderr or process.stdout))


def finished(command: list[str], folder: Path, seconds: float) -> Process:
    """Run a command in ``folder`` to its end."""
    try:
        return subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, "PYTHONUTF8": "1"},
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=seconds,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failure(str(error)) from error


def last_line(text: str) -> str:
    """What a failed command has to say: its last error, or its last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"(\w*error\b|\w+Error:)", line, re.I)]
    return (errors or lines or ["no output"])[-1]


def checked(tool: Tool, commands: Path, found: list[Program]) -> Outcome:
    """Run a tool over every program."""
    script = shutil.which(tool.command[0], path=str(commands))
    if script is None:
        raise Failure(f"no command {tool.command[0]} in {commands}")
    command = [script, *tool.command[1:]]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return Outcome(tool, tuple(zip(found, pool.map(partial(reading, tool, command), found))))


def reading(tool: Tool, command: list[str], program: Program) -> Reading:
    """Run a tool over one program."""
    raw = tool.read(finished([*command, *program.files], program.folder, SECONDS_TO_CHECK))
    findings = (
        Finding(f.rule, inside(program, f.place), f.message, tuple(inside(program, r) for r in f.related))
        for f in raw.findings
    )
    return Reading(tuple(findings), raw.unread)


def inside(program: Program, place: Place) -> Place:
    """The place with its path relative to the program's folder, however the tool shows paths."""
    root = program.folder.resolve()
    path = (root / place[0]).resolve()
    return (path.relative_to(root) if path.is_relative_to(root) else path).as_posix(), place[1]


# Counting and printing


def is_named(program: Program, reading: Reading) -> bool:
    """Whether a finding is on a culprit line."""
    return any(finding.place in program.culprits for finding in reading.findings)


def is_related(program: Program, reading: Reading) -> bool:
    """Whether a finding gives a culprit line as a related place."""
    return any(not program.culprits.isdisjoint(finding.related) for finding in reading.findings)


def row(outcome: Outcome) -> str:
    """The row of a tool."""
    leaks, clean = list(outcome.of("leak")), list(outcome.of("clean"))
    named = sum(is_named(*pair) for pair in leaks)
    elsewhere = [pair for pair in leaks if pair[1].findings and not is_named(*pair)]
    related = sum(is_related(*pair) for pair in elsewhere)
    noisy = sum(bool(reading.findings) for _, reading in clean)
    in_clean = sum(len(reading.findings) for _, reading in clean)
    return (
        f"| {outcome.tool.name} {outcome.tool.version} | {named} of {len(leaks)} "
        f"| {len(elsewhere)}{f' ({related})' if related else ''} "
        f"| {in_clean}{f' (in {noisy} of {len(clean)})' if noisy else ''} |"
    )


def kind(program: Program, finding: Finding) -> str:
    """Where a finding is: on a culprit line, elsewhere in a leak, or in a clean program."""
    if program.twin == "clean":
        return "clean"
    return "culprit" if finding.place in program.culprits else "elsewhere"


def print_rules(outcomes: list[Outcome]) -> None:
    """The findings of each rule of each tool."""
    print("\n| tool | rule | on culprit lines | elsewhere in leaks | in clean twins |")
    print("| --- | --- | ---: | ---: | ---: |")
    for outcome in outcomes:
        counts = Counter((f.rule, kind(p, f)) for p, reading in outcome.readings for f in reading.findings)
        for rule in sorted({rule for rule, _ in counts}):
            culprit, elsewhere, clean = (counts[rule, where] for where in ("culprit", "elsewhere", "clean"))
            print(f"| {outcome.tool.name} | {rule} | {culprit} | {elsewhere} | {clean} |")


def print_unread(outcomes: list[Outcome]) -> None:
    """The files that a tool could not read, which a finding in them could have been in."""
    for outcome in outcomes:
        unread = [f"{p.name}/{p.twin}/{path}" for p, reading in outcome.readings for path in reading.unread]
        if unread:
            print(f"\n{outcome.tool.name} could not read {', '.join(unread)}.")


def print_findings(outcomes: list[Outcome]) -> None:
    """Every finding that is not on a culprit line."""
    print()
    for outcome in outcomes:
        for program, reading in outcome.readings:
            for finding in (f for f in reading.findings if kind(program, f) != "culprit"):
                where = f"{program.name}/{program.twin}/{finding.place[0]}:{finding.place[1]}"
                print(f"- {outcome.tool.name}, {where}: {finding.rule} {finding.message}")


def compared(found: list[Program], environments: Path) -> list[Outcome]:
    """Run every tool, and print its row."""
    print("| tool | leaks named (a finding on the culprit line) | a finding only elsewhere | findings in clean twins |")
    print("| --- | ---: | ---: | ---: |", flush=True)
    outcomes = []
    for tool in (*PEERS, gradguard()):
        try:
            commands = installed(tool, environments) if tool in PEERS else Path(sysconfig.get_path("scripts"))
            outcomes.append(checked(tool, commands, found))
        except Failure as failure:
            print(f"| {tool.name} {tool.version} | not run: {str(failure).replace('|', '/')} | | |", flush=True)
        else:
            print(row(outcomes[-1]), flush=True)
    return outcomes


def arguments() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description="Compare other static tools with GradGuard.")
    parser.add_argument("--set", type=Path, default=FIXTURES, metavar="DIR", help="the programs (default: fixtures)")
    parser.add_argument("--envs", type=Path, metavar="DIR", help="keep the peers' environments here for the next run")
    parser.add_argument("--list", action="store_true", help="print the findings that are not on a culprit line")
    return parser.parse_args()


def main() -> None:
    """Copy, run and print."""
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="peers-") as scratch:
        found = programs(options.set, Path(scratch) / "programs")
        outcomes = compared(found, (options.envs or Path(scratch) / "environments").resolve())
    print_rules(outcomes)
    print_unread(outcomes)
    if options.list:
        print_findings(outcomes)


if __name__ == "__main__":
    main()
