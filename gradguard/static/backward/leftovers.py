"""Gradients that the loss of one optimizer leaves in the parameters of another one, which then steps with them.

A generator's loss goes through the discriminator: its backward fills the gradients of both. So does a discriminator's,
where it is given what the generator makes with its graph.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from gradguard.static.backward.filled import filled, goes_through
from gradguard.static.model import Backward, Event, Forward, Function, Loop, OpaqueCall, Step, ZeroGrad
from gradguard.static.optimizers.optimized import overlap
from gradguard.static.program.paths import is_part
from gradguard.static.reading.rounds import are_apart

_CONCERNED = (Backward, Step, ZeroGrad, OpaqueCall)
# Networks that judge what another one makes: no loss is for both. A `D` may also be a decoder.
_JUDGE = re.compile(
    r"(?:^|[_.])(?:d|net_?d|\w*disc\d?|\w*discrim\w*|\w*critic\w*|\w*judge\w*|adversar\w*)(?:_|\d|$)", re.I
)
_MAY_DECODE = re.compile(r"(?:^|[_.])(?:net_?)?d(?:_|\d|$)", re.I)
# What turns gradients round on their way, or may: a function of the program's own, a hook, a layer by its name.
REVERSES = re.compile(
    r"class\s+\w+\s*\([^)]*\bFunction\b|gradient_?revers|revers\w*(?:layer|grad|_?fn)|rev_?grad|\bgrl\b|register_hook",
    re.I,
)


@dataclass(frozen=True, slots=True)
class Leftover:
    """What one backward leaves for the step of an optimizer that another loss is for.

    Args:
        left_by: the backward; its loss is for another optimizer, whose step comes next.
        own: the step of that one.
        added_to: the backward of the loss that the gradients are added to.
        used_by: the step that uses the sum.
        judged: where the network of the own step judges what it is given with its graph, if that is what it does.
        reset: what resets the optimizer's gradients before the backward that leaves some.
    """

    left_by: Backward
    own: Step
    added_to: Backward
    used_by: Step
    judged: Forward | None = None
    reset: ZeroGrad | None = None


def leftovers(function: Function) -> Iterator[Leftover]:
    """What is left over in the rounds of each loop, and in what a function does once, each backward's once."""
    events = [event for event in function.events if isinstance(event, _CONCERNED)]
    told: set[object] = set()
    for loop in (None, *function.loops):
        inside = [e for e in events if loop is None or (e.loop is not None and e.loop.within(loop))]
        for place, step in enumerate(inside):
            if not isinstance(step, Step) or not _is_plain(step):
                continue
            found = _left_for(function, step, _before(inside, place, loop))
            if found is not None and found.left_by.site.node not in told:
                told.add(found.left_by.site.node)
                yield found


def _is_plain(step: Step) -> bool:
    """Whether it is of one optimizer, whose modules are known, and uses the gradients that are there."""
    return bool(step.modules) and step.target is not None and not (step.zeroes or step.runs_closure)


def _before(events: Sequence[Event], place: int, loop: Loop | None) -> list[Event]:
    """What comes before an event, the last first; in a loop what comes after it in the iteration before, too.

    What is in the other branch of an ``if`` happens in an iteration before, and all of that on this way.
    """
    elsewhere = [event for event in events[:place] if are_apart(events[place], event)]
    same = [event for event in reversed(events[:place]) if event not in elsewhere]
    if loop is None:
        return same
    if not elsewhere:
        return [*same, *reversed(events[place + 1 :])]
    return [*same, *(event for event in reversed(events) if not are_apart(elsewhere[-1], event))]


def _left_for(function: Function, step: Step, before: Sequence[Event]) -> Leftover | None:
    """What comes to a step besides the gradients of the last backward before it."""
    added_to: Backward | None = None
    own: Step | None = None
    for place, event in enumerate(before):
        if isinstance(event, OpaqueCall) or (isinstance(event, ZeroGrad) and may_reset(event, step)):
            return None
        if isinstance(event, Step):
            if event.target == step.target or event.target is None or event.modules is None:
                return None
            is_next = added_to is not None and not overlap(event.modules, step.modules)
            own = event if is_next else own
        elif isinstance(event, Backward) and _fills(function, event, step):
            if added_to is None:
                added_to = event
            elif own is not None and _fills(function, event, own):
                earlier = (e for e in before[place:] if isinstance(e, ZeroGrad) and e.target == step.target)
                return _of_two(function, Leftover(event, own, added_to, step, reset=next(earlier, None)))
    return None


