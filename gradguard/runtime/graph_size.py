"""How large the graphs of a census are, and which of them contain the graphs of the last one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from gradguard.runtime.graph_walk import nodes_of
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
        limit: nodes to look at; the head is looked at in any case.
    """
    count, chained, freed = 0, False, False
    for each in nodes_of(node, max(limit, 1)):
        metadata = each.metadata
        chained = chained or (count > 0 and key in metadata.get(MARK, ()))  # below the head
        freed = freed or BACKPROPAGATED in metadata
        count += 1
    return Graph(count, chained, freed)


def devices_of(node: Any) -> set[Any]:
    """Where the first leaf is that is come upon below ``node``; empty where there is none soon."""
    leaves = (each.variable for each in nodes_of(node, MOST_LOOKED_INTO) if type(each).__name__ == LEAF)
    return {leaf.device for leaf in islice(leaves, 1)}


def leaves_below(node: Any) -> list[Any]:
    """The leaves that a backward from ``node`` adds a gradient to; of the largest graphs not all."""
    return [each.variable for each in nodes_of(node, MAX_NODES) if type(each).__name__ == LEAF]


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
        was_looked_at = self._left > 0  # of one that was not, nothing is known
        for each in nodes_of(node, self._left):
            self._left -= 1
            if not self._is_one(each):
                return False
        return was_looked_at

    def _is_one(self, node: Any) -> bool:
        name = type(node).__name__
        if name == LEAF:
            return issubclass(type(node.variable), self._torch.parameter_type)
        saved = self._saved_tensors.of(node)
        told = saved.count == saved.freed + len(saved.tensors) and not saved.packed
        small = all(0 < self._torch.storage_of(tensor)[1] <= SMALL for tensor in saved.tensors)
        return BUILT_IN.fullmatch(name) is not None and told and small
