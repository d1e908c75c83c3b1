"""Batches that are passed over because of their gradients, which then stay for the next one: a reset comes last.

``if not torch.isfinite(norm): continue`` between the backward and a ``zero_grad()`` at the end of the iteration.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.mistakes import PassedOver
from gradguard.static.model import Backward, Event, Loop, OpaqueCall, Step, ZeroGrad

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_FINITE = frozenset("isfinite isnan isinf".split())
_NORMS = frozenset("clip_grad_norm_ clip_grad_norm get_total_norm get_grad_norm".split())


def passed_over(flow: Flow) -> Iterator[PassedOver]:
    """The conditions in each loop of which one way leads round the only resets of the gradients."""
    for loop in flow.facts.loops:
        if isinstance(loop.site.node, t.Repeat) and loop.steps and loop.zero_grads:
            events = [event for event in flow.facts.events if event.loop is not None and event.loop.within(loop)]
            yield from _in_body(flow, loop, loop.site.node.body, events)


def _in_body(flow: Flow, loop: Loop, body: list[t.Stmt], events: Sequence[Event]) -> Iterator[PassedOver]:
    resets = [event for event in events if isinstance(event, ZeroGrad)]
    for place, stmt in enumerate(body):
        if not isinstance(stmt, t.If) or stmt.orelse or not _asks_of_gradients(flow, stmt.test):
            continue
        before, after = body[:place], body[place + 1 :]
        left = [each for each in events if isinstance(each, Backward) and each.loop is loop and each.is_in(before)]
        may_reset = any(isinstance(each, ZeroGrad | OpaqueCall) and each.is_in(before) for each in events)
        if not left or may_reset:
            continue
        if _goes_on(stmt.body):
            skips = all(reset.is_in(after) for reset in resets) and not _touches_gradients(stmt.body)
        else:
            steps = any(isinstance(each, Step) and each.is_in(stmt.body) for each in events)
            skips = steps and all(reset.is_in(stmt.body) for reset in resets) and not _touches_gradients(after)
        if skips and resets:
            where = stmt.body[-1] if _goes_on(stmt.body) else stmt
            yield PassedOver(flow.site(where), left[-1].source.site, resets[0].source.site)


def _goes_on(block: Sequence[t.Stmt]) -> bool:
    last = block[-1] if block else None
    return isinstance(last, t.Leave) and last.kind == "continue"


def _touches_gradients(block: Sequence[t.Stmt]) -> bool:
    """Whether gradients are spoken of, which may be taken away there: ``p.grad = None``."""
    names = (node.name for node in t.walk(list(block)) if isinstance(node, t.Attribute | t.Call))
    return any("grad" in name for name in names)


def _asks_of_gradients(flow: Flow, test: t.Expr) -> bool:
    """Whether a condition asks whether something is finite, or how large the norm of the gradients is."""
    nodes = list(t.walk(test))
    if any(isinstance(node, t.Operation) and node.operator == "%" for node in nodes):
        return False
    if any(isinstance(node, t.Call) and node.name in _FINITE for node in nodes):
        return True
    bound = (value for node in nodes if isinstance(node, t.Name) for value in flow.ref.assigned.get(node.id, []))
    return any(isinstance(each, t.Call) and each.name in _NORMS for value in bound for each in t.walk(value))
