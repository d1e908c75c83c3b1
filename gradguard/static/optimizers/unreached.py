"""Optimizers that step after the backward of a loss in which none of their parameters is.

What the network gives was detached, or computed under ``no_grad``, before the loss was made of it: the backward goes
through the networks behind that alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.backward.filled import began_at
from gradguard.static.mistakes.optimizers import Unreached
from gradguard.static.model import Backward, Event, Forward, Loop, Mode, OpaqueCall, Step, ZeroGrad
from gradguard.static.optimizers.optimized import overlap
from gradguard.static.optimizers.separate_modules import is_made_alone
from gradguard.static.optimizers.trained_apart import cut
from gradguard.static.program.paths import is_part
from gradguard.static.reading.rounds import round_of
from gradguard.static.source import Site
from gradguard.static.values import Root, Source, node_within

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

# Gradients that somebody gives to parameters by hand.
_BY_HAND = re.compile(
    r"\.grad\b(?:\.data)?(?:\.(?:add|sub|copy|set)_\(|\s*[-+]=|\s*=(?!=)\s*(?!None))|\._grad\s*=(?!=)"
)


def unreached(flow: Flow) -> Iterator[Unreached]:
    """The steps before which a reset, and then only such backwards come, each with the last of these."""
    facts = flow.facts
    if facts.is_test or not facts.backwards:
        return
    for step in facts.steps:
        found = _of_step(flow, step)
        if found is not None and not facts.switches_gradients() and not moves_gradients(flow):
            yield found


def _of_step(flow: Flow, step: Step) -> Unreached | None:
    """What to say of the step of an optimizer that has one module: one of several may be left out on purpose."""
    modules, of = step.modules or frozenset(), round_of(flow.facts, step)
    if step.target is None or step.by_scaler or step.runs_closure or len(modules) != 1 or of is None:
        return None
    (module,) = modules
    backward = _computes_none(flow, of.before(step), step, module)
    run = _run_in(flow, of.loop, module) if backward is not None else None
    if backward is None or run is None or not is_made_alone(flow, module):
        return None
    called = _where_called(run, module)
    cut_at = _cut_beside(flow, run, called)
    return Unreached(backward.source.site, step.source.site, step.target, module, called, cut_at)


def moves_gradients(flow: Flow) -> bool:
    """Whether the program gives gradients to parameters by hand: ``p.grad.add_(q.grad)``."""
    return flow.project.survey.mentions(_BY_HAND, flow.module, "grad")


def _computes_none(flow: Flow, before: Iterable[Event], step: Step, module: str) -> Backward | None:
    """The last backward before a step, where none since the reset reaches a module."""
    last: Backward | None = None
    for event in before:
        if isinstance(event, OpaqueCall) or (isinstance(event, Step) and event.target in (None, step.target)):
            return None
        if isinstance(event, ZeroGrad) and _resets(event, step):
            return last
        if isinstance(event, Backward):
            last = last or event
            if not _goes_elsewhere(flow, event, module):
                return None
    return None


def _goes_elsewhere(flow: Flow, backward: Backward, module: str) -> bool:
    """Whether a backward has a graph, and surely none that leads to a module."""
    reach = backward.value.reach
    return any(root.source is Source.GRAPH for root in reach) and all(_leads_elsewhere(flow, r, module) for r in reach)


def _run_in(flow: Flow, loop: Loop | None, module: str) -> Forward | None:
    """The last run of a module in a round, which shows that it is meant to be trained there."""
    inside = (e for e in flow.facts.forwards if loop is None or (e.loop is not None and e.loop.within(loop)))
    runs = [each for each in inside if not each.is_frozen and is_part(_path(each), module)]
    return next((each for each in reversed(runs) if _path(each) == module), runs[-1] if runs else None)


def _resets(reset: ZeroGrad, step: Step) -> bool:
    """Whether a reset surely concerns the optimizer: no gradient is left from somewhere else."""
    return reset.target == step.target or (reset.modules is not None and overlap(reset.modules, step.modules))


def _leads_elsewhere(flow: Flow, root: Root, module: str) -> bool:
    """Whether a graph began at modules that surely share no parameters with this one."""
    if root.source is Source.PARAM:  # the caller's: what this function runs is not in it
        return True
    if root.source is Source.LOSS:
        return _is_object(flow, root)
    began = [each for each in flow.facts.forwards if root.source is Source.GRAPH and began_at(root.key, each)]
    paths = {each.given_as or each.module for each in began}
    return bool(paths) and all(path is not None and _is_another(flow, path, module) for path in paths)


def _is_object(flow: Flow, root: Root) -> bool:
    """Whether what is named as a loss is an object that is called: a function may run anything."""
    call = node_within(root.key)
    func = call.func if isinstance(call, t.Call) else None
    if isinstance(func, t.Name):
        is_given = func.id in flow.ref.assigned or any(param.name == func.id for param in flow.ref.define.params)
        return is_given or flow.module.resolve(func.id) is not None
    return func is not None and (t.path_of(func) or "").startswith("self.")


def _is_another(flow: Flow, path: str, module: str) -> bool:
    if overlap(frozenset((path,)), frozenset((module,))):
        return False
    parts = path.split(".")
    return any(is_made_alone(flow, ".".join(parts[:count])) for count in range(1, len(parts) + 1))


def _path(forward: Forward) -> str:
    return forward.given_as or forward.module or ""


def _where_called(run: Forward, module: str) -> Site:
    """Where a module is called: in a helper, but not within its own methods."""
    return run.source.site if _path(run) == module and not run.of_method else run.site


def _cut_beside(flow: Flow, run: Forward, called: Site) -> Site | None:
    """What takes away the graph of what a module gives: its own call under ``no_grad``, ``fake.detach()``."""
    if run.mode is Mode.OFF:
        return called
    hidden = list(cut(flow.ref.define))
    if any(node is run.site.node for node in hidden):
        return run.site
    bound = {path for stmt in flow.ref.define.statements for path in _bound_to(stmt, run)}
    uses = (node for node in hidden if isinstance(node, t.Name | t.Attribute) and t.path_of(node) in bound)
    found = next(uses, None)
    return flow.site(found) if found is not None else None


def _bound_to(stmt: t.Stmt, run: Forward) -> Iterator[str]:
    """The variables that have what a module gives, as it is."""
    if isinstance(stmt, t.Assign) and any(node is run.site.node for node in t.walk(stmt.value)):
        yield from (path for target in stmt.targets for each in t.names_in(target) if (path := t.path_of(each)))
