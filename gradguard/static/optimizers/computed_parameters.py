"""What a module has of a parameter is only computed of it: ``self.gate = nn.Parameter(torch.zeros(3)).view(-1, 1)``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.optimizers.leaf_attributes import is_used, takes
from gradguard.static.optimizers.unregistered import is_of_torch
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.own_methods import methods_of
from gradguard.static.source import Site
from gradguard.static.values import Kind

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

# What gives another tensor than that of which it is computed, however that looks.
_COMPUTING = frozenset(
    "view reshape unsqueeze squeeze expand expand_as repeat repeat_interleave permute transpose t flatten clone "
    "cuda mul div add sub pow neg exp log sqrt abs sigmoid tanh relu softplus softmax log_softmax normalize clamp "
    "unflatten triu tril diag matmul chunk unbind".split()
)
_ARITHMETIC = frozenset("+ - * / ** @".split())
_ON_DEVICE = re.compile(r"device|cuda|gpu", re.I)
# A module's tensor that somebody else moves by hand.
_BY_HAND = r"(?<!\bself)\.{0}\b(?:\s*[-+*/]?=[^=]|\.(?:data|grad)\b)|\bgrad\([^\n]*\.{0}\b|attr\([^\n]*['\"]{0}['\"]"


def computed_of_parameters(flow: Flow) -> dict[str, Site]:
    """The attributes that a module's constructor binds to what it computes of a parameter of which it keeps nothing.

    They are no parameters, and that of which they are computed is no attribute: ``nn.Parameter(w).view(1, -1)``.
    """
    owner, ref = flow.ref.owner, flow.ref
    if owner is None or ref.define.name != "__init__" or not is_of_torch(owner):
        return {}
    bound = ((_own_attribute(stmt), stmt) for stmt in ref.define.statements if isinstance(stmt, t.Assign))
    return {
        name: flow.site(stmt)
        for name, stmt in bound
        if name is not None and _is_computed(ref, stmt, stmt.value) and len(owner.assigned(name)) == 1
    }


def never_registered(flow: Flow, made: dict[str, Site]) -> list[tuple[str, Site]]:
    """Those with which the module computes, and that nobody moves by hand (reads other files)."""
    owner = flow.ref.owner
    if owner is None:
        return []
    nodes = [node for method in methods_of(owner) for node in method.define.nodes]
    used = (name for name in made if is_used(owner, name))
    alone = [name for name in used if not any(takes(node, f"self.{name}") or _freezes(node, name) for node in nodes)]
    survey = flow.project.survey
    moved = {name: re.compile(_BY_HAND.format(name)) for name in alone}
    return [(f"self.{name}", made[name]) for name in alone if not survey.mentions(moved[name], flow.module, name)]


def _freezes(node: t.Node, name: str) -> bool:
    is_switch = isinstance(node, t.Attribute) and node.name in ("requires_grad", "requires_grad_")
    return isinstance(node, t.Attribute) and is_switch and t.path_of(node.value) == f"self.{name}"


def _own_attribute(stmt: t.Assign) -> str | None:
    """The attribute of its object that a statement binds, and nothing else: ``gate`` of ``self.gate = ...``."""
    path = t.path_of(stmt.targets[0]) or "" if len(stmt.targets) == 1 else ""
    return path[5:] if path.startswith("self.") and path[5:].isidentifier() else None


def _is_computed(ref: FunctionRef, stmt: t.Stmt, value: t.Expr) -> bool:
    """Whether an expression is computed of a parameter that it makes, or that was made for it alone."""
    operands = list(_operands(ref, value))
    return any(_is_parameter(ref, stmt, each) or _is_computed(ref, stmt, each) for each in operands)


def _operands(ref: FunctionRef, value: t.Expr) -> Iterator[t.Expr]:
    """The tensors of which an expression computes another one."""
    if isinstance(value, t.Operation):
        yield from value.operands if value.operator in _ARITHMETIC else ()
    elif isinstance(value, t.Subscript) or (isinstance(value, t.Attribute) and value.name in ("T", "mT", "H", "mH")):
        yield value.value
    elif isinstance(value, t.Call):
        maker = ref.module.value_of(value.func)
        is_function = maker.kind is Kind.EXTERNAL and str(maker.ref).startswith("torch.")
        if is_function and value.name in _COMPUTING and value.args:
            yield value.args[0].value
        elif isinstance(value.func, t.Attribute) and (value.name in _COMPUTING or _is_moved(value)):
            yield value.func.value


def _is_moved(call: t.Call) -> bool:
    """``x.to(device)``; what only asks for a type gives the tensor itself, where it has that."""
    parts = (part for arg in call.args for part in t.walk(arg.value))
    named = (str(part.value) if isinstance(part, t.Constant) else t.path_of(part) or "" for part in _named(parts))
    return call.name == "to" and any(_ON_DEVICE.search(name) is not None for name in named)


def _named(parts: Iterator[t.Node]) -> Iterator[t.Expr]:
    return (part for part in parts if isinstance(part, t.Name | t.Attribute | t.Constant))


def _is_parameter(ref: FunctionRef, stmt: t.Stmt, value: t.Expr) -> bool:
    """Whether it is a parameter that is to be trained, and that only this statement has."""
    if isinstance(value, t.Name):
        bound, own = ref.assigned.get(value.id, []), {id(node) for node in t.walk(stmt)}
        uses = [node for node in ref.define.all(t.Name) if node.id == value.id]
        others = [node for node in uses if id(node) not in own]
        return len(bound) == 1 and len(others) == 1 and _makes_parameter(ref, bound[0])
    return _makes_parameter(ref, value)


def _makes_parameter(ref: FunctionRef, value: t.Expr) -> bool:
    if not isinstance(value, t.Call) or value.name != "Parameter":
        return False
    maker = ref.module.value_of(value.func)
    is_frozen = any(arg.keyword == "requires_grad" for arg in value.args) and not value.is_true("requires_grad")
    return maker.kind is Kind.EXTERNAL and str(maker.ref).startswith("torch.nn.") and not is_frozen and bool(value.args)
