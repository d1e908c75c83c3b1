"""Losses that are backpropagated by themselves and again within a sum, for one step: their gradient counts twice."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.losses.sums import At, Scope, called_in, contained, names_of, scope_of
from gradguard.static.mistakes.backward import CountedTwice
from gradguard.static.model import Backward, Event, Function, OpaqueCall, Step, ZeroGrad
from gradguard.static.program.functions_called import functions_run
from gradguard.static.reading.rounds import blocks_around
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_LOOKS = r"(?:\.data\b|\.detach\(\))*\.(?:norm|abs|pow|square|mean|sum|max|shape|numel)\b"
# What does more to gradients than to look at them may put those of several losses together; what freezes parts of a
# model may give each loss its own.
_HANDLES = re.compile(
    rf"(?<!autograd)\.grad\b(?!\(|\s+is\b|{_LOOKS})|[\"']grad[\"']|"
    r"\brequires_grad\s*=|requires_grad_\(|set_requires_grad|freeze|\bno_sync\("
)
_TAKING = re.compile(r"(?:^|\.)(?:autograd|self|cls|accelerator|fabric)$")


def counted_twice(flow: Flow) -> Iterator[CountedTwice]:
    """The losses of a function that two of its backwards go through as a whole, with one step after both."""
    if (
        len(flow.facts.backwards) < 2
        or flow.facts.is_test
        or not any(backward.keeps for backward in flow.facts.backwards)
    ):
        return
    scope = scope_of(flow)
    told: set[Site] = set()
    for first, second in combinations(flow.facts.backwards, 2):
        if not first.keeps or not _both_count(flow, first, second):
            continue
        found = _term_and_sum(scope, first, second)
        if found is not None and found.term not in told and not _handles_gradients(flow, (first, second)):
            told.add(found.term)
            yield found


def _term_and_sum(scope: Scope, first: Backward, second: Backward) -> CountedTwice | None:
    """Which of two backwards is of a term of what the other one is of."""
    one, other = _given(scope, first), _given(scope, second)
    if one is None or other is None:
        return None
    names, names_of_other = names_of(one), names_of(other)
    if not names.isdisjoint(contained(other)):
        is_same = any(each in names_of_other and not each.is_any for each in names)
        return _told(first, second, one, other, is_same=is_same) if not is_same or first.loop is not None else None
    if not names_of_other.isdisjoint(contained(one)):
        return _told(second, first, other, one, is_same=False)
    return None


def _told(term: Backward, whole: Backward, one: At, other: At, *, is_same: bool) -> CountedTwice:
    """By the backwards as they are written; by the calls that run them, where one method does both."""
    sites = (term.source.site, whole.source.site)
    site, of_sum = sites if sites[0] != sites[1] else (term.site, whole.site)
    return CountedTwice(site, of_sum, _code(term, one), _code(whole, other), is_same)


def _code(backward: Backward, given: At) -> str:
    """What is backpropagated, by its name in the function that is told of: that of a helper is a parameter's."""
    scope, expr, _ = given
    while isinstance(expr, t.Name) and expr.id in scope.given and scope.caller is not None:
        scope, expr = scope.caller, scope.given[expr.id]
    return scope.flow.site(expr).code


# --- which of them count for one step ---------------------------------------------------------------------------


def _both_count(flow: Flow, first: Backward, second: Backward) -> bool:
    """Whether one step has the gradients of both, and no reset comes between them."""
    if first.inner is not None and second.inner is not None and first.site.node is second.site.node:
        return False  # told of the function that does both
    if first.guarded or second.guarded or _exclude_each_other(flow, first, second) or not _in_one_round(first, second):
        return False
    events = [e for e in flow.facts.events if isinstance(e, Backward | ZeroGrad | Step | OpaqueCall)]
    places = [place for place, event in enumerate(events) if event is first or event is second]
    between, after = events[places[0] + 1 : places[-1]], events[places[-1] + 1 :]
    if any(not isinstance(event, Backward) for event in between):
        return False
    return _is_stepped(flow, after)


