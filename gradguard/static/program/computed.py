"""What the statements of a function compute of what, with its graph, as far as they are written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gradguard.static import tree as t


class Computed(NamedTuple):
    """A statement that keeps what it computes.

    Args:
        bound: the paths that it binds, or that of the list that ``losses.append(loss)`` makes longer.
        calls: those whose results have a part in it.
        paths: what else has one.
    """

    bound: tuple[str, ...]
    calls: frozenset[t.Node]
    paths: frozenset[str]


def computed_in(define: t.Define) -> Iterator[Computed]:
    """The statements of a function that keep what they compute."""
    for stmt in define.statements:
        value = stmt.value if isinstance(stmt, t.Assign | t.Augment | t.Evaluate) else None
        bound = tuple(_bound_by(stmt)) if value is not None else ()
        if bound and value is not None:
            nodes = list(with_graph(value))
            calls = frozenset(node for node in nodes if isinstance(node, t.Call))
            yield Computed(bound, calls, frozenset(filter(None, map(path_of, nodes))))


def _bound_by(stmt: t.Stmt) -> Iterator[str]:
    if isinstance(stmt, t.Assign):
        found: list[t.Expr] = [each for target in stmt.targets for each in t.names_in(target)]
    else:
        func = stmt.value.func if isinstance(stmt, t.Evaluate) and isinstance(stmt.value, t.Call) else None
        is_longer = isinstance(func, t.Attribute) and func.name == "append"
        found = [func.value] if is_longer and isinstance(func, t.Attribute) else []
        found = [stmt.target] if isinstance(stmt, t.Augment) else found
    yield from (path for each in found if (path := t.path_of(each)) is not None)


def with_graph(expr: t.Expr) -> Iterator[t.Node]:
    """What an expression is computed of; nothing of what it cuts off: ``loss.item()``, ``loss.detach()``."""
    if _is_cut(expr):
        return
    yield expr
    for part in t.parts(expr):
        if isinstance(part, t.Expr):
            yield from with_graph(part)


def _is_cut(node: t.Node) -> bool:
    func = node.func if isinstance(node, t.Call) else None
    return isinstance(func, t.Attribute) and func.name in ("item", "detach", "tolist")


def path_of(node: t.Node) -> str | None:
    """The path of a variable, an attribute or an item; None of what is computed."""
    return t.path_of(node) if isinstance(node, t.Name | t.Attribute | t.Subscript) else None
