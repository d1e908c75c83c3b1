"""Backwards that go on through a network whose gradients are thrown away: ``D(G(z))``, for the loss of ``D`` alone.

Where a discriminator is given what the generator makes with its graph, the backward of its loss fills the gradients of
both. Those of the generator are reset before the generator's own backward: nothing is trained otherwise, and what
computed them was for nothing. (Where they are not reset, see ``leftovers``.)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gradguard.static import tree as t
from gradguard.static.backward.filled import began_at
from gradguard.static.backward.looked_at import Names, is_looked_at
from gradguard.static.mistakes import WastedBackward
from gradguard.static.model import Backward, Event, Forward, Mode, Step, ZeroGrad
from gradguard.static.optimizers.frozen_by_name import may_freeze
from gradguard.static.optimizers.optimized import held_by, overlap
from gradguard.static.optimizers.shared_parameters import may_share
from gradguard.static.program.paths import is_part, is_within
from gradguard.static.program.reaching import bound_at
from gradguard.static.reading.rounds import blocks_around, excludes, may_be_left_out
from gradguard.static.source import Site
from gradguard.static.values import Source

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_HOOKS = re.compile(r"register_(?:full_)?(?:backward_(?:pre_)?)?hook\(|register_post_accumulate")


class _Optimizer(NamedTuple):
    path: str
    modules: frozenset[str]
    steps: list[Step]


def wasted_backwards(flow: Flow) -> Iterator[WastedBackward]:
    """Where what one optimizer trains is given the output of another one's module, whose gradients nobody uses."""
    facts = flow.facts
    if facts.is_test or len(facts.steps) < 2 or not facts.zero_grads:
        return
    optimizers = _optimizers(flow)
    if len(optimizers) < 2:
        return
    told: set[t.Node] = set()
    for backward in facts.backwards:
        for found in _of_backward(flow, backward, optimizers):
            if found.site.node not in told:
                told.add(found.site.node)
                yield found


def _optimizers(flow: Flow) -> list[_Optimizer]:
    """The optimizers that a function steps, where it is known of each whose parameters it has; none if not of all."""
    found: dict[str, _Optimizer] = {}
    for step in flow.facts.steps:
        path = step.target
        if path is None or step.zeroes or step.runs_closure:
            return []
        if path not in found:
            modules = step.modules or held_by(flow, path)
            if not modules:
                return []
            found[path] = _Optimizer(path, modules, [])
        found[path].steps.append(step)
    return list(found.values())


def _of_backward(flow: Flow, backward: Backward, optimizers: Sequence[_Optimizer]) -> Iterator[WastedBackward]:
    """What a backward goes through for nothing, each with where it is given to what the backward is for."""
    used = [each for each in optimizers if _is_used_by(flow, backward, each)]
    if not used:
        return
    runs = _reached(flow, backward)
    resets = {path: _thrown_away(flow, backward, path, optimizers) for path in map(_path, flow.facts.forwards)}
    lost = [run for run in runs if resets[_path(run)] is not None]
    every = [run for run in runs if _is_of(run, used) and resets[_path(run)] is None]
    own = [run for run in every if not any(_is_part_of(run, other) for other in every)] if lost else []
    wasted = frozenset(path for path, reset in resets.items() if reset is not None)
    for run in own:
        made = next((each for each in lost if _is_given(run, each)), None)
        reset = resets[_path(made)] if made is not None else None
        if made is None or reset is None:
            continue
        level = _where_given(run, made)
        if level is None or _is_wanted_otherwise(flow, backward, run, level[0]) or not _is_first(flow, made, wasted):
            continue
        holders = [each for each in optimizers if _is_of(made, [each])]
        others = [each for each in optimizers if not any(each is holder for holder in holders)]
        if _goes_on_with(flow, backward, made) or _have_in_common(flow, holders, others):
            continue
        names = Names(
            _last_words(made, *(each.path for each in holders)),
            frozenset(word for each in every for word in _last_words(each)),
        )
        if is_looked_at(flow, backward, reset, names) or _is_hooked(flow) or may_freeze(flow, names):
            return
        yield WastedBackward(
            level[0].site, _path(made), _path(run), level[1].site, backward.source.site, reset.source.site,
            _argument(flow, run, made) if _is_first(flow, run, wasted) else None,
        )  # fmt: skip


def _reached(flow: Flow, backward: Backward) -> list[Forward]:
    """What a backward may go through: the loss that a step uses is of what is run for it, whatever computes it."""
    reach, runs = backward.value.reach, flow.facts.forwards
    return [run for run in runs if not run.is_frozen and any(began_at(root.key, run) for root in reach)]


def _thrown_away(flow: Flow, backward: Backward, path: str, optimizers: Sequence[_Optimizer]) -> ZeroGrad | None:
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


def _is_used_by(flow: Flow, backward: Backward, optimizer: _Optimizer) -> bool:
    """Whether an optimizer surely steps with what a backward leaves for it, in the same iteration."""
    after = flow.facts.events[flow.facts.events.index(backward) + 1 :]
    for event in after:
        if isinstance(event, Step) and event.target == optimizer.path:
            return True
        if isinstance(event, ZeroGrad) and (event.target in (None, optimizer.path) or _may_reset(event, optimizer)):
            return False
    return False


