"""Watch a loop: sense at the end of each step, judge now and then, diagnose when growth is established."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable
from time import monotonic, perf_counter_ns
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from gradguard.findings import Leak, RunReport
from gradguard.runtime import steps, verdict
from gradguard.runtime.child_processes import ChildProcesses
from gradguard.runtime.cycles import Cycles
from gradguard.runtime.diagnosis import Diagnosis
from gradguard.runtime.explain import Diagnosed
from gradguard.runtime.import_hook import when_imported
from gradguard.runtime.module_steps import ModuleSteps
from gradguard.runtime.sensors import Metered, Sensor
from gradguard.runtime.sensors.cuda import Cuda
from gradguard.runtime.sensors.graphs import Graphs
from gradguard.runtime.sensors.heap import Heap
from gradguard.runtime.sensors.hooks import Hooks
from gradguard.runtime.sensors.process import Process
from gradguard.runtime.series import Series
from gradguard.runtime.torch_internals import TorchInternals
from gradguard.runtime.trend import Trend, trend

if TYPE_CHECKING:
    from gradguard.runtime.snapshot import Snapshot

FIRST_JUDGEMENT = 20
LONGEST_PAUSE = 512
MAX_DIAGNOSES = 4
BACKWARDS_TO_LOOK_AT = 16
NODES_TO_LOOK_AT = 4_000
"""How many backwards, and how much of each one's graph, are looked at for what was found before."""

FLOORS = {"graphs": 0.02, "hooks": 0.2, "process": 65_536.0}
BYTES_FLOOR = 1_024.0
"""Bytes a step: a clean loop moves the heap by some hundred, a list of detached losses by less than a thousand."""


class EndOfRun(SystemExit):
    """Ends the watched program after the steps that were asked for.

    A SystemExit, because no ``except Exception`` catches it, and an asyncio task lets it through to the main program.
    """


