"""How large the graphs of a census are, and which of them contain the graphs of the last one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gradguard.runtime.sensors.graphs import KEY as BACKPROPAGATED
from gradguard.runtime.spots import Spot

MARK = "gradguard census"
MAX_NODES = 100_000


def follow(top: Spot, mark: bool) -> None:
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
