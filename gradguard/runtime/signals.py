"""The signals of one watch: which are sensed, when each is read next, and which of them grow."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gradguard.runtime import verdict
from gradguard.runtime.collector import paused
from gradguard.runtime.sensors import BUDGET_MICROSECONDS, MOST_RISES, RISES, Metered, Sensor
from gradguard.runtime.sensors.cuda import Cuda
from gradguard.runtime.sensors.heap import Heap
from gradguard.runtime.sensors.tensors import BUDGET_WITHOUT_HEAP, FIRST_STEP, Tensors
from gradguard.runtime.series import Series
from gradguard.runtime.trend import FEW_POINTS, Trend, goes_on

LEAST_RISES = 16
"""Readings in a row beyond all before, of which growth can be judged (see :func:`gradguard.runtime.trend.late`)."""


class Signals:
    """The sensors and their samples; ``next_sample`` is the step at which one of them is read again.

    Args:
        note: called with a sentence about a signal that is not available here.
    """

    def __init__(self, note: Callable[[str], None]) -> None:
        self.series: dict[str, Series] = {}
        self._heap: Heap | None = None
        self._note = note
        self._sensors: list[Metered] = []
        self._own_heap = self._cleaned_up = 0
        self.next_sample = 1

    def add(
        self, name: str, make: Callable[[], Sensor], step: int = 0, beside_heap: float = BUDGET_MICROSECONDS
    ) -> None:
        """Sense one more signal from now on.

        Args:
            name: for the note, where the signal is not available.
            make: gives the sensor.
            step: the step that has just ended.
            beside_heap: microseconds that it may cost in a step where the heap is known, amortised.
        """
        sensor = self._made(name, make)
        if sensor is not None:
            floor = None if sensor.name in verdict.NOISY else verdict.floor_of(sensor.name)
            budget = BUDGET_MICROSECONDS if self._heap is None else beside_heap
            self._begin(Metered(sensor, budget, floor=floor), step)

    def add_tensors(self, sensor: Tensors, step: int) -> None:
        """Sense the bytes of all tensors, as often as it is worth: often where the heap is not known."""
        budget = BUDGET_WITHOUT_HEAP if self._heap is None else BUDGET_MICROSECONDS
        self._begin(Metered(sensor, budget, step + FIRST_STEP, is_dear=True), step)

    def _made(self, name: str, make: Callable[[], Sensor]) -> Sensor | None:
        try:
            sensor = make()
        except OSError as error:
            self._note(f"{name} bytes are not known here: {error}")
            return None
        if isinstance(sensor, Heap):
            self._heap = sensor
        return sensor

    def _begin(self, metered: Metered, step: int) -> None:
        self._sensors.append(metered)
        self.next_sample = step
        self.series[metered.sensor.name] = Series()

    @property
    def rise(self) -> bool:
        """Whether one of them has gone beyond all before for some time, and that began not long ago."""
        return any(LEAST_RISES <= metered.rising < MOST_RISES for metered in self._sensors)

    @property
    def may_rise(self) -> bool:
        """Whether one of them goes beyond all before, be it for two readings."""
        return any(RISES <= metered.rising < MOST_RISES for metered in self._sensors)

    def sense(self, step: int) -> dict[str, float]:
        """Read what is due at the end of ``step``; gives what was read."""
        if step < self.next_sample:
            return {}
        read: dict[str, float] = {}
        for metered in self._sensors:
            value = metered.read_if_due(step)
            if value is not None:
                name = metered.sensor.name
                read[name] = value - self._own_heap + self._cleaned_up if name == "heap" else value
                read.update(metered.sensor.beside)
        for name, number in read.items():
            if name not in self.series:  # what is read beside another one
                self.series[name] = Series()
            self.series[name].add(step, number)
        self.next_sample = min((metered.next_step for metered in self._sensors), default=step + 1)
        return read

    def want(self, step: int) -> None:
        """Read all that is cheap in each of the steps that follow ``step``: something is decided by them."""
        for metered in self._sensors:
            metered.want(step)
        self.next_sample = step + 1

    def start_over(self) -> None:
        """Forget all samples: steps are counted in another unit from now on."""
        self.next_sample = 1
        self.series.update((name, Series()) for name in self.series)
        for metered in self._sensors:
            metered.next_step = metered.first_step

    def stop(self) -> None:
        """Let go of the sensors; the samples stay."""
        self._sensors = []

    @contextmanager
    def own_work(self) -> Iterator[None]:
        """Run a dear part of GradGuard; what it leaves on the heap is not the program's growth.

        The cyclic collector waits meanwhile: what it frees is the program's.
        """
        with paused():
            before = self.heap_bytes()
            try:
                yield
            finally:
                self._own_heap += self.heap_bytes() - before

    def clean_up(self) -> None:
        """Free what is garbage now, and let the samples go on as if it were still there.

        What a program has left behind once, when it was set up, would be freed in the midst of a diagnosis, and look
        as if what grows had been emptied.
        """
        if gc.isenabled():
            before = self.heap_bytes()
            gc.collect()
            self._cleaned_up += max(before - self.heap_bytes(), 0)

    def heap_bytes(self) -> int:
        """Bytes in use on the heap, now; always 0 where that is not known."""
        return self._heap.read() if self._heap is not None else 0

    def memory(self) -> dict[str, float]:
        """Bytes in use now, by signal: of the host, without our own, and of each device that is sensed."""
        exact = [each.sensor for each in self._sensors if verdict.is_exact(each.sensor.name)]
        return {each.name: each.read() - (self._own_heap if each.name == "heap" else 0) for each in exact}

    def growing(self) -> dict[str, Trend]:
        """The signals that grow steadily now."""
        return verdict.growing(self.series)

    def telling(self) -> dict[str, Trend]:
        """The signals that grow steadily now, without those that are too noisy beside the others."""
        return verdict.telling(self.growing(), self.series)

    def go_on_growing(self, since: int, *, is_last: bool = False) -> bool | None:
        """Whether a signal that counts has grown after step ``since``; None where too little was seen to tell.

        Args:
            is_last: no more will be seen, and two samples must do.
        """
        fewest = 2 if is_last else FEW_POINTS
        counting = [(name, self.series[name]) for name in verdict.counting(self.series) & self.series.keys()]
        grown = {goes_on(s.steps, s.values, since, verdict.floor_of(name), fewest) for name, s in counting}
        return True if True in grown else None if grown <= {None} else False

    def peaks(self) -> dict[str, int]:
        """The most bytes of each signal; the allocator of a device knows also what came and went within a step."""
        found = {name: int(s.peak) for name, s in self.series.items() if s.peak is not None}
        for metered in self._sensors:
            if isinstance(metered.sensor, Cuda):
                found[metered.sensor.name] = max(found.get(metered.sensor.name, 0), metered.sensor.peak())
        return {name: peak for name, peak in found.items() if name not in verdict.COUNTS}
