"""Profilers whose schedule records the whole run: ``schedule(wait=0, warmup=3, active=steps)``, over as many steps.

A window of a few steps is what a schedule is for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.mistakes.kept import RecordedRun
from gradguard.static.model import Loop
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.functions_called import calls_of
from gradguard.static.reading.counts import setting
from gradguard.static.reading.places import assigned_anywhere

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_SCHEDULE = "torch.profiler.schedule"
_MANY = 100
"""Steps that nobody would go through one by one in a trace."""
_NUMBERS = r"[1-9][\d_]{2,}"
_OF_WINDOW = re.compile(r"prof|trace|active|record|bench|window|warm", re.I)
_AROUND = frozenset("enumerate tqdm zip".split())


class Window(NamedTuple):
    """How many steps a schedule records.

    Args:
        path: the number, or the loader that has as many batches.
        of_loader: it is the length of that.
    """

    path: str
    of_loader: bool = False


def recorded_runs(flow: Flow) -> Iterator[RecordedRun]:
    """The windows of schedules that a function makes which are as long as a training (reads other files)."""
    for call in (call for call in flow.ref.calls if call.name == "schedule"):
        active = call.argument("active")
        if active is None or flow.module.value_of(call.func).ref != _SCHEDULE:
            continue
        for profiler in _given_to(flow, call):
            loop = next(_recorded(flow, profiler, _window(flow.ref, active)), None)
            if loop is not None:
                yield RecordedRun(flow.site(active), loop.site)


def _given_to(flow: Flow, schedule: t.Call) -> Iterator[t.Call]:
    """The profilers that get a schedule, also by a name for it."""
    for call in flow.ref.calls:
        given = call.argument("schedule")
        made = flow.ref.bound_to(given) if given is not None else []
        if len(made) == 1 and made[0] is schedule and str(flow.module.value_of(call.func).ref) in k.PROFILERS:
            yield call


def _window(ref: FunctionRef, active: t.Expr) -> Window | None:
    """What a window is made of: ``steps`` of ``steps - warmup``, ``loader`` of ``len(loader)``."""
    bound = ref.bound_to(active)
    made = bound[0] if len(bound) == 1 else active
    if isinstance(made, t.Operation) and made.operator == "-" and len(made.operands) == 2:
        made = made.operands[0]
    of_loader = isinstance(made, t.Call) and t.path_of(made.func) == "len" and len(made.args) == 1
    path = t.path_of(made.args[0].value if isinstance(made, t.Call) and of_loader else made)
    return Window(path, of_loader) if path is not None and _OF_WINDOW.search(path) is None else None


def _recorded(flow: Flow, made: t.Call, window: Window | None) -> Iterator[Loop]:
    """The loops that train for as many steps as a window is long, each of which is one of the profiler's.

    Args:
        made: the call that gives the profiler: the one that makes it, or one of a function that does.
    """
    if window is None:
        return
    for name in _names(flow.ref, made):
        for loop in flow.facts.loops:
            if loop.trains and loop.is_long and _steps(loop, name) and _is_over(flow, loop, window):
                yield loop
    if any(value is made for value in flow.ref.given_back()):
        for caller, call in calls_of(flow):
            yield from _recorded(caller, call, _as_given(flow.ref, call, window))


def _names(ref: FunctionRef, made: t.Call) -> Iterator[str]:
    """The variables of what a call gives: ``with profile() as prof``, ``prof = profile()``."""
    for stmt in ref.define.statements:
        pairs = t.pairs(stmt.targets, stmt.value) if isinstance(stmt, t.Assign) else ()
        entered = stmt.items if isinstance(stmt, t.With) else []
        for target, value in (*pairs, *((target, context) for context, target in entered if target is not None)):
            path = t.path_of(target)
            if value is made and path is not None:
                yield path


def _steps(loop: Loop, profiler: str) -> bool:
    """Whether each iteration of a loop is a step of a profiler, and not of a loop within it."""
    repeat = loop.site.node
    stmts = repeat.body if isinstance(repeat, t.Repeat) else []
    calls = (stmt.value for stmt in stmts if isinstance(stmt, t.Evaluate))
    return any(isinstance(call, t.Call) and t.path_of(call.func) == f"{profiler}.step" for call in calls)


def _is_over(flow: Flow, loop: Loop, window: Window) -> bool:
    """Whether a loop has as many iterations as a window is long, which are many."""
    repeat = loop.site.node
    for each in _counted(repeat.iterable if isinstance(repeat, t.Repeat) else None):
        if window.of_loader and loop.over_loader and t.path_of(each) == window.path:
            return True
        is_range = isinstance(each, t.Call) and each.name in ("range", "trange") and len(each.args) == 1
        if isinstance(each, t.Call) and is_range and t.path_of(each.args[0].value) == window.path:
            return not window.of_loader and _is_large(flow, window.path)
    return False


def _counted(iterable: t.Expr | None) -> Iterator[t.Expr]:
    """What a loop goes over, without ``enumerate``, ``tqdm`` and ``zip`` around it."""
    if iterable is None:
        return
    yield iterable
    if isinstance(iterable, t.Call) and iterable.name in _AROUND:
        for arg in iterable.args:
            yield from _counted(arg.value) if arg.keyword is None else ()


def _is_large(flow: Flow, path: str) -> bool:
    """Whether a number of steps is large by default: of an option, a setting, a parameter or a constant."""
    owner, _, name = path.rpartition(".")
    if not owner:
        given = [param.default for param in flow.ref.define.params if param.name == name]
        values = [*(each for each in given if each is not None), *assigned_anywhere(flow, path)]
        numbers = [node.value for value in values for node in t.walk(value) if isinstance(node, t.Constant)]
        whole = [number for number in numbers if type(number) is int]
        if whole:
            return min(whole) >= _MANY
    survey = flow.project.survey
    is_many = survey.mentions(setting(name, _NUMBERS), flow.module)
    return is_many and not survey.mentions(setting(name, r"\d{1,2}"), flow.module)


def _as_given(ref: FunctionRef, call: t.Call, window: Window) -> Window | None:
    """A window of what a function is given as one of what a call gives: ``args.steps`` for ``o.steps``."""
    base, dot, rest = window.path.partition(".")
    given = ref.given_by(call).get(base)
    path = t.path_of(given) if given is not None else None
    return Window(f"{path}{dot}{rest}", window.of_loader) if path is not None else None
