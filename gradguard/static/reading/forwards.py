"""What becomes of the graph that a module call records in an evaluation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.evaluation.evaluations_in_turn import recorded_in_vain
from gradguard.static.model import Forward, Loop, Mode, Scope
from gradguard.static.reading.roots import node_of
from gradguard.static.values import Kind

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


def judge_forwards(flow: Flow, loop: Loop) -> None:
    """Fill in what is known of the module calls of a loop that evaluates, or does so in its turn."""
    if loop.backwards and loop.parent is not None and flow.told:
        loop.recorded_in_vain = recorded_in_vain(flow, loop)
        if loop.recorded_in_vain is not None:
            loop.recorded_in_vain.leaves = leaves_function(flow, loop.recorded_in_vain)
    for forward in loop.forwards if loop.evaluates_by_name else ():
        forward.leaves = leaves_function(flow, forward)
    for forward in loop.forwards if loop.evaluates else ():
        forward.of_method = forward.inner is not None and _is_of_method(flow, forward)
        forward.is_picked = _is_picked(flow, forward)


def leaves_function(flow: Flow, forward: Forward) -> bool:
    """Whether the graph of a module call is returned, kept, or given to what may keep it."""
    places = [value.reach for path, value in flow.final.env.items() if flow.scope(path) is not Scope.LOCAL]
    stores = [store.value.reach for store in flow.facts.stores if store.scope is not Scope.LOCAL]
    everywhere = frozenset().union(flow.facts.returns.reach, flow.escaped, *places, *stores)
    return any(node_of(root.key) is forward.site.node for root in everywhere)


def _is_of_method(flow: Flow, forward: Forward) -> bool:
    """Whether the call that runs a module is a method of another module, one that this function was given or has."""
    call = forward.site.node
    path = t.path_of(call.func.value) if isinstance(call, t.Call) and isinstance(call.func, t.Attribute) else None
    return path not in (None, "self") and flow.read(flow.canonical(str(path)), flow.final).kind is Kind.MODULE


def _is_picked(flow: Flow, forward: Forward) -> bool:
    """Whether a flag picks it, and else the same module under ``no_grad``: ``predict(x, eval=False)`` wants a graph."""
    silent = [other for other in flow.facts.forwards if other.module == forward.module and other.mode is Mode.OFF]
    if not silent or forward.mode is Mode.OFF:
        return False
    ways = [way for way in flow.ref.define.statements if isinstance(way, t.If)]
    return any(
        forward.is_in(one) and any(other.is_in(another) for other in silent)
        for way in ways
        for one, another in ((way.body, way.orelse), (way.orelse, way.body))
        if t.path_of(way.test) in flow.params
    )
