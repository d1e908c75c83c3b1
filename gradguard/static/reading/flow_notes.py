"""What is noted while a function is read, and asked when it is judged.

Of most functions most of it stays empty: each collection is made when it is asked for, and one that got nothing goes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from gradguard.static.memo import Remembers, cached_property, memo_of

if TYPE_CHECKING:
    from gradguard.static import tree as t
    from gradguard.static.events import Loop, Mode
    from gradguard.static.program.classes import Class
    from gradguard.static.reading.branches import Entering
    from gradguard.static.reading.filled_later import Member
    from gradguard.static.reading.state import Carry
    from gradguard.static.reading.suspended import Suspended
    from gradguard.static.stored import Store
    from gradguard.static.values import Holdings, Root, Roots, Value


def _names(_: object) -> set[Any]:
    return set()


def _table(_: object) -> dict[Any, Any]:
    return {}


class FlowNotes(Remembers):
    """The collections of a flow."""

    at_start: ClassVar[cached_property[set[str]]] = cached_property(_names)
    beyond_start: ClassVar[cached_property[set[str]]] = cached_property(_names)
    proven: ClassVar[cached_property[set[Root]]] = cached_property(_names)
    proven_values: ClassVar[cached_property[set[Roots]]] = cached_property(_names)
    handed: ClassVar[cached_property[dict[t.Call, tuple[int, Value]]]] = cached_property(_table)
    escaped: ClassVar[cached_property[set[Root]]] = cached_property(_names)
    hints: ClassVar[cached_property[dict[Root, str]]] = cached_property(_table)
    carries: ClassVar[cached_property[dict[tuple[str, Loop], Carry]]] = cached_property(_table)
    applied: ClassVar[cached_property[set[t.Define]]] = cached_property(_names)
    sums: ClassVar[cached_property[dict[str, list[Value]]]] = cached_property(_table)
    given_back: ClassVar[cached_property[dict[t.Call, str]]] = cached_property(_table)
    unchanged: ClassVar[cached_property[dict[t.Call, dict[object, str]]]] = cached_property(_table)
    properties: ClassVar[cached_property[dict[t.Attribute, t.Call]]] = cached_property(_table)
    entering: ClassVar[cached_property[dict[t.Expr, Entering | None]]] = cached_property(_table)
    suspended: ClassVar[cached_property[dict[t.Expr, list[Suspended]]]] = cached_property(_table)
    entered_modes: ClassVar[cached_property[dict[t.Expr, Mode]]] = cached_property(_table)
    elements: ClassVar[cached_property[dict[str, tuple[str, ...]]]] = cached_property(_table)
    aliases_left: ClassVar[cached_property[dict[str, str]]] = cached_property(_table)
    emptied: ClassVar[cached_property[set[str]]] = cached_property(_names)
    detached: ClassVar[cached_property[set[str]]] = cached_property(_names)
    marked: ClassVar[cached_property[set[str]]] = cached_property(_names)
    drained: ClassVar[cached_property[set[t.Comprehension]]] = cached_property(_names)
    rewritten: ClassVar[cached_property[dict[t.Call, t.Call]]] = cached_property(_table)
    as_assigned: ClassVar[cached_property[dict[t.Augment, t.Assign]]] = cached_property(_table)
    joined: ClassVar[cached_property[dict[t.Expr, Holdings]]] = cached_property(_table)
    saving: ClassVar[cached_property[set[object]]] = cached_property(_names)
    unpacked: ClassVar[cached_property[set[object]]] = cached_property(_names)
    without_graph: ClassVar[cached_property[set[t.Expr]]] = cached_property(_names)
    on_some_ways: ClassVar[cached_property[set[object]]] = cached_property(_names)
    recurrent: ClassVar[cached_property[set[object]]] = cached_property(_names)
    saving_inside: ClassVar[cached_property[set[object]]] = cached_property(_names)
    foreign: ClassVar[cached_property[set[str]]] = cached_property(_names)
    freezing: ClassVar[cached_property[dict[tuple[str | None, Class], bool]]] = cached_property(_table)
    asked_whether_leaf: ClassVar[cached_property[set[str]]] = cached_property(_names)
    slots: ClassVar[cached_property[set[tuple[str, str | None]]]] = cached_property(_names)
    renewed: ClassVar[cached_property[set[tuple[str, Loop | None]]]] = cached_property(_names)
    given_members: ClassVar[cached_property[dict[object, Store]]] = cached_property(_table)
    members: ClassVar[cached_property[dict[str, Member]]] = cached_property(_table)
    written: ClassVar[cached_property[dict[t.Stmt, tuple[Value, Mode]]]] = cached_property(_table)
    given_graphs: ClassVar[cached_property[dict[t.Node, frozenset[Root]]]] = cached_property(_table)
    entered: ClassVar[cached_property[dict[str, Loop | None]]] = cached_property(_table)

    def let_go(self) -> None:
        """Drop what is empty: flows are kept as long as the run goes on, and it is made again if it is asked for."""
        made = memo_of(self)
        for name in [name for name, value in made.items() if name in _NOTES and not value]:
            del made[name]


_NOTES = frozenset(name for name, value in vars(FlowNotes).items() if isinstance(value, cached_property))
for _name in _NOTES:
    vars(FlowNotes)[_name].__set_name__(FlowNotes, _name)  # as Python does, and mypyc does not
