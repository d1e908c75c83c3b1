"""What other tools that run with a program cost, and what they say of the leak fixtures, beside GradGuard.

    python benchmarks/runtime_peers.py overhead [--envs DIR] [--seconds 0.3] [--device cuda] [--tools NAME]
    python benchmarks/runtime_peers.py leaks [--envs DIR] [--steps 200] [--jobs 2] [--only NAME] [--tools NAME] [--list]

Tools that are packages are installed at a fixed version, each into an environment of its own, with the torch of
constraints.txt; what comes with Python and torch, and GradGuard, run in the Python that runs this. A tool that cannot
be installed or run has a row that says why. Prints Markdown for docs/benchmarks.md.

`overhead` takes the loops of own_work.py. Scalene runs with --memory: its default adds torch.profiler, whose evaluation
takes minutes after a few hundred steps. What can be switched on and off is: stretches without and with it in turn, in
one process. Scalene and TraceML start the program themselves: whole processes without and with them in turn, each of
which times its steady steps. Ratios are medians. On a CUDA device PyTorch's memory snapshot is measured too.

`leaks` runs each tool over every leak of fixtures/, without its mark, as the tool's documentation has it look for a
leak, and over the clean twin if it said something of the leak. Three questions:

detected
    The tool says something of growth in the leak that it does not say in the clean twin. What that is, by tool (and
    printed with the table): GradGuard, that the verdict is `leak`, and of its report the first leak alone; tracemalloc,
    that a line gains over 100 bytes a step between snapshots in the middle and at the end (it sees Python's objects
    alone, and correct programs stay below); memray, over 1 KB a step of memory that is not freed, in temporal records;
    torch.profiler, that the rows of a profile of 25 steps have over 1 KB more for each more step than those of one of
    5; MemTracker, that a category or the total grows by over 1 KB a step in the third quarter and in the last;
    Scalene, that its list of likely leaks has a line; TraceML, that it has a diagnosis of rising memory.
variable
    The name of what holds the memory (the last name of the marker's path) is among the functions, operations or
    categories that the tool puts in its first three places, or is what it says holds the memory.
line
    A line of the statement that stores is among the first three places that the tool ranks. Tools that show stacks have
    the innermost frame in the program's own files count, though they rank others before it; of the first three places
    only those with different lines count.

The programs mark their middle and their end for the tools that compare two times: the steps of the optimizer, or the
calls of a module where there are none, counted in a run before. So tools look inside the loop, while its locals live.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from peers import SECONDS_TO_INSTALL, Failure, Program, called, gradguard, last_line, programs

import fixtures

CHECKOUT = Path(__file__).resolve().parent.parent
PROBE = CHECKOUT / "benchmarks" / "_probe.py"
LOOPS = "mlp", "transformer", "convnet", "tiny operations"
PAIRS = 3
"""How often a tool that starts the program runs beside a run without it."""

SECONDS_TO_RUN = 600
PLACES = 3
NO_GPU = "NO_GPU"


@dataclass(frozen=True)
class Row:
    """A place that a tool ranks: a line (none: line 0), and what else it calls it."""

    path: str
    line: int
    name: str
    bytes: float = 0.0


@dataclass(frozen=True)
class Saying:
    """What a tool says of one program: its alarms, by kind, and the places it ranks, first ones first."""

    alarms: frozenset[str]
    rows: tuple[Row, ...]
    failure: str = ""


@dataclass(frozen=True)
class Marked:
    """A leak with its clean twin, and the truth about it."""

    leak: Program
    clean: Program
    holder: str


@dataclass(frozen=True)
class Verdict:
    """What a tool says of a leak and, if it says anything, of the clean twin."""

    marked: Marked
    leak: Saying
    clean: Saying | None

    @property
    def detected(self) -> bool:
        """Whether it says something of the leak alone."""
        return bool(self.leak.alarms - (self.clean.alarms if self.clean else frozenset()))

    @property
    def first(self) -> list[Row]:
        """The first places, those on one line once."""
        by_line = {(row.path, row.line, row.name if not row.line else ""): row for row in reversed(self.leak.rows)}
        return [row for row in self.leak.rows if row in by_line.values()][:PLACES] if self.leak.alarms else []

    @property
    def line(self) -> bool:
        """Whether the statement that stores is among the first places."""
        return any((row.path, row.line) in self.marked.leak.culprits for row in self.first)

    @property
    def variable(self) -> bool:
        """Whether the holder is among the names there."""
        wanted = re.compile(rf"(?<!\w){re.escape(last_name(self.marked.holder))}(?!\w)")
        return any(wanted.search(row.name) for row in self.first)


def last_name(holder: str) -> str:
    """The name to look for: ``outputs`` of ``evaluate.outputs``, ``history`` of ``Tracker.history["loss"]``."""
    if match := re.fullmatch(r"cache of (\w+)\(\)", holder):
        return match[1]
    path = re.sub(r"\[[^]]*]", "", holder)
    first = path.split()[0]
    return first.split(".")[-1] if "." in first or first == path else path


# Running tools


@dataclass(frozen=True)
class Peer:
    """A tool, how it looks at a program, and what the rule for it is; a package if it has a version of its own."""

    name: str
    probe: str
    rule: str
    package: str = ""
    version: str = ""
    look: Callable[[Peer, Path, Program, Count], Saying] | None = None

    @property
    def title(self) -> str:
        """Its name and version."""
        return f"{self.name} {self.version}".strip()


@dataclass(frozen=True)
class Count:
    """How many steps a program has, as ``unit`` has them, when it is asked for ``steps``."""

    unit: str
    events: int
    steps: int


def python_of(peer: Peer, environments: Path) -> Path:
    """A Python that has the tool: this one, or that of an environment that is made if there is none yet."""
    if not peer.package:
        return Path(sys.executable)
    environment = environments / f"{peer.package}-{peer.version}"
    python = environment / ("Scripts" if os.name == "nt" else "bin") / "python"
    done = environment / "installed"
    if not done.exists():
        called([sys.executable, "-m", "venv", "--clear", str(environment)], SECONDS_TO_INSTALL)
        constraints = ["-c", str(CHECKOUT / "constraints.txt")]
        wanted = ["torch", "numpy", f"{peer.package}=={peer.version}"]
        called([str(python), "-m", "pip", "install", "--quiet", *constraints, *wanted], SECONDS_TO_INSTALL)
        done.touch()
    return python


def run(command: list[str], folder: Path, steps: int = 0, **more: str) -> None:
    """Run a tool's command, which has to succeed."""
    settings = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(CHECKOUT), "STEPS": str(steps), "PYTHONUTF8": "1", **more}
    try:
        process = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, **settings},
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=SECONDS_TO_RUN,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failure(str(error)) from error
    if process.returncode:
        raise Failure(last_line(process.stderr or process.stdout))


