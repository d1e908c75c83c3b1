"""The signals of a run, one module each. A sensor is read at the end of a step."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter_ns
from types import MappingProxyType
from typing import Protocol

BUDGET_MICROSECONDS = 1.0
"""What one sensor may cost in a step, amortised; a dearer one is read less often."""

LONGEST_PERIOD = 512

LONGEST_OF_THE_DEAR = 1 << 20

DENSE_STEPS = 64
"""The first steps are read one by one: a short run has no others."""

SELDOM, FEW = 128, 512
"""From then on each 64th part of the run is, until that is one step in 64; of a long one at least each 512th part."""


RISES, MOST_RISES = 2, 64
"""Readings in a row beyond all before: a leak may have begun, and for so many readings more is spent to see it."""

MORE_IN_A_RISE = 8
"""Times the budget."""

WANTED_STEPS = 12
"""Steps that are read one by one when something is to be decided."""


class Sensor(Protocol):
    """One signal.

    Args:
        name: as in the report: ``graphs``, ``heap``, ``pinned``, ``process``, ``cuda:0``.
        beside: what it saw with its last value, by name: no verdict rests on these.
    """

    name: str

    @property
    def beside(self) -> Mapping[str, int]: ...

    def read(self) -> int:
        """The value now."""
        ...


NOTHING: Mapping[str, int] = MappingProxyType({})
"""Beside the value of most sensors."""


class Metered:
    """Reads a sensor as often as its own cost allows.

    Args:
        sensor: what to read.
        budget: microseconds in a step, amortised.
        first_step: when it is read first.
        is_dear: never to be read at every step, and as rarely as its budget asks.
        floor: by how much the value must rise in a step to be beyond what was before; None: whatever it is, it says
            nothing.
    """

    def __init__(
        self,
        sensor: Sensor,
        budget: float = BUDGET_MICROSECONDS,
        first_step: int = 1,
        *,
        is_dear: bool = False,
        floor: float | None = None,
    ) -> None:
        self.sensor = sensor
        self.budget = budget
        self.cost = 0.0
        self.period = 1
        self.next_step = self.first_step = first_step
        self.rising = 0
        """Readings in a row that went beyond all before."""
        self._wanted_until = 0
        self._is_dear = is_dear
        self._floor = floor
        self._highest = 0.0
        self._last = 0

    def read_if_due(self, step: int) -> int | None:
        """The value, or None when it is not its turn."""
        if step < self.next_step:
            return None
        start = perf_counter_ns()
        value = self.sensor.read()
        spent = (perf_counter_ns() - start) / 1000
        # The mean moves slowly, and the first readings are the dearest: one of them must not make the sensor rare.
        self.cost = min(spent, self.cost or spent) if step < DENSE_STEPS else self.cost + (spent - self.cost) * 0.1
        # A series keeps some hundred points however long the run, and the last ones: what begins late is seen in these.
        affordable = max(int(self.cost / self.budget), min(step // DENSE_STEPS, max(SELDOM, step // FEW)))
        if RISES <= self._rise(step, value) < MOST_RISES:
            affordable = int(self.cost / self.budget / MORE_IN_A_RISE)
        if step < self._wanted_until:
            affordable = 0
        longest = min(step // 8, LONGEST_PERIOD) if step >= DENSE_STEPS else 1
        if self._is_dear:
            longest = LONGEST_OF_THE_DEAR
        # Powers of two: sensors that are read in the same steps leave the others quiet.
        self.period = min(1 << max(affordable - 1, 0).bit_length(), 1 << longest.bit_length() - 1)
        self.next_step = (step // self.period + 1) * self.period
        return value

    def want(self, step: int) -> None:
        """Something is decided by the samples of the steps after ``step``: read it in each, unless it is dear."""
        if not self._is_dear:
            self.next_step, self._wanted_until = step + 1, step + WANTED_STEPS

    def _rise(self, step: int, value: int) -> int:
        if self._floor is not None:
            is_beyond = value - self._highest >= self._floor * (step - self._last)
            self.rising = self.rising + 1 if is_beyond else 0
            self._highest, self._last = max(self._highest, value), step
        return self.rising
