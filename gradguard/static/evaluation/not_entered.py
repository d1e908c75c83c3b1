"""Gradient modes that are made and not entered: ``torch.no_grad()`` as a statement of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.source import Site
from gradguard.static.values import Kind

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_MODES = k.NO_GRAD | k.ENABLE_GRAD


def not_entered(flow: Flow) -> Iterator[Site]:
    """The statements of a function that are such a mode, and nothing else."""
    if flow.facts.is_test:
        return
    statements = flow.ref.define.statements
    tried = {inner for stmt in statements if isinstance(stmt, t.Try) for inner in stmt.body}
    for stmt in statements:
        if isinstance(stmt, t.Evaluate) and stmt not in tried and _is_mode(flow, stmt.value):
            yield flow.site(stmt.value)


def _is_mode(flow: Flow, expr: t.Expr) -> bool:
    """Whether an expression is a mode of torch, that is given nothing to decorate: ``no_grad(f)`` may be meant so."""
    if isinstance(expr, t.Call):
        return not any(not isinstance(arg.value, t.Constant) for arg in expr.args) and _is_mode(flow, expr.func)
    path = t.path_of(expr) or ""
    if not path or path.split(".")[0] in flow.locals:
        return False
    value = flow.module.value_of(expr)
    return value.kind is Kind.EXTERNAL and value.ref in _MODES
