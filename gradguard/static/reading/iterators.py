"""Loops over an object of the project, which does something of its own for each iteration: ``for x in batches``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.program.classes import Class
from gradguard.static.reading import places
from gradguard.static.reading.state import State
from gradguard.static.values import Kind, Value

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_PASSING = frozenset("enumerate iter tqdm trange islice zip list".split())


def begin(stmt: t.Repeat, state: State, iterable: Value | None) -> None:
    """Give a name to an object that only a loop has, ``for x in Batches(loader)``: it is made anew before the loop.

    Args:
        iterable: the value of what the loop goes over.
    """
    if iterable is not None and (name := _own_name(stmt, iterable)) is not None:
        state.assign(name, iterable)


def _own_name(stmt: t.Repeat, iterable: Value) -> str | None:
    made = t.path_of(stmt.iterable.func) if isinstance(stmt.iterable, t.Call) else None
    return f"{made}()" if made is not None and iterable.kind is Kind.INSTANCE else None


def advancing(flow: Flow, stmt: t.Repeat, state: State, iterable: Value | None) -> list[t.Call]:
    """The calls that a loop makes for each iteration: of ``__next__``, or of an ``__iter__`` that generates."""
    if stmt.iterable is None or iterable is None:
        return []
    own = _own_name(stmt, iterable)
    objects = _objects(stmt.iterable) if own is None else [t.Name(stmt.iterable.origin, own)]
    calls = []
    for expr in objects:
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
