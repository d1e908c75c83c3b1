"""Finalizers that are given their own object: ``weakref.finalize(x, gone, x)``.

Their registry keeps the function and its arguments until the object is gone, which then it never is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.mistakes.kept import KeptByFinalizer
from gradguard.static.program.classes import Class
from gradguard.static.values import Kind

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_SETTINGS = ("atexit", "alive")
_UNBOUND = frozenset("staticmethod classmethod property cached_property".split())


def kept_by_finalizers(flow: Flow) -> Iterator[KeptByFinalizer]:
    """The calls that make one, each with what of it holds the object."""
    for call in flow.ref.calls:
        if call.name != "finalize" or len(call.args) < 2 or flow.module.value_of(call.func).ref != "weakref.finalize":
            continue
        watched = t.path_of(call.args[0].value)
        given = [arg.value for arg in call.args[1:]]
        holding = next((each for each in given if watched is not None and _holds(flow, each, watched)), None)
        if watched is not None and holding is not None and not _may_be_ended(flow, call):
            yield KeptByFinalizer(flow.site(call), watched, flow.site(holding))


def _holds(flow: Flow, expr: t.Expr, watched: str, *, is_made_before: bool = False) -> bool:
    """Whether something surely holds an object as long as it is there itself."""
    path = t.path_of(expr)
    if path == watched:
        return True
    if isinstance(expr, t.Display):
        return any(_holds(flow, item, watched) for item in expr.items)
    if isinstance(expr, t.Call) and flow.module.value_of(expr.func).ref == "functools.partial":
        return any(_holds(flow, arg.value, watched) for arg in expr.args)
    if isinstance(expr, t.Attribute):
        return t.path_of(expr.value) == watched and _is_bound(flow, watched, expr.name)
    if isinstance(expr, t.Lambda):
        defaults = (param.default for param in expr.params)
        is_default = any(default is not None and _holds(flow, default, watched) for default in defaults)
        names = [param.name for param in expr.params]
        return is_default or (watched not in names and _closes_over(flow, expr.body, watched))
    if not isinstance(expr, t.Name) or is_made_before:
        return False
    inner = [node for node in flow.ref.define.all(t.Define) if node.name == expr.id]
    if len(inner) == 1:
        names = [param.name for param in inner[0].params]
        return watched not in names and _closes_over(flow, inner[0].body, watched)
    made = flow.ref.assigned.get(expr.id, [])
    return len(made) == 1 and _holds(flow, made[0], watched, is_made_before=True)


def _is_bound(flow: Flow, watched: str, name: str) -> bool:
    """Whether an attribute of an object is one of its methods, which holds it."""
    found = flow.read(flow.canonical(watched), flow.final)
    cls = flow.ref.owner if watched == "self" else found.ref
    method = cls.method(name) if isinstance(cls, Class) else None
    if method is None:
        return found.kind is Kind.TENSOR and name in ("backward", "detach_", "zero_", "retain_grad")
    names = ((t.path_of(each) or "").rsplit(".", 1)[-1] for each in method.define.decorators)
    return all(each not in _UNBOUND for each in names)


def _closes_over(flow: Flow, body: object, watched: str) -> bool:
    """Whether a function within this one sees a variable of it, which goes on to mean the same object."""
    is_own = watched in flow.locals or watched in flow.params
    if not is_own or flow.ref.define.name == "<module>":
        return False
    if len(flow.ref.assigned.get(watched, [])) > (0 if watched in flow.params else 1):
        return False
    bound = (name for stmt in flow.ref.define.statements for each in _targets(stmt) for name in t.names_in(each))
    if any(t.path_of(name) == watched for name in bound):
        return False
    nodes = list(t.walk(body))
    is_bound = any(isinstance(n, t.Assign) and watched in map(t.path_of, n.targets) for n in nodes)
    return not is_bound and any(isinstance(node, t.Name) and node.id == watched for node in nodes)


def _targets(stmt: t.Stmt) -> list[t.Expr]:
    """What a loop binds, and what is deleted."""
    if isinstance(stmt, t.Repeat):
        return [stmt.target] if stmt.target is not None else []
    return stmt.targets if isinstance(stmt, t.Delete) else []


def _may_be_ended(flow: Flow, call: t.Call) -> bool:
    """Whether the finalizer may be run by hand, or taken back: ``self.end()``, ``self.end.detach()``."""
    statements = [stmt for stmt in flow.ref.define.statements if isinstance(stmt, t.Assign)]
    is_set = any(isinstance(each, t.Attribute) and each.value is call for stmt in statements for each in stmt.targets)
    if is_set or call in flow.ref.calls_for_effect:  # weakref.finalize(x, gone).atexit = False
        return False
    kept = [path for path, values in flow.ref.assigned.items() if call in values]
    return not kept or any(_is_used(flow, path) for path in kept)


def _is_used(flow: Flow, path: str) -> bool:
    """Whether anything asks for a finalizer that has a name, but to set it up: ``end.atexit = False``."""
    base, _, name = path.rpartition(".")
    nodes = flow.ref.define.nodes
    if not base and path in flow.locals:
        set_up = {node.value for node in nodes if isinstance(node, t.Attribute) and node.name in _SETTINGS}
        bound = {each for node in nodes if isinstance(node, t.Assign) for each in node.targets}
        uses = (node for node in nodes if isinstance(node, t.Name) and node.id == name)
        return any(node not in set_up and node not in bound for node in uses)
    uses_it = rf"\b{name}\b(?!\s*(?:=(?!=)|:))(?!\.(?:{'|'.join(_SETTINGS)})\b)"
    return not name.isidentifier() or flow.project.survey.mentions(re.compile(uses_it), flow.module)
