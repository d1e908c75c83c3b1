"""Models that a program runs on data alone: what their ``forward`` is given wants no gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.own_methods import methods_of

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.model import Forward


def is_fed_data(flow: Flow, owner: Class) -> bool:
    """Whether each object of a class is trained where it is made, and its ``forward`` gets nothing with a graph.

    Those that are parts of others, or that something makes whose objects are not followed, may be given anything (reads
    other files).
    """
    constructor = owner.method("__init__")
    if constructor is None or flow.project.survey.is_base(owner.name, owner.module):
        return False
    found = False
    for ref in flow.project.written_calling(constructor, name=owner.name):
        for call in (call for call in ref.calls if call.name == owner.name):
            if ref.module.value_of(call.func).ref is not owner or ref.owner is owner:
                continue
            path = bound_path(ref, call)
            if path is None or not _is_run_on_data(flow, ref, path):
                return False
            found = True
    return found


def bound_path(ref: FunctionRef, call: t.Call) -> str | None:
    """The variable, or the attribute of what is no module itself, that an object is put into: ``Net().to(device)``."""
    for stmt in ref.define.statements:
        value = stmt.value if isinstance(stmt, t.Assign) and len(stmt.targets) == 1 else None
        while isinstance(value, t.Call) and isinstance(value.func, t.Attribute) and value.name in k.FLUENT_METHODS:
            value = value.func.value
        if value is call and isinstance(stmt, t.Assign):
            path = t.path_of(stmt.targets[0])
            is_own = path is not None and path.startswith("self.")
            is_part = is_own and (ref.owner is None or ref.owner.is_module)
            return None if is_part else path
    return None


def _is_run_on_data(flow: Flow, ref: FunctionRef, path: str) -> bool:
    """Whether a model is trained, and whoever runs it gives it what has no graph."""
    is_own = path.startswith("self.") and ref.owner is not None
    refs = methods_of(ref.owner) if is_own and ref.owner is not None else [ref]
    flows = [found for each in refs if (found := flow.project.flow(each)) is not None]
    runs = [
        (each.facts.backpropagates(run), run) for each in flows for run in each.facts.forwards if run.module == path
    ]
    return any(trains for trains, _ in runs) and not any(_has_graph(run) for _, run in runs)


def _has_graph(run: Forward) -> bool:
    given = run.given
    return bool(given.roots or given.maybe)
