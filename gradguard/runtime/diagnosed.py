"""A place that grows, explained: the leak as it is reported, and what its judgement needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gradguard.findings import Leak, Place
from gradguard.runtime import caches, entries

if TYPE_CHECKING:
    from gradguard.runtime.sensors.graphs import Held

SELDOM = 0.5
"""Entries a step: a key that is new in each step is none that comes again."""

CARRIED = ("sum", "average", "carried")
"""The forms of one value that contains those of all steps before, not a collection of them."""


@dataclass(frozen=True, slots=True)
class Diagnosed:
    """A place that grows, explained.

    Args:
        leak: without its bytes per step, which the signals tell.
        storage_per_step: bytes of tensors that Python sees, in a step.
        nodes_per_step: autograd nodes, or objects of extensions, in a step: what Python does not see is theirs.
        freed: the graphs were backpropagated: nodes are left, and no saved tensors.
        is_bare: that was looked at, as are the leaves: what its graphs keep is bounded by the number of nodes.
        excuse: why it is no leak after all: emptied, consumed, filling, inputs, items; None when it is one.
        excuse_at: the statement that says so.
        step: when it was found.
        rate: bytes that the program's memory grew in a step, when growth was established.
        held: the graph that was stored last, when it was found.
        is_made_from_others: a variable that the loop binds before it reads it; what it holds comes from another one.
        asked: what the cache is asked for, if it is one of ``functools``.
        entries: of the dict that it stores into under keys.
        comes_back: the cyclic collector runs and frees it: memory is taken for longer than needed, and is not lost.
        with_model: what waits for it are models, or contexts of an autograd function.
    """

    leak: Leak
    storage_per_step: float
    nodes_per_step: float
    freed: bool
    excuse: str | None
    excuse_at: Place | None
    step: int
    rate: float = 0.0
    is_bare: bool = False
    held: Held | None = None
    is_made_from_others: bool = False
    asked: caches.Asked | None = None
    entries: entries.Entries | None = None
    comes_back: bool = False
    with_model: bool = False

    @property
    def path(self) -> str:
        """The holder's path."""
        return self.leak.holder.path if self.leak.holder is not None else "?"

    @property
    def is_certain(self) -> bool:
        """Whether it is a leak before the run is over: what holds no graph may be a cache that is being filled.

        So may be a dict that gains an entry now and then, one for each class or each client, and a module that gets
        its hooks one after the other.
        """
        is_sure = self.leak.kind in ("graph", "hook", "cycle", "exception")
        may_fill = self.is_keyed or self.leak.kind == "hook"
        return self.excuse is None and is_sure and not (may_fill and (self.leak.per_step or 1.0) < SELDOM)

    @property
    def is_keyed(self) -> bool:
        """Whether it stores under a key, which may come again and again."""
        return self.leak.form == "index"

    @property
    def is_leak(self) -> bool:
        """Whether it is one of any kind but results collected on purpose; not growth that nobody can name."""
        named = self.leak.holder is not None and self.leak.holder.scope == "internal"
        return self.leak.kind != "collected" and (self.leak.kind != "heap" or named) and not self.is_garbage

    @property
    def is_garbage(self) -> bool:
        """Whether it waits for a collector that runs, and is no model that a class keeps: a tree whose nodes know their
        parents is Python's everyday garbage.
        """
        holder = self.leak.holder
        if not self.comes_back or holder is None:
            return False
        is_kept = holder.scope == "attribute" or holder.path.startswith("ctx.")
        return not (is_kept and self.with_model)

    @property
    def is_retracted(self) -> bool:
        """Whether it was needed after all: backpropagated since, and freed with that."""
        return self.held is not None and self.held.was_needed

    @property
    def is_carried(self) -> bool:
        """Whether it is one value that contains those of all steps before."""
        return self.leak.form in CARRIED


def distinct(found: Sequence[Diagnosed]) -> list[Diagnosed]:
    """Each holder once; of variables made from each other, only those that are carried from step to step."""
    own = [each for each in found if not each.is_made_from_others] or found
    return [_together([d for d in own if d.path == path]) for path in dict.fromkeys(each.path for each in own)]


def _together(found: Sequence[Diagnosed]) -> Diagnosed:
    """Several entries of one collection."""
    first = found[0]
    return replace(
        first,
        leak=replace(first.leak, per_step=round(sum(d.leak.per_step or 0.0 for d in found), 3)),
        storage_per_step=sum(d.storage_per_step for d in found),
        nodes_per_step=sum(d.nodes_per_step for d in found),
    )
