"""Which gradients that a backward leaves are reset before any step uses them, and which are used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from gradguard.static import tree as t
from gradguard.static.backward.filled import began_at
from gradguard.static.model import Backward, Event, Forward, Mode, Step, ZeroGrad
from gradguard.static.optimizers.optimized import held_by, overlap
from gradguard.static.program.paths import is_part, is_within
from gradguard.static.reading.rounds import blocks_around, may_be_left_out

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


class Optimizer(NamedTuple):
    """An optimizer that a function steps, with the modules whose parameters it has."""

    path: str
    modules: frozenset[str]
    steps: list[Step]


def optimizers_of(flow: Flow) -> list[Optimizer]:
    """The optimizers that a function steps, where it is known of each whose parameters it has; none if not of all."""
    found: dict[str, Optimizer] = {}
    for step in flow.facts.steps:
        path = step.target
        if path is None or step.zeroes or step.runs_closure:
            return []
        if path not in found:
            modules = step.modules or held_by(flow, path)
            if not modules:
                return []
            found[path] = Optimizer(path, modules, [])
        found[path].steps.append(step)
    return list(found.values())


def reached(flow: Flow, backward: Backward) -> list[Forward]:
    """What a backward may go through: the loss that a step uses is of what is run for it, whatever computes it."""
    reach, runs = backward.value.reach, flow.facts.forwards
    return [run for run in runs if not run.is_frozen and any(began_at(root.key, run) for root in reach)]


def thrown_away(flow: Flow, backward: Backward, path: str, optimizers: Sequence[Optimizer]) -> ZeroGrad | None:
    """The reset that throws away what a backward leaves in a module, before each step of all that may have it.

    None where one steps with that, or where none of the optimizers surely has the module.
    """
    holders = [each for each in optimizers if overlap(frozenset((path,)), each.modules)]
    if not all(any(is_part(path, module) for module in each.modules) for each in holders):
        return None
    found: ZeroGrad | None = None
    for optimizer in holders:
        for step in optimizer.steps:
            resets = (each for each in flow.facts.zero_grads if _resets(each, path, holders))
            found = next((each for each in resets if _comes_between(flow, backward, each, step)), None)
            if found is None:
                return None
    return found


def is_used_by(flow: Flow, backward: Backward, optimizer: Optimizer) -> bool:
    """Whether an optimizer surely steps with what a backward leaves for it, in the same iteration."""
    after = flow.facts.events[flow.facts.events.index(backward) + 1 :]
    for event in after:
        if isinstance(event, Step) and event.target == optimizer.path:
            return True
        if isinstance(event, ZeroGrad) and (event.target in (None, optimizer.path) or _may_reset(event, optimizer)):
            return False
    return False


def _may_reset(reset: ZeroGrad, optimizer: Optimizer) -> bool:
    return overlap(_reset_by(reset), optimizer.modules)


def _reset_by(reset: ZeroGrad) -> frozenset[str] | None:
    return frozenset((reset.target,)) if reset.of_module and reset.target is not None else reset.modules


def _resets(reset: ZeroGrad, path: str, holders: Sequence[Optimizer]) -> bool:
    """Whether a reset concerns a module: by itself, or by an optimizer that has it."""
    modules = _reset_by(reset) or frozenset[str]()
    return any(is_part(path, module) for module in modules) or any(reset.target == each.path for each in holders)


def _comes_between(flow: Flow, backward: Backward, reset: ZeroGrad, step: Step) -> bool:
    """Whether a reset surely comes right before a step each time, in the same iteration, and the backward does not."""
    order = {id(event): place for place, event in enumerate(flow.facts.events)}
    at, first, last = order[id(backward)], order[id(reset)], order[id(step)]
    return first < last and not first < at < last and _leads_to(flow.ref.define.body, reset, step)


def _leads_to(body: Sequence[t.Stmt], reset: Event, step: Event) -> bool:
    """Whether each time that a step comes a reset has come before it, in the same iteration of the same loop."""
    if reset.loop is not step.loop:
        return False
    if reset.site.node is step.site.node:
        first, last = reset.inner, step.inner
        if first is None or last is None or first.loop is not last.loop or first.conditional:
            return False
        return first.site.node is not last.site.node or _leads_to([], first, last)
    if may_be_left_out(reset):
        return False
    return any(_stands_in(block, reset) for block in blocks_around(body, step))


def _stands_in(block: Sequence[t.Stmt], event: Event) -> bool:
    """Whether an event is a part of a statement of a block, or of a ``with`` in it, but of no branch."""
    for stmt in block:
        if isinstance(stmt, t.With):
            if _stands_in(stmt.body, event):
                return True
        elif not t.blocks(stmt) and event.is_in([stmt]):
            return True
    return False


def path_of(run: Forward) -> str:
    return run.given_as or run.module or ""


def is_of(run: Forward, optimizers: Sequence[Optimizer]) -> bool:
    path = path_of(run)
    return any(is_part(path, module) for each in optimizers for module in each.modules)


def is_part_of(run: Forward, other: Forward) -> bool:
    """Whether a module is run as a part of another one, in one call."""
    return run.site.node is other.site.node and is_within(path_of(run), path_of(other))


def is_given(run: Forward, made: Forward) -> bool:
    """Whether a module is run with what another one gives, with its graph."""
    return run.mode is not Mode.OFF and any(began_at(root.key, made) for root in run.given.roots)
