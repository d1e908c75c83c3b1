"""Which collection of a library keeps what no variable of the user's reaches: upward, by what refers to it.

``weakref.finalize`` keeps the arguments of each callback in a class of Python's own, a library its records in a global.
A census begins at the user's variables and does not get there; from a few of the tensors that are left over, it is a
few steps.
"""

from __future__ import annotations

import gc
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from types import FrameType, ModuleType
from typing import Any, NamedTuple

MOST_LEVELS = 8
MOST_AT_A_LEVEL = 200
"""More than this refers to everything, and tells nothing."""

_COLLECTIONS = (dict, list, set, deque)


class Kept(NamedTuple):
    """A collection and where it is.

    Args:
        collection: which.
        path: ``weakref.finalize._registry``.
        scope: ``class`` or ``global``.
    """

    collection: Any
    path: str
    scope: str


def keeper(samples: Sequence[Any]) -> Kept | None:
    """The collection of a class or a module in which two of the samples are, the nearest one.

    Args:
        samples: weak references to tensors.
    """
    found = [_registries_above(reference) for reference in samples[-2:]]
    if len(found) < 2:
        return None
    others = {id(kept.collection) for kept in found[1]}
    return next((kept for kept in found[0] if id(kept.collection) in others), None)


def _registries_above(sample: Any) -> list[Kept]:
    """The collections of classes and modules that lead to a tensor, the nearest first."""
    found: list[Kept] = []
    level = [each for each in [sample()] if each is not None]
    seen = {id(each) for each in level}
    ours = {id(level), id(found)}
    for _ in range(MOST_LEVELS):
        if found or not level or len(level) > MOST_AT_A_LEVEL:
            break  # each level is a pass over all objects
        above = []
        for each in gc.get_referrers(*level):
            owner = _owner(each)
            if owner is not None:
                found += _named(level, each, *owner)
            elif id(each) not in seen | ours and not isinstance(each, FrameType | ModuleType):
                above.append(each)
        seen.update(map(id, above))
        level = above
        ours.add(id(level))
    return found


def _owner(variables: Any) -> tuple[str, str] | None:
    """The module or the class whose variables are in this dict: its name and its scope."""
    if type(variables) is not dict or not isinstance(variables.get("__module__", variables.get("__name__")), str):
        return None
    module = sys.modules.get(variables.get("__name__", ""))
    if module is not None and vars(module) is variables:
        return module.__name__, "global"
    owner = next((each for each in gc.get_referrers(variables) if isinstance(each, type)), None)
    return None if owner is None else (f"{owner.__module__}.{owner.__qualname__}", "class")


def _named(things: list[Any], variables: dict[str, Any], owner: str, scope: str) -> Iterator[Kept]:
    """Those of ``things`` that are collections, and variables of a class or of a module."""
    collections = {id(each): each for each in things if isinstance(each, _COLLECTIONS)}
    for name, value in list(variables.items()):
        if id(value) in collections:
            yield Kept(value, f"{owner}.{name}", scope)
