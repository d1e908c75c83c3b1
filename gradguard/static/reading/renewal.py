"""Entries of a collection that are made anew each time: ``sums[key] = [0, 0]``, then ``sums[key][0] += x``.

It is told of one function: where something is added to an entry, the same iteration makes that anew, or what it is in.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.model import Store

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


def note(flow: Flow, target: t.Subscript) -> None:
    """Note that an entry gets something without a graph, if it gets that each time."""
    entry = _entry(flow, target)
    if flow.branches == 0 and entry is not None:
        flow.renewed.add((entry, flow.loop))


def is_renewed(flow: Flow, store: Store) -> bool:
    """Whether the entry that a statement adds to, or one that it is in, is made anew, before that or after it."""
    stmt = store.site.node
    targets = [stmt.target] if isinstance(stmt, t.Augment) else stmt.targets if isinstance(stmt, t.Assign) else []
    return any((entry, store.loop) in flow.renewed for target in targets for entry in _around(flow, target))


def _around(flow: Flow, target: t.Expr) -> Iterator[str]:
    """The entry that a target is, and those that it is in."""
    while isinstance(target, t.Subscript):
        if (entry := _entry(flow, target)) is not None:
            yield entry
        target = target.value
    if isinstance(target, t.Name):  # cell = sums[key]; cell[0] += x
        yield flow.aliases.get(target.id, target.id)


def _entry(flow: Flow, target: t.Subscript) -> str | None:
    """How an entry is called: of several keys, those that are written there are told apart."""
    path, index = t.path_of(target), target.index
    if path is None:
        return None
    is_number = isinstance(index, t.Constant) and isinstance(index.value, int)
    return flow.canonical(f"{path.removesuffix('[*]')}[{index.value}]" if is_number else path)  # type: ignore[attr-defined]
