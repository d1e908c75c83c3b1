"""What Python's cyclic collector frees (``gc.callbacks``): at no cost to a step."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ClassVar

OBJECTS_PER_STEP = 1.0
"""Objects that the collector frees in a step, from which on a look is worth its cost."""

BETWEEN = 16
"""Steps between two looks."""


@contextmanager
def paused() -> Iterator[None]:
    """The collector does not run in here."""
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_enabled:
            gc.enable()


class Collector:
    """Listens to the cyclic collector.

    Args:
        heap: bytes in use now; always 0 where that is not known.
    """

    _looks: ClassVar[int] = 0
    """Looks of ours that are going on: of watches in each other, too."""

    def __init__(self, heap: Callable[[], int]) -> None:
        self.collected = 0
        """Objects freed."""
        self.freed = 0
        """Bytes freed on the heap, since ``measures``."""
        self.peak = 0
        """The most bytes that one collection freed."""
        self.by_hand = 0
        """Collections that the program asked for while the collector was switched off."""
        self.measures = False
        self.first_step = 0
        self._heap = heap
        self._before = 0
        self._base = 0

    def install(self) -> Callable[[], None]:
        """Listen; returns what ends that."""
        gc.callbacks.append(self._note)
        return self._remove

    def _remove(self) -> None:
        if self._note in gc.callbacks:
            gc.callbacks.remove(self._note)

    @contextmanager
    def own(self) -> Iterator[None]:
        """A collection in here is ours, not the program's: what it frees counts all the same."""
        Collector._looks += 1
        try:
            yield
        finally:
            Collector._looks -= 1

    def _note(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._before = self._heap() if self.measures else 0
            return
        self.by_hand += not gc.isenabled() and not self._looks
        self.collected += info.get("collected", 0)
        if self._before:
            freed = self._before - self._heap()
            self.freed += max(freed, 0)
            self.peak = max(self.peak, freed)

    def is_busy(self, step: int) -> bool:
        """Whether it frees something in every step, since this was asked first."""
        if self.first_step == 0:
            self.first_step, self._base = step, self.collected
            return False
        rate = (self.collected - self._base) / max(step - self.first_step, 1)
        return rate >= OBJECTS_PER_STEP and step - self.first_step >= BETWEEN
