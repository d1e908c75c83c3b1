"""Loops over an object of the project, which does something of its own for each iteration: ``for x in batches``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradguard.static import places
from gradguard.static import tree as t
from gradguard.static.classes import Class
from gradguard.static.state import State

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_PASSING = frozenset("enumerate iter tqdm trange islice zip list".split())


def advancing(flow: Flow, stmt: t.Repeat, state: State) -> list[t.Call]:
    """The calls that a loop makes for each iteration: of ``__next__``, or of an ``__iter__`` that generates.

    Only an object that has a name is looked at: what one keeps that only the loop has, has no name either.
    """
    calls = []
    for expr in _objects(stmt.iterable) if stmt.iterable is not None else ():
        path = t.path_of(expr)
        cls = places.owner_of(flow, flow.canonical(path), state) if path is not None else None
        if cls is not None and (method := _advances(cls)) is not None:
            calls.append(t.Call(expr.origin, t.Attribute(expr.origin, expr, method), []))
    return calls


def _objects(iterable: t.Expr) -> list[t.Expr]:
    """What a loop goes over, also beside something else: ``enumerate(batches)``, ``zip(batches, range(9))``."""
    if not isinstance(iterable, t.Call) or (t.path_of(iterable.func) or "").rsplit(".", 1)[-1] not in _PASSING:
        return [iterable]
    return [expr for arg in iterable.args if not arg.keyword for expr in _objects(arg.value)]


def _advances(cls: Class) -> str | None:
    if cls.is_module or cls.method("__getitem__") is not None:
        return None
    if cls.method("__next__") is not None:
        return "__next__"
    iterating = cls.method("__iter__")
    return "__iter__" if iterating is not None and iterating.define.is_generator else None
