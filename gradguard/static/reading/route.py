"""The way by which a graph came into a value: ``loss`` <- ``criterion(out, y)`` <- ``model(x)``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.fixes.edits import one_line

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

MAX_STEPS = 6
_WIDTH = 40


def route(flow: Flow, value: t.Expr, start: t.Node) -> list[t.Node]:
    """The expressions from ``value`` back to ``start``, where the graph begins; empty when it cannot be followed.

    Args:
        flow: the function that both lie in.
        value: what carries the graph.
        start: the call or operation that began it.
    """
    return _search(flow, value, start, MAX_STEPS) or []


def in_words(flow: Flow, way: list[t.Node]) -> tuple[str, ...]:
    """Such a way as it is written."""
    return tuple(one_line(flow.site(node).code, _WIDTH) for node in way)


def _search(flow: Flow, value: t.Expr, start: t.Node, steps: int) -> list[t.Node] | None:
    if value is start:
        return [value]
    parts = list(handing_on(flow, value))
    if any(part is start for part in parts):
        return [value, start]
    if steps == 0:
        return None
    line = flow.site(value).line
    for part in parts:
        path = t.path_of(part) if isinstance(part, t.Name | t.Attribute | t.Subscript) else None
        source = _assigned(flow, path, line) if path is not None else None
        rest = _search(flow, source, start, steps - 1) if source is not None and source is not value else None
        if rest is not None:
            return [value, *rest]
    return None


def handing_on(flow: Flow, value: t.Expr) -> Iterator[t.Node]:
    """The parts of an expression that may give it their graph: none of ``torch.ones_like(x)``, of ``x.detach()``."""
    nodes = list(t.walk(value))
    cut = {inner for node in nodes if _cuts(flow, node) for inner in t.walk(node)}
    return (node for node in nodes if node not in cut)


def _cuts(flow: Flow, node: t.Node) -> bool:
    if isinstance(node, t.Attribute):
        return node.name in k.BREAKING_ATTRIBUTES
    if not isinstance(node, t.Call) or not isinstance(node.func, t.Attribute):
        return False
    name = node.func.name
    is_torch = name in k.BREAKING_FUNCTIONS and str(flow.module.value_of(node.func).ref).startswith("torch.")
    return is_torch or name in k.BREAKING_METHODS


def _assigned(flow: Flow, path: str, line: int) -> t.Expr | None:
    """The last expression that is bound to a path at or before a line."""
    best: tuple[int, t.Expr] | None = None
    for stmt in flow.ref.define.statements:
        if not isinstance(stmt, t.Assign) or stmt.origin is None:
            continue
        at = flow.site(stmt).line
        for target in stmt.targets if at <= line and (best is None or at > best[0]) else ():
            if any(t.path_of(single) == path for single in t.names_in(target)):
                best = (at, stmt.value)
    return best[1] if best is not None else None
