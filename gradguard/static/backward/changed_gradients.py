"""Gradients that the ``backward`` of an ``autograd.Function`` is given, and changes in place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.backward.in_place import Change, changes, without_views
from gradguard.static.mistakes.backward import ChangedGradient

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_SAME = frozenset("detach view view_as squeeze unsqueeze".split())
# What makes the tensor another one, and is no change of its numbers.
_HARMLESS = frozenset("unsqueeze_ squeeze_ transpose_ t_".split())


def changed_gradients(flow: Flow) -> Iterator[ChangedGradient]:
    """What a ``backward`` does in place to a gradient that it is given: others may have the same tensor."""
    owner, define = flow.ref.owner, flow.ref.define
    if owner is None or define.name != "backward" or not owner.is_autograd_function or flow.facts.is_test:
        return
    given = {param.name: param.name for param in define.params[1:] if not param.star}
    for node, name in _changed(define.body, given):
        yield ChangedGradient(flow.site(node), name, owner.name)


def _changed(body: list[t.Stmt], given: dict[str, str]) -> Iterator[tuple[t.Node, str]]:
    """What statements, one after the other, do to gradients in place, each with the parameter that it is.

    Args:
        given: the names that the gradients have, each with the parameter that it is; changed as they are bound anew.
    """
    for stmt in body:
        if isinstance(stmt, t.If) and _is_meant(stmt.test):
            continue
        for change in changes(stmt):
            name = given.get(t.path_of(_same(change.tensor)) or "")
            if name is not None and not _is_harmless(change):
                yield change.node, name
        for block in t.blocks(stmt):
            yield from _changed(block, given)
        _bind(stmt, given)


def _is_meant(test: t.Expr) -> bool:
    """Whether somebody says that it may be done: ``if ctx.inplace:``."""
    names = (
        node.id if isinstance(node, t.Name) else node.name
        for node in t.walk(test)
        if isinstance(node, t.Name | t.Attribute)
    )
    return any("inplace" in name.replace("_", "") for name in names)


def _is_harmless(change: Change) -> bool:
    return isinstance(change.node, t.Call) and change.node.name in _HARMLESS


def _bind(stmt: t.Stmt, given: dict[str, str]) -> None:
    """Note what a statement binds: another name of a gradient, ``out = grad``, or something else."""
    for target, value in t.pairs(stmt.targets, stmt.value) if isinstance(stmt, t.Assign) else ():
        path = t.path_of(target)
        if path is not None:
            known = given.get(t.path_of(_same(value)) or "")
            given.pop(path, None)
            if known is not None:
                given[path] = known
        else:
            for name in t.names_in(target) if isinstance(target, t.Display) else ():
                given.pop(t.path_of(name) or "", None)


def _same(value: t.Expr) -> t.Expr:
    """The tensor whose memory an expression has: ``grad`` of ``grad.detach()``, of ``grad.view(-1)``."""
    while True:
        value = without_views(value)
        func = value.func if isinstance(value, t.Call) else None
        if isinstance(func, t.Attribute) and func.name in _SAME:
            value = func.value
        elif isinstance(value, t.Attribute) and value.name == "data":
            value = value.value
        else:
            return value
