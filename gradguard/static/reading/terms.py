"""What a sum is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.reading.state import State
from gradguard.static.values import UNKNOWN, Value, union

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


def terms(flow: Flow, expr: t.Expr, state: State) -> list[Value]:
    """What a sum is made of, as far as that has names: of ``loss`` after ``loss = ce + weight * kl``, both."""
    if isinstance(expr, t.Operation) and len(expr.operands) == 2:
        left, right = expr.operands
        if expr.operator in ("+", "-"):
            return terms(flow, left, state) + terms(flow, right, state)
        if expr.operator == "*":
            return _product(flow, left, right, state)
        if expr.operator == "/":
            return [value for operand in expr.operands for value in terms(flow, operand, state) if value.roots][:1]
    path = t.path_of(expr) if isinstance(expr, t.Name | t.Attribute | t.Subscript) else None
    if path is None:
        return []
    path = flow.canonical(path)
    return flow.sums.get(path) or [flow.read(path, state)]


def _product(flow: Flow, left: t.Expr, right: t.Expr, state: State) -> list[Value]:
    """Both factors as one term: which of them has the graph is not said, one may well be a weight.

    Nothing is known of the term where only one of them has a name.
    """
    factors = [factor for factor in (left, right) if not isinstance(factor, t.Constant)]
    named = [terms(flow, factor, state) for factor in factors]
    attached = [known for values in named if (known := [value for value in values if value.roots])]
    if len(attached) > 1:
        return [union(value for known in attached for value in known)]
    if attached and not all(named):
        return [UNKNOWN]
    return attached[0] if attached else []
