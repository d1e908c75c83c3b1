"""Models that are trained in evaluation mode: an evaluation in the loop puts them into it, and nothing ends it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from gradguard.static import tree as t
from gradguard.static.backward.filled import goes_through
from gradguard.static.model import Backward, Event, Forward, Function, Loop, Mode, OpaqueCall, TrainingMode
from gradguard.static.program.order import ends_at
from gradguard.static.program.paths import is_part, is_within, last

_OF_MODE = re.compile("train|mode", re.I)
_CONCERNED = (Forward, OpaqueCall, TrainingMode)


@dataclass(frozen=True, slots=True)
class LeftInEvaluation:
    """A model whose training goes on as its evaluation left it.

    Args:
        put: what puts it into evaluation mode.
        module: the path of the model.
        backward: what trains it in the next iteration.
        loop: the loop that does all of it.
    """

    put: TrainingMode
    module: str
    backward: Backward
    loop: Loop


def left_in_evaluation(function: Function) -> Iterator[LeftInEvaluation]:
    """The models that a loop trains in its first iteration, and in its second one evaluates: each ``eval()`` once."""
    told: set[object] = set()
    for loop in function.loops if any(mode.on is False for mode in function.training_modes) else ():
        if not loop.steps or loop.is_once_by_default or loop.count == 1:
            continue
        concerned = (event for event in function.events if isinstance(event, _CONCERNED))
        events = [event for event in concerned if event.loop is not None and event.loop.within(loop)]
        for place, forward in enumerate(events):
            left = _left(function, events, place, loop) if isinstance(forward, Forward) else None
            if left is not None and left.put.source.site.node not in told:
                told.add(left.put.source.site.node)
                yield left
        for left in _stepped(function, events, loop):
            if left.put.source.site.node not in told:
                told.add(left.put.source.site.node)
                yield left


def _left(function: Function, events: Sequence[Event], place: int, loop: Loop) -> LeftInEvaluation | None:
    forward, before = events[place], events[:place]
    if not isinstance(forward, Forward) or forward.module is None:
        return None
    backward = _trained_by(loop, forward)
    put = _left_by(before, events[place + 1 :], loop, forward.module) if backward is not None else None
    if backward is None or put is None or put.site.node is forward.site.node:
        return None
    if forward.is_evaluated and (put not in before or _is_meant(function, forward.module, loop)):
        return None
    return LeftInEvaluation(put, forward.module, backward, loop)


def _stepped(function: Function, events: Sequence[Event], loop: Loop) -> Iterator[LeftInEvaluation]:
    """The same where methods run the model, that only the run knows: it is put into training mode once, and stepped."""
    stepped = {path for step in loop.steps for path in step.modules or ()}
    for module in sorted(stepped):
        put = next((event for event in events if _puts(event, module)), None)
        backward = next((back for back in loop.backwards if back.inner is None), None)
        if put is None or backward is None or not _is_told_to_train(function, module, loop):
            continue
        if any(_may_say_so(node, module) for node in loop.nodes) or any(
            is_part(module, path) for path in loop.assigned
        ):
            continue
        is_otherwise = any(_may_set(event, module) and not _puts(event, module) for event in events)
        is_first = function.events.index(backward) < function.events.index(put)
        if is_first and not is_otherwise and not _leaves(loop, put):
            yield LeftInEvaluation(put, module, backward, loop)


def _may_say_so(node: object, module: str) -> bool:
    """Whether it calls a method of a module that may put it into training mode: ``net.to_training()``."""
    func = node.func if isinstance(node, t.Call) else None
    return isinstance(func, t.Attribute) and t.path_of(func.value) == module and _OF_MODE.search(func.name) is not None


def _puts(event: Event, module: str) -> TypeGuard[TrainingMode]:
    """Whether a module is put into evaluation mode in each iteration."""
    is_off = isinstance(event, TrainingMode) and event.on is False and event.target == module
    return is_off and not (event.conditional or event.once or event.at_start)


def _is_told_to_train(function: Function, module: str, loop: Loop) -> bool:
    """Whether the last thing that is said of the mode before the loop is that a module trains."""
    before = function.events[: function.events.index(loop.steps[0])]
    modes = [event for event in before if isinstance(event, TrainingMode) and event.loop is None]
    said = [mode for mode in modes if mode.target == module]
    return bool(said) and said[-1].on is True and not said[-1].conditional and said[-1].inner is None


def _is_meant(function: Function, module: str, loop: Loop) -> bool:
    """Whether a module is in evaluation mode before the loop begins, as one whose statistics are to stay."""
    before = (m for m in function.training_modes if m.on is False and (m.loop is None or not m.loop.within(loop)))
    return any(_may_set(mode, module) for mode in before)


def _trained_by(loop: Loop, forward: Forward) -> Backward | None:
    """The backward that surely goes through what a module computes that the loop does not make anew."""
    module = forward.module
    if module is None or forward.is_frozen or forward.mode is Mode.OFF:
        return None
    if any(is_part(module, path) for path in loop.assigned):
        return None
    return next((backward for backward in loop.backwards if goes_through(backward, forward)), None)


def _left_by(before: Sequence[Event], after: Sequence[Event], loop: Loop, module: str) -> TrainingMode | None:
    """What put a module into evaluation mode that is run to be trained: before it, or in the iteration before.

    Args:
        before: what comes in an iteration before the module is run.
        after: what comes then.
    """
    last = next((event for event in reversed(before) if _may_set(event, module)), None)
    if last is not None and not _is_evaluation(last, before, loop):
        return None  # it says so itself, or decides it with what its function is given
    if last is None:
        last = next((event for event in reversed(after) if _may_set(event, module)), None)
    elif any(_may_set(event, module) and not _is_evaluation(event, before, loop) for event in (*before, *after)):
        return None
    if not isinstance(last, TrainingMode) or last.on is not False or last.once or last.at_start:
        return None
    is_in_part = any(_sets_part(event, last.target) for event in (*before, *after))
    return None if is_in_part or _leaves(loop, last) else last


def _is_evaluation(event: Event, before: Sequence[Event], loop: Loop) -> bool:
    """Whether a module is put into evaluation mode for a whole evaluation, in one call or one block that runs it so.

    ``if step % 100 == 0: evaluate(net)``; or ``action = agent.act(state)``, where that switches gradients off.
    """
    if not isinstance(event, TrainingMode) or event.on is not False:
        return False
    runs = [each for each in before if isinstance(each, Forward) and each.is_evaluated]
    if event.inner is not None and any(run.site.node is event.site.node and run.mode is Mode.OFF for run in runs):
        return True
    block = _block_of(loop, event) if event.conditional else None
    return block is not None and any(run.is_in(block) for run in runs)


def _may_set(event: Event, module: str) -> bool:
    """Whether a module may train after something, or evaluate, which did not before."""
    if isinstance(event, OpaqueCall):
        return any(path is None or is_part(module, path) or is_part(path, module) for path in event.given)
    if not isinstance(event, TrainingMode):
        return False
    target = event.target
    if event.on is False:
        return target is not None and is_part(module, target)
    return target is None or is_part(module, target) or is_part(target, module) or last(target) == last(module)


def _sets_part(event: Event, whole: str | None) -> bool:
    """Whether a part of what was put into evaluation mode is taken out of it, and the rest is to stay: its head."""
    if not isinstance(event, TrainingMode) or event.on is False or event.target is None or whole is None:
        return False
    return is_within(event.target, whole)


def _blocks(loop: Loop) -> Iterator[Sequence[t.Stmt]]:
    """The blocks of a loop, without those of loops in it, the outer ones first."""
    stmt = loop.site.node
    blocks = [stmt.body] if isinstance(stmt, t.Repeat) else []
    for block in blocks:
        yield block
        blocks.extend(inner for each in block if not isinstance(each, t.Repeat) for inner in t.blocks(each))


def _block_of(loop: Loop, event: Event) -> Sequence[t.Stmt] | None:
    """The innermost block that an event stands in, below the body of the loop itself."""
    around = [block for block in _blocks(loop) if event.is_in(block)]
    return around[-1] if len(around) > 1 else None


def _leaves(loop: Loop, event: Event) -> bool:
    """Whether the loop ends with what an event stands in: ``if is_done: net.eval(); test(net); break``."""
    around = loop.site.node
    if not isinstance(around, t.Repeat):
        return False
    inside = [stmt for stmt in t.walk_statements([around]) if event.is_in([stmt])]
    return bool(inside) and ends_at(around, inside[-1])
