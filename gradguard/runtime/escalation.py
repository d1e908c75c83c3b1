"""When to look closely, and what came of it: diagnoses of what grows, and looks for what only the collector frees."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import thread_time
from types import FrameType
from typing import TYPE_CHECKING, Any

from gradguard.findings import Leak
from gradguard.runtime import verdict
from gradguard.runtime.collector import Collector
from gradguard.runtime.signals import Signals
from gradguard.runtime.trend import Trend

if TYPE_CHECKING:
    from gradguard.runtime.cycles import Cycles
    from gradguard.runtime.diagnosed import Diagnosed
    from gradguard.runtime.diagnosis import Diagnosis
    from gradguard.runtime.torch_internals import TorchInternals

FIRST_JUDGEMENT = 20
LONGEST_PAUSE = 2_048
PAUSE_IN_A_RISE = 16
"""Steps between two judgements while a signal goes beyond all before, and has not long done so."""

MAX_DIAGNOSES = 4
MAX_SECONDS = 3.0
"""Of own work in one run, after which nothing new is begun."""

SOON, LATE = 2, 4
"""The next diagnosis is at so many times the steps of the last one: late, where that has found only excused places."""

BACKWARDS_TO_LOOK_AT = 16
NODES_TO_LOOK_AT = 4_000
"""How many backwards, and how much of each one's graph, are looked at for what was found before."""


