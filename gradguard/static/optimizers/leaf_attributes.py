"""Tensors of a module that want a gradient, and are no parameters: ``self.k = torch.ones(8, requires_grad=True)``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.optimizers.unregistered import is_known_outside, is_of_torch
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.own_methods import methods_of
from gradguard.static.source import Site
from gradguard.static.values import Kind

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

# What registers or hands out parameters in a way of its own.
_BY_OTHER_WAYS = re.compile(
    r"\b(?:setattr|register_parameter|__setattr__|__dict__|_parameters)\b|\bdef\s+\w*parameters\b"
)
_MOVED = ("grad", "data")


def leaves_made(flow: Flow) -> dict[str, Site]:
    """The attributes that a module's constructor binds to tensors which want a gradient, each with its statement."""
    owner, ref = flow.ref.owner, flow.ref
    if owner is None or ref.define.name != "__init__" or not is_of_torch(owner):
        return {}
    return {
        name: flow.site(stmt)
        for stmt in ref.define.statements
        if (name := _leaf_of(ref, stmt)) is not None and len(owner.assigned(name)) == 1
    }


def never_trained(flow: Flow, made: dict[str, Site]) -> list[tuple[str, Site]]:
    """Those that no optimizer is given, and that nobody moves by hand (reads other files)."""
    owner = flow.ref.owner
    if owner is None or any(_BY_OTHER_WAYS.search(cls.chunk.program) for cls in owner.lineage()):
        return []
    nodes = [node for method in methods_of(owner) for node in method.define.nodes]
    alone = [name for name in made if is_used(owner, name) and not any(takes(node, f"self.{name}") for node in nodes)]
    return [(f"self.{name}", made[name]) for name in alone if not is_known_outside(flow, owner, name)]


def _leaf_of(ref: FunctionRef, stmt: t.Stmt) -> str | None:
    """The attribute that a statement binds to a new tensor which wants a gradient."""
    if not isinstance(stmt, t.Assign) or len(stmt.targets) != 1 or not isinstance(stmt.value, t.Call):
        return None
    path, call = t.path_of(stmt.targets[0]) or "", stmt.value
    wants, func = call.is_true("requires_grad"), call.func
    if isinstance(func, t.Attribute) and func.name == "requires_grad_" and isinstance(func.value, t.Call):
        wants, call = not call.args, func.value
    maker = ref.module.value_of(call.func)
    is_made = maker.kind is Kind.EXTERNAL and str(maker.ref).startswith("torch.") and call.name.islower()
    is_own = path.startswith("self.") and path.count(".") == 1 and "[" not in path
    return path.removeprefix("self.") if wants and is_made and is_own else None


def is_used(owner: Class, name: str) -> bool:
    """Whether another method computes with it."""
    methods = (method for method in methods_of(owner) if method.define.name != "__init__")
    nodes = (node for method in methods for node in method.define.nodes if isinstance(node, t.Attribute))
    return any(t.path_of(node) == f"self.{name}" for node in nodes)


def takes(node: t.Node, path: str) -> bool:
    """Whether something may train it: an optimizer, a list of parameters, ``grad(loss, x)``, or ``x.data -= ...``."""
    if isinstance(node, t.Attribute):
        return node.name in _MOVED and t.path_of(node.value) == path
    if isinstance(node, t.Display | t.DictDisplay):
        items = node.items if isinstance(node, t.Display) else [item for _, item in node.entries]
        return any(t.path_of(item) == path for item in items)
    if isinstance(node, t.Call):
        is_maker = node.name[:1].isupper() or node.name == "grad"
        return is_maker and any(t.path_of(part) == path for arg in node.args for part in _expressions(arg.value))
    return isinstance(node, t.Augment) and t.path_of(node.target) == path


def _expressions(expr: t.Expr) -> Iterator[t.Expr]:
    return (node for node in t.walk(expr) if isinstance(node, t.Name | t.Attribute))
