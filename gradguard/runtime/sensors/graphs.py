"""Autograd graphs of earlier steps that are still alive.

``grad_fn.metadata`` is a dict that lives exactly as long as the node in C++. A token that is put there when backward is
called dies with the graph's head, so the graphs alive are a counter, for a fraction of a microsecond. Graphs that are
never handed to backward (evaluation) do not show here; the heap shows them.
"""

from __future__ import annotations

from typing import Any

from gradguard.runtime.graph_walk import nodes_of
from gradguard.runtime.sensors import NOTHING

KEY = "gradguard"
HELD = "gradguard held"

BELOW = 2
"""Nodes below the head that share its token: it lives as long as any of them."""

MOST_BACKWARDS = 2
"""Steps in which what is accumulated is backpropagated: one, or two where two losses share it."""

LEAF = "AccumulateGrad"
"""The node of a parameter, which lives as long as that."""


class _Token:
    """Counts itself for as long as it lives."""

    __slots__ = ("counter", "step")

    def __init__(self, counter: list[int], step: int | None = None) -> None:
        self.counter = counter
        self.step = step
        counter[0] += 1

    def __del__(self) -> None:
        self.counter[0] -= 1


class Held:
    """Whether one graph is still alive, and how often it was handed to backward since.

    Args:
        node: the graph's head.
    """

    __slots__ = ("_alive", "_seen_in_this_step", "consumed", "released")

    def __init__(self, node: Any) -> None:
        self._alive = [0]
        self._seen_in_this_step = False
        self.consumed = 0
        self.released = False
        node.metadata.setdefault(HELD, []).append(_Token(self._alive))

    @property
    def was_needed(self) -> bool:
        """Whether it was kept for its backward, and went with it.

        What outlives one backward after the other is not kept for any of them: a state that is carried on with
        ``retain_graph=True`` is part of every backward, and goes when its function returns.
        """
        return self.released and 0 < self.consumed <= MOST_BACKWARDS

    def look(self) -> None:
        """Note whether the graph is gone; at a step's end, since the end of the program frees everything."""
        self.released = self._alive[0] <= 0
        self.consumed += self._seen_in_this_step
        self._seen_in_this_step = False

    def look_for(self, node: Any, limit: int) -> None:
        """Note whether the graph is part of the one that ``node`` heads, which is handed to backward now.

        Args:
            node: the head.
            limit: nodes to look at.
        """
        for each in nodes_of(node, limit):
            if any(token.counter is self._alive for token in each.metadata.get(HELD, ())):
                self._seen_in_this_step = True
                return


class Graphs:
    """Counts the graphs that were handed to backward and are alive."""

    name = "graphs"
    beside = NOTHING

    def __init__(self) -> None:
        self._alive = [0]

    def mark(self, node: Any, step: int | None = None) -> None:
        """Count the graph that ``node`` heads; once, however often it is backpropagated.

        Args:
            step: the step in which it is backpropagated, from 1.
        """
        if KEY in node.metadata:
            return
        token = _Token(self._alive, step)
        node.metadata[KEY] = token
        # What is kept is often not what was backpropagated but the value before: the loss, not the scaled loss.
        for _ in range(BELOW):
            following = node.next_functions
            node = following[0][0] if following else None
            if node is None or type(node).__name__ == LEAF or KEY in node.metadata:
                return
            node.metadata[KEY] = token

    def read(self) -> int:
        """Graphs alive now, that of the current step included."""
        return self._alive[0]
