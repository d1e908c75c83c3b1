"""The tree of places in the user's own words that a census fills (:mod:`gradguard.runtime.census`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class Spot:
    """A place that holds something.

    Its counts are its own; :meth:`total` adds those of all spots below.
    """

    __slots__ = (
        "attached",
        "bare",
        "below",
        "chained",
        "count",
        "devices",
        "freed",
        "ident",
        "label",
        "length",
        "logical",
        "natives",
        "nodes",
        "other",
        "owner",
        "parent",
        "slots",
        "storage",
        "tensors",
        "thing",
        "witness",
    )

    def __init__(self, parent: Spot | None, label: str) -> None:
        self.parent = parent
        self.label = label
        self.below: dict[str, Spot] = {}
        self.thing: Any = None
        self.owner: type | None = None
        self.ident = 0
        self.count = 0
        self.length = 0
        self.tensors = 0
        self.attached = 0
        self.storage = 0
        self.logical = 0
        self.other = 0
        self.natives = 0
        self.nodes = 0
        self.chained = False
        self.freed = False
        self.bare = False
        self.slots: list[Any] = []
        self.devices: set[Any] = set()
        self.witness: Any = None

    def child(self, label: str) -> Spot:
        """The spot below under this piece of path."""
        found = self.below.get(label)
        if found is None:
            found = self.below[label] = Spot(self, label)
        return found

    def path(self) -> tuple[str, ...]:
        """The pieces of the path from the root."""
        pieces = []
        spot: Spot | None = self
        while spot is not None:
            pieces.append(spot.label)
            spot = spot.parent
        return tuple(reversed(pieces))

    def chain(self) -> list[Spot]:
        """The spots from the root to this one."""
        found: list[Spot] = []
        spot: Spot | None = self
        while spot is not None:
            found.append(spot)
            spot = spot.parent
        return found[::-1]

    def walk(self) -> Iterator[Spot]:
        """This spot and all below."""
        waiting = [self]
        while waiting:
            spot = waiting.pop()
            yield spot
            waiting.extend(spot.below.values())

    def forget(self) -> None:
        """Drop every reference to the user's objects, here and below; the counts stay."""
        for spot in self.walk():
            spot.thing = None
            spot.slots = []

    def dissolve(self) -> None:
        """Take the tree apart, so that it goes without the cyclic collector."""
        for spot in list(self.walk()):
            spot.thing = spot.parent = None
            spot.slots = []
            spot.below = {}
