"""The samples of one signal, in bounded memory however long the run."""

from __future__ import annotations

from collections import deque

LIMIT = 256
"""At most this many points; beyond, neighbours are merged and the stride doubles."""

RECENT = 48
"""So many of the last samples are kept as they were: what begins late in a long run is a small part of all."""


class Series:
    """The lower envelope of a signal: the least value of each stretch of ``stride`` samples.

    The least, because what a step uses for itself and gives back (activations, a batch of unusual size) is not growth.
    """

    def __init__(self) -> None:
        self.steps: list[int] = []
        self.values: list[float] = []
        self.recent: deque[tuple[int, float]] = deque(maxlen=RECENT)
        self.stride = 1
        self.peak: float | None = None
        self.last: float | None = None
        self._pending = 0

    def add(self, step: int, value: float) -> None:
        """Note the value at the end of ``step``."""
        self.last = value
        self.recent.append((step, value))
        if self.peak is None or value > self.peak:
            self.peak = value
        if self._pending:
            if value < self.values[-1]:
                self.values[-1] = value
        else:
            self.steps.append(step)
            self.values.append(value)
            if len(self.values) > LIMIT:
                self._halve()
        self._pending = (self._pending + 1) % self.stride

    def _halve(self) -> None:
        last = len(self.values) - 1  # LIMIT is even: an odd number of points, of which the last is just begun
        self.values = [min(pair) for pair in zip(self.values[0:last:2], self.values[1:last:2])] + self.values[last:]
        self.steps = self.steps[0::2]
        self.stride *= 2
        self._pending = 0
