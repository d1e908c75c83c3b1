"""Where a scheduler takes its steps: in the function that makes it, and wherever that hands it."""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.static import tree as t
from gradguard.static.optimizers.schedulers import known_as
from gradguard.static.program.bound_paths import names_of
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.own_methods import methods_of

_DEPTH = 3


def steps_of(ref: FunctionRef, path: str, depth: int = _DEPTH) -> Iterator[tuple[FunctionRef, t.Call]]:
    """The steps of what a function has at a path, each with the function that takes it; one may come twice."""
    for name in names_of(ref, path):
        is_kept = name.startswith("self.") and ref.owner is not None
        knowing = [ref] if not is_kept or ref.owner is None else [ref, *methods_of(ref.owner)]
        for each in knowing:
            yield from _steps_in(each, name, depth)


def _steps_in(ref: FunctionRef, path: str, depth: int) -> Iterator[tuple[FunctionRef, t.Call]]:
    for call in ref.calls:
        func = call.func
        if isinstance(func, t.Attribute) and func.name == "step" and t.path_of(func.value) == path:
            yield ref, call
        elif depth and any(t.path_of(arg.value) == path for arg in call.args):
            yield from _steps_below(ref, call, path, depth - 1)


def _steps_below(ref: FunctionRef, call: t.Call, path: str, depth: int) -> Iterator[tuple[FunctionRef, t.Call]]:
    """The steps of a scheduler in a function that is given it, or in the methods of an object that is."""
    maker = ref.module.value_of(call.func).ref
    constructor = maker.method("__init__") if isinstance(maker, Class) else None
    callee = constructor if constructor is not None else ref.callee(call)
    if callee is None or callee.define is ref.define:
        return
    given = [name for name, value in callee.given_by(call).items() if t.path_of(value) == path]
    for name in given if constructor is not None else known_as(ref, callee, call, path):
        yield from steps_of(callee, name, depth)
