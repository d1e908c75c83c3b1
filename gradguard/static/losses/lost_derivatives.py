"""First derivatives without their graph, beside what they are the derivatives of: ``u_t - rate * u * (1 - u)``.

As a term of an equation the derivative is to be trained like the rest of it; without its graph it is a number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.losses.lost_slopes import has_trained_factor, is_trained_with
from gradguard.static.mistakes.losses import LostDerivative
from gradguard.static.model import Backward
from gradguard.static.program.functions_called import functions_run
from gradguard.static.reading.unrecorded import Copied, Severed, Term, innermost, is_setting
from gradguard.static.values import Held, Holding, Source, Value

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_DEPTH = 3
# What a number is meant to be, where something else is to come close to it.
_TARGET = re.compile(r"target|label|teacher|bootstrap|expected|desired|(?:^|_)(?:td|gt|ref|old)(?:_|$)", re.I)
_KEEPING = frozenset("sum mean".split())


def derivatives(flow: Flow, terms: Sequence[tuple[t.Expr, Value]]) -> Iterator[Holding]:
    """The derivatives that a sum has beside the very tensor that is differentiated, or what is computed of it.

    Those of which that is not known yet are open: ``u_x - torch.exp(-x)`` may be a part of ``u_x - torch.exp(-x) + u``.
    """
    for expr, value in terms:
        others = [(other, each) for other, each in terms if other is not expr and _may_have_graph(each)]
        for term in _lost(flow, expr, value) if others else ():
            node = term.site.node
            of = set(_differentiated(flow, node, term.copied, _DEPTH)) if isinstance(node, t.Expr) else set()
            of = {path for path in of if _is_graph(flow, path)}
            beside = [other for other, each in others if not is_setting(each) or _is_one_of(each, of)]
            is_beside = any(not of.isdisjoint(_paths(flow, other, _DEPTH)) for other in beside)
            if beside:
                yield Holding(Held.SLOPE, term._replace(is_open=not is_beside))


def _lost(flow: Flow, expr: t.Expr, value: Value) -> Iterator[Term]:
    """The derivative that a term is, and those of a sum that it is, which are open."""
    for held in value.holding(Held.UNRECORDED, Held.SLOPE):
        key = held.key
        if isinstance(key, Term) and key.is_open and any(each is key.site.node for each in _added(flow, expr, _DEPTH)):
            yield key
        elif isinstance(key, Copied) and _is_first(key) and is_setting(value) and not has_trained_factor(flow, expr):
            yield Term(flow.site(expr), key)


def _added(flow: Flow, expr: t.Expr, depth: int) -> Iterator[t.Expr]:
    """The terms of a sum, and of those that it is made of."""
    bound = flow.ref.assigned.get(expr.id, []) if isinstance(expr, t.Name) else []
    whole, left = (bound[0], depth - 1) if len(bound) == 1 and depth else (expr, depth)
    if isinstance(whole, t.Operation) and whole.operator in ("+", "-"):
        for each in whole.operands:
            yield each
            yield from _added(flow, each, left)


def lost_derivatives(flow: Flow) -> Iterator[LostDerivative]:
    """Those of what is backpropagated, for a network that an optimizer steps."""
    told: set[Term] = set()
    for backward in flow.facts.backwards:
        for term in _found(backward):
            if term not in told and not flow.facts.is_test and is_trained_with(flow, term, backward):
                told.add(term)
                yield LostDerivative(term.copied.site, term.site, backward.source.site)


def _found(backward: Backward) -> Iterator[Term]:
    for holding in backward.value.holding(Held.SLOPE):
        key = innermost(holding.key)
        if isinstance(key, Term) and _is_first(key.copied) and not key.is_open:
            yield key


def _is_first(copied: Copied) -> bool:
    return copied.how is Severed.NO_CREATE_GRAPH and not copied.is_second


def _may_have_graph(value: Value) -> bool:
    """Whether a term has a graph here, or may have one as the caller knows: ``u`` of ``residual(u, t, x)``."""
    return not is_setting(value) or any(root.source is Source.PARAM for root in value.roots)


def _is_one_of(value: Value, paths: set[str]) -> bool:
    """Whether a value is computed of an argument that is differentiated itself: so that has a graph."""
    return any(root.source is Source.PARAM and root.base in paths for root in value.roots)


def _is_graph(flow: Flow, path: str) -> bool:
    """Whether a variable has a graph that is no leaf's."""
    value = flow.current_env.get(flow.canonical(path))
    return value is not None and any(root.source in (Source.GRAPH, Source.CALL, Source.PARAM) for root in value.roots)


def _differentiated(flow: Flow, expr: t.Expr, copied: Copied, depth: int) -> Iterator[str]:
    """What a derivative is of, by the name that it has here: ``u`` of ``grad(u.sum(), x)``, of ``derivative(u, x)``."""
    for node in t.walk(expr):
        if isinstance(node, t.Call):
            path = _outputs(flow, node, copied)
            yield from [path] if path is not None else []
        path = t.path_of(node) if isinstance(node, t.Name | t.Attribute) else None
        bound = flow.ref.assigned.get(path, []) if path is not None and depth else []
        if path is not None and len(bound) == 1 and not _TARGET.search(path):
            yield from _differentiated(flow, bound[0], copied, depth - 1)


def _outputs(flow: Flow, call: t.Call, copied: Copied) -> str | None:
    """The path of what a call differentiates, or gives to a function that does."""
    if call is copied.site.node:
        return _plain(call.argument("outputs", 0))
    for ref in functions_run(flow, call):
        inner = next((each for each in ref.calls if each is copied.site.node), None)
        name = _plain(inner.argument("outputs", 0)) if inner is not None else None
        bound = ref.assigned.get(name, []) if name is not None else []
        if name is not None and not bound:
            return _plain(ref.given_by(call).get(name))
    return None


def _plain(expr: t.Expr | None) -> str | None:
    """``u`` of ``u.sum()``, ``torch.sum(u)``, ``[u]``."""
    while isinstance(expr, t.Call | t.Display):
        if isinstance(expr, t.Display):
            expr = expr.items[0] if len(expr.items) == 1 else None
        elif expr.name not in _KEEPING:
            return None
        elif expr.args and isinstance(expr.func, t.Attribute) and t.path_of(expr.func.value) == "torch":
            expr = expr.args[0].value
        else:
            expr = expr.func.value if isinstance(expr.func, t.Attribute) else None
    return t.path_of(expr) if isinstance(expr, t.Name | t.Attribute) else None


def _paths(flow: Flow, expr: t.Expr, depth: int) -> Iterator[str]:
    """What an expression is computed of, by its names: also what its variables are made of."""
    for node in t.walk(expr):
        path = t.path_of(node) if isinstance(node, t.Name | t.Attribute) else None
        if path is not None:
            yield path
            for made in flow.ref.assigned.get(path, []) if depth else ():
                yield from _paths(flow, made, depth - 1)
