"""Losses of a multiplier, as of a temperature, that train what it multiplies: ``alpha * (log_prob + target)``.

And losses of what is multiplied that train the multiplier, which has one of its own: ``alpha * log_prob``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.losses.sums import (
    Added,
    At,
    Scope,
    bound_at,
    given_as,
    names_of,
    scope_of,
    sums_and_terms,
    without_minus,
)
from gradguard.static.mistakes.losses import LiveMultiplied
from gradguard.static.model import Backward, Mode, Step
from gradguard.static.program.functions import FunctionRef
from gradguard.static.source import Site
from gradguard.static.values import Kind

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_BENDING = frozenset("exp softplus sigmoid relu abs square clamp clamp_min clip".split())
_AVERAGING = frozenset(("mean", "sum", "squeeze"))
_DEPTH = 6


def live_multipliers(flow: Flow) -> Iterator[LiveMultiplied]:
    """Where one backward goes through ``m.detach() * x`` and through ``m * x``, the loss of ``m``.

    Or through ``m * x`` and through ``m * x.detach()``, where that one is the loss of ``m``.
    """
    if flow.facts.is_test or not any(map(_has_both, _followed(flow.ref))):
        return
    scope = scope_of(flow)
    for together in _in_one_step(flow):
        products = _products_of(scope, together)
        for fixed in (each for each in products if each.is_fixed):
            for live in (each for each in products if not each.is_fixed):
                if _train_the_same(fixed, live):
                    yield LiveMultiplied(_site(live.factor), _site(fixed.factor), live.multiplier[0])
                    return
    for together in _in_one_step(flow, of_one_graph=False):
        products = [product for product in _products_of(scope, together) if not product.is_fixed]
        for own in (each for each in products if each.is_number):
            for live in (each for each in products if not each.is_number):
                if _moves_it_as_well(own, live):
                    yield LiveMultiplied(_site(live.by), _site(own.by), live.multiplier[0], is_multiplier=True)
                    return


def _products_of(scope: Scope, together: list[Backward]) -> list[_Product]:
    given = [expr for backward in together for expr in _given(backward.site.node)]
    added = [each for expr in given for each in sums_and_terms(Added(At(scope, expr, scope.place(expr))))]
    return [product for each in added for product in _products(each)]


def _site(at: At) -> Site:
    return at.scope.flow.site(at.expr)


# --- what is worth a closer look --------------------------------------------------------------------------------


def _followed(ref: FunctionRef) -> Iterator[FunctionRef]:
    """A function, and those of the program that it calls: a loss may be theirs."""
    yield ref
    found = (ref.callee(call) for call in ref.calls)
    yield from {id(each.define): each for each in found if each is not None and each.define is not ref.define}.values()


def _has_both(ref: FunctionRef) -> bool:
    """Whether a function multiplies something by a variable without its graph."""
    products = (node for node in ref.define.all(t.Operation) if node.operator == "*")
    return any(_is_cut(ref, operand) for product in products for operand in product.operands)


def _is_cut(ref: FunctionRef, operand: t.Expr) -> bool:
    bound = ref.assigned.get(t.path_of(operand) or "", [])
    nodes = (node for each in (operand, *bound) for node in t.walk(each))
    return any(isinstance(node, t.Attribute) and node.name in k.CUTS for node in nodes)


def _in_one_step(flow: Flow, *, of_one_graph: bool = True) -> Iterator[list[Backward]]:
    """The backwards whose gradients one step has, as far as nothing but a backward comes between them.

    Args:
        of_one_graph: they may go through the same graph, which all but the last one keep.
    """
    together: list[Backward] = []
    for event in flow.facts.events:
        if isinstance(event, Backward):
            is_freed = of_one_graph and bool(together) and not together[-1].keeps
            if together and (is_freed or together[-1].loop is not event.loop):
                yield [together.pop()]
            together.append(event)
        elif isinstance(event, Step) and together:
            yield together
            together = []
        elif together:
            yield from ([each] for each in together)
            together = []
    yield from ([each] for each in together)


def _given(call: t.Node) -> list[t.Expr]:
    """What a backward may be of: ``loss`` of ``loss.backward()``, ``accelerator.backward(loss)``."""
    if not isinstance(call, t.Call):
        return []
    plain = [arg.value for arg in call.args if arg.keyword is None]
    is_own = isinstance(call.func, t.Attribute) and call.func.name == "backward" and not plain
    return [call.func.value] if is_own else plain  # type: ignore[attr-defined]


# --- the products of a sum --------------------------------------------------------------------------------------


class _Product(NamedTuple):
    """A term that multiplies something by a variable.

    Args:
        multiplier: the path of the variable, and the calls of the function that has it.
        is_fixed: without its graph.
        factor: what it multiplies, with its graph.
        sign: -1 where that is taken away.
        within: the statements that bind the sums in which the product is, and the calls that give them.
        by: the multiplier, as it is written there.
        is_number: the graph of what it multiplies was cut.
    """

    multiplier: tuple[str, tuple[t.Call, ...]]
    is_fixed: bool
    factor: At
    sign: int
    within: tuple[t.Node, ...]
    by: At
    is_number: bool


def _products(added: Added) -> Iterator[_Product]:
    scope, expr, place = added.at
    if not isinstance(expr, t.Operation) or expr.operator != "*" or len(expr.operands) != 2:
        return
    for one, other in (expr.operands, expr.operands[::-1]):
        multiplier = _variable(At(scope, one, place))
        if multiplier is not None:
            path, calls, is_fixed = multiplier
            turned, by = without_minus(one)
            for sign, factor, is_number in _terms_of_factor(At(scope, other, place), added.sign * turned):
                at = At(scope, by, place)
                yield _Product((path, calls), is_fixed, factor, sign, added.within, at, is_number)


def _terms_of_factor(at: At, sign: int, *, is_number: bool = False) -> Iterator[tuple[int, At, bool]]:
    """``log_prob`` of ``log_prob + target``, with its sign, and whether its graph was cut."""
    scope, expr, place = at
    cut = t.detached(expr)
    if cut is not None:
        yield from _terms_of_factor(At(scope, cut, place), sign, is_number=True)
    elif isinstance(expr, t.Call) and isinstance(expr.func, t.Attribute) and expr.func.name in _AVERAGING:
        yield from _terms_of_factor(At(scope, expr.func.value, place), sign, is_number=is_number)
    elif isinstance(expr, t.Operation) and expr.operator in ("+", "-"):
        for turned, operand in t.signed(expr):
            yield from _terms_of_factor(At(scope, operand, place), sign * turned, is_number=is_number)
    elif t.path_of(expr) is not None:
        bound = bound_at(at)
        if bound is not None and t.detached(bound.expr) is not None:  # error = (log_prob + target).detach()
            yield from _terms_of_factor(bound, sign, is_number=True)
        else:
            yield sign, at, is_number


def _variable(at: At) -> tuple[str, tuple[t.Call, ...], bool] | None:
    """What a multiplier is computed of alone, where that is, and whether its graph was cut on the way."""
    found: At | None = None
    is_fixed = False
    for _ in range(_DEPTH):
        inner, is_cut = _unbent(at)
        if inner is None:
            break
        is_fixed = is_fixed or is_cut
        found, following = inner, bound_at(inner) or _property(inner)
        if following is None:
            break
        at = following
    path = t.path_of(found.expr) if found is not None else None
    if found is None or path is None:
        return None
    return path, found.scope.calls if not path.startswith("self.") else (), is_fixed


def _unbent(at: At) -> tuple[At | None, bool]:
    """The variable that an expression bends, and whether it cuts its graph: ``a`` of ``-a.exp().detach()``."""
    scope, expr, place = at
    is_cut = False
    while t.path_of(expr) is None or (isinstance(expr, t.Attribute) and expr.name in k.CUTS):
        if isinstance(expr, t.Operation) and expr.operator == "-" and len(expr.operands) == 1:
            expr = expr.operands[0]
        elif isinstance(expr, t.Attribute) and expr.name in k.CUTS:
            expr, is_cut = expr.value, True
        elif isinstance(expr, t.Call) and isinstance(expr.func, t.Attribute) and _keeps_sense(expr.func.name):
            is_cut = is_cut or expr.func.name in k.CUTS
            is_function = scope.flow.module.value_of(expr.func.value).kind is Kind.EXTERNAL
            expr = expr.args[0].value if is_function and expr.args else expr.func.value
        else:
            return None, is_cut
    return At(scope, expr, place), is_cut


def _keeps_sense(method: str) -> bool:
    return method in _BENDING or method in k.CUTS or method in k.FLUENT_METHODS


def _property(at: At) -> At | None:
    """What a property of the object gives: ``self.log_alpha.exp()`` for ``self.alpha``."""
    scope, expr, _ = at
    owner = scope.flow.ref.owner
    if owner is None or not isinstance(expr, t.Attribute) or t.path_of(expr.value) != "self":
        return None
    method = owner.method(expr.name)
    is_property = method is not None and any(t.path_of(each) == "property" for each in method.define.decorators)
    returned = list(method.given_back()) if method is not None and is_property else []
    flow = scope.flow.project.flow(method) if method is not None and len(returned) == 1 else None
    if flow is None:
        return None
    inner = scope_of(flow)
    return At(inner, returned[0], inner.place(returned[0]))


def _train_the_same(fixed: _Product, live: _Product) -> bool:
    """Whether two products have one multiplier, and one factor with its graph and another sign, in two losses."""
    if fixed.multiplier != live.multiplier or fixed.sign == live.sign or fixed.within == live.within:
        return False
    if fixed.is_number or live.is_number:
        return False
    return _has_graph(live.factor) and not names_of(fixed.factor).isdisjoint(names_of(live.factor))


def _moves_it_as_well(own: _Product, live: _Product) -> bool:
    """Whether a loss of what is multiplied has the multiplier with its graph, beside the multiplier's own loss."""
    if own.multiplier != live.multiplier or own.sign == live.sign or own.within == live.within:
        return False
    if not _has_graph(live.factor) or not _may_have_graph(live.by) or not _may_have_graph(own.by):
        return False
    return not names_of(own.factor).isdisjoint(names_of(live.factor))


def _may_have_graph(at: At) -> bool:
    """Whether a multiplier is not computed where no graph is recorded."""
    if isinstance(at.expr, t.Name):
        return _has_graph(at)
    given = _property(at)
    return given is None or given.scope.flow.facts.entry_mode is not Mode.OFF


def _has_graph(at: At) -> bool:
    """Whether a factor has a graph, as far as the function shows that it is from."""
    while (outer := given_as(at)) is not None:
        at = outer
    path, flow = t.path_of(at.expr), at.scope.flow
    value = flow.read(flow.canonical(path), flow.final) if path is not None else None
    return value is not None and value.kind is not Kind.NUMBER and bool(value.reach)
