"""What only gives something new, called as if it changed what is there: ``hidden.detach()``, ``autograd.grad(...)``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.files.outline import SCRIPT
from gradguard.static.model import GradCall, Step
from gradguard.static.source import Site
from gradguard.static.values import Kind, Source, Value

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_OF_PARTS = frozenset("clamp clip clamp_min clamp_max mul div add sub nan_to_num".split())
"""Of a gradient, or of the data of a parameter; of another tensor they may stand there to be timed."""
_NO_TENSOR = re.compile(
    r"std(?:in|out|err)|stream|file|hook|handle|proc|thread|devic|driver|listen|observ|plug|client|session|socket|"
    r"kernel|interface|view|widget|callback|adapter|debug|buffer|reader|writer|agent|process|daemon|tracer",
    re.I,
)


def discarded(flow: Flow) -> Iterator[Site]:
    """The calls of a function that are statements, and whose result is all that they do."""
    if flow.facts.is_test:
        return
    for stmt in flow.ref.define.statements:
        call = stmt.value if isinstance(stmt, t.Evaluate) else None
        call = _changed_in_place(call) or call
        if isinstance(call, t.Call) and _only_gives(flow, call) and not _is_shown(flow, stmt):
            yield flow.site(call)


def dropped_gradients(flow: Flow) -> Iterator[tuple[GradCall, Step]]:
    """The calls of ``autograd.grad`` that are statements, each with the step behind it that needs what they give."""
    if flow.facts.is_test:
        return
    alone = [stmt.value for stmt in flow.ref.define.statements if isinstance(stmt, t.Evaluate)]
    for each in flow.facts.grad_calls:
        if each.inner is not None or not any(each.site.node is value for value in alone):
            continue
        steps = (step for step in flow.facts.steps if step.loop is each.loop and step.site.line > each.site.line)
        step = next(steps, None)
        backwards = (other for other in flow.facts.backwards if other.loop is each.loop)
        if step is not None and not any(each.site.line < b.site.line < step.site.line for b in backwards):
            yield each, step


def _changed_in_place(call: t.Expr | None) -> t.Call | None:
    """What is changed in place and dropped: ``p.data.mul(0.9)`` of ``p.data.mul(0.9).add_(q.data)``."""
    func = call.func if isinstance(call, t.Call) else None
    if not isinstance(func, t.Attribute) or not func.name.endswith("_") or not isinstance(func.value, t.Call):
        return None
    made = func.value.func
    return func.value if isinstance(made, t.Attribute) and made.name in _OF_PARTS else None


def _only_gives(flow: Flow, call: t.Call) -> bool:
    func = call.func
    if not isinstance(func, t.Attribute) or any(arg.star or arg.keyword == "out" for arg in call.args):
        return False
    if func.name == "detach":
        return not call.args and _may_be_tensor(flow, func.value)
    return func.name in _OF_PARTS and isinstance(func.value, t.Attribute) and func.value.name in ("grad", "data")


def _may_be_tensor(flow: Flow, expr: t.Expr) -> bool:
    path = t.path_of(expr)
    if path is None:
        return False
    value = flow.read(flow.canonical(path), flow.final)
    kind = value.kind
    if kind in (Kind.TENSOR, Kind.OUTPUT):
        return _may_have_graph(value, flow.canonical(path))
    if kind is Kind.GRADIENT:
        return True
    return kind is Kind.UNKNOWN and flow.module.torch is not None and _NO_TENSOR.search(path) is None


def _may_have_graph(value: Value, path: str) -> bool:
    """Whether there is a graph to cut: that of what was computed under ``no_grad`` is none.

    The attributes that it was computed with besides are settings as a rule: ``rewards + self.gamma * values``.
    """
    return any(root.source is not Source.PLACE or root.key == path for root in value.reach)


def _is_shown(flow: Flow, stmt: t.Stmt) -> bool:
    """Whether a notebook may show it: it is no part of a function or a loop."""
    body = flow.ref.define.body
    return flow.ref.define.name == SCRIPT and any(stmt is each for each in body)
