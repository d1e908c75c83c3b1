"""Batches that are passed over because of their gradients, which then stay for the next one.

``if not torch.isfinite(norm): continue`` between the backward and a ``zero_grad()`` at the end of the iteration, and
``if torch.isfinite(norm):`` around the step and the only reset.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gradguard.static import tree as t
from gradguard.static.mistakes.backward import PassedOver
from gradguard.static.model import Backward, Event, Function, OpaqueCall, Step, ZeroGrad
from gradguard.static.program.order import following, has

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_FINITE = frozenset("isfinite isnan isinf".split())
_NORMS = frozenset("clip_grad_norm_ clip_grad_norm get_total_norm get_grad_norm".split())
_FAR = 3


class _Round(NamedTuple):
    """What one batch is trained by: the statements, and the events in them.

    Args:
        leave: how a batch is passed over by leaving it: with ``continue``, or a ``return`` of a function.
    """

    body: list[t.Stmt]
    events: list[Event]
    leave: str

    @property
    def resets(self) -> list[ZeroGrad]:
        return [event for event in self.events if isinstance(event, ZeroGrad)]


def passed_over(flow: Flow) -> Iterator[PassedOver]:
    """The conditions of which one way leads round the only resets of the gradients, in each loop or in a function."""
    facts = flow.facts
    if not any(map(_is_condition, flow.ref.define.statements)):
        return
    for loop in facts.loops:
        if isinstance(loop.site.node, t.Repeat) and loop.steps and loop.zero_grads:
            events = [event for event in facts.events if event.loop is not None and event.loop.within(loop)]
            yield from _in_round(flow, _Round(loop.site.node.body, events, "continue"))
    is_one_batch = facts.name != "<module>" and not any(loop.steps or loop.backwards for loop in facts.loops)
    if is_one_batch and facts.zero_grads:
        found = list(_in_round(flow, _Round(flow.ref.define.body, facts.events, "return")))
        if found and _is_run_for_each_batch(facts, facts, _FAR):
            yield from found


def _is_condition(stmt: t.Stmt) -> bool:
    return isinstance(stmt, t.If)


def _in_round(flow: Flow, around: _Round) -> Iterator[PassedOver]:
    for stmt in _own(around.body):
        if not isinstance(stmt, t.If) or not _asks_of_gradients(flow, stmt.test):
            continue
        before = _before(around.body, stmt)
        left = [each for each in around.events if isinstance(each, Backward) and each.is_in(before)]
        may_reset = any(isinstance(each, ZeroGrad | OpaqueCall) and each.is_in(before) for each in around.events)
        where = _passes_over(around, stmt) if left and not may_reset and around.resets else None
        if where is not None:
            yield PassedOver(flow.site(where), left[-1].source.site, around.resets[0].source.site)


def _own(body: Sequence[t.Stmt]) -> Iterator[t.Stmt]:
    """The statements of a block and of the blocks in it, but of no loop."""
    for stmt in body:
        yield stmt
        for block in t.blocks(stmt) if not isinstance(stmt, t.Repeat) else ():
            yield from _own(block)


def _before(body: Sequence[t.Stmt], stmt: t.Stmt) -> list[t.Stmt]:
    """What has surely come by when a statement runs: all before it in its block, and in those around."""
    for place, each in enumerate(body):
        if each is stmt:
            return list(body[:place])
        for block in t.blocks(each):
            if has(block, stmt):
                return [*body[:place], *_before(block, stmt)]
    return []


def _passes_over(around: _Round, stmt: t.If) -> t.Stmt | None:
    """The statement by which a batch is passed over, if a condition has a way without a step and a reset."""
    after = list(following(around.body, stmt, on_every_way=True))
    if not stmt.orelse and _leaves(stmt.body, around.leave):
        is_round = all(reset.is_in(after) for reset in around.resets)
        is_left = not _tells(stmt.body) and not _steps(around, stmt.body) and not _touches_gradients(around, stmt.body)
        return stmt.body[-1] if is_round and is_left else None
    for good, bad in ((stmt.body, stmt.orelse), (stmt.orelse, stmt.body)):
        if (t.leaves(bad) and not _leaves(bad, around.leave)) or _tells(bad):
            continue
        is_round = bool(good) and _steps(around, good) and all(reset.is_in(good) for reset in around.resets)
        rest = [*bad, *(each for each in after if not has(bad, each) and not has(good, each))]
        if is_round and not _steps(around, rest) and not _touches_gradients(around, rest):
            return stmt
    return None


def _leaves(block: Sequence[t.Stmt], how: str) -> bool:
    last = block[-1] if block else None
    return isinstance(last, t.Return) if how == "return" else isinstance(last, t.Leave) and last.kind == how


def _tells(block: Sequence[t.Stmt]) -> bool:
    """Whether a flag is set, or returned: somebody may end the training then."""
    values = [stmt.value for stmt in t.walk_statements(block) if isinstance(stmt, t.Assign | t.Return)]
    return any(isinstance(value, t.Constant) and isinstance(value.value, bool) for value in values)


def _steps(around: _Round, block: Sequence[t.Stmt]) -> bool:
    return any(isinstance(each, Step) and each.is_in(block) for each in around.events)


def _touches_gradients(around: _Round, block: Sequence[t.Stmt]) -> bool:
    """Whether gradients are spoken of, which may be taken away there: ``p.grad = None``; or a call that is not read."""
    names = (node.name for node in t.walk(list(block)) if isinstance(node, t.Attribute | t.Call))
    is_told = any("grad" in name for name in names)
    return is_told or any(isinstance(each, OpaqueCall) and each.is_in(block) for each in around.events)


def _is_run_for_each_batch(function: Function, called: Function, far: int) -> bool:
    """Whether a loop calls a function, and nobody who calls it resets anything besides."""
    resets = [reset.source.site.node for reset in function.zero_grads]
    is_in_loop = False
    for caller in called.calling() if far else ():
        others = [each for each in caller.zero_grads if all(each.source.site.node is not node for node in resets)]
        if others or caller.opaque_calls:
            return False
        backwards = (each for each in caller.backwards if each.inner is not None)
        own = [each for each in backwards if any(each.source is event for event in function.backwards)]
        if not own:
            continue
        if all(each.loop is None for each in own) and not _is_run_for_each_batch(function, caller, far - 1):
            return False
        is_in_loop = True
    return is_in_loop


def _asks_of_gradients(flow: Flow, test: t.Expr) -> bool:
    """Whether a condition asks whether something is finite, or how large the norm of the gradients is."""
    nodes = list(t.walk(test))
    if any(isinstance(node, t.Operation) and node.operator == "%" for node in nodes):
        return False
    if any(isinstance(node, t.Call) and node.name in _FINITE for node in nodes):
        return True
    bound = (value for node in nodes if isinstance(node, t.Name) for value in flow.ref.assigned.get(node.id, []))
    named = {each.name for value in bound for each in t.walk(value) if isinstance(each, t.Call)}
    return not named.isdisjoint(_NORMS | _FINITE)
