"""How long a step takes: what came before the first one, and where it was looked closely, does not count."""

from __future__ import annotations

FEWEST = 5
"""Undisturbed steps below which the others count, too."""


class Pace:
    """Time per step, from when steps ended."""

    def __init__(self) -> None:
        self._first: tuple[int, float] | None = None
        self._last: tuple[int, float] | None = None
        self._aside_steps = 0
        self._aside_seconds = 0.0

    def step_ended(self, step: int, at: float, *, was_disturbed: bool = False) -> None:
        """Note when ``step`` has ended; steps may be left out, but not the one before a disturbed one.

        Args:
            step: which.
            at: the time, in seconds.
            was_disturbed: whether it was longer by our own work.
        """
        self._first = self._first or (step, at)
        if was_disturbed and self._last is not None:
            self._aside_steps += step - self._last[0]
            self._aside_seconds += at - self._last[1]
        self._last = step, at

    @property
    def seconds_per_step(self) -> float | None:
        """The mean, from the end of the first step on; None before the end of a second one."""
        if self._first is None or self._last is None:
            return None
        steps, seconds = self._last[0] - self._first[0], self._last[1] - self._first[1]
        if steps - self._aside_steps >= FEWEST:
            steps, seconds = steps - self._aside_steps, seconds - self._aside_seconds
        return seconds / steps if steps > 0 else None
