"""The methods that a statement calls of objects which only the run knows: callbacks, hooks."""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.static import tree as t
from gradguard.static.program.functions import FunctionRef


def fired(ref: FunctionRef, stmt: t.Stmt) -> Iterator[str]:
    """Their names: ``for hook in self.hooks: hook.after_step(self)``, ``self.fire("after_step")`` by ``getattr``."""
    if isinstance(stmt, t.Repeat) and isinstance(stmt.target, t.Name):
        for each in stmt.body:
            call = each.value if isinstance(each, t.Evaluate) else None
            func = call.func if isinstance(call, t.Call) else None
            if isinstance(func, t.Attribute) and t.path_of(func.value) == stmt.target.id:
                yield func.name
    call = stmt.value if isinstance(stmt, t.Evaluate) else None
    callee = ref.callee(call) if isinstance(call, t.Call) else None
    if callee is not None and isinstance(call, t.Call):
        given = callee.given_by(call)
        for param in _names_of_methods(callee):
            told = given.get(param)
            if isinstance(told, t.Constant) and isinstance(told.value, str):
                yield told.value


def _names_of_methods(ref: FunctionRef) -> Iterator[str]:
    """The parameters that name a method which a function calls: ``getattr(hook, name)(self)``."""
    params = {param.name for param in ref.define.params} - set(ref.assigned)
    for call in ref.calls:
        found = call.func
        if isinstance(found, t.Call) and t.path_of(found.func) == "getattr" and len(found.args) > 1:
            name = t.path_of(found.args[1].value)
            if name is not None and name in params:
                yield name