def read(path: Path) -> Any:
    """JSON that a tool has written."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Failure(f"no result: {error}") from error


@cache
def counted(steps: int, program: Program) -> Count:
    """Run a program, to count its steps."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "count.json"
        run([sys.executable, str(PROBE), "count", str(output), str(script(program))], program.folder, steps)
        result = read(output)
    return Count(result["unit"], result["events"], steps)


def script(program: Program) -> Path:
    """The file to start."""
    return program.folder / f"{program.twin}.py"


def by_probe(peer: Peer, python: Path, program: Program, count: Count) -> Saying:
    """What a tool that can be called from a program says."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "said.json"
        arguments = [str(script(program)), count.unit, str(count.events), str(count.steps)]
        allocator = {"PYTHONMALLOC": "malloc"} if peer.package == "memray" else {}
        run([str(python), str(PROBE), peer.probe, str(output), *arguments], program.folder, count.steps, **allocator)
        said = read(output)
    return Saying(frozenset(said["alarms"]), tuple(Row(**row) for row in said["rows"]))


def by_scalene(peer: Peer, python: Path, program: Program, count: Count) -> Saying:
    """Scalene's list of leaks, the likeliest first."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "scalene.json"
        command = [str(python), "-m", "scalene", "run", "--memory", "-o", str(output), script(program).name]
        run(command, program.folder, count.steps)
        files = read(output).get("files", {})
    leaks = [
        (leak["likelihood"], Row(Path(path).name, int(line), ""))
        for path, file in files.items()
        for line, leak in file["leaks"].items()
    ]
    ranked = [row for _, row in sorted(leaks, key=lambda pair: -pair[0])]
    return Saying(frozenset(["lists leaks"] if ranked else []), tuple(ranked))


