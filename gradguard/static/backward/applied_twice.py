"""Gradients that an optimizer steps with, and with which, as nothing resets them, it steps again in the same iteration.

``first.backward()``, ``optimizer.step()``, ``second.backward()``, ``optimizer.step()``, and one reset for both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gradguard.static.backward.leftovers import may_reset
from gradguard.static.model import Backward, Event, Function, Loop, OpaqueCall, Step, ZeroGrad

_CONCERNED = (Backward, Step, ZeroGrad, OpaqueCall)


@dataclass(frozen=True, slots=True)
class AppliedTwice:
    """Gradients that two steps of one optimizer use.

    Args:
        first: the step that they were computed for.
        added_to: the backward that adds those of another loss to them.
        again: the step that uses the sum.
    """

    first: Step
    added_to: Backward
    again: Step


def applied_twice(function: Function) -> Iterator[AppliedTwice]:
    """The second steps of each loop's iterations, where the loop resets the gradients somewhere else."""
    events = [event for event in function.events if isinstance(event, _CONCERNED)]
    for loop in function.loops:
        inside = [event for event in events if event.loop is loop or _may_reset_in(loop, event)]
        resets = any(isinstance(event, ZeroGrad) for event in inside)
        for place, step in enumerate(inside if resets else ()):
            found = _used_before(step, inside[:place]) if isinstance(step, Step) else None
            if found is not None:
                yield found


def _may_reset_in(loop: Loop, event: Event) -> bool:
    """Whether an event of a loop within another one may reset: ``for p in net.parameters(): p.grad = None``."""
    return isinstance(event, ZeroGrad | OpaqueCall) and event.loop is not None and event.loop.within(loop)


def _used_before(again: Step, before: Sequence[Event]) -> AppliedTwice | None:
    """What comes before a step, if that is another one of the same optimizer, each with a backward of its own."""
    if not _is_plain(again):
        return None
    added_to: Backward | None = None
    first: Step | None = None
    for event in reversed(before):
        if isinstance(event, OpaqueCall) or (isinstance(event, ZeroGrad) and may_reset(event, again)):
            return None
        if isinstance(event, Step) and event.target in (again.target, None):
            if added_to is None or first is not None or not _is_plain(event):
                return None
            first = event
        elif isinstance(event, Backward):
            if event.conditional or event.is_in_loop_of_callee:
                return None
            if first is not None and added_to is not None:
                return AppliedTwice(first, added_to, again)
            added_to = event
    return None


def _is_plain(step: Step) -> bool:
    """Whether it is taken in each iteration, by its own name, with the gradients that are there."""
    is_sure = not (step.conditional or step.is_in_loop_of_callee or step.callee_decides)
    return is_sure and step.target is not None and not (step.zeroes or step.runs_closure)
