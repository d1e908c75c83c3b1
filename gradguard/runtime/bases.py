"""What is in use when nothing waits for the cyclic collector: what really grows, beneath its saw-tooth."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

LAST = 3
"""So many looks tell: a jump lies between two of them, growth between all."""


class Bases:
    """Bytes in use after each look that has freed what was garbage."""

    def __init__(self) -> None:
        self._seen: list[tuple[int, Mapping[str, float]]] = []

    def add(self, step: int, memory: Mapping[str, float]) -> None:
        """Note what is in use.

        Args:
            step: that has just ended.
            memory: bytes, by signal.
        """
        self._seen = [*self._seen, (step, memory)][-LAST:]

    @property
    def since(self) -> int:
        """The step of the first look that tells; 0 before any."""
        return self._seen[0][0] if self._seen else 0

    def slopes(self) -> dict[str, float]:
        """Bytes a step by which each signal has grown from look to look; none of those that did not grow evenly."""
        if len(self._seen) < LAST:
            return {}
        names = set.intersection(*(set(memory) for _, memory in self._seen))
        slopes = {name: self._slope(name) for name in names}
        return {name: slope for name, slope in slopes.items() if slope > 0}

    def _slope(self, name: str) -> float:
        points = [(step, memory[name]) for step, memory in self._seen]
        overall = _between(points[0], points[-1])
        return overall if min(_between(a, b) for a, b in pairwise(points)) > 0.5 * overall else 0.0


def _between(first: tuple[int, float], second: tuple[int, float]) -> float:
    return (second[1] - first[1]) / max(second[0] - first[0], 1)
