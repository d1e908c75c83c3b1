"""Sums of what is no sum itself of a gradient: a Fisher matrix of their squares, the norm of them all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.model import GradientSum
from gradguard.static.program.paths import collections_around
from gradguard.static.reading.state import State
from gradguard.static.values import Root, Source

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_OF_ALL = ("parameters", "named_parameters")
_BENDING = ("pow", "square", "abs", "norm")


def note(flow: Flow, stmt: t.Augment, state: State) -> None:
    """``fisher[name] += parameter.grad ** 2``, for each parameter of a model."""
    path = t.path_of(stmt.target)
    if path is None or stmt.operator != "+" or not _goes_over_parameters(flow):
        return
    if any(map(_bends_gradient, t.walk(stmt.value))):
        *_, into = collections_around(flow.canonical(path))
        before = flow.read(into, state).must
        begun = (frame.loop for frame in flow.frames if Root(Source.CARRIED, (into, frame.loop)) in before)
        site, is_conditional = flow.site(stmt), flow.branches > 0
        flow.record(GradientSum(site, flow.loop, is_conditional, into=into, begun_before=frozenset(begun)))


def _goes_over_parameters(flow: Flow) -> bool:
    loop = flow.loop.site.node if flow.loop is not None else None
    func = loop.iterable.func if isinstance(loop, t.Repeat) and isinstance(loop.iterable, t.Call) else None
    return isinstance(func, t.Attribute) and func.name in _OF_ALL


def _bends_gradient(node: t.Node) -> bool:
    """``p.grad ** 2``, ``p.grad.detach().pow(2)``: what of a sum is not the sum of what it is of each."""
    if isinstance(node, t.Operation) and node.operator == "**":
        inside: t.Expr = node.operands[0]
    elif isinstance(node, t.Call) and isinstance(node.func, t.Attribute) and node.func.name in _BENDING:
        inside = node.func.value
    else:
        return False
    return any(isinstance(each, t.Attribute) and each.name == "grad" for each in t.walk(inside))
