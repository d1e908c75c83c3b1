"""A graph that was read, arranged so that a person can read it; pure functions.

A graph is drawn as a chain: from the result back along the longest way to the leaves. What else goes into a node is a
branch of it. Leaves stand beside the node that uses them, what repeats along a chain is said once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from gradguard.alive import Chain, GraphNode, Link, More, Part, Repeat, State
from gradguard.findings import Place

MAX_LINES = 100
MAX_NESTING = 5
MAX_PERIOD = 200
LEAST_LINES = 4
LEAST_TIMES = 3
"""What comes fewer times in a row is written out."""

_VIEWS = frozenset(
    f"{name}Backward0" for name in "T Transpose Permute View UnsafeView Expand Unsqueeze Squeeze ToCopy Alias".split()
)


@dataclass(frozen=True, slots=True)
class Node:
    """One node as it was read: plain data.

    Args:
        operation: its name.
        inputs: indices of the nodes that it passes gradients to.
        leaf: the name of the leaf, if it is one.
    """

    operation: str
    inputs: tuple[int, ...] = ()
    leaf: str | None = None
    shapes: tuple[tuple[int, ...], ...] = ()
    state: State = "nothing"
    saved: int = 0
    step: int | None = None
    line: Place | None = None


def arrange(nodes: Sequence[Node], lines: int = MAX_LINES) -> Chain:
    """The graph as a chain with branches, folded and bounded.

    Args:
        nodes: the head first.
        lines: how many parts to show.
    """
    return _Arranger(nodes).arranged(lines)


@dataclass(slots=True, eq=False)
class _Entry:
    """A node on its chain, or at the end of one a link to a node on another."""

    index: int
    is_link: bool = False
    leaves: list[str] = field(default_factory=list)
    branches: list[_Chain] = field(default_factory=list)
    nodes: int = 1
    saved: int = 0
    signature: int = 0


@dataclass(slots=True, eq=False)
class _Chain:
    """Entries one after the other."""

    entries: list[_Entry]

    @property
    def nodes(self) -> int:
        return sum(entry.nodes for entry in self.entries)

    @property
    def saved(self) -> int:
        return sum(entry.saved for entry in self.entries)


class _Arranger:
    """Gives every node its place on one chain, finds what repeats, and writes down as much as there is room for."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self._depth = _depths(nodes)
        self._places: dict[int, tuple[_Chain, int]] = {}
        self._beside: set[int] = set()  # leaves and their views: they stand beside the nodes that use them
        self._signatures: dict[Any, int] = {}
        self._numbers: dict[int, int] = {}
        self._shown: list[int] = []
        self._linked: set[int] = set()

    def arranged(self, lines: int) -> Chain:
        chains = [self._chain(0)]
        for chain in chains:  # grows while it is gone through
            for entry in chain.entries:
                entry.branches += [self._chain(index) for index in self._waiting(entry)]
                chains += entry.branches
        for chain in reversed(chains):
            for entry in chain.entries:
                self._add_up(entry)
        self._written(chains[0], lines, 0)  # to see what is shown, and which of it is linked
        shown = [index for index in self._shown if index in self._linked]
        self._numbers = {index: number for number, index in enumerate(shown, 1)}
        return self._written(chains[0], lines, 0)[0]

    # --- chains

    def _chain(self, index: int) -> _Chain:
        """From ``index`` on along the longest way, as far as no other chain has gone it."""
        chain = _Chain([])
        while index not in self._places:
            self._places[index] = chain, len(chain.entries)
            chain.entries.append(self._entry(index))
            below = self._below(index)
            if not below:
                return chain
            index = max(below, key=lambda i: (i not in self._places, self._depth[i]))
        chain.entries.append(_Entry(index, is_link=True, nodes=0))
        return chain

    def _entry(self, index: int) -> _Entry:
        entry = _Entry(index, saved=self._nodes[index].saved)
        for each in self._nodes[index].inputs:
            leaf = self._as_leaf(each)
            if leaf is not None:
                name, ways = leaf
                entry.leaves.append(name)
                entry.nodes += len(set(ways) - self._beside)
                self._beside.update(ways)
        return entry

    def _below(self, index: int) -> list[int]:
        """The inputs that are more than a leaf."""
        return [each for each in self._nodes[index].inputs if self._as_leaf(each) is None]

    def _waiting(self, entry: _Entry) -> list[int]:
        """The inputs of a node that its own chain does not go on with."""
        if entry.is_link:
            return []
        chain, at = self._places[entry.index]
        following = chain.entries[at + 1].index if at + 1 < len(chain.entries) else None
        return [each for each in self._below(entry.index) if each != following]

    def _as_leaf(self, index: int) -> tuple[str, list[int]] | None:
        """The leaf that ``index`` is, or is a mere view of, and the nodes on the way to it."""
        ways, views = [index], []
        node = self._nodes[index]
        while node.leaf is None:
            if node.operation not in _VIEWS or len(node.inputs) != 1:
                return None
            views.append(node.operation.removesuffix("Backward0"))
            ways.append(node.inputs[0])
            node = self._nodes[node.inputs[0]]
        return node.leaf + "".join(f".{view}" for view in reversed(views)), ways

    # --- what repeats

    def _add_up(self, entry: _Entry) -> None:
        node = self._nodes[entry.index]
        for branch in entry.branches:
            entry.nodes += branch.nodes
            entry.saved += branch.saved
        looks: Any = (node.operation, node.shapes, node.state, *(re.sub(r"\d+", "#", leaf) for leaf in entry.leaves))
        below = tuple(tuple(each.signature for each in branch.entries) for branch in entry.branches)
        # A link has the look of its target: of each round to the round before, or of all to what they share.
        key = (entry.is_link, looks, below)
        entry.signature = self._signatures.setdefault(key, len(self._signatures))

    # --- writing

    def _written(self, chain: _Chain, lines: int, nesting: int) -> tuple[Chain, int]:
        """As many parts as there is room for, and how many lines they take."""
        entries = chain.entries
        parts: list[Part] = []
        used = at = 0
        rounds = _rounds([entry.signature for entry in entries])
        while at < len(entries):
            if used >= lines - 1 and (len(entries) - at > 1 or entries[at].branches):
                rest = entries[at:]
                parts.append(More(sum(e.nodes for e in rest), sum(e.saved for e in rest)))
                return tuple(parts), used + 1
            part, taken = self._part(entries[at], lines - used, nesting)
            parts.append(part)
            used, at = used + taken, at + 1
            if at in rounds:
                period, times = rounds[at]
                again = entries[at : at + period * times]
                parts.append(Repeat(sum(e.nodes for e in again[:period]), times, sum(e.saved for e in again)))
                used, at = used + 1, at + period * times
        return tuple(parts), used

    def _part(self, entry: _Entry, lines: int, nesting: int) -> tuple[Part, int]:
        node = self._nodes[entry.index]
        if entry.is_link:
            self._linked.add(entry.index)
            return Link(node.operation, self._numbers.get(entry.index)), 1
        self._shown.append(entry.index)
        branches, used = [], 1
        for branch in entry.branches:
            room = max((lines - used) // 3, LEAST_LINES)
            if nesting < MAX_NESTING:
                parts, taken = self._written(branch, room, nesting + 1)
            else:
                parts, taken = (More(branch.nodes, branch.saved),), 1
            branches.append(parts)
            used += taken
        return (
            GraphNode(
                operation=node.operation,
                shapes=node.shapes,
                state=node.state,
                saved=node.saved,
                leaves=tuple(entry.leaves),
                step=node.step,
                line=node.line,
                number=self._numbers.get(entry.index),
                branches=tuple(branches),
            ),
            used,
        )


def _depths(nodes: Sequence[Node]) -> list[int]:
    """The longest way from each node to a leaf."""
    waiting = [0] * len(nodes)
    for node in nodes:
        for each in node.inputs:
            waiting[each] += 1
    order = [index for index, count in enumerate(waiting) if not count]
    for index in order:  # grows while it is gone through
        for each in nodes[index].inputs:
            waiting[each] -= 1
            if not waiting[each]:
                order.append(each)
    depths = [0] * len(nodes)
    for index in reversed(order):
        depths[index] = 1 + max((depths[each] for each in nodes[index].inputs), default=0)
    return depths


def _rounds(signatures: Sequence[int]) -> dict[int, tuple[int, int]]:
    """Where a part of a chain is followed by itself.

    The position at which the second round begins; how many parts a round has, and how many rounds follow the first.
    """
    found: dict[int, tuple[int, int]] = {}
    same = _next_same(signatures)
    at = 0
    while at < len(signatures):
        best, following = (0, 0), same[at]
        while following is not None and following - at <= MAX_PERIOD:
            if following >= at + best[0] * (best[1] + 1):  # else a shorter round has covered it
                times = _times(signatures, at, following - at)
                if (following - at) * times > best[0] * best[1]:
                    best = following - at, times
            following = same[following]
        period, times = best
        if times + 1 >= LEAST_TIMES:
            found[at + period] = best
            at += period * (times + 1)
        else:
            at += 1
    return found


def _next_same(signatures: Sequence[int]) -> list[int | None]:
    found: list[int | None] = [None] * len(signatures)
    last: dict[int, int] = {}
    for at in range(len(signatures) - 1, -1, -1):
        found[at] = last.get(signatures[at])
        last[signatures[at]] = at
    return found


def _times(signatures: Sequence[int], at: int, period: int) -> int:
    """How often the ``period`` parts from ``at`` on follow once more."""
    end = at + period
    while end < len(signatures) and signatures[end] == signatures[end - period]:
        end += 1
    return (end - at - period) // period
