"""Backwards that go on through a network whose gradients are thrown away: ``D(G(z))``, for the loss of ``D`` alone.

Where a discriminator is given what the generator makes with its graph, the backward of its loss fills the gradients of
both. Those of the generator are reset before the generator's own backward: nothing is trained otherwise, and what
computed them was for nothing. (Where they are not reset, see ``leftovers``.)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.backward.filled import began_at
from gradguard.static.backward.looked_at import Names, is_looked_at
from gradguard.static.backward.reset_unused import (
    Optimizer,
    is_given,
    is_of,
    is_part_of,
    is_used_by,
    optimizers_of,
    path_of,
    reached,
    thrown_away,
)
from gradguard.static.mistakes.backward import WastedBackward
from gradguard.static.model import Backward, Event, Forward
from gradguard.static.optimizers.frozen_by_name import may_freeze
from gradguard.static.optimizers.shared_parameters import may_share
from gradguard.static.program.reaching import bound_at
from gradguard.static.reading.rounds import excludes
from gradguard.static.source import Site
from gradguard.static.values import Source

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_HOOKS = re.compile(r"register_(?:full_)?(?:backward_(?:pre_)?)?hook\(|register_post_accumulate")


def wasted_backwards(flow: Flow) -> Iterator[WastedBackward]:
    """Where what one optimizer trains is given the output of another one's module, whose gradients nobody uses."""
    facts = flow.facts
    if facts.is_test or len(facts.steps) < 2 or not facts.zero_grads:
        return
    optimizers = optimizers_of(flow)
    if len(optimizers) < 2:
        return
    told: set[t.Node] = set()
    for backward in facts.backwards:
        for found in _of_backward(flow, backward, optimizers):
            if found.site.node not in told:
                told.add(found.site.node)
                yield found


def _of_backward(flow: Flow, backward: Backward, optimizers: Sequence[Optimizer]) -> Iterator[WastedBackward]:
    """What a backward goes through for nothing, each with where it is given to what the backward is for."""
    used = [each for each in optimizers if is_used_by(flow, backward, each)]
    if not used:
        return
    runs = reached(flow, backward)
    resets = {path: thrown_away(flow, backward, path, optimizers) for path in map(path_of, flow.facts.forwards)}
    lost = [run for run in runs if resets[path_of(run)] is not None]
    every = [run for run in runs if is_of(run, used) and resets[path_of(run)] is None]
    own = [run for run in every if not any(is_part_of(run, other) for other in every)] if lost else []
    wasted = frozenset(path for path, reset in resets.items() if reset is not None)
    for run in own:
        made = next((each for each in lost if is_given(run, each)), None)
        reset = resets[path_of(made)] if made is not None else None
        if made is None or reset is None:
            continue
        level = _where_given(run, made)
        if level is None or _is_wanted_otherwise(flow, backward, run, level[0]) or not _is_first(flow, made, wasted):
            continue
        holders = [each for each in optimizers if is_of(made, [each])]
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
            level[0].site, path_of(made), path_of(run), level[1].site, backward.source.site, reset.source.site,
            _argument(flow, run, made) if _is_first(flow, run, wasted) else None,
        )  # fmt: skip


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
    return all(each.is_frozen or path_of(each) in wasted for each in before)


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
    paths = (path_of(run), source.module if isinstance(source, Forward) else None, *optimizers)
    return frozenset(path.rpartition(".")[2] for path in paths if path)


def _is_hooked(flow: Flow) -> bool:
    """Whether something in the program looks at gradients by a hook (reads other files)."""
    return any(True for _ in flow.project.survey.texts_used("register_", flow.module, _HOOKS))


def _have_in_common(flow: Flow, holders: Sequence[Optimizer], others: Sequence[Optimizer]) -> bool:
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
