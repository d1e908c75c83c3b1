"""Advantages that keep the graph of the value they were computed from, and multiply the policy's log probabilities."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.losses.moving_targets import compared, cuts, runs_of, unshaped
from gradguard.static.losses.sums import At, bound_at, contained, scope_of
from gradguard.static.mistakes.losses import LiveAdvantage
from gradguard.static.model import Mode
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.functions_called import calls_of, functions_called
from gradguard.static.reading.roots import node_of
from gradguard.static.values import Root, Source

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_LOG_PROBABILITY = re.compile(
    r"(?:^|_)log_?(?:p|pi|prob|probs|probas|probabilit(?:y|ies))s?(?:$|_)|(?:^|_)ratios?$", re.I
)
_DEPTH = 3
_VALUE = re.compile(r"(?:^|_)(?:v|vs|vf|values?|vals?|state_?values?|baselines?|critic\w*)$", re.I)


def live_advantages(flow: Flow) -> Iterator[LiveAdvantage]:
    """The products of a log probability and a difference from a value that is trained by the same backward."""
    if flow.facts.is_test:
        return
    found = list(_weighted(flow))
    if found and _backpropagated_at_once(flow):
        yield from found


def _weighted(flow: Flow) -> Iterator[LiveAdvantage]:
    trained = list(_trained_values(flow))
    define = flow.ref.define
    for node in (*define.all(t.Operation), *define.all(t.Call)) if trained or flow.facts.forwards else ():
        for advantage in _factors(flow, node):
            value = _value_of(flow, advantage, trained)
            if value is not None and _is_weight(flow, node, advantage):
                yield LiveAdvantage(flow.site(advantage), flow.site(value), flow.site(node))
                break


def _factors(flow: Flow, node: t.Node) -> list[t.Expr]:
    """What may be an advantage: a factor of a log probability, or what a function is given that multiplies."""
    if isinstance(node, t.Operation):
        return _weights_in(flow, node)
    return [arg.value for arg in node.args if not arg.star] if isinstance(node, t.Call) else []


def _weights_in(flow: Flow, node: t.Node) -> list[t.Expr]:
    """The other factor of a product with a log probability."""
    if not isinstance(node, t.Operation) or node.operator != "*" or len(node.operands) != 2:
        return []
    ways = (node.operands, node.operands[::-1])
    return [w for other, w in ways if _is_log_probability(flow, other) or _is_bound_to_log_probability(flow, other)]


def _is_weight(flow: Flow, node: t.Node, advantage: t.Expr) -> bool:
    """Whether something is a factor, or an argument that a function of the program multiplies a probability by."""
    if not isinstance(node, t.Call):
        return True
    for ref in functions_called(flow, node):
        names = [name for name, given in ref.given_by(node).items() if given is advantage]
        if any(_weights(flow, ref, name) for name in names):
            return True
    return False


def _weights(flow: Flow, ref: FunctionRef, name: str) -> bool:
    """Whether a parameter, with its graph, weights a log probability."""
    inner = flow.project.flow(ref)
    if inner is None or any(cuts(inner, part) for value in ref.assigned.get(name, []) for part in t.walk(value)):
        return False
    weights = (weight for node in ref.define.all(t.Operation) for weight in _weights_in(inner, node))
    return any(t.path_of(unshaped(weight)) == name for weight in weights)


def _backpropagated_at_once(flow: Flow) -> bool:
    """Whether one backward goes through several losses; of what only computes them, whether it gives their sum."""
    calls = {backward.source.site: backward.source.site.node for backward in flow.facts.backwards}
    if calls:
        return len(calls) == 1 or any(_is_sum(flow, expr) for call in calls.values() for expr in _given(call))
    returned = [stmt.value for stmt in flow.ref.define.statements if isinstance(stmt, t.Return)]
    given = [value for value in returned if value is not None]
    return any(_is_sum(flow, value) for value in given) or (bool(given) and _are_added_up(flow))


def _are_added_up(flow: Flow) -> bool:
    """Whether a caller backpropagates a sum of the losses that it gets, with that of the value, and none besides."""
    losses = [node for node, _ in _trained_values(flow)]
    for caller, call in calls_of(flow) if losses else ():
        backwards = [each for each in caller.facts.backwards if any(_is_of(root, call) for root in each.value.reach)]
        given = [expr for each in backwards for expr in _given(each.site.node)]
        if len(backwards) == 1 and any(_has_one_of(flow, caller, call, expr, losses) for expr in given):
            return True
    return False


def _is_of(root: Root, call: t.Call) -> bool:
    return node_of(root.key) is call


def _has_one_of(flow: Flow, caller: Flow, call: t.Call, expr: t.Expr, losses: Sequence[t.Node]) -> bool:
    """Whether a sum of the caller has one of some losses in it that a call gives, by whatever name."""
    if not _is_sum(caller, expr) and not _adds_all(caller, expr):
        return False
    scope = scope_of(caller)
    for term in contained(At(scope, expr, scope.place(expr))):
        if term.calls == (call,) and _is_one_of(flow, term.bound, losses):
            return True
        if isinstance(term.bound, t.Assign) and term.bound.value is call:
            given = _returned_as(flow, term.bound, term.path)
            if term.path.endswith("[*]") or (given is not None and _is_one_of(flow, given, losses)):
                return True
    return False


def _adds_all(flow: Flow, expr: t.Expr) -> bool:
    """``sum(losses)``, or its name."""
    return any(
        isinstance(each, t.Call) and isinstance(each.func, t.Name) and each.func.id == "sum"
        for each in (expr, *flow.ref.assigned.get(t.path_of(expr) or "", []))
    )


def _returned_as(flow: Flow, stmt: t.Assign, path: str) -> t.Expr | None:
    """What a function returns as one of several: ``value_loss`` of ``policy_loss, value_loss = self.losses(batch)``."""
    ways = [each.value for each in flow.ref.define.statements if isinstance(each, t.Return)]
    names = [t.path_of(each) for target in stmt.targets for each in t.names_in(target)]
    given = ways[0] if len(ways) == 1 else None
    if not isinstance(given, t.Display) or path not in names or len(names) != len(given.items):
        return None
    return given.items[names.index(path)]


def _is_one_of(flow: Flow, value: t.Node | None, losses: Sequence[t.Node]) -> bool:
    """Whether a comparison is written in something, or in what its name is bound to."""
    bound = flow.ref.assigned.get(t.path_of(value) or "", []) if isinstance(value, t.Expr) else []
    nodes = (node for each in (value, *bound) for node in t.walk(each))
    return any(node is loss for node in nodes for loss in losses)


def _given(call: t.Node) -> list[t.Expr]:
    """What a backward may be of: ``loss`` of ``loss.backward()``, ``accelerator.backward(loss)``."""
    if not isinstance(call, t.Call):
        return []
    owner = [call.func.value] if isinstance(call.func, t.Attribute) else []
    return [*owner, *(arg.value for arg in call.args)]


def _is_sum(flow: Flow, value: t.Expr) -> bool:
    """Whether something is a sum, or has one in it: ``loss, stats``."""
    for single in t.names_in(value):
        bound = [single] if isinstance(single, t.Operation) else flow.ref.assigned.get(t.path_of(single) or "", [])
        sums = [each for each in bound if isinstance(each, t.Operation) and each.operator in ("+", "-")]
        if any(len(each.operands) > 1 for each in sums):
            return True
    return False


def _trained_values(flow: Flow) -> Iterator[tuple[t.Node, t.Expr]]:
    """What is compared with returns in a loss of the same function, with that: a value that is trained."""
    for node in flow.ref.define.nodes:
        for side in compared(flow, node, is_loss=True) or ():
            if not any(cuts(flow, part) for part in t.walk(side)):
                yield node, side


def _is_log_probability(flow: Flow, expr: t.Expr) -> bool:
    expr = _plain(expr)
    if isinstance(expr, t.Call) and expr.name in ("stack", "cat") and len(expr.args) in (1, 2):
        return _is_log_probability(flow, expr.args[0].value)
    if isinstance(expr, t.Comprehension):
        return _is_log_probability(flow, expr.element)
    if isinstance(expr, t.Call) and isinstance(expr.func, t.Attribute):
        return expr.func.name == "log_prob" or _is_log_probability(flow, expr.func.value)
    name = (t.path_of(expr) or "").rpartition(".")[2]
    return _LOG_PROBABILITY.search(name) is not None and not any(cuts(flow, part) for part in t.walk(expr))


def _is_bound_to_log_probability(flow: Flow, expr: t.Expr) -> bool:
    """Whether a variable by another name is one, here or in the function that gives it: ``lp`` of ``lp, v = run()``."""
    scope, expr = scope_of(flow), unshaped(_plain(expr))
    at: At | None = At(scope, expr, scope.place(expr)) if isinstance(expr, t.Name) else None
    for _ in range(_DEPTH):
        at = bound_at(at) if at is not None else None
        if at is None or any(cuts(at.scope.flow, part) for part in t.walk(at.expr)):
            return False
        if _is_log_probability(at.scope.flow, at.expr):
            return True
    return False


def _plain(expr: t.Expr) -> t.Expr:
    """``x`` of ``-x``."""
    is_minus = isinstance(expr, t.Operation) and len(expr.operands) == 1
    return _plain(expr.operands[0]) if is_minus else expr  # type: ignore[attr-defined]


def _value_of(flow: Flow, advantage: t.Expr, trained: Sequence[tuple[t.Node, t.Expr]]) -> t.Expr | None:
    """The value, with its graph, that is taken away from a return: ``values`` of ``returns - values``.

    Args:
        trained: the losses that compare values with returns, each with a side of it.
    """
    difference = _difference(flow, unshaped(advantage))
    if difference is None:
        return None
    value = unshaped(difference[1])
    if _is_cut(flow, advantage, is_trained=_is_gathered(flow, value, trained)):
        return None
    if any(cuts(flow, part) for each in difference for part in t.walk(each)):
        return None
    if not _may_be_value(value) and not (_are_compared(difference, trained) and runs_of(flow, value)):
        return None
    paths = {t.path_of(each) for _, each in trained} - {None}
    bound = flow.ref.assigned.get(t.path_of(value) or "", [])
    if any(cuts(flow, part) for each in bound for part in t.walk(each)):
        return None
    return value if t.path_of(value) in paths or runs_of(flow, value) else None


def _difference(flow: Flow, expr: t.Expr) -> Sequence[t.Expr] | None:
    """The two whose difference something is, or is bound to; it may be normalized afterwards."""
    path = t.path_of(expr)
    bound = flow.ref.assigned.get(path, []) if path is not None else [expr]
    first = [unshaped(value) for value in bound if path is None or not _goes_on_from(value, path)]
    found = first[0] if len(first) == 1 else None
    if isinstance(found, t.Call):
        return _given_to_difference(flow, found)
    return _operands(found) if found is not None else None


def _operands(expr: t.Expr) -> Sequence[t.Expr] | None:
    is_difference = isinstance(expr, t.Operation) and expr.operator == "-" and len(expr.operands) == 2
    return expr.operands if is_difference else None  # type: ignore[attr-defined]


def _given_to_difference(flow: Flow, call: t.Call) -> Sequence[t.Expr] | None:
    """What a function is given that returns the difference of two of its parameters: ``advantage(returns, values)``."""
    for ref in functions_called(flow, call):
        ways = [stmt.value for stmt in ref.define.statements if isinstance(stmt, t.Return)]
        made = ref.bound_to(ways[0]) if len(ways) == 1 and ways[0] is not None else []
        operands = _operands(made[0]) if len(made) == 1 else None
        inner = flow.project.flow(ref)
        if operands is None or inner is None or any(cuts(inner, part) for each in operands for part in t.walk(each)):
            continue
        given = ref.given_by(call)
        found = [given.get(t.path_of(each) or "") for each in operands]
        known = [each for each in found if each is not None]
        if len(known) == len(operands):
            return known
    return None


def _goes_on_from(value: t.Expr, path: str) -> bool:
    """``advantages = (advantages - advantages.mean()) / advantages.std()``."""
    return any(isinstance(node, t.Name | t.Attribute) and t.path_of(node) == path for node in t.walk(value))


def _is_cut(flow: Flow, advantage: t.Expr, *, is_trained: bool) -> bool:
    """Whether its graph is cut afterwards, or none is recorded where it is computed.

    Args:
        is_trained: a loss shows that the value has a graph, wherever that comes from.
    """
    path = t.path_of(advantage)
    later = flow.ref.assigned.get(path, []) if path is not None else []
    if any(cuts(flow, part) for value in (advantage, *later) for part in t.walk(value)):
        return True
    known = flow.read(flow.canonical(path), flow.final) if path is not None else None
    if known is not None and not known.reach and not is_trained:
        return True
    silent = {forward.site.node for forward in flow.facts.forwards if forward.mode is Mode.OFF}
    began = {node_of(root.key) for root in known.roots if root.source is Source.GRAPH} if known is not None else set()
    return bool(began & silent)


def _is_gathered(flow: Flow, value: t.Expr, trained: Sequence[tuple[t.Node, t.Expr]]) -> bool:
    """Whether a value is put together of the rows of a rollout, as they are, and its loss is backpropagated here."""
    path, scope = t.path_of(value), scope_of(flow)
    losses = [loss for loss, side in trained if path is not None and t.path_of(side) == path]
    at = bound_at(At(scope, value, scope.place(value))) if losses else None
    for _ in range(_DEPTH):
        if at is None or any(cuts(at.scope.flow, part) for part in t.walk(at.expr)):
            return False
        if isinstance(at.expr, t.Call) and at.expr.name in ("stack", "cat"):
            return any(_is_backpropagated(flow, loss) for loss in losses)
        at = bound_at(at)
    return False


def _is_backpropagated(flow: Flow, loss: t.Node) -> bool:
    """Whether something is a term of what a backward is called on."""
    scope = scope_of(flow)
    given = [expr for each in flow.facts.backwards for expr in _given(each.source.site.node)]
    bound = [term.bound for expr in given for term in contained(At(scope, expr, scope.place(expr)))]
    stmts = [*given, *(each.value for each in bound if isinstance(each, t.Assign))]
    return any(node is loss for each in stmts for node in t.walk(each))


def _are_compared(difference: Sequence[t.Expr], trained: Sequence[tuple[t.Node, t.Expr]]) -> bool:
    """Whether a loss compares the very two: what is taken away is the value then, by whatever name."""
    names = {t.path_of(unshaped(each)) for each in difference}
    sides: dict[t.Node, set[str | None]] = {}
    for loss, side in trained:
        sides.setdefault(loss, set()).add(t.path_of(side))
    return None not in names and len(names) == 2 and any(names == each for each in sides.values())


def _may_be_value(value: t.Expr) -> bool:
    """Whether it is what a critic gives, by its name or that of what is called."""
    named = value.func if isinstance(value, t.Call) else value.value if isinstance(value, t.Subscript) else value
    name = (t.path_of(named) or "").rpartition(".")[2]
    return _VALUE.search(name) is not None
