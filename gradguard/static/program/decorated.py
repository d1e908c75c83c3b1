"""What runs when a decorated function is called: the decorator's inner function, around that very one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.files.gate import SourceError
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.values import UNKNOWN, Kind, Root, Source, Value

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
    """What a decorator of the project returns for a function: ``@tracked``, ``@tracked("x")``, ``@prof.stage("x")``."""
    func = decorator.func if isinstance(decorator, t.Call) else decorator
    made = _method(function, func) or function.module.value_of(func).ref
    if isinstance(decorator, t.Call) and isinstance(made, FunctionRef):
        given = _given(function, made, decorator)
        made = _returned(project, made.bound(given, function.define) if given else made)
    params = made.define.params[len(made.bindings) :] if isinstance(made, FunctionRef) else []
    if not isinstance(made, FunctionRef) or not params:
        return None
    decorated = (params[0].name, Value(kind=Kind.FUNCTION, ref=function))
    inner = _returned(project, made.bound((*made.bindings, decorated), function.define))
    return inner if inner is not None and inner.define is not function.define else None


def _method(function: FunctionRef, func: t.Expr) -> FunctionRef | None:
    """The method of a global object, or of a class, that decorates a function; it is given this object."""
    held, path, name = function.module.value_of(func), t.path_of(func), "__call__"
    if held.kind not in _OBJECTS and isinstance(func, t.Attribute):
        held, path, name = function.module.value_of(func.value), t.path_of(func.value), func.name
    method = held.ref.method(name) if isinstance(held.ref, Class) and path is not None else None
    if method is None or path is None or not method.define.params:
        return None
    given, of_class = method.define.params[0].name, held.kind is Kind.CLASS
    is_given = given == "cls" if of_class else held.kind in _OBJECTS
    return method.bound(((given, _at(held, path)),), function.define) if is_given else None


def _given(function: FunctionRef, made: FunctionRef, decorator: t.Call) -> tuple[tuple[str, Value], ...]:
    """What a decorator that is called is given of what is global: its object, and ``LOG`` of ``@tracked(LOG)``."""
    params = made.define.params[len(made.bindings) :]
    written = ((param.name, decorator.argument(param.name, place)) for place, param in enumerate(params))
    named = ((name, expr.id) for name, expr in written if isinstance(expr, t.Name))
    values = ((name, at, function.module.resolve(at) or UNKNOWN) for name, at in named)
    return (*made.bindings, *((name, _at(value, at)) for name, at, value in values if value.kind in _KEEPING))


def _at(value: Value, path: str) -> Value:
    return value._replace(must=frozenset((Root(Source.PLACE, path),)))


_OBJECTS = (Kind.INSTANCE, Kind.MODULE)
_KEEPING = (Kind.CONTAINER, *_OBJECTS)


def global_path(ref: FunctionRef, path: str) -> str | None:
    """A path of the inner function of a decorator as that of a global: ``prof.spans`` for its ``self.spans``."""
    head = path.split(".", 1)[0].split("[", 1)[0]
    outer = ref.outer
    while outer is not None:
        if head in outer.params:
            bound = dict(outer.ref.bindings).get(head)
            places = [root.base for root in bound.must if root.source is Source.PLACE] if bound is not None else []
            return places[0] + path[len(head) :] if len(places) == 1 else None
        if head in outer.locals:
            return None
        outer = outer.ref.outer
    return None


def _returned(project: Project, ref: FunctionRef) -> FunctionRef | None:
    """The function that a function returns."""
    try:
        flow = project.flow(ref)
    except SourceError:
        return None
    found = flow.facts.returns.ref if flow is not None else None
    return found if isinstance(found, FunctionRef) else None
