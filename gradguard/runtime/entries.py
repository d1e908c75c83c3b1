"""Whether a dict goes on to gain entries: one with an entry for each class, or each client, is filled at some time.

If the graph of an entry goes on from the one that it replaces, it never is: ``d[k] = 0.9 * d[k] + 0.1 * loss``.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from gradguard.runtime.graph_walk import nodes_of

if TYPE_CHECKING:
    from gradguard.runtime.roots import Root
    from gradguard.runtime.spots import Spot

FEWEST_STEPS = 16
"""Steps after which the rate of new entries can be compared with that before."""

MOST = 0.1
"""Of the former rate: what gains entries no faster than this has all that it will get."""

SAMPLED = 4
"""Entries whose graphs are measured."""

MOST_NODES = 500
"""Of one graph."""

COUNTED = 2_048
"""Entries that are looked at, evenly among all: some hundred microseconds."""

MOST_ENTRIES = 200_000
"""Of more all count: to go over them takes longer than to look at some."""

PLAIN = frozenset({type(None), bool, int, float, str})
"""What an entry is until something is kept in it: a table that has a number for each sample is not full."""


class Entries:
    """The number of entries of a dict, now and then, and how large the graphs of the first ones are.

    Args:
        owner: whose attribute it is: an object, or a module; it is not kept alive.
        name: of the attribute.
        step: now.
    """

    __slots__ = ("_first", "_first_nodes", "_last", "_last_step", "_name", "_nodes", "_owner", "_step")

    def __init__(self, owner: Any, name: str, step: int) -> None:
        self._owner = weakref.ref(owner)
        self._name = name
        self._step = self._last_step = step
        held = _dict_of(owner, name) or {}
        self._first = self._last = _filled(held)
        self._first_nodes = self._nodes = _nodes(held)

    def look(self, step: int) -> None:
        """Count again, if it is still there."""
        held = _dict_of(self._owner(), self._name)
        if held is not None:
            self._last, self._last_step, self._nodes = _filled(held), step, _nodes(held)

    @property
    def has_settled(self) -> bool:
        """Whether it has gained hardly anything since it was counted first, for a while, nor have its entries."""
        later = self._last_step - self._step
        if later < max(FEWEST_STEPS, self._step // 2) or self._goes_on:
            return False
        return 0 <= self._last - self._first <= MOST * self._first / max(self._step, 1) * later

    @property
    def _goes_on(self) -> bool:
        """Whether the graphs of its entries have become larger: each holds the one that it has replaced."""
        return self._first_nodes > 0 and self._nodes > 1.5 * self._first_nodes + SAMPLED


def of(chain: Sequence[Spot], root: Root | None, step: int) -> Entries | None:
    """The entries of the innermost dict on the way to a place, where somebody has it as an attribute.

    None where what grows is one list or tuple in it: that gets longer however many entries there are.
    """
    if chain and isinstance(chain[-1].thing, list | tuple):
        return None
    parent: Any = sys.modules.get(root.name) if root is not None and root.scope == "global" else None
    found = None
    for spot in chain:
        name = spot.label.removeprefix(".")
        if _dict_of(parent, name) is not None:
            found = parent, name
        elif isinstance(spot.thing, dict):
            found = None  # a dict in a dict: that of the outer one is another number
        parent = spot.thing
    try:
        return Entries(*found, step) if found is not None else None
    except TypeError:  # it has slots, and none for a weak reference
        return None


def _dict_of(owner: Any, name: str) -> dict[Any, Any] | None:
    value = getattr(owner, "__dict__", {}).get(name) if owner is not None else None
    return value if isinstance(value, dict) else None


def _filled(held: dict[Any, Any]) -> int:
    """About how many entries hold something, if any does; else, or where they are too many, how many there are."""
    known = dict.__len__(held)
    if known > MOST_ENTRIES:
        return known
    every = max(known // COUNTED, 1)
    looked_at = islice(dict.values(held), 0, None, every)
    return every * sum(type(value) not in PLAIN for value in looked_at) or known


def _nodes(held: dict[Any, Any]) -> int:
    """How many nodes the graphs of the first entries have."""
    tensor = getattr(sys.modules.get("torch"), "Tensor", ())
    try:
        heads = [value.grad_fn for value in islice(dict.values(held), SAMPLED) if isinstance(value, tensor)]
        return sum(sum(1 for _ in nodes_of(head, MOST_NODES)) for head in heads if head is not None)
    except Exception:  # a tensor of somebody's own making
        return 0
