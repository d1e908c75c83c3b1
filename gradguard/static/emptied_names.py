"""Lists that a method means to empty, and of which it only binds its own name anew: ``outputs = []``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.functions import FunctionRef
from gradguard.static.own_methods import methods_of
from gradguard.static.places import owner_of
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
    names: dict[str, int] = {}
    bound = (stmt for stmt in method.define.statements if isinstance(stmt, t.Assign) and len(stmt.targets) == 1)
    simple = [(stmt, stmt.targets[0]) for stmt in bound]
    for stmt, target in simple:
        if isinstance(target, t.Name) and t.path_of(stmt.value) == path and isinstance(stmt.origin, int):
            names[target.id] = stmt.origin
    for stmt, target in simple:
        is_later = isinstance(target, t.Name) and isinstance(stmt.origin, int) and target.id in names
        if is_later and isinstance(target, t.Name) and _is_empty(stmt.value) and stmt.origin > names[target.id]:
            return Site(method.chunk, stmt)
    return None


def _is_empty(value: t.Expr) -> bool:
    if isinstance(value, t.Call):
        return not value.args and t.path_of(value.func) in _EMPTY
    return not value.items if isinstance(value, t.Display) else isinstance(value, t.DictDisplay) and not value.entries