def _of_two(function: Function, found: Leftover) -> Leftover | None:
    """It, if the second loss is for one optimizer; for several, if one of two networks judges what the other makes.

    A loss of several parts, which share something, is no mistake: the optimizer of that is to have all of it. So is the
    loss of a critic which is to train an encoder that the actor's optimizer has besides, or of a head of its own. What
    is given with its graph is a mistake between opponents only, where both losses ask the one that judges.
    """
    if not _is_made_first(function, found) and not _are_opponents(function, found):
        return None
    others = [s for s in function.steps if s.target != found.used_by.target and _fills(function, found.added_to, s)]
    if not others:
        return found
    modules = found.own.modules or frozenset()
    is_judge = all(map(_judges, modules)) and not any(map(_judges, found.used_by.modules or ()))
    if not is_judge or any(other.target != found.own.target for other in others):
        return None
    if not _fills_all(function, found.left_by, found.used_by):
        return None
    runs = [run for run in function.forwards if goes_through(found.left_by, run)]
    judged = [run for run in runs if any(is_part(_path(run), module) for module in modules)]
    may_decode = any(_MAY_DECODE.search(_words(path)) for path in modules) and len(judged) < 2
    return replace(found, judged=judged[-1]) if judged and not may_decode else None


def _judges(path: str) -> bool:
    return _JUDGE.search(_words(path)) is not None


def _words(path: str) -> str:
    """A path with the keys on it as names: ``nets.d`` of ``nets["d"]``."""
    return path.replace('["', ".").replace('"]', "")


def _is_made_first(function: Function, found: Leftover) -> bool:
    """Whether what the own step moves runs before what the other one does: ``D(G(z))`` for ``G``, not for ``D``."""
    runs = [_path(run) for run in function.forwards if goes_through(found.left_by, run)]
    own = _last(runs, found.own.modules or frozenset())
    later = [_last(runs, {module}) for module in found.used_by.modules or ()]
    return all(place > own for place in later if place >= 0)


def _are_opponents(function: Function, found: Leftover) -> bool:
    """Whether both losses ask the network that judges; no domain classifier, which is given reversed gradients."""
    return _asks(function, found.added_to, found.own) and not function.may_reverse()


def _last(runs: Sequence[str], modules: Collection[str]) -> int:
    """Where the last run of some modules stands; -1 if none is run."""
    return max((place for place, run in enumerate(runs) if _is_of(run, modules)), default=-1)


def _is_of(run: str, modules: Collection[str]) -> bool:
    return any(is_part(run, module) for module in modules)


def _asks(function: Function, backward: Backward, step: Step) -> bool:
    """Whether a backward goes through what an optimizer has, be it frozen: that is no part of its graph."""
    runs = [run for run in function.forwards if _is_of(_path(run), step.modules or frozenset())]
    return any(run.is_frozen or goes_through(backward, run) for run in runs)


def _path(run: Forward) -> str:
    return run.given_as or run.module or ""


def may_reset(reset: ZeroGrad, step: Step) -> bool:
    """Whether a reset may be one of what an optimizer steps with."""
    return reset.target in (None, step.target) or overlap(reset.modules, step.modules)


def _fills(function: Function, backward: Backward, step: Step) -> bool:
    """Whether a backward surely goes through a module that an optimizer has, whole, and that is not frozen there."""
    return any(is_part(path, module) for path in filled(function, backward) for module in step.modules or ())


def _fills_all(function: Function, backward: Backward, step: Step) -> bool:
    """Whether a backward surely goes through all that an optimizer has."""
    paths = filled(function, backward)
    return all(any(is_part(path, module) for path in paths) for module in step.modules or ())
