"""Gradients that a reset in a loop throws away before their optimizer has stepped, by the order of what trains."""

from __future__ import annotations

from typing import NamedTuple

from gradguard.static.model import Backward, Event, Function, Loop, Step, ZeroGrad
from gradguard.static.rounds import Round, round_of


class Lost(NamedTuple):
    """What computes some gradients, and what throws them away."""

    backward: Backward
    reset: ZeroGrad


def lost_in_next_iteration(function: Function, step: Step) -> Lost | None:
    """``zero_grad(); step(); backward()``: those of each iteration, which the next one resets before the step."""
    around = round_of(function, step)
    if around is None or around.loop is None or around.loop is not step.loop:
        return None
    reset, backward = _last_two(around, step)
    if not isinstance(reset, ZeroGrad) or not isinstance(backward, Backward) or not around.resets(reset, step):
        return None
    order = function.events
    comes_after = order.index(backward) > order.index(step)
    return Lost(backward, reset) if comes_after and _is_always(backward, around.loop) else None


def lost_but_of_last_iteration(function: Function, step: Step) -> Lost | None:
    """Those of a loop that resets them in each iteration, where the step comes after the loop."""
    around = round_of(function, step)
    events = _last_two(around, step) if around is not None else ()
    reset = next((event for event in events if isinstance(event, ZeroGrad)), None)
    backward = next((event for event in events if isinstance(event, Backward)), None)
    loop = backward.loop if backward is not None else None
    if around is None or reset is None or backward is None or loop is None or loop.parent is not step.loop:
        return None
    is_of_step = reset.target is not None and reset.target == around.optimizer and not loop.steps
    is_each = _is_always(reset, loop) and _is_always(backward, loop) and _runs_again(loop)
    return Lost(backward, reset) if is_of_step and is_each else None


def _last_two(around: Round, step: Step) -> tuple[Event | None, Event | None]:
    before = around.before(step)
    return next(before, None), next(before, None)


def _is_always(event: Event, loop: Loop) -> bool:
    """Whether it happens once in each iteration, be it in a function that is called there."""
    return event.loop is loop and not event.conditional and not event.is_in_loop_of_callee


def _runs_again(loop: Loop) -> bool:
    return not loop.leaves_early and not loop.is_once_by_default and (loop.count is None or loop.count >= 2)
