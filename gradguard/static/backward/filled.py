"""The modules of which a backward computes gradients."""

from __future__ import annotations

from gradguard.static import tree as t
from gradguard.static.model import Backward, Event, Forward, Function
from gradguard.static.optimizers.optimized import overlap


def filled(function: Function, backward: Backward) -> frozenset[str]:
    """Those that a backward surely goes through, by their paths; none that is frozen, or left out of its ``inputs``."""
    call = backward.source.site.node
    if isinstance(call, t.Call) and call.argument("inputs") is not None:
        return frozenset()
    runs = (forward for forward in function.forwards if not forward.is_frozen and goes_through(backward, forward))
    paths = (forward.given_as or forward.module for forward in runs)
    return frozenset(path for path in paths if path is not None)


def goes_through(backward: Backward, event: Event) -> bool:
    """Whether the graph of what is backpropagated surely began at an event."""
    return any(began_at(root.key, event) for root in backward.value.roots)


def began_at(key: object, event: Event) -> bool:
    """Whether a graph began at an event, in the very call that it was of where a helper runs several modules."""
    if not isinstance(key, tuple):
        return key is event.site.node
    return key[0] is event.site.node and (event.inner is None or began_at(key[-1], event.inner))


def may_be_stepped(function: Function, run: Forward) -> bool:
    """Whether an optimizer that the function steps may have what a module has; where it steps none, somebody may."""
    known = [step.modules for step in function.steps]
    path = run.given_as or run.module
    if not known or path is None or None in known:
        return True
    return any(overlap(frozenset((path,)), modules) for modules in known)
