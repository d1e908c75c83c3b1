"""Autograd graphs of earlier steps that are still alive.

``grad_fn.metadata`` is a dict that lives exactly as long as the node in C++. A token that is put there when backward is
called dies with the graph's head, so the graphs alive are a counter, for a fraction of a microsecond. Graphs that are
never handed to backward (evaluation) do not show here; the heap shows them.

In the steady state of a run a token in each backward would be most of what watching costs. Then the graphs of one step
in some are marked, and each of them counts for the steps up to the next one that is. Which step it is comes from a
fixed series of numbers that look like chance: what is kept in each tenth step is neither missed nor counted ten times.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradguard.runtime.graph_walk import nodes_of
from gradguard.runtime.sensors import NOTHING

KEY = "gradguard"
HELD = "gradguard held"

BELOW = 2
"""Nodes below the head that share its token: it lives as long as any of them."""

MOST_BACKWARDS = 2
"""Steps in which what is accumulated is backpropagated: one, or two where two losses share it."""

SELDOM = 32
"""In the steady state the graphs of one step in so many are marked."""

LEAF = "AccumulateGrad"
"""The node of a parameter, which lives as long as that."""


class _Marked:
    """The graphs that were marked in one step.

    Args:
        total: the sum over all that are marked, each with its weight.
        step: which, from 1; None where that is not known.
    """

    __slots__ = ("_total", "alive", "step", "weight")

    def __init__(self, total: list[int], step: int | None = None) -> None:
        self._total = total
        self.step = step
        self.alive = 0
        self.weight = 1
        """Steps that this one stands for."""

    def add(self, count: int) -> None:
        """There are so many more, or less, of them."""
        self.alive += count
        self._total[0] += count * self.weight

    def stand_for(self, steps: int) -> None:
        """Count for so many steps from now on."""
        self._total[0] += self.alive * (steps - self.weight)
        self.weight = steps


class _Token:
    """Counts itself for as long as it lives."""

    __slots__ = ("marked",)

    def __init__(self, marked: _Marked) -> None:
        self.marked = marked
        marked.add(1)

    @property
    def step(self) -> int | None:
        """The step in which the graph was backpropagated."""
        return self.marked.step

    def __del__(self) -> None:
        self.marked.add(-1)


class Held:
    """Whether one graph is still alive, and how often it was handed to backward since.

    Args:
        node: the graph's head.
    """

    __slots__ = ("_marked", "_seen_in_this_step", "consumed", "released")

    def __init__(self, node: Any) -> None:
        self._marked = _Marked([0])
        self._seen_in_this_step = False
        self.consumed = 0
        self.released = False
        node.metadata.setdefault(HELD, []).append(_Token(self._marked))

    @property
    def was_needed(self) -> bool:
        """Whether it was kept for its backward, and went with it.

        What outlives one backward after the other is not kept for any of them: a state that is carried on with
        ``retain_graph=True`` is part of every backward, and goes when its function returns.
        """
        return self.released and 0 < self.consumed <= MOST_BACKWARDS

    def look(self) -> None:
        """Note whether the graph is gone; at a step's end, since the end of the program frees everything."""
        self.released = self._marked.alive <= 0
        self.consumed += self._seen_in_this_step
        self._seen_in_this_step = False

    def look_for(self, node: Any, limit: int) -> None:
        """Note whether the graph is part of the one that ``node`` heads, which is handed to backward now.

        Args:
            node: the head.
            limit: nodes to look at.
        """
        for each in nodes_of(node, limit):
            if any(token.marked is self._marked for token in each.metadata.get(HELD, ())):
                self._seen_in_this_step = True
                return


class Graphs:
    """Counts the graphs that were handed to backward and are alive.

    Args:
        now: the step that has ended last; 0 where steps are not counted.
    """

    name = "graphs"
    beside = NOTHING

    def __init__(self, now: Callable[[], int] = lambda: 0) -> None:
        self._now = now
        self._total = [0]
        self._newest = _Marked(self._total)
        self._chance = 1
        self.next_step = 1
        """The step whose graphs are marked next."""

    def mark(self, node: Any, step: int | None = None) -> None:
        """Count the graph that ``node`` heads; once, however often it is backpropagated.

        Args:
            step: the step in which it is backpropagated, from 1.
        """
        if KEY in node.metadata:
            return
        if step is not None and step != self._newest.step:
            if self._newest.step is not None:
                self._newest.stand_for(max(step - self._newest.step, 1))
            self._newest = _Marked(self._total, step)
        token = _Token(self._newest)
        node.metadata[KEY] = token
        # What is kept is often not what was backpropagated but the value before: the loss, not the scaled loss.
        for _ in range(BELOW):
            following = node.next_functions
            node = following[0][0] if following else None
            if node is None or type(node).__name__ == LEAF or KEY in node.metadata:
                return
            node.metadata[KEY] = token

    def choose(self, step: int, *, each: bool) -> None:
        """Choose the step whose graphs are marked next.

        Args:
            step: that has just ended.
            each: whether it is to be the very next one.
        """
        if self._newest.step is not None and self._newest.step < self.next_step <= step:
            # Nothing was backpropagated in the step that was chosen, as in an evaluation: what is alive of the last
            # training step is no more than that.
            self._newest.stand_for(self.next_step - self._newest.step)
            self._newest = _Marked(self._total)
        if each:
            self.next_step = step + 1
        elif self.next_step <= step:
            self._chance = (self._chance * 1_103_515_245 + 12_345) % (1 << 31)  # as C's rand()
            self.next_step = step + 1 + (self._chance >> 16) % (2 * SELDOM - 1)

    def read(self) -> int:
        """Graphs alive now, that of the current step included; in the steady state about as many."""
        since = min(self._now(), self.next_step - 1) - self._newest.step if self._newest.step is not None else 0
        return self._total[0] + self._newest.alive * max(since, 0)
