"""Modules that a function makes and hands to others, which run them: in a loop that trains, again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.kept.same_again import ALWAYS, loop_of_same
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.functions_called import functions_called
from gradguard.static.source import Site
from gradguard.static.values import Kind

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_LEVELS = 3


def handed_without(flow: Flow, name: str) -> Site | None:
    """Where a module is run without one of the arguments of its ``forward``, by a function that is given the module.

    None where the function that makes it runs it, too (reads other files).
    """
    cls = flow.ref.owner
    if cls is None or not cls.is_module or flow.ref.define.name != "forward":
        return None
    for maker in flow.project.calling(flow.ref, cls.name):
        known = {path for call in maker.ref.calls for path in _paths(call) if _is_of(maker, path, flow.ref)}
        if any(t.path_of(call.func) in known for call in maker.ref.calls):
            return None
        for path in sorted(known):
            run = _run_without(maker, path, flow.ref, name, False, _LEVELS)
            if run is not None:
                return run
    return None


def _paths(call: t.Call) -> list[str]:
    """The paths among the arguments of a call, and of what it calls."""
    paths = (t.path_of(expr) for expr in (call.func, *(arg.value for arg in call.args)))
    return [path for path in paths if path is not None]


def _is_of(flow: Flow, path: str, forward: FunctionRef) -> bool:
    found = flow.read(flow.canonical(path), flow.final)
    return found.kind is Kind.MODULE and found.ref is forward.owner


def _run_without(flow: Flow, path: str, forward: FunctionRef, name: str, is_in_loop: bool, levels: int) -> Site | None:
    """The call of what is at a path, there or in a function that is given it.

    Args:
        is_in_loop: a loop that trains comes to the function again and again.
    """
    for call in flow.ref.calls:
        is_run = t.path_of(call.func) == path
        given = [] if is_run else [arg for arg in call.args if t.path_of(arg.value) == path and not arg.star]
        if not is_run and not (given and levels):
            continue
        again = is_in_loop or loop_of_same(flow, call, (ALWAYS,)) is not None
        if is_run:
            is_without = name not in forward.given_by(call) and not any(arg.star for arg in call.args)
            if is_without and again:
                return flow.site(call)
            continue
        for callee in functions_called(flow, call):
            taken = [param for param, value in callee.given_by(call).items() if t.path_of(value) == path]
            within = flow.project.flow(callee) if taken else None
            run = _run_without(within, taken[0], forward, name, again, levels - 1) if within is not None else None
            if run is not None:
                return run
    return None
