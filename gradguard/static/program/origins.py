"""The expressions that make a value: followed through names, tuples, dicts, records, attributes and functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.program.classes import Class
from gradguard.static.program.functions_called import functions_run

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_DEEPEST = 6


class Origin:
    """An expression, in the function that it stands in."""

    def __init__(self, flow: Flow, expr: t.Expr) -> None:
        self.flow, self.expr = flow, expr


def origins(flow: Flow, expr: t.Expr, depth: int = 0) -> Iterator[Origin]:
    """What makes the value of an expression, on each way; what cannot be followed is itself."""
    waiting, seen = [(Origin(flow, expr), depth)], {id(expr)}
    while waiting:
        whole, far = waiting.pop()
        found = list(_next(whole.flow, whole.expr, far)) if far < _DEEPEST else []
        if not found or any(each.expr is whole.expr for each in found):
            yield whole
        waiting += [(each, far + 1) for each in found if id(each.expr) not in seen]
        seen.update(id(each.expr) for each in found)


def _next(flow: Flow, expr: t.Expr, depth: int) -> Iterator[Origin]:
    if isinstance(expr, t.Call):
        yield from _returned(flow, expr)
        return
    bound = list(_bound(flow, t.path_of(expr), depth))
    yield from bound
    if bound:
        return
    if isinstance(expr, t.Subscript) and isinstance(expr.index, t.Constant):
        yield from _parts(flow, expr, expr.value, expr.index.value, depth)
    elif isinstance(expr, t.Attribute) and t.path_of(expr.value) == "self":
        yield from _of_object(flow, expr.name)
    elif isinstance(expr, t.Attribute):
        yield from _parts(flow, expr, expr.value, expr.name, depth)


def _returned(flow: Flow, call: t.Call) -> Iterator[Origin]:
    """What the functions of the program that a call runs return."""
    for ref in functions_run(flow, call):
        inner = flow.project.flow(ref)
        if inner is not None:
            yield from (Origin(inner, value) for value in ref.given_back())


def _bound(flow: Flow, path: str | None, depth: int) -> Iterator[Origin]:
    """What the function binds a path to, also as one of several: ``q, mean = self.encode(x)``."""
    if path is None:
        return
    bound = (stmt for stmt in flow.ref.define.statements if isinstance(stmt, t.Assign))
    for target, value in (pair for stmt in bound for pair in t.pairs(stmt.targets, stmt.value)):
        if t.path_of(target) == path:
            yield Origin(flow, value)
        for place, item in enumerate(target.items if isinstance(target, t.Display) else ()):
            if t.path_of(item) == path:
                yield from _parts(flow, item, value, place, depth)


def _of_object(flow: Flow, name: str) -> Iterator[Origin]:
    """What the methods of its object assign to an attribute."""
    for cls in flow.ref.owner.lineage() if flow.ref.owner is not None else ():
        for define, value in cls.assigned(name):
            method = cls.methods.get(define.name)
            inner = flow.project.flow(method) if method is not None else None
            if inner is not None:
                yield Origin(inner, value)


def _parts(flow: Flow, expr: t.Expr, whole: t.Expr, key: object, depth: int) -> Iterator[Origin]:
    """What makes a part of something, on each way; the expression itself where it cannot be told."""
    for each in origins(flow, whole, depth + 1):
        part = _part(each, key)
        yield Origin(flow, expr) if part is None else Origin(each.flow, part)


def _part(whole: Origin, key: object) -> t.Expr | None:
    expr = whole.expr
    if isinstance(expr, t.Display):
        return expr.items[key] if isinstance(key, int) and 0 <= key < len(expr.items) else None
    if isinstance(expr, t.DictDisplay):
        entries = (value for name, value in expr.entries if isinstance(name, t.Constant) and name.value == key)
        return next(entries, None)
    cls = whole.flow.module.value_of(expr.func).ref if isinstance(expr, t.Call) else None
    if isinstance(expr, t.Call) and isinstance(cls, Class) and cls.is_record and key in cls.fields:
        return expr.argument(str(key), cls.fields.index(str(key)))
    return None
