"""Which paths a statement binds, and to what, as it is written."""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.static import tree as t
from gradguard.static.program.functions import FunctionRef


def names_of(ref: FunctionRef, path: str) -> list[str]:
    """The paths by which a function has the same object: ``self.optimizer = optimizer``."""
    bound = (each for stmt in ref.define.statements if isinstance(stmt, t.Assign) for each in _pairs(stmt))
    beside = [name for pair in bound if path in pair for name in pair if name is not None and "[" not in name]
    return list(dict.fromkeys((path, *beside)))


def _pairs(stmt: t.Assign) -> Iterator[tuple[str | None, str | None]]:
    """The paths that a statement binds, each with that of its value, or with another one that gets the same value."""
    yield from ((t.path_of(target), t.path_of(value)) for target, value in t.pairs(stmt.targets, stmt.value))
    first, *others = map(t.path_of, stmt.targets)
    yield from ((first, other) for other in others)


def bound(stmt: t.Stmt, path: str) -> t.Expr | None:
    """What a statement binds a path to."""
    pairs = t.pairs(stmt.targets, stmt.value) if isinstance(stmt, t.Assign) else ()
    return next((value for target, value in pairs if t.path_of(target) == path), None)


def binds(stmt: t.Stmt, path: str) -> bool:
    """Whether a statement binds a path, alone or among others, or unbinds it."""
    targets: list[t.Expr] = []
    if isinstance(stmt, t.Assign | t.Delete):
        targets = stmt.targets
    elif isinstance(stmt, t.Repeat) and stmt.target is not None:
        targets = [stmt.target]
    elif isinstance(stmt, t.With):
        targets = [target for _, target in stmt.items if target is not None]
    return any(t.path_of(name) == path for target in targets for name in t.names_in(target))


def mentions(value: t.Expr, path: str) -> bool:
    """Whether an expression has a path in it: what is made of the old optimizer may share its groups."""
    return any(isinstance(node, t.Name | t.Attribute) and t.path_of(node) == path for node in t.walk(value))