def by_traceml(peer: Peer, python: Path, program: Program, count: Count) -> Saying:
    """TraceML's diagnoses of memory over steps."""
    with tempfile.TemporaryDirectory() as folder:
        inner = [str(Path(folder) / "unused.json"), str(script(program)), count.unit, str(count.events)]
        run(traced(python, folder, ["traceml", *inner, str(count.steps)]), program.folder, count.steps)
        said = read(Path(folder) / "run" / "final_summary.json")
    kinds = set(re.findall(r'"kind": "([A-Z_]+)"', json.dumps(said.get("step_memory"))))
    if NO_GPU in kinds:
        raise Failure("it says NO GPU: it follows the memory of CUDA devices alone")
    return Saying(frozenset(kind for kind in kinds if "CREEP" in kind), ())


def traced(python: Path, folder: str, arguments: list[str]) -> list[str]:
    """The command of `traceml run` for the probe."""
    commands = str(python.parent / "traceml")
    return [commands, "run", str(PROBE), "--logs-dir", folder, "--run-name", "run", "--args", *arguments]


def by_gradguard(peer: Peer, python: Path, program: Program, count: Count) -> Saying:
    """The first leak of GradGuard's JSON report."""
    report = fixtures.run(fixtures.Job(script(program), program.twin, count.steps, "cpu"))
    leaks = report["leaks"][:1]
    rows = [
        Row(leak["stored_at"]["path"], leak["stored_at"]["line"], leak["holder"]["path"] if leak["holder"] else "")
        for leak in leaks
        if leak["stored_at"]
    ]
    return Saying(frozenset(["leak"] if report["verdict"] == "leak" else []), tuple(rows))


PEERS = (
    Peer("GradGuard", "gradguard", "its verdict is `leak`; of its report, the first leak alone", look=by_gradguard),
    Peer(
        "tracemalloc",
        "tracemalloc",
        "snapshots in the middle and at the end, 25 frames: a line gains over 100 bytes a step (not 1 KB as below: "
        "it sees Python's objects alone)",
    ),
    Peer(
        "memray",
        "memray",
        "temporal records of unfreed memory, PYTHONMALLOC=malloc: a line gains over 1 KB a step from middle to end",
        "memray",
        "1.20.0",
    ),
    Peer(
        "torch.profiler",
        "profiler",
        "profile_memory, with_stack, of 5 and of 25 steps: the rows' self memory grows by over 1 KB for each more step",
    ),
    Peer(
        "MemTracker",
        "memtracker",
        "snapshots at half, three quarters and the end: a category or the total grows by over 1 KB a step in both",
    ),
    Peer(
        "Scalene",
        "scalene",
        "`scalene run --memory`: its list of likely leaks has a line (it opens at 100 MB)",
        "scalene",
        "2.4.0",
        by_scalene,
    ),
    Peer(
        "TraceML",
        "traceml",
        "`traceml run`, with `trace_step` around each step: a diagnosis of rising memory",
        "traceml-ai",
        "0.5.0",
        by_traceml,
    ),
)
SNAPSHOT = Peer("memory snapshot", "", "")
"""PyTorch's own record of what a CUDA device gave out, and to which lines: it is looked at by eye."""


# Overhead


@dataclass(frozen=True)
class Switch:
    """A tool as it is measured: the peer whose environment it needs, and what the probe calls it."""

    title: str
    peer: str
    name: str


SWITCHED = (
    Switch("GradGuard", "GradGuard", "gradguard"),
    Switch("tracemalloc, 25 frames", "tracemalloc", "tracemalloc"),
    Switch("memray", "memray", "memray"),
    Switch("torch.profiler, memory", "torch.profiler", "profiler"),
    Switch("torch.profiler, memory and stacks", "torch.profiler", "profiler with stacks"),
    Switch("MemTracker", "MemTracker", "memtracker"),
)
ON_CUDA = (Switch("PyTorch's memory snapshot", "memory snapshot", "memory snapshot"),)
STARTED = Switch("Scalene (memory)", "Scalene", "scalene"), Switch("TraceML", "TraceML", "traceml")

Costs = dict[str, tuple[float, float]]
"""By loop: milliseconds of a step without the tool, and the ratio with it."""


def switched(switch: Switch, environments: Path, seconds: float) -> Costs:
    """What a tool costs that can be switched on and off."""
    python = python_of(named(switch.peer), environments)
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "turns.json"
        run([str(python), str(PROBE), "turns", str(output), switch.name, str(seconds)], Path(folder))
        return {loop: (one["seconds"] * 1000, one["ratio"]) for loop, one in read(output).items()}


