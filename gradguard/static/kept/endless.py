"""Generators that never end: ``while True: yield batch()``. What keeps all that they give keeps more in each step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


def is_endless(flow: Flow, given: t.Expr) -> bool:
    """Whether an expression surely is a generator that never ends, or an object that gives one.

    ``feed(topic)``, the variable that this is bound to, ``Stream(seed)`` whose ``__iter__`` never ends.
    """
    made = _made(flow, given)
    if made is None:
        return False
    before, flow.dry = flow.dry, True  # it was read, and what it does is noted
    ref = flow.value(made.func, flow.final).ref
    flow.dry = before
    if isinstance(ref, Class):
        ref = ref.method("__iter__")
    return isinstance(ref, FunctionRef) and never_ends(ref.define)


def _made(flow: Flow, given: t.Expr) -> t.Call | None:
    """The call by which something is made: what it is, or what its variable is bound to."""
    if isinstance(given, t.Name):
        bound = flow.ref.assigned.get(given.id, [])
        given = bound[0] if len(bound) == 1 else given
    if isinstance(given, t.Call) and t.path_of(given.func) == "iter" and len(given.args) == 1:
        return _made(flow, given.args[0].value)
    return given if isinstance(given, t.Call) else None


def never_ends(define: t.Define) -> bool:
    """Whether a generator goes on for ever, and makes what it gives: nothing leaves its loop.

    What only goes over a collection again and again, ``while True: yield from names``, makes nothing new.
    """
    if not define.is_generator or any(isinstance(stmt, t.Return | t.Raise) for stmt in define.statements):
        return False
    loops = (stmt for stmt in define.body if isinstance(stmt, t.Repeat) and _goes_on(stmt))
    return any(not _breaks(loop.body) and any(map(_makes, _given_in(loop))) for loop in loops)


def _goes_on(loop: t.Repeat) -> bool:
    """Whether a loop has no end of its own: ``while True``, ``for step in itertools.count()``."""
    if loop.test is not None:
        return isinstance(loop.test, t.Constant) and bool(loop.test.value)
    over = loop.iterable
    return isinstance(over, t.Call) and t.path_of(over.func) in ("count", "itertools.count")


def _breaks(body: Sequence[t.Stmt]) -> bool:
    """Whether a ``break`` in a block ends the loop around it."""
    for stmt in body:
        if isinstance(stmt, t.Leave) and stmt.kind == "break":
            return True
        inner = [stmt.orelse] if isinstance(stmt, t.Repeat) else t.blocks(stmt)
        if any(map(_breaks, inner)):
            return True
    return False


def _given_in(loop: t.Repeat) -> Iterator[t.Expr]:
    """What is yielded in each iteration, or what its variable is bound to there."""
    bound = [s for s in t.walk_statements(loop.body) if isinstance(s, t.Assign)]
    for node in t.walk(loop.body):
        if isinstance(node, t.Suspend) and node.kind == "yield" and node.value is not None:
            names = {name.id for name in t.walk(node.value) if isinstance(name, t.Name)}
            yield node.value
            yield from (stmt.value for stmt in bound if not names.isdisjoint(_names(stmt)))


def _names(stmt: t.Assign) -> set[str]:
    return {name.id for target in stmt.targets for name in t.names_in(target) if isinstance(name, t.Name)}


def _makes(given: t.Expr) -> bool:
    """Whether an expression makes something, other than a number of Python's."""
    calls = [node for node in t.walk(given) if isinstance(node, t.Call)]
    return any((t.path_of(call.func) or "").split(".", 1)[0] not in _OF_NUMBERS for call in calls)


_OF_NUMBERS = ("random", "rng", "int", "float", "len", "round", "next")
