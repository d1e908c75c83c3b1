"""Methods that are named and not called: ``optimizer.step`` where ``optimizer.step()`` is meant."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.names import named_kind
from gradguard.static.source import Site
from gradguard.static.values import Kind

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

# Methods of whatever object: no attribute of such a name is worth reading for itself.
_METHODS = frozenset("backward zero_grad detach_ retain_grad requires_grad_ empty_cache".split())
_METHODS_OF = {
    "step": frozenset((Kind.OPTIMIZER, Kind.SCALER)),
    "update": frozenset((Kind.SCALER,)),
    "eval": frozenset((Kind.MODULE,)),
    "train": frozenset((Kind.MODULE,)),
}
_SCHEDULER = re.compile(r"sched\w*$", re.I)


def uncalled(flow: Flow) -> Iterator[Site]:
    """Where a statement of a function names such a method, and does nothing."""
    for stmt in flow.ref.define.statements:
        named = stmt.value if isinstance(stmt, t.Evaluate) else None
        if isinstance(named, t.Attribute) and (named.name in _METHODS or _is_of_its_kind(flow, named)):
            site = flow.site(named)
            if site.code == flow.site(stmt).code:  # `assert optimizer.step` is a statement that asks for it
                yield site


def _is_of_its_kind(flow: Flow, named: t.Attribute) -> bool:
    kinds, path = _METHODS_OF.get(named.name), t.path_of(named.value)
    if kinds is None or path is None:
        return False
    kind = flow.read(flow.canonical(path), flow.final).kind
    if kind is Kind.UNKNOWN:
        kind = named_kind(path)
    return kind in kinds or (named.name == "step" and _SCHEDULER.search(path) is not None)