def _may_reset(reset: ZeroGrad, optimizer: _Optimizer) -> bool:
    return overlap(_reset_by(reset), optimizer.modules)


def _reset_by(reset: ZeroGrad) -> frozenset[str] | None:
    return frozenset((reset.target,)) if reset.of_module and reset.target is not None else reset.modules


def _resets(reset: ZeroGrad, path: str, holders: Sequence[_Optimizer]) -> bool:
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


def _path(run: Forward) -> str:
    return run.given_as or run.module or ""


def _is_of(run: Forward, optimizers: Sequence[_Optimizer]) -> bool:
    path = _path(run)
    return any(is_part(path, module) for each in optimizers for module in each.modules)


def _is_part_of(run: Forward, other: Forward) -> bool:
    """Whether a module is run as a part of another one, in one call."""
    return run.site.node is other.site.node and is_within(_path(run), _path(other))


def _is_given(run: Forward, made: Forward) -> bool:
    """Whether a module is run with what another one gives, with its graph."""
    return run.mode is not Mode.OFF and any(began_at(root.key, made) for root in run.given.roots)


def _is_wanted_otherwise(flow: Flow, backward: Backward, run: Forward, given: Event) -> bool:
    """Whether another backward goes through a run, too, or gradients are asked for of what it is given.

    Where a function that is called here gives it that, no backward may go through another call of it.
    """
    same = [run]
    if given is not run:
        same += [each for each in flow.facts.forwards if each.source.site.node is run.source.site.node]
    others = [each.value.reach for each in flow.facts.backwards if each is not backward]
    asked = [each.value.reach for each in flow.facts.grad_calls]
    return any(began_at(root.key, each) for reach in (others + asked) for root in reach for each in same)


def _goes_on_with(flow: Flow, backward: Backward, made: Forward) -> bool:
    """Whether another backward of the same iteration goes through what is made, too: it keeps that graph for it."""
    others = (each for each in flow.facts.backwards if each is not backward)
    body = flow.ref.define.body
    return any(
        began_at(root.key, made) and not excludes(body, backward, each) for each in others for root in each.value.reach
    )


def _is_first(flow: Flow, run: Forward, wasted: frozenset[str]) -> bool:
    """Whether nothing comes before a run, in the graph, whose gradients are used.

    Args:
        wasted: the modules whose gradients are thrown away.
    """
    reach = run.given.reach
    if any(root.source is Source.LEAF for root in reach):
        return False
    before = [each for each in flow.facts.forwards if any(began_at(root.key, each) for root in reach)]
    return all(each.is_frozen or _path(each) in wasted for each in before)


def _where_given(run: Forward, made: Forward) -> tuple[Event, Event] | None:
    """Where both are written, or called, in one function: that which gives the one what the other one has made."""
    given: Event = run
    giving: Event = made
    while given.site.node is giving.site.node:
        if given.inner is None or giving.inner is None:
            return None
        given, giving = given.inner, giving.inner
    return given, giving


def _last_words(run: Forward, *optimizers: str) -> frozenset[str]:
    source = run.source
    paths = (_path(run), source.module if isinstance(source, Forward) else None, *optimizers)
    return frozenset(path.rpartition(".")[2] for path in paths if path)


def _is_hooked(flow: Flow) -> bool:
    """Whether something in the program looks at gradients by a hook (reads other files)."""
    return any(True for _ in flow.project.survey.texts_used("register_", flow.module, _HOOKS))


def _have_in_common(flow: Flow, holders: Sequence[_Optimizer], others: Sequence[_Optimizer]) -> bool:
    """Whether a module of some optimizers may have parameters that one of other optimizers has."""
    theirs = frozenset(module for other in others for module in other.modules)
    ours = frozenset(module for holder in holders for module in holder.modules) - theirs
    return any(may_share(flow, one, other) for one in ours for other in theirs)


def _argument(flow: Flow, run: Forward, made: Forward) -> Site | None:
    """The only argument of a module that has in it what another one makes, by the variables that have that.

    None where a helper is given it, which may use it otherwise as well.
    """
    call = run.site.node
    if run.inner is not None or made.inner is not None or not isinstance(call, t.Call):
        return None
    having = [arg for arg in call.args if _has(flow, call, arg.value, made.site.node)]
    if len(having) != 1 or having[0].star:
        return None
    return flow.site(having[0].value)


def _has(flow: Flow, at: t.Node, expr: t.Expr, made: t.Node, depth: int = 3) -> bool:
    """Whether an expression has in it what a call gives, wherever it may be bound."""
    for node in t.walk(expr):
        if node is made:
            return True
        path = t.path_of(node) if isinstance(node, t.Name | t.Attribute) and depth else None
        bound = bound_at(flow.ref.define, at, path) if path is not None else []
        if any(b.value is not None and _has(flow, b.value, b.value, made, depth - 1) for b in bound):
            return True
    return False
