"""Modules that surely share no parameters with others: who resets the gradients of one resets none of another's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.definitions import Class
from gradguard.static.names import named_kind
from gradguard.static.values import Kind, Value

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


def is_separate(flow: Flow, path: str) -> bool:
    """Whether a module is a deep copy, or made of numbers by a class, and becomes a part of nothing else.

    Args:
        path: ``self.critic_target``, or a variable of the function.
    """
    bound = list(_bindings(flow, path))
    made = [value for target, value in bound if target == path]
    others = (value for target, value in bound if target != path)
    return (
        bool(made) and all(_is_made_alone(flow, value) for value in made) and not any(_takes(o, path) for o in others)
    )


def _bindings(flow: Flow, path: str) -> Iterator[tuple[str, t.Expr]]:
    """The assignments of the class that has the attribute, or of the function that has the variable."""
    owner = flow.ref.owner
    if path.isidentifier():
        yield from ((name, each.value) for each in flow.ref.bindings_made for name in each.names)
    elif path.startswith("self.") and path[5:].isidentifier() and owner is not None:
        for ref in (ref for cls in owner.lineage() for ref in cls.methods.values()):
            for stmt in ref.define.statements:
                for target, value in t.pairs(stmt.targets, stmt.value) if isinstance(stmt, t.Assign) else ():
                    yield t.path_of(target) or "", value


def _is_made_alone(flow: Flow, value: t.Expr) -> bool:
    """Whether an expression makes a new module: ``Critic(dim).to(device)``, ``copy.deepcopy(self.critic)``."""
    while isinstance(value, t.Call) and isinstance(value.func, t.Attribute) and value.func.name in k.FLUENT_METHODS:
        value = value.func.value
    if not isinstance(value, t.Call):
        return False
    parts = (part for arg in value.args for part in t.walk(arg))
    return _copies(value) or (
        _makes_module(flow.module.value_of(value.func)) and not any(_may_be_module(flow, part) for part in parts)
    )


def _copies(call: t.Call) -> bool:
    return (t.path_of(call.func) or "").rpartition(".")[2] == "deepcopy"


def _makes_module(maker: Value) -> bool:
    of_project = maker.kind is Kind.CLASS and isinstance(maker.ref, Class) and maker.ref.is_module
    return of_project or (maker.kind is Kind.EXTERNAL and str(maker.ref).startswith("torch.nn."))


def _may_be_module(flow: Flow, part: t.Node) -> bool:
    path = t.path_of(part) if isinstance(part, t.Name | t.Attribute) else None
    return path is not None and (path in flow.modules or named_kind(path) is Kind.MODULE)


def _takes(value: t.Expr, path: str) -> bool:
    """Whether an expression is a module, or is made of it: ``DataParallel(net)``, ``[net, head]``; no copy of it."""
    if isinstance(value, t.Call):
        return not _copies(value) and any(_takes(arg.value, path) for arg in value.args)
    if isinstance(value, t.Display):
        return any(_takes(item, path) for item in value.items)
    return t.path_of(value) == path
