"""Teachers of a distillation that the optimizer of the student trains as well: it was given the whole of both."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gradguard.static.filled import goes_through
from gradguard.static.mistakes import TrainedTeacher
from gradguard.static.model import Backward, Forward, Mode, Step
from gradguard.static.paths import is_part, is_within

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
        backward = next((each for each in flow.facts.backwards if _is_reached(each, run)), None)
        step = _step_of_both(flow, backward, path) if backward is not None else None
        if backward is None or step is None or path in told:
            continue
        told.add(path)
        name = path.rpartition(".")[2]
        yield TrainedTeacher(
            run.source.site, name, step.target or "", backward.source.site, step.source.site, _stays(flow, name)
        )


def _path(run: Forward) -> str:
    return run.given_as or run.module or ""


def _is_reached(backward: Backward, run: Forward) -> bool:
    return not run.is_frozen and run.mode is not Mode.OFF and goes_through(backward, run)


def _step_of_both(flow: Flow, backward: Backward, teacher: str) -> Step | None:
    """The step of an optimizer that has the module in which a teacher is, with the student that the loss is for."""
    students = [_path(run) for run in flow.facts.forwards if _is_reached(backward, run)]
    others = [path for path in students if not is_part(path, teacher) and not is_part(teacher, path)]
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
