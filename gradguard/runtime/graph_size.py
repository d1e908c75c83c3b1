"""How large the graphs of a census are, and which of them contain the graphs of the last one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gradguard.runtime.saved_tensors import SavedTensors
from gradguard.runtime.sensors.graphs import KEY as BACKPROPAGATED
from gradguard.runtime.sensors.graphs import LEAF
from gradguard.runtime.spots import Spot

if TYPE_CHECKING:
    from gradguard.runtime.torch_internals import TorchInternals

MARK = "gradguard census"
MAX_NODES = 100_000

MOST_LOOKED_INTO = 2_000
"""Nodes in one census whose saved tensors are looked at: those of the last few graphs."""

SMALL = 64
"""Bytes: a number that a node saved, or the mean."""

BUILT_IN = re.compile(r"\w+Backward\d+")
"""Nodes that keep nothing but what they saved; ``CopySlices`` and those that others wrote in C++ do not tell all."""


def follow(top: Spot, mark: bool, internals: TorchInternals) -> None:
    """Size the graphs of single tensors, and see whose graph contains the graph that it had at the last census.

    That is what tells a value that is carried from step to step from one that is made anew: the loss of this step is
    not part of the graph of the next one, the running sum is.
    """
    budget = MAX_NODES
    holders = [spot for spot in top.walk() if spot.slots]
    for spot in holders:
        key = "/".join(spot.path())
        for tensor in spot.slots:
            graph = measure(tensor.grad_fn, key, budget)
            budget -= graph.nodes
            spot.nodes += graph.nodes
            spot.chained = spot.chained or graph.chained
            spot.freed = spot.freed or graph.freed
    if mark:
        for spot in holders:
            for tensor in spot.slots:
                tensor.grad_fn.metadata.setdefault(MARK, set()).add("/".join(spot.path()))
        return
    bare = _Bare(internals)
    for spot in holders:
        spot.bare = spot.freed and all(bare.is_all(tensor.grad_fn) for tensor in spot.slots)


@dataclass(frozen=True, slots=True)
class Graph:
    """What following a graph told.

    Args:
        nodes: how many it has.
        chained: it contains the graph that was marked before.
        freed: a part of it was handed to backward, which frees the saved tensors: only nodes are left there.
    """

    nodes: int
    chained: bool
    freed: bool


def measure(node: Any, key: str, limit: int) -> Graph:
    """Follow the graph that ``node`` heads.

    Args:
        node: the head.
        key: the mark to look for below the head.
        limit: nodes to look at.
    """
    seen = {id(node): node}
    waiting = [node]
    chained = False
    freed = BACKPROPAGATED in node.metadata
    while waiting and len(seen) < limit:
        for following, _ in waiting.pop().next_functions:
            if following is not None and id(following) not in seen:
                seen[id(following)] = following
                waiting.append(following)
                chained = chained or key in following.metadata.get(MARK, ())
                freed = freed or BACKPROPAGATED in following.metadata
    return Graph(len(seen), chained, freed)


def leaves_below(node: Any) -> set[int]:
    """The ids of the leaves that a backward from ``node`` adds a gradient to; of the largest graphs not all."""
    seen = {id(node): node}
    waiting = [node]
    leaves = set()
    while waiting and len(seen) < MAX_NODES:
        each = waiting.pop()
        if type(each).__name__ == LEAF:
            leaves.add(id(each.variable))
        for following, _ in each.next_functions:
            if following is not None and id(following) not in seen:
                seen[id(following)] = following
                waiting.append(following)
    return leaves


class _Bare:
    """Tells whether a graph keeps nothing but its nodes: what they saved is freed, and its leaves are parameters.

    Args:
        internals: of torch.
    """

    def __init__(self, internals: TorchInternals) -> None:
        self._torch = internals
        self._saved_tensors = SavedTensors(internals.tensor_type)
        self._left = MOST_LOOKED_INTO

    def is_all(self, node: Any) -> bool:
        """Whether the whole graph below ``node`` is so, as far as it is looked at."""
        seen = {id(node): node}
        waiting = [node]
        while waiting and self._left > 0:
            self._left -= 1
            each = waiting.pop()
            if not self._is_one(each):
                return False
            for following, _ in each.next_functions:
                if following is not None and id(following) not in seen:
                    seen[id(following)] = following
                    waiting.append(following)
        return len(seen) > len(waiting)  # of one that was not looked at, nothing is known

    def _is_one(self, node: Any) -> bool:
        name = type(node).__name__
        if name == LEAF:
            return issubclass(type(node.variable), self._torch.parameter_type)
        saved = self._saved_tensors.of(node)
        told = saved.count == saved.freed + len(saved.tensors) and not saved.packed
        small = all(0 < self._torch.storage_of(tensor)[1] <= SMALL for tensor in saved.tensors)
        return BUILT_IN.fullmatch(name) is not None and told and small
