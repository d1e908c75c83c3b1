"""What is noted while a function is read, and asked when it is judged.

Of most functions most of it stays empty: each collection is made when it is asked for, and one that got nothing goes.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradguard.static import tree as t
    from gradguard.static.branches import Entering
    from gradguard.static.definitions import Class
    from gradguard.static.events import Loop
    from gradguard.static.filled_later import Member
    from gradguard.static.state import Carry
    from gradguard.static.stored import Store
    from gradguard.static.values import Holdings, Root, Roots, Value


def _names(_: object) -> set[Any]:
    return set()


def _table(_: object) -> dict[Any, Any]:
    return {}


class FlowNotes:
    """The collections of a flow."""

    at_start: cached_property[set[str]] = cached_property(_names)
    beyond_start: cached_property[set[str]] = cached_property(_names)
    proven: cached_property[set[Root]] = cached_property(_names)
    proven_values: cached_property[set[Roots]] = cached_property(_names)
    handed: cached_property[dict[t.Call, tuple[int, Value]]] = cached_property(_table)
    escaped: cached_property[set[Root]] = cached_property(_names)
    hints: cached_property[dict[Root, str]] = cached_property(_table)
    carries: cached_property[dict[tuple[str, Loop], Carry]] = cached_property(_table)
    applied: cached_property[set[t.Define]] = cached_property(_names)
    sums: cached_property[dict[str, list[Value]]] = cached_property(_table)
    given_back: cached_property[dict[t.Call, str]] = cached_property(_table)
    unchanged: cached_property[dict[t.Call, dict[object, str]]] = cached_property(_table)
    properties: cached_property[dict[t.Attribute, t.Call]] = cached_property(_table)
    entering: cached_property[dict[t.Expr, Entering | None]] = cached_property(_table)
    elements: cached_property[dict[str, tuple[str, ...]]] = cached_property(_table)
    aliases_left: cached_property[dict[str, str]] = cached_property(_table)
    emptied: cached_property[set[str]] = cached_property(_names)
    detached: cached_property[set[str]] = cached_property(_names)
    drained: cached_property[set[t.Comprehension]] = cached_property(_names)
    rewritten: cached_property[dict[t.Call, t.Call]] = cached_property(_table)
    joined: cached_property[dict[t.Expr, Holdings]] = cached_property(_table)
    saving: cached_property[set[object]] = cached_property(_names)
    unpacked: cached_property[set[object]] = cached_property(_names)
    on_some_ways: cached_property[set[object]] = cached_property(_names)
    recurrent: cached_property[set[object]] = cached_property(_names)
    saving_inside: cached_property[set[object]] = cached_property(_names)
    freezing: cached_property[dict[tuple[str | None, Class], bool]] = cached_property(_table)
    asked_whether_leaf: cached_property[set[str]] = cached_property(_names)
    slots: cached_property[set[tuple[str, str | None]]] = cached_property(_names)
    renewed: cached_property[set[tuple[str, Loop | None]]] = cached_property(_names)
    given_members: cached_property[dict[object, Store]] = cached_property(_table)
    members: cached_property[dict[str, Member]] = cached_property(_table)
    entered: cached_property[dict[str, Loop | None]] = cached_property(_table)

    def let_go(self) -> None:
        """Drop what is empty: flows are kept as long as the run goes on, and it is made again if it is asked for."""
        for name in [name for name, value in vars(self).items() if name in _NOTES and not value]:
            del vars(self)[name]


_NOTES = frozenset(name for name, value in vars(FlowNotes).items() if isinstance(value, cached_property))
