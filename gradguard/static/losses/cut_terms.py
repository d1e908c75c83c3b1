"""Terms of a loss that lead to no network which is trained by it: ``D(fake.detach())``, in the loss of ``G``.

The other terms of the loss have the graph of what is trained, so that it is, by them alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.backward.reset_unused import (
    Optimizer,
    is_given,
    is_of,
    is_part_of,
    is_used_by,
    optimizers_of,
    path_of,
    reached,
    thrown_away,
)
from gradguard.static.losses.sums import Added, At, scope_of, sums_and_terms
from gradguard.static.mistakes.losses import CutTerm
from gradguard.static.model import Backward, Event, Forward
from gradguard.static.program.functions_called import functions_called

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_DEEP = 8


def cut_terms(flow: Flow) -> Iterator[CutTerm]:
    """Where a network that a loss is not for is given what one that it is for makes, detached."""
    facts = flow.facts
    if facts.is_test or len(facts.steps) < 2 or not facts.zero_grads:
        return
    if not any(t.detached(node) is not None for node in _calls(flow)):
        return
    optimizers = optimizers_of(flow)
    for backward in facts.backwards if len(optimizers) > 1 else ():
        yield from _of_backward(flow, backward, optimizers)


def _of_backward(flow: Flow, backward: Backward, optimizers: Sequence[Optimizer]) -> Iterator[CutTerm]:
    used = [each for each in optimizers if is_used_by(flow, backward, each)]
    runs = reached(flow, backward) if used else []
    lost = [run for run in runs if thrown_away(flow, backward, path_of(run), optimizers) is not None]
    trained = [run for run in runs if is_of(run, used) and not any(run is each for each in lost)]
    for run in lost if trained else ():
        if run.given.reach or any(is_part_of(run, each) for each in lost) or any(is_given(e, run) for e in trained):
            continue
        home = _home(flow, run)
        if home is None or home is not _home(flow, backward):
            continue
        makers = [each for each in flow.facts.forwards if is_of(each, used)]
        cut, made = next(_cut_in(home, run, makers), (None, None))
        if cut is not None and made is not None and _is_term_alone(home, backward, run, trained):
            yield CutTerm(home.site(cut), path_of(run), path_of(made), made.source.site, backward.source.site)


def _calls(flow: Flow) -> Iterator[t.Expr]:
    """The calls of a function, and of the methods of its object."""
    yield from flow.ref.calls
    if flow.ref.owner is not None:
        for cls in flow.ref.owner.lineage():
            yield from (call for method in cls.methods.values() for call in method.calls)


def _home(flow: Flow, event: Event) -> Flow | None:
    """The function that an event is written in."""
    here: Flow | None = flow
    while event.inner is not None and here is not None:
        call = event.site.node
        called = list(functions_called(here, call)) if isinstance(call, t.Call) else []
        here = here.project.flow(called[0]) if len(called) == 1 else None
        event = event.inner
    return here


def _cut_in(home: Flow, run: Forward, makers: Sequence[Forward]) -> Iterator[tuple[t.Expr, Forward]]:
    """What a network is given that is detached there, with the run that has made it."""
    call = run.source.site.node
    for arg in call.args if isinstance(call, t.Call) else ():
        whole = t.detached(arg.value)
        at = At(scope_of(home), whole, scope_of(home).place(call)) if whole is not None else None
        nodes = set(_nodes_in(at)) if at is not None else set[int]()
        found = next((each for each in makers if id(each.source.site.node) in nodes), None)
        if found is not None:
            yield arg.value, found


def _is_term_alone(home: Flow, backward: Backward, run: Forward, trained: Sequence[Forward]) -> bool:
    """Whether a network is run in a term of its own: no graph of what is trained is in that."""
    call = backward.source.site.node
    if not isinstance(call, t.Call) or not isinstance(call.func, t.Attribute):
        return False
    scope = scope_of(home)
    own, others = id(run.source.site.node), {id(each.source.site.node) for each in trained}
    whole = Added(At(scope, call.func.value, scope.place(call)))
    for term in sums_and_terms(whole):
        nodes = set(_nodes_in(term.at))
        if own in nodes and nodes.isdisjoint(others):
            return True
    return False


def _nodes_in(at: At, depth: int = _DEEP) -> Iterator[int]:
    """The calls that a value is computed of, through the names that it has had; none that is detached."""
    scope, expr, place = at
    for node in _attached(expr):
        if isinstance(node, t.Call):
            yield id(node)
        path = t.path_of(node) if isinstance(node, t.Name | t.Attribute) and depth else None
        bound = scope.binding(path, place) if path is not None else None
        if bound is not None and bound.value is not None:
            yield from _nodes_in(At(scope, bound.value, bound.place), depth - 1)
        elif path is not None and bound is None and path.startswith("self."):
            yield from _of_attribute(scope.flow, path)


def _of_attribute(flow: Flow, path: str) -> Iterator[int]:
    """The calls that an object's methods compute an attribute of."""
    owner, name = flow.ref.owner, path.removeprefix("self.")
    for _, value in owner.assigned(name) if owner is not None and name.isidentifier() else ():
        yield from (id(node) for node in _attached(value) if isinstance(node, t.Call))


def _attached(expr: t.Expr) -> Iterator[t.Node]:
    """The nodes of an expression, but for what is detached in it."""
    cut = [node.func for node in t.walk(expr) if isinstance(node, t.Call) and t.detached(node) is not None]
    hidden = {id(part) for func in cut for part in t.walk(func)}
    yield from (node for node in t.walk(expr) if id(node) not in hidden)