class Escalation:
    """Judges now and then, and looks closely once growth is established; never in a clean run.

    Args:
        signals: of the watch.
        note: called with what the reader of the report should know.
        on_confirm: called with each leak, the moment it is confirmed.
        is_early: whether the program has an optimizer that has not stepped yet: what grows may be what its first step
            is made from, a rollout of an agent, and is confirmed when it goes on growing after that.
    """

    def __init__(
        self,
        signals: Signals,
        note: Callable[[str], None],
        on_confirm: Callable[[Leak], None],
        is_early: Callable[[], bool] = lambda: False,
    ) -> None:
        self.found: list[Diagnosed] = []
        self.seconds = 0.0
        self.collector = Collector(signals.heap_bytes)
        self._cycles: Cycles | None = None
        self._signals = signals
        self._note = note
        self._on_confirm = on_confirm
        self._is_early = is_early
        self._waiting: list[tuple[Diagnosed, Leak]] = []
        self._waits_since: int | None = None
        self._torch: TorchInternals | None = None
        self._handles: Callable[[], int] | None = None
        self._diagnosis: Diagnosis | None = None
        self._began_early = False
        self._is_anew = False
        self._diagnoses = 0
        self._next_judgement = FIRST_JUDGEMENT
        self._judged = 0
        self._not_before = 0
        self._looks_left = BACKWARDS_TO_LOOK_AT

    @property
    def is_looking(self) -> bool:
        """Whether growth is established and its holder is being looked for."""
        return self._diagnosis is not None

    @property
    def listens_to_backward(self) -> bool:
        """Whether it looks at what is backpropagated, or tells of graphs one by one."""
        return self.is_looking or bool(self.found and self._looks_left > 0)

    @property
    def has_confirmed(self) -> bool:
        """Whether a leak is certain before the run is over."""
        return any(d.is_certain and not d.is_retracted and not self._waits(d) for d in self.found)

    def _waits(self, diagnosed: Diagnosed) -> bool:
        """Whether it was found before the first step of the optimizer, and may be gone after it."""
        return any(each is diagnosed for each, _ in self._waiting)

    def torch_arrived(self, internals: TorchInternals, handles: Callable[[], int] | None) -> None:
        """From now on there is something to look at.

        Args:
            internals: of torch.
            handles: counts hook handles; None where they are not numbered.
        """
        self._torch, self._handles = internals, handles

    def start_over(self) -> None:
        """Steps are counted in another unit from now on."""
        self._next_judgement, self._judged = FIRST_JUDGEMENT, 0

    def next_step(self, step: int) -> int:
        """The step after ``step`` at which there is something to do."""
        if any(d.held is not None for d in self.found):
            return step + 1
        return self._next_judgement if self._diagnosis is None else self._diagnosis.next_step(step)

    def on_step(self, step: int, frame: FrameType | None) -> None:
        """Judge, or go on looking, at the end of ``step``.

        Args:
            frame: in which it ended.
        """
        for diagnosed in self.found:
            if diagnosed.held is not None:
                diagnosed.held.look()
        if (self._began_early or (self._waiting and self._waits_since is None)) and not self._is_early():
            self._look_anew(step)
        if self._diagnosis is not None:
            self._go_on(self._diagnosis, step, frame)
        elif step >= self._next_judgement or (self._signals.rise and step - self._judged >= PAUSE_IN_A_RISE):
            self._judged, self._next_judgement = step, step + min(max(step // 8, 4), LONGEST_PAUSE)
            self._count_entries(step)
            grows = self._grows(step)
            is_busy = self.collector.is_busy(step)
            if is_busy and self._cycles is None:  # what it frees may be all that grows, and costs less to find
                self._look_for_cycles(step)
            elif grows and self._may_diagnose(step):
                self._diagnose(step, frame)
            elif is_busy and self._cycles is not None and self._cycles.is_due(step):
                self._look_for_cycles(step)

    def _count_entries(self, step: int) -> None:
        for diagnosed in self.found:
            if diagnosed.entries is not None:
                diagnosed.entries.look(step)

    def is_consumed(self, node: Any) -> None:
        """Note whether what was found is needed after all: ``node`` heads the graph that is backpropagated now."""
        if self._looks_left <= 0:
            return
        self._looks_left -= 1
        with self._signals.own_work():  # to look at a node's metadata makes it, and it stays with the node
            for diagnosed in self.found:
                if diagnosed.held is not None:
                    diagnosed.held.look_for(node, NODES_TO_LOOK_AT)

    def close(self, step: int) -> None:
        """End whatever goes on, with what is known by now."""
        self._count_entries(step)
        self._drop_waiting()
        if self._diagnosis is None:
            return
        try:
            self._diagnosis.end(step)
            self._take_findings(step)
        except Exception as error:
            self._note(f"the diagnosis failed: {error!r}")
            self._diagnosis = None

    def take_cycles(self, step: int) -> None:
        """Add what only the cyclic collector frees, after a last look: what waits now counts as well."""
        if self._cycles is None:
            return
        try:
            if self._cycles.has_suspects or (self._signals.telling() and not self.found):
                self._look_for_cycles(step, is_last=True)
            self.found += self._cycles.found(step)
        except Exception as error:
            self._note(f"looking for cycles failed: {error!r}")

    def telling(self, step: int) -> dict[str, Trend]:
        """The signals that grow steadily now, without those that are too noisy, and without what is garbage."""
        return self.without_garbage(self._signals.telling(), step)

    def without_garbage(self, growing: Mapping[str, Trend], step: int) -> dict[str, Trend]:
        """The growth that the cyclic collector does not give back.

        Args:
            growing: by signal.
            step: that has just ended.
        """
        if self._cycles is None:
            return dict(growing)
        bases = self._cycles.bases
        beneath = {
            name: Trend(slope, bases.since, verdict.SURE, is_hint=True) for name, slope in bases.slopes().items()
        }
        return verdict.without_garbage(growing, self._cycles.coming_back(step), beneath)

    def _may_diagnose(self, step: int) -> bool:
        return (
            self._torch is not None
            and self._diagnoses < MAX_DIAGNOSES
            and step >= self._not_before
            and not any(d.excuse is None and not d.is_retracted and not self._waits(d) for d in self.found)
            and self._has_time()
        )

    def _has_time(self) -> bool:
        spent = self.seconds + (self._diagnosis.seconds if self._diagnosis is not None else 0.0)
        if spent > MAX_SECONDS:
            self._note(
                f"looking closely took over {MAX_SECONDS:.0f} s; what began to grow after that was not looked at"
            )
        return spent <= MAX_SECONDS

    def _diagnose(self, step: int, frame: FrameType | None) -> None:
        assert self._torch is not None
        self._diagnoses += 1
        self._began_early = self._is_early()
        start = thread_time()
        with self.collector.own():
            self._signals.clean_up()
        with self._signals.own_work():
            from gradguard.runtime.diagnosis import Diagnosis  # a clean run has no use for it

            self.seconds += thread_time() - start
            self._diagnosis = Diagnosis(self._torch, self._handles, lambda: self.telling(step))
            self._diagnosis.begin(step, frame)

    def _go_on(self, diagnosis: Diagnosis, step: int, frame: FrameType | None) -> None:
        in_vain = diagnosis.in_vain
        with self._signals.own_work():
            diagnosis.on_step(step, frame)
        if diagnosis.in_vain > in_vain:
            self._look_for_cycles(step)
        if diagnosis.is_over:
            self._take_findings(step)

    def _look_for_cycles(self, step: int, *, is_last: bool = False) -> None:
        """The collector frees something in every step, or memory grows and no variable explains it."""
        if self._torch is None or not (is_last or self._has_time()):
            return
        start = thread_time()
        with self._signals.own_work():
            from gradguard.runtime.cycles import Cycles

            self._cycles = self._cycles or Cycles(self.collector, self._note, self._signals.memory)
        # What the look itself frees is the program's.
        self._cycles.look(step, self._torch, is_last=is_last)
        self.seconds += thread_time() - start

    def _take_findings(self, step: int) -> None:
        diagnosis, self._diagnosis = self._diagnosis, None
        assert diagnosis is not None
        self.seconds += diagnosis.seconds
        for note in diagnosis.notes:
            self._note(note)
        if not self._is_early() and any(d.excuse is None for d in diagnosis.found):
            self.found = [d for d in self.found if not self._waits(d)]
            self._waiting = []
        known = {(d.path, d.excuse) for d in self.found if not d.is_retracted}
        fresh = [d for d in diagnosis.found if (d.path, d.excuse) not in known]  # a buffer may prove to have no bound
        again = {d.path for d in fresh}
        self.found = [d for d in self.found if d.path not in again] + fresh
        self._looks_left = BACKWARDS_TO_LOOK_AT
        in_vain = bool(diagnosis.found) and all(d.excuse is not None for d in diagnosis.found)
        self._not_before = step * (LATE if in_vain and not any(map(_shows_soon, fresh)) else SOON)
        shares = verdict.attribute(fresh, self.telling(step))
        certain = [(diagnosed, leak) for diagnosed, leak in zip(fresh, shares) if diagnosed.is_certain]
        if certain and self._is_early():
            self._waiting += certain
        else:
            self._confirm(certain)

    def _look_anew(self, step: int) -> None:
        """The optimizer has stepped for the first time: what was seen to grow before may have been for that alone.

        What was found waits for the steps that follow: if memory goes on growing, the next close look says by what. A
        diagnosis that goes on is left, and one that was in vain is no reason to wait long.
        """
        self._began_early, self._is_anew, self._waits_since = False, True, step
        self._signals.want(step)
        self._not_before = min(self._not_before, step + FIRST_JUDGEMENT)
        if self._diagnosis is not None:
            self._diagnosis.abandon()
            self.seconds += self._diagnosis.seconds
            self._diagnosis = None
            self._diagnoses -= 1

    def _grows(self, step: int) -> bool:
        """Whether it is time for a close look: something grows, or goes on after the optimizer's first step."""
        if not self._is_anew or self._waits_since is None:
            return bool(self.telling(step))
        goes_on = self._signals.go_on_growing(self._waits_since)
        self._is_anew = goes_on is None
        if goes_on:
            self._not_before = step
        return bool(goes_on)

    def _drop_waiting(self) -> None:
        """Forget what grew before the first step of the optimizer, and has not grown since."""
        if self._waits_since is None or self._signals.go_on_growing(self._waits_since, is_last=True) is not False:
            return
        early = [diagnosed for diagnosed, _ in self._waiting if not diagnosed.is_retracted]
        for diagnosed in early:
            self._note(f"`{diagnosed.path}` grew before the first step of an optimizer, and not after it")
        self.found = [diagnosed for diagnosed in self.found if diagnosed not in early]

    def _confirm(self, certain: list[tuple[Diagnosed, Leak]]) -> None:
        for diagnosed, leak in certain:
            if not diagnosed.is_retracted:
                self._on_confirm(leak)


def _shows_soon(diagnosed: Diagnosed) -> bool:
    """Whether a few more steps tell if it has a bound: ``itertools.tee`` frees what was read in small blocks."""
    holder = diagnosed.leak.holder
    return holder is not None and holder.type == "itertools._tee"