def started(switch: Switch, environments: Path, seconds: float) -> Costs:
    """What a tool costs that starts the program."""
    python = python_of(named(switch.peer), environments)
    without: list[dict[str, float]] = []
    beside: list[dict[str, float]] = []
    for _ in range(PAIRS):
        without.append(paces(python, "", seconds))
        beside.append(paces(python, switch.name, seconds))
    return {
        loop: (
            statistics.median(one[loop] for one in without) * 1000,
            statistics.median(b[loop] / a[loop] for a, b in zip(without, beside)),
        )
        for loop in without[0]
    }


def paces(python: Path, tool: str, seconds: float) -> dict[str, float]:
    """Seconds of a step of each loop in a process of its own, under a tool or none."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "paces.json"
        arguments = ["paces", str(output), "traced" if tool == "traceml" else "plain", str(seconds)]
        commands = {
            "": [str(python), str(PROBE), *arguments],
            "scalene": [
                *(str(python), "-m", "scalene", "run", "--memory", "-o", str(Path(folder) / "profile.json")),
                *(str(PROBE), "---", *arguments),
            ],
            "traceml": traced(python, folder, arguments),
        }
        run(commands[tool], Path(folder))
        result: dict[str, float] = read(output)
    return result


def named(name: str) -> Peer:
    """The peer of this name."""
    return next(peer for peer in (*PEERS, SNAPSHOT) if peer.name == name)


def overhead(environments: Path, seconds: float, device: str, tools: list[str]) -> None:
    """Measure, and print a row for each tool.

    Args:
        seconds: how long a stretch of steps is.
        device: where the loops run.
        tools: those that are measured; all when empty.
    """
    os.environ["DEVICE"] = device
    chosen = [*SWITCHED, *(ON_CUDA if device.startswith("cuda") else ()), *STARTED]
    print(f"\n| tool | {' | '.join(LOOPS)} |\n| --- |{' ---: |' * len(LOOPS)}", flush=True)
    alone: list[Costs] = []
    for switch in chosen:
        if tools and switch.peer not in tools:
            continue
        title = f"{switch.title} {named(switch.peer).version}".strip()
        try:
            costs = (started if switch in STARTED else switched)(switch, environments, seconds)
        except Failure as failure:
            print(f"| {title} | not run: {str(failure).replace('|', '/')} |{' |' * (len(LOOPS) - 1)}", flush=True)
        else:
            alone.append(costs)
            print(f"| {title} | {' | '.join(f'{costs[loop][1]:.2f}' for loop in LOOPS)} |", flush=True)
    medians = (statistics.median(costs[loop][0] for costs in alone) for loop in LOOPS)
    print(f"| ms a step without | {' | '.join(f'{median:.2f}' for median in medians)} |")


# Leaks


def leaks_of(target: Path, only: list[str]) -> list[Marked]:
    """The fixtures, copied into ``target`` without their marks."""
    folder = fixtures.FIXTURES / "leaks"
    found: dict[str, dict[str, Program]] = {}
    for program in programs(folder, target):
        found.setdefault(program.name, {})[program.twin] = program
    return [
        Marked(twins["leak"], twins["clean"], fixtures.truth(folder / name)[2])
        for name, twins in found.items()
        if not only or name in only
    ]


def asked(peer: Peer, python: Path, steps: int, marked: Marked) -> Verdict:
    """What a tool says of a leak, and of its clean twin if it has to be asked."""
    leak = said(peer, python, steps, marked.leak)
    return Verdict(marked, leak, said(peer, python, steps, marked.clean) if leak.alarms else None)


def said(peer: Peer, python: Path, steps: int, program: Program) -> Saying:
    """What a tool says of a program, or why it says nothing."""
    try:
        looks_itself = peer.look in (by_gradguard, by_scalene)
        count = Count("", 0, steps) if looks_itself else counted(steps, program)
        return (peer.look or by_probe)(peer, python, program, count)
    except (Failure, OSError, ValueError) as failure:
        return Saying(frozenset(), (), str(failure))


def leaks(peers: list[Peer], marked: list[Marked], environments: Path, steps: int, jobs: int, listed: bool) -> None:
    """Ask every tool, and print a row for each."""
    print(f"\n{len(marked)} leaks, {steps} steps. Detected means, of the leak and not of its clean twin:\n")
    for peer in peers:
        print(f"- {peer.title}: {peer.rule}.")
    print("\n| tool | detected | of both twins | names the variable | names the line | not run |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |", flush=True)
    notes: list[str] = []
    for peer in peers:
        try:
            verdicts = verdicts_of(peer, python_of(peer, environments), marked, steps, jobs)
        except Failure as failure:
            print(f"| {peer.title} | not run: {str(failure).replace('|', '/')} | | | | |", flush=True)
        else:
            print(row(peer, verdicts), flush=True)
            notes += [note for verdict in verdicts for note in noted(peer, verdict, listed)]
    print("\n" + "\n".join(notes))


def verdicts_of(peer: Peer, python: Path, marked: list[Marked], steps: int, jobs: int) -> list[Verdict]:
    """A tool's verdicts; none but the first where that says that there can be none here."""
    first = asked(peer, python, steps, marked[0])
    if "NO GPU" in first.leak.failure:
        raise Failure(first.leak.failure)
    with ThreadPoolExecutor(jobs) as pool:
        return [first, *pool.map(partial(asked, peer, python, steps), marked[1:])]


