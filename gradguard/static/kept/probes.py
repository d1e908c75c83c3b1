"""Probes: hooks that an object or a function sets up, and that somebody else's training then runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.kept.hook_removal import last_removal, removes
from gradguard.static.model import HookRegistration, Loop

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


def runs_in_training(flow: Flow, hook: HookRegistration) -> bool:
    """Whether what registers a hook is called before a loop that trains, and no handle is removed before its end.

    Args:
        flow: the function that registers it, a constructor for instance, or what a context does at its start.
    """
    owner, name = flow.ref.owner, flow.facts.name
    if owner is not None and name in ("__init__", "__enter__"):
        name = owner.name
    if owner is not None and owner.method("__exit__") is not None:
        return any(_is_entered_for_training(other, name) for other in flow.project.calling(flow.ref, name))
    own = _trains(flow, hook.site.line) or any(_trains(each, 0) for each in _beside(flow))
    return own or any(_sets_up_for_training(other, name) for other in flow.project.calling(flow.ref, name))


def _is_entered_for_training(flow: Flow, name: str) -> bool:
    """Whether a training runs inside of a context: ``with Recorder(net) as recorder: fit(net)``."""
    entered = (stmt for stmt in flow.ref.define.statements if isinstance(stmt, t.With))
    return any(_trains_in(flow, stmt.body) for stmt in entered for expr, _ in stmt.items if _calls(expr, name))


def _calls(expr: t.Expr, name: str) -> bool:
    return isinstance(expr, t.Call) and (t.path_of(expr.func) or "").rsplit(".", 1)[-1] == name


def _sets_up_for_training(flow: Flow, name: str) -> bool:
    """Whether it is called before a loop that trains, or by the constructor of what trains."""
    line = min((flow.site(call).line for call in flow.ref.calls if _calls(call, name)), default=None)
    return line is not None and (_trains(flow, line) or any(_trains(each, 0) for each in _beside(flow)))


def _trains_in(flow: Flow, block: Sequence[t.Stmt]) -> bool:
    """Whether a block of statements has a training in it, not only one step of it."""
    nodes = {id(node) for node in t.walk(block)}
    return any(
        id(backward.site.node) in nodes
        and (backward.is_in_loop_of_callee or (backward.loop is not None and id(backward.loop.site.node) in nodes))
        for backward in flow.facts.backwards
    )


def _beside(flow: Flow) -> Iterator[Flow]:
    """The other methods of an object, where this one is its constructor."""
    owner = flow.ref.owner
    if owner is not None and flow.facts.name == "__init__":
        for method in owner.methods.values():
            if method.define.name != "__init__" and (other := flow.project.flow(method)) is not None:
                yield other


def _trains(flow: Flow, line: int) -> bool:
    """Whether a function trains in a loop, its own or a callee's, behind a line of it, and removes no hooks before."""
    removed = last_removal(flow)
    return any(
        line < backward.site.line <= removed
        and (backward.is_in_loop_of_callee or (backward.loop is not None and _is_long(backward.loop, line)))
        for backward in flow.facts.backwards
    )


def _is_long(loop: Loop, line: int) -> bool:
    """Whether a loop begins behind a line, runs many times, and removes no hooks."""
    removing = any(isinstance(node, t.Call) and removes(node) for node in t.walk([loop.site.node]))
    return line < loop.site.line and loop.is_long and not removing