class Watch:
    """Watches whatever runs inside ``with``.

    Args:
        on_confirm: called with each leak, the moment it is confirmed.
        on_end: called with the report when the watch ends; what it returns is the report.
        max_steps: end the program after this many steps.
        stop_on_leak: end the program when a leak is confirmed.
        command: what is run, for the report.
    """

    def __init__(
        self,
        *,
        on_confirm: Callable[[Leak], None] | None = None,
        on_end: Callable[[RunReport], RunReport] | None = None,
        max_steps: int | None = None,
        stop_on_leak: bool = False,
        command: tuple[str, ...] = (),
    ) -> None:
        self.steps = 0
        self.series: dict[str, Series] = {}
        self.report: RunReport | None = None
        self.notes: list[str] = []
        self.found: list[Diagnosed] = []
        self._on_confirm = on_confirm
        self._on_end = on_end
        self._max_steps = max_steps
        self._stop_on_leak = stop_on_leak
        self._command = command
        self._sensors: list[Metered] = []
        self._graphs: Graphs | None = None
        self._torch: TorchInternals | None = None
        self._handles: Callable[[], int] | None = None
        self._module_steps: ModuleSteps | None = None
        self._children: ChildProcesses | None = None
        self._heap: Heap | None = None
        self._cycles: Cycles | None = None
        self._own_heap = 0
        self._clock = steps.Clock(self._step_ended)
        self._sources: Counter[str] = Counter()
        self._removers: list[Callable[[], None]] = []
        self._diagnosis: Diagnosis | None = None
        self._diagnoses = 0
        self._diagnosis_seconds = 0.0
        self._next_judgement = FIRST_JUDGEMENT
        self._next_sample = 1
        self._not_before = 0
        self._looks_left = BACKWARDS_TO_LOOK_AT
        self.own_nanoseconds = 0
        self._own_steps = 0
        self._began = self._last = monotonic()
        self._pid = os.getpid()
        self._is_on = False

    # --- in the user's program ------------------------------------------------------------------------------------

    def __enter__(self) -> Watch:
        if self._is_on or self.report is not None:
            state = "on already" if self._is_on else "over"
            raise RuntimeError(f"this watch is {state}; each `with` needs a `gradguard.watch()` of its own")
        self._is_on = True
        self._began = self._last = monotonic()
        self._add_sensor("heap", Heap)
        self._heap = next((m.sensor for m in self._sensors if isinstance(m.sensor, Heap)), None)
        self._add_sensor("process", Process)
        steps.active.append(self)
        self._cycles = Cycles(self._heap.read if self._heap is not None else None)
        self._removers.append(self._cycles.install())
        self._children = ChildProcesses()
        self._removers.append(self._children.install())
        self._removers.append(when_imported("torch", self._torch_arrived))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        self.end(error)
        return isinstance(error, EndOfRun)

    def step(self) -> None:
        """End a step, where the loop has no optimizer. From the first call on, nothing else ends steps."""
        if self._is_on:
            self._clock.tick("explicit", 0, sys._getframe(1))

    def snapshot(self) -> Snapshot:
        """What is alive now, by kind and by holder; :func:`gradguard.snapshot` is the same without a watch."""
        from gradguard.runtime.snapshot import take

        return take(sys._getframe(1), self.steps)

    def end(self, error: BaseException | None = None, exit_status: int | None = None) -> RunReport:
        """End the watch: remove everything that it touched, and judge.

        Args:
            error: what ended the program, if it failed.
            exit_status: of the program, when known.
        """
        if self.report is not None:
            return self.report
        self._is_on = False
        self._close_diagnosis()
        self._take_cycles()
        self._remove()
        self.report = self._judged(error, exit_status)
        self._sensors = []
        self._torch = None
        if self._on_end is not None:
            self.report = self._on_end(self.report)
        return self.report

    @property
    def is_diagnosing(self) -> bool:
        """Whether growth is established and its holder is being looked for."""
        return self._diagnosis is not None

    # --- installing -----------------------------------------------------------------------------------------------

    def _add_sensor(self, name: str, make: Callable[[], Sensor]) -> None:
        try:
            sensor = make()
        except OSError as error:
            self.notes.append(f"{name} bytes are not known here: {error}")
            return
        self._sensors.append(Metered(sensor))
        self._next_sample = self.steps
        self.series[sensor.name] = Series()

    def _torch_arrived(self) -> None:
        try:
            self._listen_to_torch()
        except Exception as error:
            self._failed(error)

    def _listen_to_torch(self) -> None:
        internals = self._torch = TorchInternals(sys.modules["torch"])
        self._removers += steps.install(self._clock, internals)
        if internals.register_forward_pre_hook is not None:
            self._module_steps = ModuleSteps(
                self._clock, internals.register_forward_pre_hook, internals.is_compiling, self._pace
            )
            if internals.has_compiled():
                self._module_steps.stay_away()
            self._module_steps.install()
            self._removers.append(self._module_steps.remove)
            self._removers.append(when_imported("torch._dynamo.eval_frame", self._compiler_arrived))
        if internals.has_node_metadata:
            self._graphs = Graphs()
            self._add_sensor("graphs", lambda: self._graphs)  # type: ignore[arg-type, return-value]
        else:
            self.notes.append("live graphs cannot be counted with this torch")
        note = steps.Attribute(internals.tensor_type, "backward", self._backward)
        note.install()
        self._removers.append(note.remove)
        handles = internals.handles()
        if handles is not None:
            module_steps = self._module_steps
            self._handles = lambda: handles() - (module_steps.registered if module_steps else 0)
            self._add_sensor("hooks", lambda: Hooks(self._handles))  # type: ignore[arg-type]

    def _compiler_arrived(self) -> None:
        """Importing it compiles nothing (optimizers do); calling its context on a function or a module does."""
        context = getattr(sys.modules["torch._dynamo.eval_frame"], "_TorchDynamoContext", None)
        if context is not None and self._module_steps is not None:
            module_steps = self._module_steps
            note = steps.Attribute(context, "__call__", lambda compiled: module_steps.stay_away())
            note.install()
            self._removers.append(note.remove)

    def _backward(self, tensor: Any) -> None:
        try:
            internals = self._torch
            if internals is None:
                return
            node = tensor.grad_fn if type(tensor) is internals.tensor_type else None
            if node is not None and self._graphs is not None:
                self._graphs.mark(node, self.steps + 1)
                if self.found:
                    self._is_consumed(node)
        except Exception as error:
            self._failed(error)
            return
        self._clock.tick("backward", 0, sys._getframe(2))

    def _is_consumed(self, node: Any) -> None:
        """Whether what was found is needed after all: it is backpropagated now."""
        if self._looks_left > 0:
            self._looks_left -= 1
            for diagnosed in self.found:
                if diagnosed.held is not None:
                    diagnosed.held.look_for(node, NODES_TO_LOOK_AT)

    def _pace(self) -> tuple[float, float]:
        return self._last, (self._last - self._began) / max(self.steps, 1)

    def _remove(self) -> None:
        while self._removers:
            try:
                self._removers.pop()()
            except Exception as error:  # go on: what can be removed must be
                self.notes.append(f"a listener could not be removed: {error!r}")
        if self in steps.active:
            steps.active.remove(self)

    def _failed(self, error: Exception) -> None:
        """A fault of ours: say so and watch no more; the program goes on."""
        where = error.__traceback__
        while where is not None and where.tb_next is not None:
            where = where.tb_next
        at = f" at {os.path.basename(where.tb_frame.f_code.co_filename)}:{where.tb_lineno}" if where else ""
        self.notes.append(f"GradGuard failed and stopped watching: {error!r}{at}")
        try:
            self._close_diagnosis()
        finally:
            self._remove()

    # --- sensing --------------------------------------------------------------------------------------------------

    def _step_ended(self, source: str, frame: FrameType | None) -> None:
        if os.getpid() != self._pid:
            return  # a forked child: it has its parent's hooks, and no watch
        start = perf_counter_ns()
        was_diagnosing = self._diagnosis is not None
        try:
            self._count(source)
            self._sense()
            self._judge_if_due(frame)
        except Exception as error:
            self._failed(error)
        if not was_diagnosing and self._diagnosis is None:
            self.own_nanoseconds += perf_counter_ns() - start
            self._own_steps += 1
        if self._max_steps is not None and self.steps >= self._max_steps:
            raise EndOfRun
        if self._stop_on_leak and any(d.is_certain and not d.is_retracted for d in self.found):
            raise EndOfRun

    def _count(self, source: str) -> None:
        if source not in self._sources and self._sources and self.steps < verdict.SHORT and self._diagnosis is None:
            self._start_over()  # a better source of steps: the few before were counted in another unit
        self._sources[source] += 1
        self.steps += 1
        self._last = monotonic()
        if source in ("explicit", "optimizer", "loader") and self._module_steps is not None:
            self._module_steps.rest()

    def _start_over(self) -> None:
        self.steps = 0
        self._sources.clear()
        self._next_judgement = FIRST_JUDGEMENT
        self._next_sample = 1
        for metered in self._sensors:
            metered.next_step = 1
            self.series[metered.sensor.name] = Series()

    def _sense(self) -> None:
        step = self.steps
        if step in (2, 16) or step % 256 == 0:
            self._find_devices()
        if step < self._next_sample:
            return
        for metered in self._sensors:
            value = metered.read_if_due(step)
            if value is not None:
                name = metered.sensor.name
                self.series[name].add(step, value - self._own_heap if name == "heap" else value)
        self._next_sample = min((metered.next_step for metered in self._sensors), default=step + 1)

    def _find_devices(self) -> None:
        internals = self._torch
        for device in range(internals.cuda_devices() if internals else 0):
            if f"cuda:{device}" not in self.series and internals is not None:
                self._add_sensor(f"cuda:{device}", lambda d=device: Cuda(d, internals))  # type: ignore[misc]

    # --- judging --------------------------------------------------------------------------------------------------

    def _judge_if_due(self, frame: FrameType | None) -> None:
        for diagnosed in self.found:
            if diagnosed.held is not None:
                diagnosed.held.look()
        if self._diagnosis is not None:
            in_vain = self._diagnosis.in_vain
            self._with_own_heap(lambda d: d.on_step(self.steps, frame))
            if self._diagnosis.in_vain > in_vain:
                self._look_for_cycles(frame)
            if self._diagnosis.is_over:
                self._take_findings()
        elif self.steps >= self._next_judgement:
            self._next_judgement = self.steps + min(max(self.steps // 8, 4), LONGEST_PAUSE)
            grows = bool(verdict.telling(self.growing(), self.series))
            if self._may_diagnose() and grows:
                self._diagnose(frame)
            elif self._cycles is not None and self._cycles.is_due(self.steps):
                self._look_for_cycles(frame)

    def _look_for_cycles(self, frame: FrameType | None) -> None:
        """The collector frees something in every step, or memory grows and no variable explains it."""
        cycles, internals = self._cycles, self._torch
        if cycles is None or internals is None:
            return
        before, start = self._heap.read() if self._heap is not None else 0, perf_counter_ns()
        cycles.look(self.steps, frame, internals)
        self._diagnosis_seconds += (perf_counter_ns() - start) / 1e9
        if self._heap is not None:
            self._own_heap += self._heap.read() - before

    def _may_diagnose(self) -> bool:
        return (
            self._torch is not None
            and self._diagnoses < MAX_DIAGNOSES
            and self.steps >= self._not_before
            and not any(d.excuse is None and not d.is_retracted for d in self.found)
        )

    def growing(self) -> dict[str, Trend]:
        """The signals that grow steadily now."""
        found = {}
        for name, series in self.series.items():
            grown = trend(series.steps, series.values, FLOORS.get(name, BYTES_FLOOR))
            if grown is not None:
                found[name] = grown
        return found

    def _diagnose(self, frame: FrameType | None) -> None:
        assert self._torch is not None
        self._diagnoses += 1
        self._diagnosis = Diagnosis(self._torch, self._handles, lambda: verdict.bytes_per_step(self.growing()))
        self._with_own_heap(lambda d: d.begin(self.steps, frame))

    def _with_own_heap(self, look: Callable[[Diagnosis], None]) -> None:
        """Run a part of the diagnosis, and remember how the heap changed by it: that is not the program's growth."""
        assert self._diagnosis is not None
        before = self._heap.read() if self._heap is not None else 0
        look(self._diagnosis)
        if self._heap is not None:
            self._own_heap += self._heap.read() - before

    def _close_diagnosis(self) -> None:
        if self._diagnosis is not None:
            try:
                self._diagnosis.end(self.steps)
                self._take_findings()
            except Exception as error:
                self.notes.append(f"the diagnosis failed: {error!r}")
                self._diagnosis = None

    def _take_cycles(self) -> None:
        """What only the cyclic collector frees, after a last look if one look alone has proven nothing."""
        cycles = self._cycles
        if cycles is None:
            return
        try:
            if cycles.looks == 1 and not self.found and verdict.telling(self.growing(), self.series):
                self._look_for_cycles(sys._getframe())
            self.found += cycles.found(self.steps)
        except Exception as error:
            self.notes.append(f"looking for cycles failed: {error!r}")

    def _take_findings(self) -> None:
        diagnosis, self._diagnosis = self._diagnosis, None
        assert diagnosis is not None
        self._diagnosis_seconds += diagnosis.seconds
        self.notes += [note for note in diagnosis.notes if note not in self.notes]
        known = {d.path for d in self.found}
        fresh = [d for d in diagnosis.found if d.path not in known]
        self.found += fresh
        self._not_before = self.steps * 2
        shares = verdict.attribute(fresh, self.growing())
        for diagnosed, leak in zip(fresh, shares):
            if diagnosed.is_certain and self._on_confirm is not None:
                self._on_confirm(leak)

    def _peaks(self) -> dict[str, int]:
        """The most bytes of each signal; the allocator of a device knows also what came and went within a step."""
        found = {name: int(s.peak) for name, s in self.series.items() if s.peak is not None}
        for metered in self._sensors:
            if isinstance(metered.sensor, Cuda):
                found[metered.sensor.name] = max(found.get(metered.sensor.name, 0), metered.sensor.peak())
        return {name: peak for name, peak in found.items() if name not in verdict.COUNTS}

    def _judged(self, error: BaseException | None, exit_status: int | None) -> RunReport:
        totals = {}
        if self._torch is not None:
            totals = {n: self._torch.cuda_total(int(n[5:])) for n in self.series if n.startswith("cuda:")}
        source = self._sources.most_common(1)[0][0] if self._sources else None
        notes = list(self.notes)
        if self._children is not None and self._children.started:
            count = self._children.started
            were = "child process was" if count == 1 else "child processes were"
            notes.append(f"{count} {were} started, and not watched")
        if self._torch is None:
            notes.append("the program did not import torch")
        elif not self.steps:
            notes.append("no step was seen; `guard.step()` or `gradguard.steps(...)` in the loop says where one ends")
        if self._torch is not None and not any(name.startswith("cuda") for name in self.series):
            notes.append("no CUDA device was used")
        return verdict.conclude(
            series=self.series,
            found=self.found,
            growing=self.growing(),
            steps=self.steps,
            source=source,
            seconds=self._last - self._began,
            totals=totals,
            peaks=self._peaks(),
            error=error,
            exit_status=exit_status,
            command=self._command,
            notes=notes,
            microseconds=self.own_nanoseconds / 1000 / self._own_steps if self._own_steps else None,
            diagnosis_seconds=self._diagnosis_seconds,
        )
