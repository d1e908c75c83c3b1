"""Terms of a sum that are numbers only: ``loss = ce + aux.item()`` trains nothing of what ``aux`` was computed from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.backward.filled import began_at
from gradguard.static.backward.made_leaves import is_begun_with_leaf, is_wanted
from gradguard.static.knowledge import COPYING_FUNCTIONS
from gradguard.static.losses.lost_derivatives import derivatives
from gradguard.static.losses.lost_slopes import is_trained, slopes
from gradguard.static.model import Backward, Constant, GradCall
from gradguard.static.optimizers.trained_apart import turns_off
from gradguard.static.program.paths import last
from gradguard.static.reading.unrecorded import Copied, Severed, Term, innermost, is_setting, possible_in, recorded_in
from gradguard.static.source import Site
from gradguard.static.values import (
    NONE,
    NOTHING_HELD,
    NUMBER,
    Held,
    Holding,
    Holdings,
    Kind,
    Root,
    Roots,
    Source,
    Value,
    iterated,
    node_within,
)

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.reading.state import State


_Terms = Sequence[tuple[t.Expr, Value]]
_LINEAR = frozenset("+ - * /".split())
_NUMBERS = ("item", "tolist")


def number_of(value: Value, site: Site, how: Severed = Severed.COPIED) -> Value:
    """What ``value.item()`` gives."""
    if _has_graph(value):
        return NUMBER._replace(ref=Copied(site, value.roots, how))
    possible = possible_in(value)
    if possible:
        return NUMBER._replace(ref=Copied(site, possible, how, is_doubtful=True))
    asked = recorded_in(value) & value.roots
    return NUMBER._replace(holds=frozenset((Holding(Held.REBUILT, Copied(site, asked, how)),))) if asked else NUMBER


def item_of(flow: Flow, call: t.Call, receiver: Value, state: State) -> Value:
    """What ``loss.item()`` gives, or ``loss.detach().item()``."""
    func = call.func.value if isinstance(call.func, t.Attribute) else call
    is_plain = isinstance(func, t.Call) and func.name in ("detach", "cpu")
    detached = _detached_in(call) if is_plain and not receiver.reach else None
    return number_of(receiver if detached is None else flow.value(detached, state), flow.site(call))


def array_of(flow: Flow, call: t.Call, array: Value, state: State) -> Value:
    """What ``output.detach().cpu().numpy()`` gives: the numbers of ``output``, which NumPy computes with."""
    detached = _detached_in(call)
    if detached is None:
        return array
    numbers = number_of(flow.value(detached, state), flow.site(call), Severed.ARRAY)
    return with_numbers(array, [numbers])


def _detached_in(call: t.Call) -> t.Expr | None:
    """``output`` of ``output.detach().cpu().numpy()``."""
    path, detaches = call.func, False
    while isinstance(path, t.Attribute | t.Call):
        detaches |= isinstance(path, t.Call) and path.name == "detach"
        if isinstance(path, t.Attribute) and detaches and t.path_of(path.value) is not None:
            path = path.value
            break
        path = path.func if isinstance(path, t.Call) else path.value
    return path if detaches and t.path_of(path) is not None else None


def with_numbers(result: Value, given: Sequence[Value]) -> Value:
    """What is computed of numbers, and is told of as they are."""
    known = NOTHING_HELD.union(*map(_of_elements, given))
    return result._replace(holds=result.holds | known) if known else result


def numbers_of(made: Value, given: Sequence[Value], site: Site) -> Value:
    """What ``torch.tensor(given)`` makes of other tensors: it copies their numbers."""
    copied = frozenset(Holding(Held.COPIED, Copied(site, value.roots)) for value in given if _has_graph(value))
    asked = (numbers for value in given if not _has_graph(value) for numbers in _asked_of(value, site))
    held = copied.union(Holding(Held.REBUILT, numbers) for numbers in asked)
    held = held.union(*map(_of_elements, given))
    return made._replace(holds=made.holds | held) if held else made


def _of_elements(value: Value) -> Holdings:
    """What is known of numbers that are copied already: ``torch.tensor([loss.item() for loss in losses])``."""
    each = iterated(value) if value.kind is Kind.CONTAINER or value.parts else value
    known = each.holding(Held.COPIED, Held.REBUILT)
    return known | {Holding(Held.COPIED, each.ref)} if isinstance(each.ref, Copied) else known


def _asked_of(value: Value, site: Site) -> Iterator[Copied]:
    """Numbers of a collection that is made of arguments, surely or by a call that could not be followed."""
    roots = recorded_in(value)
    known = roots & value.roots
    if known:
        yield Copied(site, known)
    if roots != known:
        yield Copied(site, roots, is_guess=True)


def as_leaf(leaf: Value, copied: Value) -> Value:
    """A leaf that is made of numbers, with what is known of these: nothing goes on to where they came from."""
    return leaf._replace(holds=copied.holding(Held.COPIED, Held.REBUILT))


def without_noughts(flow: Flow) -> Sequence[Value]:
    """What a function returns, without the 0 of a batch that has nothing to learn: ``return output.sum() * 0``.

    That has a graph, so that backward runs; where all else is numbers, nothing is trained by any of it.
    """
    if not flow.noughts:
        return flow.returned
    others = [value for value in flow.returned if not any(value is each for each in flow.noughts)]
    return others if any(value.holding(Held.COPIED, Held.REBUILT) for value in others) else flow.returned


def is_nought(expr: t.Expr) -> bool:
    """Whether an expression is a tensor times 0, or the sum of one."""
    if isinstance(expr, t.Call) and not expr.args and isinstance(expr.func, t.Attribute):
        return expr.func.name in ("sum", "mean") and is_nought(expr.func.value)
    return isinstance(expr, t.Operation) and expr.operator == "*" and any(map(t.is_zero, expr.operands))


def of_numbers(operator: str, values: Sequence[Value]) -> Value:
    """What an operation on numbers gives."""
    copied = (value for value in values if isinstance(value.ref, Copied))
    if operator not in _LINEAR:
        return with_numbers(NUMBER, [value._replace(ref=None) for value in values if value.holds])
    return with_numbers(next(copied, NUMBER)._replace(parts=()), values)


def of_operation(flow: Flow, operator: str, terms: _Terms, result: Value) -> Value:
    """The result of an operation on tensors, with what of it is numbers only.

    A product of numbers with a graph is none: it may be a weight, on purpose, as is a target in a squared difference.
    """
    if operator not in _LINEAR or not any(value.holds or isinstance(value.ref, Copied) for _, value in terms):
        return result
    if operator in ("+", "-"):
        result = result._replace(holds=result.holds.union(slopes(flow, terms), derivatives(flow, terms)))
    if operator == "*" and any(t.is_zero(expr) for expr, _ in terms):  # it says that nothing is trained
        return result._replace(holds=result.holds - result.holding(Held.COPIED, Held.UNRECORDED))
    copied = [(expr, numbers) for expr, value in terms for numbers in _copied(value)]
    graphs = [value for _, value in terms if not _copied(value) and _has_part(value, copied)]
    if not graphs and result.kind is Kind.NUMBER:
        return of_numbers(operator, [value for _, value in terms])
    if not graphs and operator == "*" and _trains_multiplier(terms):
        return result._replace(holds=result.holds - result.holding(Held.COPIED))
    if not graphs:
        constant = [Holding(Held.COPIED, numbers) for _, numbers in copied]
        asked = _asked(flow, terms, copied) if operator == "+" else ()
        return result._replace(holds=result.holds.union(constant, _still(flow, terms, operator), asked))
    if operator in ("+", "-"):
        return result._replace(holds=result.holds.union(_still(flow, terms), _begun(flow, terms, copied)))
    weighed = list(_weighed(flow, operator, terms, copied)) if all(_is_of_parameters(flow, g) for g in graphs) else []
    if weighed:
        return result._replace(holds=result.holds.union(weighed))
    is_share = operator == "/" and not is_setting(terms[-1][1])
    if is_share or len(graphs) > 1:
        return result
    return result._replace(holds=result.holds.union(_still(flow, terms, operator)))


def _is_of_parameters(flow: Flow, value: Value) -> bool:
    """Whether a graph is that of parameters: no module has run in it, and nothing that the function was given."""
    if not any(root.source is Source.LEAF for root in value.roots):
        return False
    if any(root.source not in (Source.LEAF, Source.GRAPH, Source.PLACE) for root in value.reach):
        return False
    return not any(began_at(root.key, run) for run in flow.facts.forwards for root in value.reach)


def _weighed(flow: Flow, operator: str, terms: _Terms, copied: Sequence[tuple[t.Expr, Copied]]) -> Iterator[Holding]:
    """Losses that a call copies, as factors, no ``item()``: ``torch.exp(-self.log_var) * torch.tensor(losses)``.

    Args:
        copied: the operands that surely are such numbers; what is made of an argument may be.
    """
    asked = [(expr, h.key) for expr, value in terms for h in value.holding(Held.REBUILT)]
    for expr, numbers in [*copied, *asked]:
        is_factor = operator == "*" or (operator == "/" and expr is terms[0][0])
        call = numbers.site.node if isinstance(numbers, Copied) and numbers.how is Severed.COPIED else None
        if is_factor and isinstance(numbers, Copied) and isinstance(call, t.Call) and call.name in COPYING_FUNCTIONS:
            yield Holding(Held.TERM, Term(flow.site(expr), numbers, is_weighed=True))


def _has_part(value: Value, copied: Sequence[tuple[t.Expr, Copied]]) -> bool:
    """Whether a value has a graph as far as this function shows, or will have the one that the numbers came from."""
    computed = value.kind is Kind.TENSOR and any(value.roots & numbers.roots for _, numbers in copied)
    return computed or not is_setting(value)


def _trains_multiplier(terms: _Terms) -> bool:
    """Whether the numbers are the gradient of a multiplier, which is no setting then: ``lam * (kl.item() - limit)``."""
    settings = [expr for expr, value in terms if not _copied(value) and value.kind is not Kind.NUMBER]
    numbers = [expr for expr, value in terms if _copied(value)]
    is_bent = any(isinstance(expr, t.Call) and expr.name in _BENDING for expr in settings)
    return is_bent or (bool(settings) and any(map(_is_excess, numbers)))


def _is_excess(expr: t.Expr) -> bool:
    """Whether a number is compared with a limit: ``kl.item() - limit``, ``entropy.item() + target``."""
    if not isinstance(expr, t.Operation) or len(expr.operands) != 2:
        return False
    kinds = {isinstance(operand, t.Call) for operand in expr.operands}
    return expr.operator == "-" or (expr.operator == "+" and kinds == {True, False})


_BENDING = frozenset("exp softplus sigmoid relu clamp clamp_min square".split())


def _begun(flow: Flow, terms: _Terms, copied: Sequence[tuple[t.Expr, Copied]]) -> Iterator[Holding]:
    """The operands of a sum with a graph that are numbers only; none where they are shown in place of its value."""
    if not any(_takes_own_value_away(flow, expr) for expr, _ in terms):
        for expr, numbers in copied:
            if not _is_shift(flow, expr, terms, numbers):
                yield Holding(Held.TERM, Term(flow.site(expr), numbers, beside=_beside(expr, terms, numbers)))


def _beside(expr: t.Expr, terms: _Terms, numbers: Copied) -> Roots:
    """What an operand is computed of besides, of which the caller knows whether it has a graph."""
    if numbers.is_certain or numbers.how is not Severed.NO_GRAD:
        return NONE
    values = (value for each, value in terms if each is expr)
    return frozenset(root for value in values for root in value.reach if root.source is Source.PARAM)


def _asked(flow: Flow, terms: _Terms, copied: Sequence[tuple[t.Expr, Copied]]) -> Iterator[Holding]:
    """The operands of a sum that are computed of arguments under ``no_grad``, beside others that are computed of some.

    Whether those have a graph, and the sum is a loss, the caller knows.
    """
    lost = {id(expr) for expr, _ in copied}
    others = (value for expr, value in terms if id(expr) not in lost and value.kind is Kind.TENSOR)
    if not any(root.source is Source.PARAM for value in others for root in value.roots):
        return
    for expr, numbers in copied:
        if numbers.how is Severed.NO_GRAD and not numbers.is_certain and not _is_shift(flow, expr, terms, numbers):
            beside = _beside(expr, terms, numbers)
            yield Holding(Held.TERM, Term(flow.site(expr), numbers, is_asked=True, beside=beside))


def _still(flow: Flow, terms: _Terms, operator: str = "+") -> Iterator[Holding]:
    """The terms of operands that are terms of the whole: ``s + (m - s.item())`` has none.

    A sum of which only the caller knows that it is a loss is none where something is multiplied with it: a weight.
    """
    for place, (_, value) in enumerate(terms):
        others = [*terms[:place], *terms[place + 1 :]]
        is_linear = operator in ("+", "-") or all(other.kind is Kind.NUMBER for _, other in others)
        for held in value.holding(Held.TERM):
            key = innermost(held.key)
            written = key.site.node if isinstance(key, Term) else None
            if isinstance(key, Term) and key.is_asked and not is_linear:
                continue
            if not isinstance(written, t.Expr) or not _is_shift(flow, written, others):
                yield held


def _is_shift(flow: Flow, expr: t.Expr, terms: _Terms, numbers: Copied | None = None) -> bool:
    """Whether what a number was copied from is in the same sum, whose gradient is meant to be as it was then.

    ``x - x.item()``, ``(x - top).exp().sum().log() + top``.

    Args:
        numbers: where they were copied, as ``middle = x.mean()`` under ``no_grad``.
    """
    copy = numbers.site.node if numbers is not None else None
    nodes = [*t.walk(expr), *([copy] if isinstance(copy, t.Call) and not copy.args else [])]
    funcs = [node.func for node in nodes if isinstance(node, t.Call) and isinstance(node.func, t.Attribute)]
    owners = [func.value for func in funcs if func.name != "state_dict" and not _is_namespace(flow, func.value)]
    names = {t.path_of(each) for each in (expr, *owners)} - {None}
    others = (node for other, _ in terms if other is not expr for node in t.walk(other))
    return any(isinstance(node, t.Name | t.Attribute) and t.path_of(node) in names for node in others)


def _is_namespace(flow: Flow, owner: t.Expr) -> bool:
    """Whether something only has the function that is called: ``F``, ``self``; the sum is not of it."""
    is_self = flow.ref.owner is not None and t.path_of(owner) in flow.params[:1]
    return is_self or flow.module.value_of(owner).kind is Kind.EXTERNAL


def _takes_own_value_away(flow: Flow, expr: t.Expr) -> bool:
    """``loss - loss.item()``: what is left is 0, with the gradient of the loss."""
    if not isinstance(expr, t.Operation) or expr.operator != "-" or len(expr.operands) != 2:
        return False
    return _is_shift(flow, expr.operands[1], [(expr.operands[0], NUMBER)])


def nonlinear(value: Value) -> Value:
    """What is one of some values, or bends them: no term of it is known to be without a gradient."""
    terms = value.holding(Held.TERM)
    return value._replace(holds=value.holds - terms) if terms else value


def kept_by(receiver: Value, result: Value) -> Value:
    """The mean or the sum of a tensor that is a sum itself: the terms are apart in it as before."""
    terms = receiver.holding(Held.TERM)
    return result._replace(holds=result.holds | terms) if terms else result


def constant_terms(flow: Flow, backward: Backward) -> list[Constant]:
    """The terms of what is backpropagated that are numbers of graphs which no other backward goes through."""
    held = backward.value.holding(Held.TERM, Held.SLOPE)
    found = [key for h in held if isinstance(key := innermost(h.key), Term) and _is_told(h.held, key)]
    found = [term for term in found if term.copied.how is not Severed.STATE or _is_of_trained(flow, term, backward)]
    found = [term for term in found if is_trained(flow, term, backward)]
    others = [e for e in flow.facts.events if isinstance(e, Backward | GradCall) and e is not backward]
    others = [e for e in others if isinstance(e, Backward) or not _is_shown(e)]
    certain = [term for term in found if term.copied.is_certain and not _is_used(term, others)]
    certain = [term for term in certain if not term.copied.is_doubtful or _is_trained_here(term, backward)]
    certain = [term for term in certain if not _is_wanted(flow, term, backward)]
    certain = [term for term in certain if not term.beside]
    certain = [term for term in certain if not term.is_weighed or term.copied.roots.isdisjoint(backward.value.reach)]
    unused = [_constant(term) for term in certain]
    unused.sort(key=lambda each: (each.term.path, each.term.span, each.copied.path, each.copied.span))
    return _one_each(_one_each(unused, lambda each: each.term), lambda each: each.copied)  # a total in a sum, too


def _is_told(held: Held, term: Term) -> bool:
    """Whether a term is told of as a number; a first derivative in an equation is told of as what it is."""
    return held is Held.TERM or term.copied.is_second


def _constant(term: Term) -> Constant:
    copied = term.copied
    whole = _without_graph(copied.site) if term.is_asked else None
    if whole is not None:
        return Constant(term.site, Site(copied.site.chunk, whole), copied.how, function=whole.name)
    return Constant(term.site, copied.site, copied.how, term.is_weighed, copied.is_given)


def _without_graph(site: Site) -> t.Define | None:
    """The function around something that is decorated with ``no_grad``."""
    defined = (stmt for stmt in t.walk_statements(site.chunk.statements) if isinstance(stmt, t.Define))
    around = (define for define in defined if t.is_in(site.node, define.body))
    return next((define for define in around if any(map(turns_off, define.decorators))), None)


def _one_each(found: Sequence[Constant], what: Callable[[Constant], Site]) -> list[Constant]:
    """The first of those that have something in common."""
    return list({what(each): each for each in reversed(found)}.values())[::-1]


def _is_of_trained(flow: Flow, term: Term, backward: Backward) -> bool:
    """Whether the state is that of a model which the loss is computed by; of another one, it is what is compared with.

    That is told by the name of the model: a helper may be given it, or have it, under a path of its own.
    """
    call = term.copied.site.node
    owner = t.path_of(call.func.value) if isinstance(call, t.Call) and isinstance(call.func, t.Attribute) else None
    runs = [each for each in flow.facts.forwards if each.module is not None and owner is not None]
    trained = [each for each in runs if any(began_at(root.key, each) for root in backward.value.reach)]
    return any(last(each.module or "") == last(owner or "") for each in trained)


def _is_trained_here(term: Term, backward: Backward) -> bool:
    """Whether a backward goes through the very graph that numbers came from: then one was recorded."""
    return not term.copied.roots.isdisjoint(backward.value.reach)


def _is_wanted(flow: Flow, term: Term, backward: Backward) -> bool:
    """Whether numbers were made a leaf that is trained itself, or whose gradient is looked at."""
    leaves = [root for root in backward.value.reach if root.source is Source.LEAF]
    made = [root for root in leaves if node_within(root.key) is term.copied.site.node]
    return any(is_wanted(flow, backward, leaf) for leaf in made)


def _is_leaf_alone(value: Value) -> bool:
    """Whether all graphs of a value begin with leaves that were made of numbers: ``torch.tensor(losses, ...)``."""
    return all(_is_made(root) or is_begun_with_leaf(root) or root.source is Source.PLACE for root in value.reach)


def _is_made(root: Root) -> bool:
    made = node_within(root.key) if root.source is Source.LEAF else None
    return isinstance(made, t.Call) and made.name in COPYING_FUNCTIONS and made.is_true("requires_grad")


def _is_shown(gradients: GradCall) -> bool:
    """Whether gradients are looked at as numbers only: ``torch.autograd.grad(loss, weight)[0].norm().item()``."""
    site = gradients.source.site
    calls = (node for node in t.walk(site.chunk.statements) if isinstance(node, t.Call) and node.name in _NUMBERS)
    return any(node is site.node for call in calls for node in t.walk(call.func))


def _is_used(term: Term, others: Sequence[Backward | GradCall]) -> bool:
    others = [other for other in others if other.source.site != term.copied.site]  # the one that gave it
    return any(term.copied.roots <= other.value.reach for other in others)


def _has_graph(value: Value) -> bool:
    """Whether a tensor, or one of a collection of tensors, surely has a graph."""
    if value.kind is Kind.CONTAINER or value.parts:
        return value._replace(kind=Kind.TENSOR, parts=()).has_own_graph
    return value.is_operation_result


def _copied(value: Value) -> list[Copied]:
    """Where the numbers came from that a value surely has nothing beside.

    What a callee knows only of its own arguments is told again in terms of its caller.
    """
    if isinstance(value.ref, Copied):
        return [value.ref]
    held = value.holding(Held.COPIED)
    held = held if held and (is_setting(value) or _is_leaf_alone(value)) else frozenset()
    found = {key for h in held if isinstance(key := innermost(h.key), Copied) and (key is h.key or key.is_certain)}
    return sorted(found, key=lambda key: (not key.is_certain, key.site.path, key.site.span))
