"""Tensors of a module that want a gradient, and are no parameters: ``self.k = torch.ones(8, requires_grad=True)``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.optimizers.trained_apart import is_handed_on
from gradguard.static.optimizers.unregistered import is_known_outside, is_of_torch
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.order import comes_before
from gradguard.static.program.own_methods import methods_of
from gradguard.static.source import Site
from gradguard.static.values import Kind

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

# What registers or hands out parameters in a way of its own.
_BY_OTHER_WAYS = re.compile(
    r"\b(?:setattr|register_parameter|__setattr__|__dict__|_parameters)\b|\bdef\s+\w*parameters\b"
)
# What only looks at the numbers of a tensor.
_READING = r"(?!\.(?:norm|shape|size|detach|mean|std|cpu|item|tolist|min|max|abs|numel)\b)"
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
    if owner is None or any(cls.chunk.shows(_BY_OTHER_WAYS) for cls in owner.lineage()):
        return []
    nodes = [node for method in methods_of(owner) for node in method.define.nodes]
    if any(isinstance(node, t.Call) and node.name == "grad" for node in nodes):
        return []  # what is differentiated by, as the points of an equation are, wants a gradient for that
    alone = [name for name in made if is_used(owner, name) and not any(takes(node, f"self.{name}") for node in nodes)]
    return [(f"self.{name}", made[name]) for name in alone if not is_known_outside(flow, owner, name, _READING)]


def _leaf_of(ref: FunctionRef, stmt: t.Stmt) -> str | None:
    """The attribute that a statement binds to a new tensor which wants a gradient."""
    if not isinstance(stmt, t.Assign) or len(stmt.targets) != 1:
        return None
    path, value = t.path_of(stmt.targets[0]) or "", stmt.value
    if not path.startswith("self.") or path.count(".") != 1 or "[" in path:
        return None
    if isinstance(value, t.Name):  # prompt = torch.randn(8, 4) * 0.02; prompt.requires_grad_(); self.prompt = prompt
        bound = ref.assigned.get(value.id, []) if not is_handed_on(ref, stmt, value) else []
        wants = len(bound) == 1 and _is_wanted_later(ref, value.id, stmt)
        value = bound[0] if len(bound) == 1 else value
        return path[5:] if (wants and _is_new(ref, value)) or _wants(ref, value) else None
    is_wanted = _wants(ref, value) or (_is_wanted_later(ref, path, None) and _is_new(ref, value))
    return path[5:] if is_wanted else None


def _wants(ref: FunctionRef, value: t.Expr) -> bool:
    """``torch.ones(8, requires_grad=True)``, ``(0.02 * torch.randn(8, 4)).requires_grad_()``."""
    if not isinstance(value, t.Call):
        return False
    func = value.func
    if isinstance(func, t.Attribute) and func.name == "requires_grad_":
        return not value.args and _is_new(ref, func.value)
    return value.is_true("requires_grad") and _is_torch(ref, value)


def _is_wanted_later(ref: FunctionRef, path: str, before: t.Stmt | None) -> bool:
    """``self.prompt.requires_grad_()``, ``self.prompt.requires_grad = True``, and nothing else is done to it.

    Args:
        before: what the statement comes before.
    """
    body = ref.define.body
    wanting = [stmt for stmt in body if _asks_gradient(stmt, path)]
    return len(wanting) == 1 and (before is None or comes_before(body, wanting[0], before))


def _asks_gradient(stmt: t.Stmt, path: str) -> bool:
    if isinstance(stmt, t.Assign):
        is_on = isinstance(stmt.value, t.Constant) and stmt.value.value is True
        return is_on and len(stmt.targets) == 1 and t.path_of(stmt.targets[0]) == f"{path}.requires_grad"
    call = stmt.value if isinstance(stmt, t.Evaluate) else None
    func = call.func if isinstance(call, t.Call) and not call.args else None
    return isinstance(func, t.Attribute) and func.name == "requires_grad_" and t.path_of(func.value) == path


def _is_new(ref: FunctionRef, value: t.Expr) -> bool:
    """Whether a tensor is made of numbers: ``torch.empty(8, 4).uniform_(-1, 1)``, ``scale * torch.randn(8)``."""
    if isinstance(value, t.Operation):
        return value.operator in "+-*/" and any(_is_new(ref, each) for each in value.operands)
    if not isinstance(value, t.Call):
        return False
    func = value.func
    return _is_torch(ref, value) or (isinstance(func, t.Attribute) and _is_new(ref, func.value))


def _is_torch(ref: FunctionRef, call: t.Call) -> bool:
    maker = ref.module.value_of(call.func)
    return maker.kind is Kind.EXTERNAL and str(maker.ref).startswith("torch.") and call.name.islower()


def is_used(owner: Class, name: str) -> bool:
    """Whether another method computes with it."""
    methods = (method for method in methods_of(owner) if method.define.name != "__init__")
    nodes = (node for method in methods for node in method.define.all(t.Attribute))
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
