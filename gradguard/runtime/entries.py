"""Whether a dict goes on to gain entries: one with an entry for each class, or each client, is filled at some time."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradguard.runtime.roots import Root
    from gradguard.runtime.spots import Spot

FEWEST_STEPS = 16
"""Steps after which the rate of new entries can be compared with that before."""

MOST = 0.1
"""Of the former rate: what gains entries no faster than this has all that it will get."""


class Entries:
    """The number of entries of a dict, now and then.

    Args:
        owner: whose attribute it is: an object, or a module; it is not kept alive.
        name: of the attribute.
        step: now.
    """

    __slots__ = ("_first", "_last", "_last_step", "_name", "_owner", "_step")

    def __init__(self, owner: Any, name: str, step: int) -> None:
        self._owner = weakref.ref(owner)
        self._name = name
        self._step = self._last_step = step
        self._first = self._last = _count(owner, name) or 0

    def look(self, step: int) -> None:
        """Count again, if it is still there."""
        owner = self._owner()
        count = _count(owner, self._name) if owner is not None else None
        if count is not None:
            self._last, self._last_step = count, step

    @property
    def has_settled(self) -> bool:
        """Whether it has gained hardly anything since it was counted first, for a while."""
        later = self._last_step - self._step
        if later < max(FEWEST_STEPS, self._step // 2):
            return False
        return 0 <= self._last - self._first <= MOST * self._first / max(self._step, 1) * later


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
        if _count(parent, name) is not None:
            found = parent, name
        elif isinstance(spot.thing, dict):
            found = None  # a dict in a dict: that of the outer one is another number
        parent = spot.thing
    try:
        return Entries(*found, step) if found is not None else None
    except TypeError:  # it has slots, and none for a weak reference
        return None


def _count(owner: Any, name: str) -> int | None:
    value = getattr(owner, "__dict__", {}).get(name) if owner is not None else None
    return dict.__len__(value) if isinstance(value, dict) else None
