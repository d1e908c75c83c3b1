"""Teachers of a distillation that the optimizer of the student trains as well: it was given the whole of both."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gradguard.static.backward.filled import began_at
from gradguard.static.mistakes.optimizers import TrainedTeacher
from gradguard.static.model import Backward, Forward, Mode, Step
from gradguard.static.program.paths import is_part, is_within
from gradguard.static.source import Site
from gradguard.static.values import Roots

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_TEACHER = re.compile(r"(?:^|\.)_?(?:\w+_)?teacher(?:_?(?:net|network|model|encoder|backbone))?$", re.I)
# What freezes, or may; a teacher that follows the student is another mistake.
_OTHERWISE = re.compile(
    r"requires_grad(?:_\(|\s*=(?!=))|[\"']requires_grad[\"']|fre+ze(?!\w*=\s*False)|(?<!utils)\.data\b(?!\.\w*[lL]oader)|"
    r"\.(?:copy|lerp)_\(|\bema\b|\bEMA\b|AveragedModel|momentum_update|gradient_?revers",
    re.I,
)
# An evaluation has both in that mode.
_EVALUATING = tuple(
    "evaluate validate test eval val valid validation evaluation infer inference predict val_epoch eval_epoch "
    "validation_step test_step validate_epoch evaluate_epoch test_epoch".split()
)


def trained_teachers(flow: Flow) -> Iterator[TrainedTeacher]:
    """The teachers that a backward reaches beside a student, before a step of an optimizer that has both."""
    runs = [run for run in flow.facts.forwards if _TEACHER.search(_path(run)) is not None]
    if not runs or flow.facts.is_test or flow.project.survey.mentions(_OTHERWISE, flow.module):
        return
    told: set[str] = set()
    for run in runs:
        path = _path(run)
        found = _in_steps(flow, run, path) or _for_framework(flow, run, path) if path not in told else None
        if found is not None:
            told.add(path)
            yield found


def _in_steps(flow: Flow, run: Forward, path: str) -> TrainedTeacher | None:
    """What a function trains itself: backward and step."""
    backward = next((each for each in flow.facts.backwards if _is_reached(each.value.roots, run)), None)
    step = _step_of_both(flow, backward, path) if backward is not None else None
    if backward is None or step is None:
        return None
    name = path.rpartition(".")[2]
    places = (backward.source.site, step.source.site)
    return TrainedTeacher(run.source.site, name, step.target or "", *places, _stays(flow, name))


def _for_framework(flow: Flow, run: Forward, path: str) -> TrainedTeacher | None:
    """What a framework trains: the loss that ``training_step`` returns, with what ``configure_optimizers`` makes."""
    owner, returns = flow.ref.owner, flow.facts.returns
    making = owner.method("configure_optimizers") if owner is not None else None
    made = flow.project.flow(making) if making is not None and flow.facts.name == "training_step" else None
    modules = made.facts.returns.ref if made is not None else None
    if making is None or not isinstance(modules, frozenset) or not _is_reached(returns.roots, run):
        return None
    if not _has_both(sorted(modules), path, _others(flow, returns.roots, path)) or flow.facts.site is None:
        return None
    name = path.rpartition(".")[2]
    optimizer = Site(making.chunk, making.define)
    return TrainedTeacher(run.source.site, name, making.define.name, flow.facts.site, optimizer, _stays(flow, name))


def _path(run: Forward) -> str:
    return run.given_as or run.module or ""


def _is_reached(loss: Roots, run: Forward) -> bool:
    """Whether a loss surely has the graph of a run."""
    return not run.is_frozen and run.mode is not Mode.OFF and any(began_at(root.key, run) for root in loss)


def _others(flow: Flow, loss: Roots, teacher: str) -> list[str]:
    """The modules besides that a loss is for."""
    reached = [_path(run) for run in flow.facts.forwards if _is_reached(loss, run)]
    return [path for path in reached if not is_part(path, teacher) and not is_part(teacher, path)]


def _step_of_both(flow: Flow, backward: Backward, teacher: str) -> Step | None:
    """The step of an optimizer that has the module in which a teacher is, with the student that the loss is for."""
    others = _others(flow, backward.value.roots, teacher)
    later = flow.facts.events[flow.facts.events.index(backward) :]
    steps = (event for event in later if isinstance(event, Step) and event.target is not None)
    return next((step for step in steps if _has_both(sorted(step.modules or ()), teacher, others)), None)


def _has_both(modules: Sequence[str], teacher: str, others: Sequence[str]) -> bool:
    around = [module for module in modules if is_within(teacher, module)]
    return any(is_within(path, module) for path in others for module in around)


def _stays(flow: Flow, name: str) -> bool:
    """Whether the program puts a teacher into evaluation mode, not just to evaluate, and never takes it out of it."""
    survey = flow.project.survey
    put = re.compile(rf"\b{name}(?:\.\w+\([^()]*\))*\.eval\(\)")
    taken = re.compile(rf"\b{name}\.train\((?!\s*(?:mode\s*=\s*)?False)")
    return survey.acts(name, put, flow.module, _EVALUATING) and not survey.acts(name, taken, flow.module)
