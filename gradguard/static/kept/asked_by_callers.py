"""Parts of a function that only run where a caller asks for them: ``run(loader, keep_outputs=True)``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.model import Mode
from gradguard.static.reading.conditions import outcome
from gradguard.static.values import Flag

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.program.functions import FunctionRef
    from gradguard.static.stored import Store

_LEVELS = 3
"""Functions that hand a flag on to each other."""


def is_asked_for_without_grad(flow: Flow, store: Store) -> bool:
    """Whether a flag has a function store something, and all calls that set it so record no graph (reads other files).

    There has to be such a call: where all leave the flag alone, somebody may set it yet.
    """
    for param, off in _switches(flow.ref, store.site.node) if store.inner is None else ():
        asking = list(_asking(flow.ref, param, off, _LEVELS))
        if asking and all(asking):
            return True
    return False


def _switches(ref: FunctionRef, node: t.Node) -> Iterator[tuple[str, bool]]:
    """The flags, parameters as they were given, around a statement, each with the value for which it does not run."""
    own = _own(ref)
    for stmt in ref.define.statements:
        if not isinstance(stmt, t.If):
            continue
        ways = [way for way in (stmt.body, stmt.orelse) if any(node is inner for inner in t.walk(way))]
        for name in own if ways else ():
            for off in (False, True):
                holds = outcome(stmt.test, lambda asked, name=name, off=off: Flag(off) if asked == name else None)  # type: ignore[misc]
                if holds is not None and holds == (ways[0] is stmt.orelse):
                    yield name, off


def _own(ref: FunctionRef) -> list[str]:
    """The parameters of a function that it does not bind anew."""
    return [param.name for param in ref.define.params if not param.star and param.name not in ref.names[0]]


def _asking(ref: FunctionRef, param: str, off: bool, levels: int) -> Iterator[bool]:
    """For each call that may set a flag otherwise, whether no graph is recorded in it; False where none is known."""
    project = ref.module.project
    is_called = False
    for caller in project.calling(ref) if levels else ():
        calls = [call for call in caller.ref.calls if call.name == ref.define.name]
        followed = [(define, mode) for define, mode in caller.calls if define.name == ref.define.name]
        modes = [mode for define, mode in followed if define is ref.define]
        if caller.ref.define is ref.define or not calls or (followed and not modes):
            continue  # another one of the name is called
        is_called = True
        is_silent = bool(modes) and all(mode is Mode.OFF for mode in modes)
        for given in (_given(ref, call, param) for call in calls):
            if isinstance(given, t.Constant) and bool(given.value) == off:
                continue
            handed_on = t.path_of(given) if given is not None else None
            if not is_silent and handed_on in _own(caller.ref):
                yield from _asking(caller.ref, str(handed_on), off, levels - 1)
            else:
                yield is_silent or project.called_without_grad(caller.ref)
    if not is_called:
        yield False


def _given(ref: FunctionRef, call: t.Call, param: str) -> t.Expr | None:
    """What a call gives for a parameter, by itself or by default; None where only the run knows."""
    written = ref.given_by(call).get(param)
    if written is not None or any(arg.star for arg in call.args):
        return written
    return next(each.default for each in ref.define.params if each.name == param)
