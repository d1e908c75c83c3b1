"""What runs when a decorated function is called: the decorator's inner function, around that very one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.files.gate import SourceError
from gradguard.static.program.functions import FunctionRef
from gradguard.static.values import Kind, Value

if TYPE_CHECKING:
    from gradguard.static.project import Project


def wrapper_of(project: Project, ref: FunctionRef) -> FunctionRef | None:
    """The function that the decorators of ``ref`` put in its place, where it keeps something; None otherwise."""
    if ref.is_bare or not ref.define.decorators:
        return None
    current = ref.bare()
    for decorator in reversed(ref.define.decorators):
        current = _applied(project, decorator, current) or current
    if current.is_bare:
        return None
    flow = project.flow(current)
    return current if flow is not None and flow.facts.stores else None


def _applied(project: Project, decorator: t.Expr, function: FunctionRef) -> FunctionRef | None:
    """What a decorator of the project returns for a function: ``@tracked``, ``@tracked("name")``."""
    made = function.module.value_of(decorator.func if isinstance(decorator, t.Call) else decorator).ref
    if isinstance(decorator, t.Call) and isinstance(made, FunctionRef):
        made = _returned(project, made)
    if not isinstance(made, FunctionRef) or not made.define.params:
        return None
    given = (made.define.params[0].name, Value(kind=Kind.FUNCTION, ref=function))
    inner = _returned(project, made.bound((given,), function.define))
    return inner if inner is not None and inner.define is not function.define else None


def _returned(project: Project, ref: FunctionRef) -> FunctionRef | None:
    """The function that a function returns."""
    try:
        flow = project.flow(ref)
    except SourceError:
        return None
    found = flow.facts.returns.ref if flow is not None else None
    return found if isinstance(found, FunctionRef) else None
