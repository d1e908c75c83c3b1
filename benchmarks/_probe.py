"""What runs inside a tool's process for runtime_peers.py: a program or a loop, with the tool on.

    python benchmarks/_probe.py count|tracemalloc|memray|profiler|memtracker|traceml OUTPUT SCRIPT [UNIT EVENTS STEPS]
    python benchmarks/_probe.py turns OUTPUT TOOL SECONDS
    python benchmarks/_probe.py paces OUTPUT plain|traced SECONDS

It needs torch and the tool, and nothing else but the loops of own_work.py. OUTPUT gets JSON. UNIT says which events are
counted, those of ``optimizer`` or ``module``, and EVENTS how many of them the program has: the first line of figures
is taken at half of them, the last one at the last.
"""

from __future__ import annotations

import bisect
import contextlib
import importlib
import inspect
import itertools
import json
import os
import re
import runpy
import statistics
import sys
import tempfile
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook

KILOBYTE = 1024
SMALL = 100
"""What tracemalloc has to find: it sees Python's objects alone."""

OVER = "a line gains over 1 KB a step"
FRAMES = 25
PROFILED = 5, 25
"""Steps in each of two profiles."""

TURNS = 7
WARM = 200
"""Steps before each stretch with a tool: some have to find their pace."""

TRACKED_MS = 5
"""How often memray's tracker writes down the state of the heap."""

Place = tuple[str, int]
Look = Callable[[], None]


# Programs, and their steps


class Steps:
    """The steps of a program: optimizer steps, and calls of a module that no other module calls."""

    def __init__(self) -> None:
        self.optimizer = 0
        self.module = 0
        self.marks: dict[int, Callable[[], None]] = {}
        self.unit = ""
        self.depth = 0
        self.open: list[AbstractContextManager[None]] = []
        self.around: Callable[[nn.Module], AbstractContextManager[None]] | None = None
        self.before: Look | None = None
        register_optimizer_step_post_hook(self.after_optimizer)
        register_module_forward_pre_hook(self.before_module)
        register_module_forward_hook(self.after_module, always_call=True)

    def before_module(self, module: nn.Module, _: Any) -> None:
        """A module is called: a step may begin."""
        self.depth += 1
        if self.before is not None and self.depth == 1:
            self.before()
        if self.around is not None and self.depth == 1 and not self.open:
            self.open.append(self.around(module))
            self.open[-1].__enter__()

    def after_module(self, module: nn.Module, _: Any, __: Any) -> None:
        """A module has returned."""
        self.depth -= 1
        if self.depth == 0:
            self.module += 1
            self.ended("module", self.module)

    def after_optimizer(self, *_: Any) -> None:
        """An optimizer has taken a step."""
        self.optimizer += 1
        self.ended("optimizer", self.optimizer)

    def ended(self, unit: str, number: int) -> None:
        """An event: if steps are counted in it, then one is over."""
        if unit != self.unit:
            return
        while self.open:
            self.open.pop().__exit__(None, None, None)
        if number in self.marks:
            self.marks[number]()


def run(script: Path) -> None:
    """The program, from its own folder, and without what it prints."""
    os.chdir(script.parent)
    sys.path.insert(0, str(script.parent))
    sys.argv = [script.name]
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.suppress(SystemExit):
        runpy.run_path(str(script), run_name="__main__")


