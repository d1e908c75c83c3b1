"""Gradients that the loss of one optimizer leaves in the parameters of another one, which then steps with them.

A generator's loss goes through the discriminator: its backward fills the gradients of both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gradguard.static.filled import filled
from gradguard.static.model import Backward, Event, Function, Loop, OpaqueCall, Step, ZeroGrad
from gradguard.static.optimized import overlap
from gradguard.static.paths import is_part

_CONCERNED = (Backward, Step, ZeroGrad, OpaqueCall)


@dataclass(frozen=True, slots=True)
class Leftover:
    """What one backward leaves for the step of an optimizer that another loss is for.

    Args:
        left_by: the backward; its loss is for another optimizer, whose step comes next.
        own: the step of that one.
        added_to: the backward of the loss that the gradients are added to.
        used_by: the step that uses the sum.
    """

    left_by: Backward
    own: Step
    added_to: Backward
    used_by: Step


def leftovers(function: Function) -> Iterator[Leftover]:
    """What is left over in the rounds of each loop, and in what a function does once, each backward's once."""
    events = [event for event in function.events if isinstance(event, _CONCERNED)]
    told: set[object] = set()
    for loop in (None, *function.loops):
        inside = [e for e in events if loop is None or (e.loop is not None and e.loop.within(loop))]
        for place, step in enumerate(inside):
            found = _left_for(function, step, _before(inside, place, loop)) if isinstance(step, Step) else None
            if found is not None and found.left_by.site.node not in told:
                told.add(found.left_by.site.node)
                yield found


def _before(events: Sequence[Event], place: int, loop: Loop | None) -> list[Event]:
    """What comes before an event, the last first; in a loop what comes after it in the iteration before, too."""
    return [*reversed(events[:place]), *(reversed(events[place + 1 :]) if loop is not None else ())]


def _left_for(function: Function, step: Step, before: Sequence[Event]) -> Leftover | None:
    """What comes to a step besides the gradients of the last backward before it."""
    if not step.modules or step.target is None or step.zeroes or step.runs_closure:
        return None
    added_to: Backward | None = None
    own: Step | None = None
    for event in before:
        if isinstance(event, OpaqueCall) or (isinstance(event, ZeroGrad) and _may_reset(event, step)):
            return None
        if isinstance(event, Step):
            if event.target == step.target or event.target is None or event.modules is None:
                return None
            is_next = added_to is not None and not overlap(event.modules, step.modules)
            own = event if is_next else own
        elif isinstance(event, Backward) and _fills(function, event, step):
            if added_to is None and _fills_more(function, event, step):
                return None  # a loss of several parts, which share something: its optimizer is to have all of it
            if added_to is None:
                added_to = event
            elif own is not None and _fills(function, event, own):
                return Leftover(event, own, added_to, step)
    return None


def _may_reset(reset: ZeroGrad, step: Step) -> bool:
    return reset.target in (None, step.target) or overlap(reset.modules, step.modules)


def _fills(function: Function, backward: Backward, step: Step) -> bool:
    """Whether a backward surely goes through a module that an optimizer has, whole, and that is not frozen there."""
    return any(is_part(path, module) for path in filled(function, backward) for module in step.modules or ())


def _fills_more(function: Function, backward: Backward, step: Step) -> bool:
    """Whether a backward is for other optimizers, too."""
    others = (each for each in function.steps if each.target != step.target)
    return any(_fills(function, backward, each) for each in others)
