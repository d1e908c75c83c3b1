"""Losses that no ``GradScaler`` has multiplied, while the scaler takes the step and divides their gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.backward.leftovers import may_reset
from gradguard.static.mistakes.backward import Unscaled
from gradguard.static.model import Backward, OpaqueCall, Step, ZeroGrad
from gradguard.static.program.functions_called import functions_called
from gradguard.static.reading.rounds import excludes, round_of
from gradguard.static.reading.scaled import is_of_own_kind
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_DEPTH = 3


def unscaled(flow: Flow) -> Iterator[Unscaled]:
    """The backwards of a function whose step a scaler takes that is to multiply each loss of it.

    A program in which none is multiplied raises at its first step (torch 2.13: "Attempted step but _scale is None").
    """
    told: set[t.Node | None] = set()
    for step in flow.facts.steps:
        around = round_of(flow.facts, step) if step.by_scaler and step.inner is None else None
        if around is None or not _scaler(step) or is_of_own_kind(flow, _scaler(step)):
            continue
        before: list[Backward] = []
        for event in around.earlier(step):
            if isinstance(event, Step | OpaqueCall) or (isinstance(event, ZeroGrad) and may_reset(event, step)):
                break  # gradients that are only looked at, and thrown away, are not divided
            before += [event] if isinstance(event, Backward) else []
        scaled = [each for each in before if each.is_scaled]
        for backward in before:
            is_other_way = any(excludes(around.body, backward, each) or backward.conditional for each in scaled)
            node = backward.site.node
            if not is_other_way and node not in told and _is_plain(flow, backward):
                told.add(node)
                func = node.func if isinstance(node, t.Call) else None
                assert isinstance(func, t.Attribute)
                yield Unscaled(backward.site, flow.site(func.value), step.site, _scaler(step))


def _scaler(step: Step) -> str:
    """The path of the scaler that takes a step; "" where that has none."""
    func = step.site.node.func if isinstance(step.site.node, t.Call) else None
    return (t.path_of(func.value) or "") if isinstance(func, t.Attribute) else ""


def _is_plain(flow: Flow, backward: Backward) -> bool:
    """Whether a loss is computed here and surely not multiplied by anything of that kind."""
    call = backward.site.node
    func = call.func if backward.inner is None and not backward.is_scaled and isinstance(call, t.Call) else None
    return isinstance(func, t.Attribute) and func.name == "backward" and _is_computed(flow, func.value, _DEPTH)


def _is_computed(flow: Flow, expr: t.Expr, depth: int) -> bool:
    if isinstance(expr, t.Name):
        bound = flow.ref.assigned.get(expr.id, []) if depth else []
        return bool(bound) and all(_is_computed(flow, value, depth - 1) for value in bound)
    if isinstance(expr, t.Operation):
        named = (each for each in expr.operands if isinstance(each, t.Name) and each.id in flow.ref.assigned)
        return not _speaks_of_scale(expr) and all(_is_computed(flow, each, depth) for each in named)
    if isinstance(expr, t.Call):
        codes = [Site(ref.chunk, ref.define).code for ref in functions_called(flow, expr)]
        return not _speaks_of_scale(expr) and not any("scale" in code for code in codes)
    return isinstance(expr, t.Attribute | t.Subscript) and _is_computed(flow, expr.value, depth)


def _speaks_of_scale(expr: t.Expr) -> bool:
    names = (node.id if isinstance(node, t.Name) else node.name for node in t.walk(expr) if isinstance(node, _NAMED))
    return any("scale" in name.lower() or name.lower() == "amp" for name in names)


_NAMED = (t.Name, t.Attribute)
