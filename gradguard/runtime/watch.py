"""Watch a loop: sense at the end of each step, judge now and then, diagnose when growth is established."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from time import monotonic, perf_counter_ns
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from gradguard.findings import Leak, RunReport
from gradguard.runtime import devices, limits, steps, verdict
from gradguard.runtime.backwards import KEY, Backwards
from gradguard.runtime.child_processes import ChildProcesses
from gradguard.runtime.clock import Clock
from gradguard.runtime.escalation import Escalation
from gradguard.runtime.grad_calls import GradCalls
from gradguard.runtime.gradients import Gradients
from gradguard.runtime.import_hook import when_imported
from gradguard.runtime.module_steps import ModuleSteps
from gradguard.runtime.out_of_memory import is_out_of_memory
from gradguard.runtime.pace import Pace
from gradguard.runtime.phases import evaluates, said_of_phases
from gradguard.runtime.recording import Recording
from gradguard.runtime.reserve import Reserve
from gradguard.runtime.sensors.heap import Heap
from gradguard.runtime.sensors.hooks import Hooks
from gradguard.runtime.sensors.process import BUDGET_BESIDE_HEAP, Process
from gradguard.runtime.sensors.tensors import Tensors
from gradguard.runtime.series import Series
from gradguard.runtime.signals import Signals
from gradguard.runtime.source import lines_around, said_of_files
from gradguard.runtime.texts import remember
from gradguard.runtime.torch_internals import TorchInternals
from gradguard.runtime.trend import Trend

if TYPE_CHECKING:
    from gradguard.alive import Snapshot
    from gradguard.runtime.diagnosed import Diagnosed


class EndOfRun(SystemExit):
    """Ends the watched program after the steps that were asked for.

    A SystemExit, because no ``except Exception`` catches it, and an asyncio task lets it through to the main program.
    """


class Watch:
    """Watches whatever runs inside ``with``.

    Args:
        on_confirm: called with each leak, the moment it is confirmed; what it raises, the program gets.
        on_found: called with all that is diagnosed by now and is no excused place, whenever that changes.
        on_end: called with the report when the watch ends; what it returns is the report.
        max_steps: end the program after this many steps.
        stop_on_leak: end the program when a leak is confirmed.
        command: what is run, for the report.
        recording: where the samples are written down; None for nowhere.
    """

    def __init__(
        self,
        *,
        on_confirm: Callable[[Leak], None] | None = None,
        on_found: Callable[[Sequence[Leak]], None] | None = None,
        on_end: Callable[[RunReport], RunReport] | None = None,
        max_steps: int | None = None,
        stop_on_leak: bool = False,
        command: tuple[str, ...] = (),
        recording: Recording | None = None,
    ) -> None:
        self.report: RunReport | None = None
        self.notes: list[str] = []
        self._on_confirm = on_confirm
        self._on_found = on_found
        self._on_end = on_end
        self._max_steps = max_steps
        self._stop_on_leak = stop_on_leak
        self._command = command
        self._recording = recording
        self._reserve = Reserve()
        self._signals = Signals(self._note)
        self._confirmed: list[Leak] = []
        self._told_of: list[Diagnosed] | None = None
        self._escalation = Escalation(self._signals, self._note, self._confirmed.append, self._awaits_optimizer)
        self._children = ChildProcesses()
        self._backwards: Backwards | None = None
        self._torch: TorchInternals | None = None
        self._module_steps: ModuleSteps | None = None
        self._grad_calls: GradCalls | None = None
        self._clock = Clock(self._work)
        self._sources: Counter[str] = Counter()
        self._removers: list[Callable[[], None]] = []
        self._own_nanoseconds = 0
        self._own_steps = 0
        self._steps = 0
        self._source = ""
        self._step_pace = Pace()
        self._is_disturbed = self._is_at_work = False
        self._began = monotonic()
        self._pid = os.getpid()
        self._is_on = False

    @property
    def steps(self) -> int:
        """Steps that have ended."""
        return self._steps + self._clock.passed

    @property
    def own_nanoseconds(self) -> int:
        """What watching took so far: the work at the end of each step, and of those who tell of a backward or a step.

        Without censuses and traces, which the report gives by themselves.
        """
        return self._own_nanoseconds + self._clock.listening

    # --- in the user's program ------------------------------------------------------------------------------------

    def __enter__(self) -> Watch:
        if self._is_on or self.report is not None:
            state = "on already" if self._is_on else "over"
            raise RuntimeError(f"this watch is {state}; each `with` needs a `gradguard.watch()` of its own")
        self._is_on = True
        self._reserve.take()
        self._began = self._clock.last = monotonic()
        self._signals.add("heap", Heap)
        self._signals.add("process", Process, beside_heap=BUDGET_BESIDE_HEAP)
        remember()
        steps.active.append(self)
        self._removers.append(self._escalation.collector.install())
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
        self._reserve.give_up()  # before anything else: memory may have ended
        self._is_on = False
        self._clock.stop()  # other threads may go on
        if self._backwards is not None:
            self._backwards.stop()
        self._escalation.close(self.steps)
        self._escalation.take_cycles(self.steps)
        self._look_at_the_end_of_memory(error)
        self._remove()
        try:
            self.report = self._judged(error, exit_status)
        except Exception as fault:
            self.report = self._unjudged(fault, exit_status)
        self._signals.stop()
        self._torch = None
        if self._on_end is not None:
            self.report = self._on_end(self.report)
        return self.report

    def make_room(self) -> None:
        """Give up the room that is set aside for the report: the program has failed, and memory may have ended."""
        self._reserve.give_up()

    @property
    def is_diagnosing(self) -> bool:
        """Whether growth is established and its holder is being looked for."""
        return self._escalation.is_looking

    @property
    def series(self) -> dict[str, Series]:
        """The samples, by signal."""
        return self._signals.series

    @property
    def found(self) -> list[Diagnosed]:
        """What was diagnosed by now."""
        return self._escalation.found

    def growing(self) -> dict[str, Trend]:
        """The signals that grow steadily now."""
        return self._signals.growing()

    # --- installing -----------------------------------------------------------------------------------------------

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def _torch_arrived(self) -> None:
        try:
            remember()
            self._listen_to_torch()
        except Exception as error:
            self._failed(error)

    def _listen_to_torch(self) -> None:
        internals = self._torch = TorchInternals(sys.modules["torch"])
        gradients = Gradients(internals, self._note)
        self._removers += steps.install(self._clock, gradients, internals)
        if internals.register_forward_pre_hook is not None:
            self._module_steps = ModuleSteps(
                self._clock,
                internals.register_forward_pre_hook,
                internals.is_compiling,
                lambda: self.steps,
                lambda: self._step_pace.seconds_per_step,
            )
            if internals.has_compiled():
                self._module_steps.stay_away()
            self._module_steps.install()
            self._removers.append(self._module_steps.remove)
            self._removers.append(when_imported("torch._dynamo.eval_frame", self._compiler_arrived))
        backwards = self._backwards = Backwards(
            internals, self._clock, gradients, self._escalation, lambda: self.steps, self._note, self._failed
        )
        if backwards.graphs is not None:
            self._add("graphs", lambda: backwards.graphs)
        else:
            self.notes.append("live graphs cannot be counted with this torch")
        self._removers.append(backwards.install())
        self._grad_calls = GradCalls(self._clock, internals.torch.autograd, internals.is_compiling)
        self._grad_calls.install()
        self._removers.append(self._grad_calls.rest)
        self._signals.add_tensors(Tensors(internals), self.steps)
        self._clock.let_pass(0)
        handles = self._handles_of_others(internals.handles())
        if handles is not None:
            self._add("hooks", lambda: Hooks(handles))
        self._escalation.torch_arrived(internals, handles)
        if self._recording is not None:
            self._recording.torch(internals.torch.__version__)

    def _add(self, name: str, make: Callable[[], Any]) -> None:
        self._signals.add(name, make, self.steps)
        self._clock.let_pass(0)

    def _handles_of_others(self, handles: Callable[[], int] | None) -> Callable[[], int] | None:
        """The count of hook handles, without ours."""
        module_steps = self._module_steps
        if handles is None or module_steps is None:
            return handles
        return lambda: handles() - module_steps.registered

    def _compiler_arrived(self) -> None:
        """Importing it compiles nothing (optimizers do); calling its context on a function or a module does."""
        context = getattr(sys.modules["torch._dynamo.eval_frame"], "_TorchDynamoContext", None)
        if context is not None and self._module_steps is not None:
            module_steps = self._module_steps
            note = steps.Attribute(context, "__call__", lambda compiled: module_steps.stay_away())
            note.install()
            self._removers.append(note.remove)

    def _remove(self) -> None:
        while self._removers:
            try:
                self._removers.pop()()
            except Exception as error:  # go on: what can be removed must be
                self.notes.append(f"a listener could not be removed: {error!r}")
        if self in steps.active:
            steps.active.remove(self)

    def _failed(self, error: Exception) -> None:
        """A fault of ours: say so and watch no more; the program goes on.

        Nothing is removed before the end of the watch: torch may be going over its hooks now.
        """
        self._is_on = False
        self._clock.stop()
        if self._backwards is not None:
            self._backwards.stop()
        if self in steps.active:
            steps.active.remove(self)
        where = error.__traceback__
        while where is not None and where.tb_next is not None:
            where = where.tb_next
        at = f" at {os.path.basename(where.tb_frame.f_code.co_filename)}:{where.tb_lineno}" if where else ""
        with suppress(Exception):  # memory may have ended, and what was set aside is for the end
            self.notes.append(f"GradGuard failed and stopped watching: {error!r}{at}")
            self._escalation.close(self.steps)

    # --- sensing --------------------------------------------------------------------------------------------------

    def _work(self, source: str, frame: FrameType | None) -> None:
        """End a step in which there is something to do but to count it."""
        if self._is_at_work or os.getpid() != self._pid:
            return  # another thread ends a step, too; or a forked child: it has its parent's hooks, and no watch
        self._is_at_work = True
        start = perf_counter_ns()
        was_diagnosing, spent = self.is_diagnosing, self._escalation.seconds
        try:
            self._count(source)
            self._step_pace.step_ended(self.steps, self._clock.last, was_disturbed=self._is_disturbed)
            self._sense()
            self._escalation.on_step(self.steps, frame)
            self._tell_of_what_is_found()
            # What disturbs comes after the end of this step: the next one is longer by it, and is not a quiet one.
            self._is_disturbed = was_diagnosing or self.is_diagnosing or self._escalation.seconds > spent
            self._choose_what_passes()
        except Exception as error:
            self._failed(error)
        finally:
            self._is_at_work = False
        if not was_diagnosing and not self.is_diagnosing:
            self._own_nanoseconds += perf_counter_ns() - start
            self._own_steps += 1
        self._tell()
        if self._max_steps is not None and self.steps >= self._max_steps:
            raise EndOfRun
        if self._stop_on_leak and self._escalation.has_confirmed:
            raise EndOfRun

    def _choose_what_passes(self) -> None:
        """Let the steps pass in which there is nothing to do but to count them."""
        step, backwards = self.steps, self._backwards
        is_next = self._is_disturbed or self._signals.may_rise
        is_next = is_next or (backwards is not None and backwards.are_all_needed(step))
        work = step + 1 if is_next else self._next_work(step)
        heard = backwards.choose(step, each=work == step + 1) if backwards is not None else step + 1
        self._clock.let_pass(work - step - 1, heard - step)

    def _next_work(self, step: int) -> int:
        """The step after ``step`` at whose end there is something to do."""
        work = min(self._signals.next_sample, self._escalation.next_step(step), devices.next_look(step))
        return work if self._max_steps is None else min(work, self._max_steps)

    def _tell(self) -> None:
        """Say what was confirmed; not within our own work, since what this raises is for the program."""
        while self._confirmed:
            leak = self._confirmed.pop(0)
            if self._on_confirm is not None:
                self._on_confirm(leak)

    def _tell_of_what_is_found(self) -> None:
        """Say what was diagnosed, as soon as it is, though it may not be certain: the run may not come to its end."""
        found = self._escalation.found
        if self._on_found is None or not found or found is self._told_of:
            return
        self._told_of = found
        kept = [each for each in found if each.excuse is None and not each.is_retracted]
        self._on_found(verdict.attribute(kept, self._escalation.telling(self.steps)))

    def _count(self, source: str) -> None:
        if self._clock.counted <= self.steps < verdict.SHORT and not self.is_diagnosing:
            self._start_over()  # a better source of steps: the few before were counted in another unit
        self._count_passed()
        self._steps += 1
        self._sources[source] += 1
        self._source = source
        if source in ("explicit", "optimizer", "loader") and self._module_steps is not None:
            self._module_steps.rest()
        if self._grad_calls is not None and (source != "backward" or self._clock.key == KEY):
            self._grad_calls.rest()

    def _count_passed(self) -> None:
        """Count the steps that passed since the last one in which there was something to do."""
        passed = self._clock.take_passed()
        if passed:
            self._steps += passed
            self._sources[self._source] += passed
            self._own_steps += passed

    def _awaits_optimizer(self) -> bool:
        """Whether there is an optimizer, and none has stepped yet."""
        by_less = self._clock.source != "explicit" and not self._clock.optimizer_has_stepped
        return by_less and self._torch is not None and self._torch.has_optimizer()

    def _start_over(self) -> None:
        self._steps = self._clock.counted - 1
        self._sources = Counter({self._clock.source or "": self._steps} if self._steps else {})
        self._step_pace, self._is_disturbed = Pace(), False
        self._signals.start_over()
        self._escalation.start_over()
        if self._recording is not None:
            self._recording.start_over()

    def _sense(self) -> None:
        step = self.steps
        if devices.next_look(step - 1) == step:
            self._find_devices()
        if step in (1, 2):
            remember()
        read = self._signals.sense(step)
        if read and self._recording is not None:
            self._recording.step_source(self._clock.source)
            self._recording.sample(step, self._clock.last - self._began, read)

    def _find_devices(self) -> None:
        for name, make in devices.in_use(self._torch).items() if self._torch is not None else ():
            if name not in self.series:
                self._add(name, make)

    # --- at the end -----------------------------------------------------------------------------------------------

    def _look_at_the_end_of_memory(self, error: BaseException | None) -> None:
        """Who held what when memory ended: while the frames of the error are still there."""
        if self._torch is None or error is None or not is_out_of_memory(error):
            return
        try:
            from gradguard.runtime.post_mortem import who_held_what

            for sentence in who_held_what(error):
                self._note(sentence)
        except Exception as fault:
            self._note(f"what was alive could not be looked at: {fault!r}")

    def _unjudged(self, fault: Exception, exit_status: int | None) -> RunReport:
        """What is known without judging."""
        return RunReport(
            verdict="leak" if self._escalation.has_confirmed else "suspect",
            steps=self.steps,
            step_source=self._clock.source,
            growth=verdict.growth_of({}, {}),
            leaks=tuple(each.leak for each in self.found),
            notes=(*self.notes, f"GradGuard failed to judge the run: {fault!r}"),
            exit_status=exit_status,
            command=self._command,
        )

    def _judged(self, error: BaseException | None, exit_status: int | None) -> RunReport:
        self._count_passed()
        source = self._sources.most_common(1)[0][0] if self.steps else None
        notes = list(self.notes)
        if self._children.started:
            count = self._children.started
            were = "child process was" if count == 1 else "child processes were"
            notes.append(f"{count} {were} started, and not watched")
        if self._torch is None:
            notes.append("the program did not import torch")
        elif not self.steps:
            notes.append("no step was seen; `guard.step()` or `gradguard.steps(...)` in the loop says where one ends")
        unwatched = self._module_steps.unwatched if self._module_steps is not None else 0
        notes += said_of_phases(self._sources, unwatched)
        if self._torch is not None and not any(name.startswith("cuda") for name in self.series):
            notes.append("no CUDA device was used")
        report = verdict.conclude(
            series=self.series,
            found=self.found,
            growing=self._escalation.without_garbage(self.growing(), self.steps),
            steps=self.steps,
            source=source,
            seconds_per_step=self._step_pace.seconds_per_step,
            room=limits.room(self.series, self._torch),
            peaks=self._signals.peaks(),
            error=error,
            exit_status=exit_status,
            command=self._command,
            notes=notes,
            microseconds=self.own_nanoseconds / 1000 / self._own_steps if self._own_steps else None,
            diagnosis_seconds=self._escalation.seconds,
            is_early=_is_cut_short(error) and self._awaits_optimizer(),
            evaluates=evaluates(self._sources),
        )
        lines = lines_around(report.leaks)
        return replace(report, source=lines, notes=(*report.notes, *said_of_files(report.leaks)))


def _is_cut_short(error: BaseException | None) -> bool:
    """Whether the program was ended before its end, though memory was left."""
    ends_by_itself = error is None or (isinstance(error, SystemExit) and not isinstance(error, EndOfRun))
    return not ends_by_itself and not is_out_of_memory(error)
