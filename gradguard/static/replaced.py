"""Modules that are replaced after an optimizer was given their parameters: ``model.fc = nn.Linear(512, 2)``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.classes import Class
from gradguard.static.model import Call
from gradguard.static.values import Kind

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.source import Site

_OWN = frozenset("parameters named_parameters load_state_dict requires_grad_ eval".split())
_TRAINING = re.compile(r"train|fit|learn|step|epoch|update|optimi[sz]e|backward")


def replaced_part(flow: Flow, call: Call) -> Site | None:
    """Where a module whose parameters an optimizer was given is replaced, before the optimizer is used.

    Args:
        call: that makes the optimizer.
    """
    path = call.bound_to
    if path is None or call.inner is not None:
        return None
    given = flow.read(flow.canonical(path), flow.final).ref
    after = list(_after(flow.ref.define.body, call.site.node))
    for place, stmt in enumerate(after) if isinstance(given, frozenset) else ():
        if isinstance(stmt, t.Assign) and isinstance(given, frozenset) and _replaces(flow, stmt, given):
            return flow.site(stmt) if _is_used(flow, path, stmt, after[place + 1 :]) else None
    return None


def _after(body: Sequence[t.Stmt], made: t.Node) -> Iterator[t.Stmt]:
    """What comes, in the order of the text, after the statement that binds ``made``, in its block."""
    for place, stmt in enumerate(body):
        if isinstance(stmt, t.Assign) and stmt.value is made:
            yield from _in_order(body[place + 1 :])
        for block in t.blocks(stmt):
            yield from _after(block, made)


def _in_order(body: Sequence[t.Stmt]) -> Iterator[t.Stmt]:
    for stmt in body:
        yield stmt
        for block in t.blocks(stmt):
            if not t.leaves(block):  # what leaves its function or its loop is on no way to what comes next
                yield from _in_order(block)


def _replaces(flow: Flow, stmt: t.Assign, given: frozenset[str]) -> bool:
    """Whether a module, or a part of it, is made anew: of nothing that the old one had."""
    target = t.path_of(_held(stmt.targets[0])) if len(stmt.targets) == 1 else None
    if target is None or not any(f"{target}.".startswith(f"{path}.") for path in given):
        return False
    names = {t.path_of(node) or "" for node in t.walk(stmt.value) if isinstance(node, t.Name | t.Attribute)}
    of_the_old = any(f"{name}.".startswith(f"{path}.") for name in names for path in given)
    return not of_the_old and _is_made(flow, stmt.value)


def _held(target: t.Expr) -> t.Expr:
    """The module of which an item is bound: ``model.classifier`` of ``model.classifier[6]``."""
    return target.value if isinstance(target, t.Subscript) else target


def _is_made(flow: Flow, value: t.Expr) -> bool:
    """Whether an expression makes a module that has parameters: ``nn.Linear(512, 2).to(device)``."""
    while isinstance(value, t.Call) and isinstance(value.func, t.Attribute) and value.func.name in k.FLUENT_METHODS:
        value = value.func.value
    if not isinstance(value, t.Call):
        return False
    maker = flow.module.value_of(value.func)
    if isinstance(maker.ref, Class):
        return maker.kind is Kind.CLASS and maker.ref.is_module and maker.ref.may_learn
    name = str(maker.ref) if maker.kind is Kind.EXTERNAL else ""
    if name == "torch.nn.Sequential":
        return any(_is_made(flow, arg.value) for arg in value.args)
    if name.startswith("torch.nn.") and not name.startswith(k.NOT_MODULES):
        return value.name not in k.WITHOUT_PARAMETERS and "Loss" not in value.name
    return name.startswith("torchvision.models.") or name == "torch.load"


def _is_used(flow: Flow, path: str, stmt: t.Assign, rest: Sequence[t.Stmt]) -> bool:
    """Whether the optimizer that has ``path`` steps after a statement, and gets no parameters in between."""
    owner = flow.ref.owner if path.startswith("self.") else None
    methods = [ref for cls in owner.lineage() for ref in cls.methods.values()] if owner is not None else []
    nodes = list(t.walk(list(rest)))
    nodes += (node for ref in methods if ref is not flow.ref for node in ref.define.nodes)
    if any(_is_given_more(node, path) for node in nodes):
        return False
    part = t.path_of(stmt.targets[0]) or ""
    is_new = part.startswith("self.") and path.rpartition(".")[0] == "self"
    return any(_steps(node, path) for node in nodes) and not (is_new and any(_has_its_own(n, part) for n in nodes))


def _steps(node: t.Node, path: str) -> bool:
    """``optimizer.step()``, or a function that trains is given it: ``train(model, loader, optimizer)``."""
    if not isinstance(node, t.Call):
        return False
    if isinstance(node.func, t.Attribute) and node.func.name == "step" and t.path_of(node.func.value) == path:
        return True
    is_given = any(t.path_of(arg.value) == path for arg in node.args)
    return is_given and _TRAINING.search(node.name.lower()) is not None


def _is_given_more(node: t.Node, path: str) -> bool:
    """``optimizer = ...``, ``optimizer.add_param_group(...)``, ``optimizer.param_groups[0]["params"] = ...``."""
    if isinstance(node, t.Assign):
        targets = [name for target in node.targets for name in t.names_in(target)]
        return any(t.path_of(name) == path or _is_of_group(name, path) for name in targets)
    func = node.func if isinstance(node, t.Call) else None
    if not isinstance(func, t.Attribute):
        return False
    holder = t.path_of(func.value)
    return holder == f"{path}.param_groups" or (holder == path and func.name == "add_param_group")


def _is_of_group(target: t.Expr, path: str) -> bool:
    while isinstance(target, t.Subscript):
        target = target.value
    return t.path_of(target) == f"{path}.param_groups"


def _has_its_own(node: t.Node, part: str) -> bool:
    """Whether a part gets an optimizer of its own, is frozen, or is made a copy of another one: a target network."""
    func = node.func if isinstance(node, t.Call) else None
    asked = isinstance(func, t.Attribute) and t.path_of(func.value) == part
    return asked and isinstance(func, t.Attribute) and func.name in _OWN
