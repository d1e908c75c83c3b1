"""Probes: hooks that an object or a function sets up, and that somebody else's training then runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.model import HookRegistration, Loop

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


def runs_in_training(flow: Flow, hook: HookRegistration) -> bool:
    """Whether what registers a hook is called before a loop that trains, and no handle is removed before its end.

    Args:
        flow: the function that registers it, a constructor for instance.
    """
    owner = flow.ref.owner
    is_constructor = owner is not None and flow.facts.name == "__init__"
    name = owner.name if owner is not None and is_constructor else flow.facts.name
    own = _trains(flow, hook.site.line) or any(_trains(each, 0) for each in _beside(flow))
    return own or any(_sets_up_for_training(other, name) for other in flow.project.calling(flow.ref, name))


def _sets_up_for_training(flow: Flow, name: str) -> bool:
    calls = (call for call in flow.ref.calls if (t.path_of(call.func) or "").rsplit(".", 1)[-1] == name)
    line = min((flow.site(call).line for call in calls), default=None)
    return line is not None and (_trains(flow, line) or any(_trains(each, 0) for each in _beside(flow)))


def _beside(flow: Flow) -> Iterator[Flow]:
    """The other methods of an object, where this one is its constructor."""
    owner = flow.ref.owner
    if owner is not None and flow.facts.name == "__init__":
        for method in owner.methods.values():
            if method.define.name != "__init__" and (other := flow.project.flow(method)) is not None:
                yield other


def _trains(flow: Flow, line: int) -> bool:
    """Whether a function has a loop that trains, behind a line of it, and removes no hooks before that ends."""
    removed = last_removal(flow)
    return any(_is_of_training(loop) and line < loop.site.line <= removed for loop in flow.facts.loops)


def _is_of_training(loop: Loop) -> bool:
    trains = bool(loop.backwards and loop.forwards) and loop.is_long
    return trains and not any(isinstance(node, t.Call) and removes(node) for node in t.walk([loop.site.node]))


def last_removal(flow: Flow) -> float:
    """The line of the last ``handle.remove()``; none at all: the hooks stay."""
    lines = [flow.site(call).line for call in flow.ref.calls if removes(call)]
    return max(lines, default=float("inf"))


def removes(call: t.Call) -> bool:
    """``handle.remove()``, or what is to call it later: ``stack.callback(handle.remove)``."""
    given = (arg.value for arg in call.args) if call.args else (call.func,)
    return any(isinstance(func, t.Attribute) and func.name == "remove" for func in given)
