"""Gradients that a reset in a loop throws away before their optimizer has stepped, by the order of what trains."""

from __future__ import annotations

from itertools import takewhile
from typing import NamedTuple

from gradguard.static import tree as t
from gradguard.static.backward.filled import filled
from gradguard.static.model import Backward, Event, Function, Loop, OpaqueCall, Step, ZeroGrad
from gradguard.static.program.paths import is_part
from gradguard.static.reading.rounds import Round, round_of


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


class LostOfModule(NamedTuple):
    """What computes the gradients of one of an optimizer's modules, and what throws them away; no other does."""

    backward: Backward
    reset: ZeroGrad
    step: Step
    module: str


def lost_between_backwards(function: Function, step: Step) -> LostOfModule | None:
    """``loss_a.backward(); zero_grad(); loss_b.backward(); step()``, of two modules that one optimizer has.

    Not where the gradients of the first loss are looked at in between, to be put together with those of the second.
    """
    around = round_of(function, step)
    if around is None or step.target is None or step.inner is not None or _reads(around):
        return None
    before = list(takewhile(lambda event: not isinstance(event, Step | OpaqueCall), around.earlier(step)))
    resets = [place for place, event in enumerate(before) if isinstance(event, ZeroGrad)]
    if not resets or any(_is_of_another(before[place], step) for place in resets):
        return None
    after, first = before[: resets[0]], before[resets[0] + 1 :]
    reset, lost = before[resets[0]], next(iter(first), None)
    if not isinstance(reset, ZeroGrad) or reset.conditional or not isinstance(lost, Backward) or not after:
        return None
    is_begun = len(first) > 1 and isinstance(first[1], ZeroGrad)  # what the first backward is for says its own reset
    modules = step.modules if step.modules is not None else filled(function, lost) if is_begun else frozenset()
    others = [event for event in after if isinstance(event, Backward)]
    module = _only_of(function, lost, others, modules)
    return LostOfModule(lost, reset, step, module) if module is not None else None


def _is_of_another(event: Event, step: Step) -> bool:
    return isinstance(event, ZeroGrad) and event.target != step.target


def _only_of(function: Function, first: Backward, others: list[Backward], modules: frozenset[str]) -> str | None:
    """A module of an optimizer that the first backward goes through, and none of the others."""
    of_first, of_others = filled(function, first), frozenset().union(*(filled(function, b) for b in others))
    for module in sorted(modules):
        if _is_among(module, of_first) and not _is_among(module, of_others):
            return module
    return None


def _is_among(module: str, filled: frozenset[str]) -> bool:
    """Whether a module is filled, a part of it, or one that it is a part of."""
    return any(is_part(path, module) or is_part(module, path) for path in filled)


def _reads(around: Round) -> bool:
    """Whether gradients are looked at: ``p.grad``, by what puts those of several losses together."""
    return any(isinstance(node, t.Attribute) and node.name == "grad" for node in t.walk(around.body))


def puts_back(function: Function) -> bool:
    """Whether a function sets gradients to what it has kept of them: it may add them up by itself."""
    body = function.site.node if function.site is not None else None
    return isinstance(body, t.Define) and any(
        _sets_gradient(node) for node in (*body.all(t.Assign), *body.all(t.Augment), *body.all(t.Call))
    )


def _sets_gradient(node: t.Node) -> bool:
    """``p.grad = kept``, ``p.grad += kept``, ``p.grad.copy_(kept)``."""
    if isinstance(node, t.Assign) and not (isinstance(node.value, t.Constant) and node.value.value is None):
        return any(_is_gradient(target) for target in node.targets)
    if isinstance(node, t.Augment):
        return node.operator == "+" and _is_gradient(node.target)
    func = node.func if isinstance(node, t.Call) else None
    return isinstance(func, t.Attribute) and func.name in ("copy_", "add_") and _is_gradient(func.value)


def _is_gradient(expr: t.Expr) -> bool:
    """``p.grad``, ``p.grad.data``, ``p.grad[:]``."""
    return any(isinstance(node, t.Attribute) and node.name == "grad" for node in t.walk(expr))


def _last_two(around: Round, step: Step) -> tuple[Event | None, Event | None]:
    before = around.before(step)
    return next(before, None), next(before, None)


def _is_always(event: Event, loop: Loop) -> bool:
    """Whether it happens once in each iteration, be it in a function that is called there."""
    return event.loop is loop and not event.conditional and not event.is_in_loop_of_callee


def _runs_again(loop: Loop) -> bool:
    return not loop.leaves_early and not loop.is_once_by_default and (loop.count is None or loop.count >= 2)
