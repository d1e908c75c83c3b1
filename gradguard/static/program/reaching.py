"""The assignments that give a variable the value that it has at a place: on all of the ways that lead there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gradguard.static import tree as t


class Bound(NamedTuple):
    """What a path is bound to.

    Args:
        value: None where it is bound otherwise, as by a loop, or changed in place.
        place: of several targets, which one it is.
    """

    value: t.Expr | None
    place: int | None = None


_OTHERWISE = Bound(None)


def bound_at(define: t.Define, node: t.Node, path: str) -> list[Bound]:
    """What a path may be bound to where a node stands; none if it may have its value from elsewhere."""
    levels, found = levels_of(define.body, node), list[Bound]()
    for depth in range(len(levels) - 1, -1, -1):
        block, at = levels[depth]
        before, goes_on = _last(block[:at], path)
        found += before
        if not goes_on:
            return found
        if depth:
            outer, place = levels[depth - 1]
            found += _by_block(outer[place], block, path)
    return []


def levels_of(body: list[t.Stmt], node: t.Node) -> list[tuple[list[t.Stmt], int]]:
    """The blocks around a node, the outer ones first, each with where it stands; none in another function."""
    for place, stmt in enumerate(body):
        if t.is_in(node, [stmt]):
            if isinstance(stmt, t.Define | t.DefineClass):
                return []
            inner = (found for block in t.blocks(stmt) if (found := levels_of(block, node)))
            below = next(inner, None)
            if below is None and any(t.is_in(node, block) for block in t.blocks(stmt)):
                return []
            return [(body, place), *(below or [])]
    return []


def _last(body: list[t.Stmt], path: str) -> tuple[list[Bound], bool]:
    """What a path is bound to at the end of a block, and whether it may be what it was before."""
    found: list[Bound] = []
    for stmt in reversed(body):
        here, goes_on = _binds(stmt, path)
        found += here
        if not goes_on:
            return found, False
    return found, True


def _binds(stmt: t.Stmt, path: str) -> tuple[list[Bound], bool]:
    """What one statement binds a path to, and whether it may leave it."""
    if isinstance(stmt, t.Assign):
        here = list(_assigned(stmt, path))
        return here, not here
    if isinstance(stmt, t.Augment):
        is_changed = t.path_of(stmt.target) == path
        return [_OTHERWISE] if is_changed else [], not is_changed
    if isinstance(stmt, t.Evaluate):
        is_changed = _changes(stmt.value, path)
        return [_OTHERWISE] if is_changed else [], not is_changed
    if isinstance(stmt, t.Try):
        return _by_try(stmt, path)
    blocks = t.blocks(stmt)
    ends = [_last(block, path) for block in blocks if not t.leaves(block)]
    found = [each for end, _ in ends for each in end]
    if isinstance(stmt, t.If | t.With):
        is_bound = isinstance(stmt, t.With) and path in _names_of(stmt)
        return [*found, _OTHERWISE] if is_bound else found, any(goes_on for _, goes_on in ends)
    if isinstance(stmt, t.Repeat) and path in _names_of(stmt):
        found.append(_OTHERWISE)
    return found, True


def _by_try(stmt: t.Try, path: str) -> tuple[list[Bound], bool]:
    """A handler may run when some of the block has."""
    tried, goes_on = _last([*stmt.body, *stmt.orelse], path)
    for handler in stmt.handlers:
        if not t.leaves(handler.body):
            more, goes_past = _last(handler.body, path)
            tried, goes_on = tried + more, goes_on or goes_past
    last, is_left = _last(stmt.final, path)
    return (last + tried, goes_on) if is_left else (last, False)


def _by_block(stmt: t.Stmt, block: list[t.Stmt], path: str) -> list[Bound]:
    """What a statement around a block, or the block itself in the iteration before, binds a path to."""
    if path in _names_of(stmt):
        return [_OTHERWISE]
    if isinstance(stmt, t.Repeat):
        return _last(block, path)[0]
    if isinstance(stmt, t.Try) and block is not stmt.body:
        return _last([*stmt.body, *stmt.orelse], path)[0]
    return []


def _assigned(stmt: t.Assign, path: str) -> Iterator[Bound]:
    for target, value in t.pairs(stmt.targets, stmt.value):
        if t.path_of(target) == path:
            yield Bound(value)
        elif isinstance(target, t.Display):
            items = [t.path_of(item) for item in target.items]
            is_plain = not any(isinstance(item, t.Starred) for item in target.items)
            if path in items and is_plain:
                yield Bound(value, items.index(path))
            elif any(t.path_of(name) == path for name in t.names_in(target)):
                yield _OTHERWISE
        elif isinstance(target, t.Subscript) and t.path_of(target.value) == path:
            yield _OTHERWISE


def _changes(expr: t.Expr, path: str) -> bool:
    """Whether a call changes something in place: ``out.log_()``, ``losses.append(loss)``."""
    func = expr.func if isinstance(expr, t.Call) else None
    if not isinstance(func, t.Attribute) or t.path_of(func.value) != path:
        return False
    return func.name.endswith("_") or func.name in ("append", "extend", "insert", "add", "update")


def _names_of(stmt: t.Stmt) -> list[str | None]:
    """The paths that a loop, or a context, binds."""
    if isinstance(stmt, t.Repeat) and stmt.target is not None:
        return [t.path_of(name) for name in t.names_in(stmt.target)]
    if isinstance(stmt, t.With):
        return [t.path_of(name) for _, bound in stmt.items if bound is not None for name in t.names_in(bound)]
    return []