def _in_one_round(first: Backward, second: Backward) -> bool:
    """Whether both are in one iteration, or one of them in a loop of that."""
    if first.loop is None or second.loop is None:
        return True
    return first.loop.within(second.loop) or second.loop.within(first.loop)


def _is_stepped(flow: Flow, after: Sequence[Event]) -> bool:
    """Whether the only optimizer steps next; of a function without one, where it is called."""
    if not flow.facts.steps:
        outer = flow.ref.outer
        callers = [*([outer.facts] if outer is not None else ()), *flow.facts.calling()]
        return any(_has_one_optimizer(caller) for caller in callers)
    next_ = next((event for event in after if not isinstance(event, Backward)), None)
    return isinstance(next_, Step) and _has_one_optimizer(flow.facts)


def _has_one_optimizer(function: Function) -> bool:
    """Whether all steps are those of one; not of each of several: ``for opt in optimizers: opt.step()``."""
    targets = {step.target for step in function.steps}
    return len(targets) == 1 and not any(target is None or "[*]" in target for target in targets)


def _exclude_each_other(flow: Flow, first: Backward, second: Backward) -> bool:
    """Whether both are on ways of their own, as far as can be seen: each under a condition that the other is not."""
    body = flow.ref.define.body
    own, others = list(_ways(body, first, second)), list(_ways(body, second, first))
    return bool(own and others) or any(map(t.leaves, (*own, *others)))


def _ways(body: Sequence[t.Stmt], event: Event, other: Event) -> Iterator[Sequence[t.Stmt]]:
    """The blocks under a condition that an event is in, and another one is not."""
    for block in blocks_around(body, event):
        for stmt in block:
            ways = t.blocks(stmt) if isinstance(stmt, t.If | t.Match | t.Try) else []
            yield from (way for way in ways if event.is_in(way) and not other.is_in(way))


def _handles_gradients(flow: Flow, backwards: Sequence[Backward]) -> bool:
    """Whether something may put gradients together by hand, or take turns with parameters."""
    codes = [Site(flow.ref.chunk, flow.ref.define).code]
    for backward in backwards:
        node = backward.site.node
        refs = functions_run(flow, node) if backward.inner is not None and isinstance(node, t.Call) else ()
        codes += [Site(ref.chunk, ref.define).code for ref in refs]
    return any(_HANDLES.search(code) is not None for code in codes)


# --- what is backpropagated -------------------------------------------------------------------------------------


def _given(scope: Scope, event: Event) -> At | None:
    """What a backward is of, in the function that it is written in, as the calls on the way run that."""
    call = event.site.node
    if not isinstance(call, t.Call):
        return None
    if event.inner is None:
        given = _backpropagated(call)
        return At(scope, given, scope.place(call)) if given is not None else None
    inner = event.inner
    for ref in functions_run(scope.flow, call):
        within = called_in(scope, call, ref) if any(node is inner.site.node for node in ref.define.nodes) else None
        if within is not None:
            return _given(within, inner)
    return None


def _backpropagated(call: t.Call) -> t.Expr | None:
    """``loss`` of ``loss.backward()``, ``accelerator.backward(loss)``, with all of its gradients."""
    func = call.func
    if not isinstance(func, t.Attribute) or any(arg.keyword in _WITH_OTHERS or arg.star for arg in call.args):
        return None
    plain = [arg.value for arg in call.args if arg.keyword is None]
    path = t.path_of(func.value) or ""
    takes = func.name == "manual_backward" or k.ENGINE_NAME.search(path) or _TAKING.search(path)
    if takes:
        return plain[0] if len(plain) == 1 else None
    return func.value if not plain and func.name == "backward" else None


_WITH_OTHERS = ("inputs", "gradient", "grad_tensors", "grad_variables")
