"""Questions about the roots of values: do they stand for a graph, is it shared, where does it start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.source import Site
from gradguard.static.values import Root, Roots, Source, Value

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from gradguard.static.flow import Flow

_GRAPHS = (Source.GRAPH, Source.CALL, Source.LOSS, Source.PARAM, Source.PLACE)


def graphs(roots: Roots) -> Roots:
    """The roots that stand for a graph, not for a variable's old value."""
    return frozenset(r for r in roots if r.source in _GRAPHS)


def shared(a: Value, b: Value) -> bool:
    """Whether two values may share a graph. What came in from outside counts only where it surely went in."""
    outside = (Source.PARAM, Source.PLACE)
    inner = frozenset(r for r in graphs(a.reach) & graphs(b.reach) if r.source not in outside)
    return bool(inner or graphs(a.roots) & graphs(b.roots))


def attaching_roots(flow: Flow, value: Value) -> list[Root]:
    """The roots that certainly give the value a graph; none when nothing shows that it has one."""
    certain = [r for r in value.roots if r.source is Source.GRAPH or r in flow.proven]
    if not certain and value.roots and any(known <= value.roots for known in flow.proven_values):
        certain = [r for r in value.roots if r.source is not Source.CARRIED]  # backward was called on this very value
    return certain


def node_of(key: Hashable) -> t.Node | None:
    """The expression in this function that a root or a holding began at."""
    found: object = key
    while isinstance(found, tuple) and found:
        found = found[0]
    return found if isinstance(found, t.Node) else None


def site_of(flow: Flow, root: Root) -> Site | None:
    """Where a root's graph starts."""
    node = node_of(root.key)
    return flow.site(node) if node is not None and node.origin is not None else None


def wholes(value: Value) -> Roots:
    """What the roots of a value are parts of: of ``output["loss"]``, the output."""
    return frozenset(whole for root in value.roots for whole in wholes_of(root))


def wholes_of(root: Root) -> Iterator[Root]:
    """What the root is a part of: of a dict whose ``"loss"`` carries a graph, the dict does."""
    key: object = root.key
    while isinstance(key, tuple) and not isinstance(key[1], t.Node | tuple):
        key = key[0]
        yield Root(root.source, key)