class Program:
    """A program whose second half of steps is looked at."""

    def __init__(self, script: Path, unit: str, events: int, steps: int) -> None:
        self.script = script
        self.steps = Steps()
        self.steps.unit = unit
        self.events = events
        self.asked = steps
        self.window = steps * (events - events // 2) / events
        """How many steps lie between the middle and the end."""

    def looked_at(self, middle: Look, end: Look, between: dict[int, Look] | None = None) -> None:
        """Run it, with calls at half of its steps and at its last, and maybe between."""
        self.steps.marks = {self.events // 2: middle, self.events: end, **(between or {})}
        run(self.script)

    def own(self, path: str) -> bool:
        """Whether a file is the program's."""
        return Path(path).is_relative_to(self.script.parent) and Path(path).is_file()


def rows(amounts: Counter[Place], window: float, names: dict[Place, str] | None = None) -> list[dict[str, Any]]:
    """Places by what they gained a step."""
    ranked = amounts.most_common()
    names = names or {}
    return [
        {"path": Path(path).name, "line": line, "name": names.get((path, line), ""), "bytes": gained / window}
        for (path, line), gained in ranked
        if gained > 0
    ]


def counted(script: Path) -> dict[str, Any]:
    """How many steps the program has, and in which unit."""
    steps = Steps()
    run(script)
    unit = "optimizer" if steps.optimizer else "module"
    return {"unit": unit, "events": getattr(steps, unit)}


def by_tracemalloc(program: Program) -> dict[str, Any]:
    """Two snapshots, compared by traceback: what each line of the program's files gained, as the last of them in it."""
    snapshots: list[tracemalloc.Snapshot] = []

    def look() -> None:
        snapshots.append(tracemalloc.take_snapshot())

    program.looked_at(look, look, {1: lambda: tracemalloc.start(FRAMES)})
    tracemalloc.stop()
    own = [tracemalloc.Filter(False, tracemalloc.__file__)]
    before, after = (snapshot.filter_traces(own) for snapshot in snapshots)
    gained: Counter[Place] = Counter()
    for difference in after.compare_to(before, "traceback"):
        frames = [f for f in difference.traceback if program.own(f.filename)] if difference.size_diff else []
        if frames:
            place = frames[-1].filename, frames[-1].lineno
            gained[place] += difference.size_diff
    found = rows(gained, program.window)
    alarms = ["a line gains over 100 bytes a step"] if any(row["bytes"] > SMALL for row in found) else []
    return {"alarms": alarms, "rows": found}


def by_memray(program: Program) -> dict[str, Any]:
    """The heap at both times in its temporal records: what each line of the program's files gained."""
    memray = importlib.import_module("memray")
    times: list[float] = []

    def look() -> None:
        time.sleep(TRACKED_MS * 3 / 1000)
        times.append(time.time() * 1000)
        time.sleep(TRACKED_MS * 3 / 1000)

    with tempfile.TemporaryDirectory() as folder:
        capture = os.path.join(folder, "capture.bin")
        with memray.Tracker(capture, memory_interval_ms=TRACKED_MS):
            program.looked_at(look, look)
        reader = memray.FileReader(capture)
        taken = [snapshot.time for snapshot in reader.get_memory_snapshots()]
        first, last = (bisect.bisect(taken, at) for at in times)
        gained: Counter[Place] = Counter()
        names: dict[Place, str] = {}
        for record in reader.get_temporal_allocation_records(merge_threads=True):
            growth = living(record.intervals, last) - living(record.intervals, first)
            frame = next((f for f in record.stack_trace() if program.own(f[1])), None) if growth else None
            if frame:
                gained[frame[1], frame[2]] += growth
                names[frame[1], frame[2]] = frame[0]
    found = rows(gained, program.window, names)
    grows = any(row["bytes"] > KILOBYTE for row in found)
    return {"alarms": [OVER] if grows else [], "rows": found}


def living(intervals: list[Any], at: int) -> int:
    """Bytes that are allocated at one of memray's snapshots."""
    return sum(
        i.n_bytes
        for i in intervals
        if i.allocated_before_snapshot <= at
        and (i.deallocated_before_snapshot is None or i.deallocated_before_snapshot > at)
    )


def by_profiler(program: Program) -> dict[str, Any]:
    """Two profiles, of few steps and of more: what the longer one's own memory has more, for each operation and place.

    What is alive at the end of a profile and was allocated in it, as gradients are, is in both alike. That the rows of
    a profile add up to what its steps have left is due to the row ``[memory]``, for what is freed elsewhere.
    """
    profiles = [profiler(stacks=True) for _ in PROFILED]
    marks: dict[int, Look] = {}
    at = program.events // 2
    for profile, steps in zip(profiles, PROFILED):
        marks[at] = profile.start
        at += max(round(steps * program.events / program.asked), 1)
        marks[at] = profile.stop
        at += 1
    program.looked_at(nothing, nothing, marks)
    few, more = (self_memory(program, profile) for profile in profiles)
    more.subtract(few)
    steps = PROFILED[1] - PROFILED[0]
    grows = sum(more.values()) / steps > KILOBYTE
    found = [
        {"path": path, "line": line, "name": name, "bytes": gained / steps}
        for (name, path, line), gained in more.most_common(20)
    ]
    return {"alarms": ["its rows add up to over 1 KB a step"] if grows else [], "rows": found}


def self_memory(program: Program, profile: Any) -> Counter[tuple[str, str, int]]:
    """Own memory by name of the row and the innermost of the program's functions in its stack."""
    amounts: Counter[tuple[str, str, int]] = Counter()
    for event in profile.key_averages(group_by_stack_n=FRAMES):
        path, line = "", 0
        for frame in (event.key, *event.stack):
            match = re.match(r"(.+)\((\d+)\): ", frame)
            if match and program.own(str(program.script.parent / match[1])):
                path, line = Path(match[1]).name, int(match[2])
                break
        amounts[event.key, path, line] += event.self_cpu_memory_usage
    return amounts


def by_memtracker(program: Program) -> dict[str, Any]:
    """Its snapshots by category at half, three quarters and the end: what grows from each to the next."""
    from torch.distributed._tools.mem_tracker import MemTracker

    tracker = MemTracker()
    seen: list[Counter[str]] = []

    def look() -> None:
        snapshot: Counter[str] = Counter()
        for categories in tracker.get_tracker_snapshot("current").values():
            snapshot.update({str(getattr(category, "value", category)): size for category, size in categories.items()})
        seen.append(snapshot)

    program.steps.before = tracker.reset_mod_stats
    with tracker:
        program.looked_at(look, look, {program.events * 3 // 4: look})
    names = sorted(set().union(*seen))
    half = program.window / (len(seen) - 1)
    slowest = {name: min((b[name] - a[name]) / half for a, b in itertools.pairwise(seen)) for name in names}
    ranked = sorted(slowest.items(), key=lambda pair: -pair[1])
    alarms = [f"{name} grows" for name, growth in ranked if growth > KILOBYTE]
    return {"alarms": alarms, "rows": [{"path": "", "line": 0, "name": n, "bytes": growth} for n, growth in ranked]}


def by_traceml(program: Program) -> dict[str, Any]:
    """Its steps, as `traceml run` wants them: each from the first call of a module to the end of the step."""
    traceml_ai = importlib.import_module("traceml_ai")
    traceml_ai.init(mode="auto")
    program.steps.around = traceml_ai.trace_step
    program.looked_at(nothing, nothing)
    return {}


PROBES = {
    "tracemalloc": by_tracemalloc,
    "memray": by_memray,
    "profiler": by_profiler,
    "memtracker": by_memtracker,
    "traceml": by_traceml,
}


# Loops


def loops() -> dict[str, Callable[[], Callable[[], None]]]:
    """The loops of own_work.py, on ``$DEVICE``."""
    own_work = importlib.import_module("own_work")
    made = own_work.mlp, own_work.transformer, own_work.convnet, own_work.tiny_operations
    device = os.environ.get("DEVICE", "cpu")
    return {loop.__name__.replace("_", " "): partial(loop, device) for loop in made}


def profiler(stacks: bool) -> Any:
    """torch.profiler, with memory; with stacks it has to be verbose too, or they come out empty."""
    verbose = torch._C._profiler._ExperimentalConfig(verbose=True) if stacks else None
    return torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        profile_memory=True,
        with_stack=stacks,
        experimental_config=verbose,
    )


def nothing() -> None:
    """What most tools need in a step."""


@contextlib.contextmanager
def on(tool: str) -> Iterator[Look]:
    """With the tool switched on; gives what each step has to call for it."""
    needs: Look = nothing
    with contextlib.ExitStack() as stack:
        if tool == "gradguard":
            gradguard = importlib.import_module("gradguard")
            stack.enter_context(gradguard.watch(report=False))
        elif tool == "tracemalloc":
            tracemalloc.start(FRAMES)
            stack.callback(tracemalloc.stop)
        elif tool == "memray":
            memray = importlib.import_module("memray")
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            stack.enter_context(memray.Tracker(os.path.join(folder, "capture.bin")))
        elif tool == "memtracker":
            from torch.distributed._tools.mem_tracker import MemTracker

            needs = stack.enter_context(MemTracker()).reset_mod_stats
        elif tool == "memory snapshot":
            torch.cuda.memory._record_memory_history()
            stack.callback(torch.cuda.memory._record_memory_history, None)
        else:
            stack.enter_context(profiler(stacks=tool == "profiler with stacks"))
        yield needs


def pace(step: Callable[[], None], seconds: float, steps: int = 3) -> float:
    """Seconds of a step, over so many seconds and at least so many steps."""
    began = now = time.perf_counter()
    count = 0
    while now - began < seconds or count < steps:
        step()
        count += 1
        now = time.perf_counter()
    if torch.cuda.is_initialized():  # what was launched is not done yet
        torch.cuda.synchronize()
    return (time.perf_counter() - began) / count


def turns(tool: str, seconds: float) -> dict[str, Any]:
    """For each loop: seconds of a step without the tool, and the ratio with it, as medians of stretches in turn."""
    measured = {}
    for name, loop in loops().items():
        step = loop()
        pace(step, seconds)
        without, ratios = [], []
        for _ in range(TURNS):
            without.append(pace(step, seconds))
            with on(tool) as needs:
                pace(joined(needs, step), seconds / 2, steps=WARM)
                ratios.append(pace(joined(needs, step), seconds) / without[-1])
        measured[name] = {"seconds": statistics.median(without), "ratio": statistics.median(ratios)}
    return measured


def joined(first: Look, step: Look) -> Look:
    """A step that calls something before."""
    if first is nothing:
        return step

    def both() -> None:
        first()
        step()

    return both


def paces(traced: bool, seconds: float) -> dict[str, Any]:
    """For each loop: seconds of a step in this process, whatever it runs under."""
    measured = {}
    for name, loop in loops().items():
        step = within_trace_step(loop()) if traced else loop()
        pace(step, seconds / 2)
        measured[name] = pace(step, seconds)
    return measured


def within_trace_step(step: Callable[[], None]) -> Callable[[], None]:
    """The step as TraceML's quickstart has it."""
    traceml_ai = importlib.import_module("traceml_ai")
    traceml_ai.init(mode="auto")
    model = inspect.getclosurevars(step).nonlocals.get("model", nn.Identity())

    def traced() -> None:
        with traceml_ai.trace_step(model):
            step()

    return traced


def main() -> None:
    """Do what the command line says, and write the result down."""
    what, output, *arguments = sys.argv[1:]
    target = Path(output).resolve()
    torch.set_num_threads(1)
    if what == "turns":
        result = turns(arguments[0], float(arguments[1]))
    elif what == "paces":
        result = paces(arguments[0] == "traced", float(arguments[1]))
    elif what == "count":
        result = counted(Path(arguments[0]).resolve())
    else:
        script, unit, events, steps = arguments
        result = PROBES[what](Program(Path(script).resolve(), unit, int(events), int(steps)))
    target.write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()
