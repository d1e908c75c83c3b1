"""Methods that are named and not called: ``optimizer.step`` where ``optimizer.step()`` is meant."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.program.classes import Class
from gradguard.static.program.names import named_kind
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
    statements = flow.ref.define.statements
    asked = {stmt for asking in statements for stmt in t.walk_statements(_asks_for_attributes(asking))}
    for stmt in statements:
        named = stmt.value if isinstance(stmt, t.Evaluate) and stmt not in asked else None
        if not isinstance(named, t.Attribute) or _is_field(flow, named):
            continue
        if named.name in _METHODS or _is_of_its_kind(flow, named):
            site = flow.site(named)
            if site.code == flow.site(stmt).code:  # `assert optimizer.step` is a statement that asks for it
                yield site


def _asks_for_attributes(stmt: t.Stmt) -> list[t.Stmt]:
    """What is written only to see whether it raises an ``AttributeError``."""
    if isinstance(stmt, t.Try):
        expected = [handler.type for handler in stmt.handlers if handler.type is not None]
    else:
        expected = [item for item, _ in stmt.items] if isinstance(stmt, t.With) else []
    nodes = (node for each in expected for node in t.walk(each))
    is_asked = any(isinstance(node, t.Name) and node.id == "AttributeError" for node in nodes)
    return stmt.body if is_asked and isinstance(stmt, t.Try | t.With) else []


def _is_field(flow: Flow, named: t.Attribute) -> bool:
    """Whether a class of the program has a property of that name, which does something as it is read, or a field."""
    path = t.path_of(named.value)
    cls = flow.read(flow.canonical(path), flow.final).ref if path is not None else None
    if not isinstance(cls, Class):
        return False
    method = cls.method(named.name)
    return named.name in cls.assigned_names if method is None else method.is_property


def _is_of_its_kind(flow: Flow, named: t.Attribute) -> bool:
    kinds, path = _METHODS_OF.get(named.name), t.path_of(named.value)
    if kinds is None or path is None:
        return False
    kind = flow.read(flow.canonical(path), flow.final).kind
    if kind is Kind.UNKNOWN:
        kind = named_kind(path)
    return kind in kinds or (named.name == "step" and _SCHEDULER.search(path) is not None)
