"""What keeps the one before it: a wrapper of the function in whose place it comes, an object of the next generation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from gradguard.static import tree as t
from gradguard.static.kept.chain_kept import adds_something, is_part_of_result
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.functions_called import functions_called
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


class Link(NamedTuple):
    """Something that keeps what was at its place.

    Args:
        path: the place.
        kind: ``wrapper``, ``object``, or what torch puts on top: ``parametrization``, ``mask``.
        kept: the statement of a constructor that keeps the one before.
        attribute: the attribute that it is kept as.
        is_model: the object computes what it gives with the one before it, and adds to that.
    """

    path: str
    kind: str
    kept: Site | None = None
    attribute: str | None = None
    is_model: bool = False


def link_of(flow: Flow, path: str, value: t.Expr) -> Link | None:
    """What is bound to a path, if that surely keeps what was there, however often it is done."""
    if isinstance(value, t.Name | t.Lambda):
        return Link(path, "wrapper") if _calls_the_one_before(flow, path, value) else None
    if not isinstance(value, t.Call):
        return None
    given = [arg.value for arg in value.args if not arg.star and t.path_of(arg.value) == path]
    if isinstance(value.func, t.Attribute) and t.path_of(value.func.value) == path:
        return next((link for ref in functions_called(flow, value) if (link := _of_successor(ref, path))), None)
    if len(given) != 1:
        return None
    if flow.module.value_of(value.func).ref == "functools.partial":
        return Link(path, "wrapper")
    if isinstance(cls := flow.module.value_of(value.func).ref, Class):
        kept = _of_object(cls, value, given[0], path)
        return kept._replace(kept=None) if kept is not None else None
    return Link(path, "wrapper") if any(_wraps(ref, value, given[0]) for ref in functions_called(flow, value)) else None


def _calls_the_one_before(flow: Flow, path: str, value: t.Name | t.Lambda) -> bool:
    """``old = net.forward``, ``def forward(x): return old(x)``, ``net.forward = forward``."""
    inner: list[object] = [value.body] if isinstance(value, t.Lambda) else []
    if isinstance(value, t.Name):
        inner += [each.body for each in flow.ref.define.all(t.Define) if each.name == value.id]
    if not inner:
        return False
    before = {name for name, bound in flow.ref.assigned.items() if [t.path_of(each) for each in bound] == [path]}
    return any(isinstance(node, t.Name) and node.id in before for body in inner for node in t.walk(body))


def _wraps(ref: FunctionRef, call: t.Call, given: t.Expr) -> bool:
    """Whether all that a function returns is a function within it that uses what it is given."""
    names = [name for name, value in ref.given_by(call).items() if value is given and name not in ref.names[0]]
    inner = {each.name: each.body for each in ref.define.all(t.Define)}
    returned = [stmt.value for stmt in ref.define.statements if isinstance(stmt, t.Return)]
    bodies = [inner.get(value.id) if isinstance(value, t.Name) else None for value in returned]
    return bool(names and bodies) and all(body is not None and _mentions(body, names[0]) for body in bodies)


def _mentions(body: object, name: str) -> bool:
    return any(isinstance(node, t.Name) and node.id == name for node in t.walk(body))


def _of_successor(method: FunctionRef, path: str) -> Link | None:
    """A method that makes another object, which keeps this one: ``return Pupil(self.dim, coach=self)``."""
    returned = [stmt.value for stmt in method.define.statements if isinstance(stmt, t.Return)]
    value = returned[0] if len(returned) == 1 else None
    made = method.assigned.get(value.id, []) if isinstance(value, t.Name) else [value]
    call = made[0] if len(made) == 1 else None
    cls = method.module.value_of(call.func).ref if isinstance(call, t.Call) else None
    if not isinstance(call, t.Call) or not isinstance(cls, Class) or method.owner is None:
        return None
    own = [arg.value for arg in call.args if not arg.star and t.path_of(arg.value) == "self"]
    return _of_object(cls, call, own[0], path) if len(own) == 1 else None


def _of_object(cls: Class, call: t.Call, given: t.Expr, path: str) -> Link | None:
    """An object whose constructor keeps what it is given, as it is or in a tuple."""
    constructor = cls.method("__init__")
    if constructor is None:
        return None
    names = [name for name, value in constructor.given_by(call).items() if value is given]
    for stmt, attribute in _kept(constructor, names[0]) if names else ():
        is_model = is_part_of_result(cls, attribute) and adds_something(cls, call, given, path)
        return Link(path, "object", Site(constructor.chunk, stmt), attribute, is_model)
    return None


def _kept(constructor: FunctionRef, name: str) -> Iterator[tuple[t.Stmt, str]]:
    """``self.coach = coach``, ``self.coach = (coach,)``, each with the attribute; not under a condition."""
    for stmt in constructor.define.body if name not in constructor.names[0] else ():
        for target, value in t.pairs(stmt.targets, stmt.value) if isinstance(stmt, t.Assign) else ():
            items = value.items if isinstance(value, t.Display) else [value]
            path = t.path_of(target) or ""
            is_it = any(isinstance(item, t.Name) and item.id == name for item in items)
            if is_it and path.startswith("self.") and path[5:].isidentifier():
                yield stmt, path[5:]
