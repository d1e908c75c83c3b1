"""What an operation saves for backward: sums save nothing (``tools/autograd/derivatives.yaml`` of PyTorch)."""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.static import tree as t
from gradguard.static.reading.roots import node_of
from gradguard.static.values import Source, Value


def saves_nothing(expr: t.Node | None, path: str, value: Value) -> bool:
    """Whether a variable that goes on from what it was is only added to: ``x = x - rate * grad``.

    A product with a number that is written there saves no tensor either.

    Args:
        expr: what it is bound to.
        path: the variable.
        value: what is known of ``expr``.
    """
    if not isinstance(expr, t.Operation):
        return False
    if not all(_is_plain(term, path) for term in _terms(expr)):
        return False
    here = {node for node in t.walk(expr) if isinstance(node, t.Operation)}
    graphs = (root for root in value.reach if root.source in (Source.GRAPH, Source.CALL, Source.LOSS))
    return all(node_of(root.key) in here for root in graphs)


def _terms(expr: t.Expr) -> Iterator[t.Expr]:
    """What is added up: ``x``, ``rate * grad`` and ``noise`` of ``x - rate * grad + noise``."""
    if isinstance(expr, t.Operation) and expr.operator in ("+", "-"):
        for operand in expr.operands:
            yield from _terms(operand)
    else:
        yield expr


def _is_plain(term: t.Expr, path: str) -> bool:
    """Whether a term is the variable, that many times, or does not mention it."""
    if t.path_of(term) == path:
        return True
    if isinstance(term, t.Operation) and (term.operator == "*" or _is_divided(term)):
        factors = [factor for factor in term.operands if not isinstance(factor, t.Constant)]
        if len(factors) == 1 and t.path_of(factors[0]) == path:
            return True
    return not any(t.path_of(node) == path for node in t.walk(term) if isinstance(node, t.Name | t.Attribute))


def _is_divided(term: t.Operation) -> bool:
    """``x / 2``; for ``2 / x`` backward needs the variable."""
    return term.operator == "/" and isinstance(term.operands[-1], t.Constant)