def row(peer: Peer, verdicts: list[Verdict]) -> str:
    """The row of a tool."""
    both = sum(bool(v.leak.alarms) and not v.detected for v in verdicts)
    failed = sum(any(saying is not None and saying.failure for saying in (v.leak, v.clean)) for v in verdicts)
    detected, variable, line = (
        sum(holds) for holds in zip(*((v.detected, v.detected and v.variable, v.detected and v.line) for v in verdicts))
    )
    title = gradguard().name if peer.look is by_gradguard else peer.title
    return f"| {title} | {detected} of {len(verdicts)} | {both} | {variable} | {line} | {failed} |"


def noted(peer: Peer, verdict: Verdict, listed: bool) -> list[str]:
    """What went wrong with a program, and everything that was said if it is asked for."""
    name = verdict.marked.leak.name
    sayings = [("leak", verdict.leak), ("clean", verdict.clean)]
    notes = [f"- {peer.name}, {name}/{twin}: not run: {s.failure}" for twin, s in sayings if s and s.failure]
    if listed:
        places = ", ".join(f"{r.path}:{r.line} {r.name} {r.bytes:.0f}".strip() for r in verdict.first)
        clean = sorted(verdict.clean.alarms) if verdict.clean else []
        marks = "".join(
            letter if holds else "-"
            for letter, holds in (("D", verdict.detected), ("V", verdict.variable), ("L", verdict.line))
        )
        notes.append(f"- {peer.name}, {name}: {marks} {sorted(verdict.leak.alarms)}, clean {clean}; {places}")
    return notes


def heading() -> str:
    """When and where."""
    constraints = (CHECKOUT / "constraints.txt").read_text(encoding="utf-8").split()
    today = datetime.date.today().isoformat()
    load = f", load {os.getloadavg()[0]:.1f} at the start" if hasattr(os, "getloadavg") else ""
    machine = f"{os.cpu_count()} cores ({platform.machine()}){load}"
    return f"{today}, {machine}, {', '.join(constraints)}, one thread, Python {platform.python_version()}."


def arguments() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description="Compare other runtime tools with GradGuard.")
    parser.add_argument("part", choices=["overhead", "leaks"])
    parser.add_argument("--envs", type=Path, metavar="DIR", help="keep the tools' environments here for the next run")
    parser.add_argument("--seconds", type=float, default=0.3, help="how long a stretch of steps is (overhead)")
    parser.add_argument("--steps", type=int, default=200, help="STEPS of the fixtures (leaks)")
    parser.add_argument("--jobs", type=int, default=2, help="programs at a time (leaks)")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these fixtures alone (leaks)")
    parser.add_argument("--tools", nargs="+", default=[], metavar="NAME", help="these tools alone")
    parser.add_argument("--device", default="cpu", help="where the loops run (overhead; default: cpu)")
    parser.add_argument("--list", action="store_true", help="print what every tool says of every program (leaks)")
    return parser.parse_args()


def main() -> None:
    """Measure and print."""
    options = arguments()
    print(heading(), flush=True)
    with tempfile.TemporaryDirectory(prefix="runtime-peers-") as scratch:
        environments = (options.envs or Path(scratch) / "environments").resolve()
        if options.part == "overhead":
            overhead(environments, options.seconds, options.device, options.tools)
        else:
            marked = leaks_of(Path(scratch).resolve() / "programs", options.only)
            peers = [peer for peer in PEERS if not options.tools or peer.name in options.tools]
            leaks(peers, marked, environments, options.steps, options.jobs, options.list)


if __name__ == "__main__":
    main()
