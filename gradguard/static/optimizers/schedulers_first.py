"""Schedulers that step before the optimizer does: the first rate is never trained with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gradguard.static import tree as t
from gradguard.static.backward.backward_below import runs_backward
from gradguard.static.mistakes.optimizers import SchedulerFirst
from gradguard.static.optimizers.stale_schedulers import schedulers_made
from gradguard.static.program.bound_paths import mentions
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.functions_called import calls_of
from gradguard.static.program.own_methods import methods_of

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_VERSION = "__version__"


class _Step(NamedTuple):
    """A step of what may be a scheduler, and what comes before and after it, in its loop or its function.

    Args:
        scheduler: its path.
        is_in_loop: that is a loop of the function.
    """

    call: t.Call
    scheduler: str
    before: Sequence[t.Stmt]
    after: Sequence[t.Stmt]
    is_in_loop: bool


def schedulers_first(flow: Flow) -> Iterator[SchedulerFirst]:
    """The steps of schedulers of torch that a training begins with, again and again (reads other files)."""
    if flow.facts.is_test or _VERSION in flow.module.source.text:  # who asks for the version knows of the change
        return
    for step in _steps(flow.ref):
        if not _trains(flow.ref, step.before) and runs_backward(flow.ref, step.after):
            made = next(_made(flow, step), None)
            if made is not None and made.argument("last_epoch", None) is None:
                yield SchedulerFirst(flow.site(step.call), step.scheduler)


def _steps(ref: FunctionRef) -> Iterator[_Step]:
    """The steps without an argument, each the only one of its scheduler in the function."""
    stepped = [_stepped(call) for call in ref.calls]
    loops = [stmt for stmt in ref.define.statements if isinstance(stmt, t.Repeat)]
    for loop in [*loops, None]:
        body = ref.define.body if loop is None else loop.body
        for place, stmt in enumerate(body):
            call = _call_in(stmt)
            path = _stepped(call) if call is not None else None
            if call is not None and path is not None and stepped.count(path) == 1:
                outside = list(_before(ref.define.body, loop)) if loop is not None else []
                yield _Step(call, path, [*outside, *body[:place]], body[place + 1 :], loop is not None)


def _stepped(call: t.Call) -> str | None:
    """The path of what a call has step."""
    return t.path_of(call.func.value) if isinstance(call.func, t.Attribute) and call.name == "step" else None


def _call_in(stmt: t.Stmt) -> t.Call | None:
    """``scheduler.step()``, also where it is asked whether there is a scheduler."""
    if isinstance(stmt, t.If) and len(stmt.body) == 1 and not stmt.orelse:
        inner = _call_in(stmt.body[0])
        path = _stepped(inner) if inner is not None else None
        return inner if path is not None and mentions(stmt.test, path) else None
    call = stmt.value if isinstance(stmt, t.Evaluate) else None
    return call if isinstance(call, t.Call) and _stepped(call) is not None and not call.args else None


def _before(body: Sequence[t.Stmt], loop: t.Repeat) -> Iterator[t.Stmt]:
    """The statements that come before a loop, whatever is around it."""
    for stmt in body:
        if stmt is loop:
            return
        inner = next((block for block in t.blocks(stmt) if any(s is loop for s in t.walk_statements(block))), None)
        if inner is not None:
            yield from _before(inner, loop)
            return
        yield stmt


def _trains(ref: FunctionRef, body: Sequence[t.Stmt]) -> bool:
    """Whether something steps already: to be told, an optimizer may step once before all."""
    calls = (node for node in t.walk(body) if isinstance(node, t.Call))
    return any(call.name == "step" for call in calls) or runs_backward(ref, body)


def _made(flow: Flow, step: _Step) -> Iterator[t.Call]:
    """Where the scheduler is made: by the function, for its object, or by who calls it."""
    ref, path = flow.ref, step.scheduler
    if step.is_in_loop:
        yield from _made_in(ref, path)
    if path.startswith("self.") and ref.owner is not None:
        others = (each for each in methods_of(ref.owner) if each.define is not ref.define)
        yield from (made for each in others for made in _made_in(each, path))
    if path in flow.params:
        for caller, call in calls_of(flow):
            given = ref.given_by(call).get(path)
            known_as = t.path_of(given) if given is not None else None
            yield from _made_in(caller.ref, known_as) if known_as is not None else ()


def _made_in(ref: FunctionRef, path: str) -> Iterator[t.Call]:
    for stmt, scheduler, _ in schedulers_made(ref):
        if scheduler == path and isinstance(stmt.value, t.Call):
            yield stmt.value
