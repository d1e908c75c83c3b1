"""Lists that a method means to empty, and of which it only binds its own name anew: ``outputs = []``."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from gradguard.static import tree as t
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.own_methods import methods_of
from gradguard.static.reading.places import owner_of
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_EMPTY = frozenset("list dict set".split())


def emptied_name(flow: Flow, path: str) -> Site | None:
    """The statement that gives a local name of an object's collection an empty one, which empties nothing."""
    base, _, name = path.rpartition(".")
    owner = flow.ref.owner if base == "self" else owner_of(flow, base, flow.final) if base else None
    found = (_in_method(method, f"self.{name}") for method in (methods_of(owner) if owner is not None else ()))
    return next((site for site in found if site is not None), None)


def _in_method(method: FunctionRef, path: str) -> Site | None:
    names = set[str]()
    for stmt in sorted(method.define.statements, key=lambda each: cast(int, each.origin)):  # as they are written
        target = stmt.targets[0] if isinstance(stmt, t.Assign) and len(stmt.targets) == 1 else None
        if not isinstance(stmt, t.Assign) or not isinstance(target, t.Name):
            continue
        if t.path_of(stmt.value) == path:
            names.add(target.id)
        elif target.id in names and _is_empty(stmt.value):
            return Site(method.chunk, stmt)
    return None


def _is_empty(value: t.Expr) -> bool:
    if isinstance(value, t.Call):
        return not value.args and t.path_of(value.func) in _EMPTY
    return not value.items if isinstance(value, t.Display) else isinstance(value, t.DictDisplay) and not value.entries
