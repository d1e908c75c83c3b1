"""Autograd graphs of earlier steps that are still alive.

``grad_fn.metadata`` is a dict that lives exactly as long as the node in C++. A token that is put there when backward is
called dies with the graph's head, so the graphs alive are a counter, for a fraction of a microsecond. Graphs that are
never handed to backward (evaluation) do not show here; the heap shows them.
"""

from __future__ import annotations

from typing import Any

KEY = "gradguard"


class _Token:
    __slots__ = ("counter",)

    def __init__(self, counter: list[int]) -> None:
        self.counter = counter
        counter[0] += 1

    def __del__(self) -> None:
        self.counter[0] -= 1


class Graphs:
    """Counts the graphs that were handed to backward and are alive."""

    name = "graphs"
    in_bytes = False

    def __init__(self) -> None:
        self._alive = [0]

    def mark(self, node: Any) -> None:
        """Count the graph that ``node`` heads; once, however often it is backpropagated."""
        metadata = node.metadata
        if KEY not in metadata:
            metadata[KEY] = _Token(self._alive)

    def read(self) -> int:
        """Graphs alive now, that of the current step included."""
        return self._alive[0]
