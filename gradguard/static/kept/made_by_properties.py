"""Properties that make an object anew at each access, which registers hooks on what it is given.

``@property def parallel(self): return Bucketed(self.net)``: the parameters of the one net get one more hook each time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.kept.callback_hooks import FREES_HOOKS, REMOVES
from gradguard.static.mistakes.kept import MadeByProperty
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.own_methods import methods_of, reached
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_REGISTERS = re.compile(r"register_\w*hook$")
_PARTS = frozenset("parameters named_parameters modules named_modules children named_children".split())


def made_by_properties(flow: Flow) -> Iterator[MadeByProperty]:
    """The objects that a property makes so, where a method reads it in each step of a training."""
    owner, define = flow.ref.owner, flow.ref.define
    if owner is None or [t.path_of(each) for each in define.decorators] != ["property"]:
        return
    returned = define.statements[0] if len(define.statements) == 1 else None
    made = returned.value if isinstance(returned, t.Return) else None
    cls = flow.module.value_of(made.func).ref if isinstance(made, t.Call) else None
    if not isinstance(made, t.Call) or not isinstance(cls, Class):
        return
    registration = _registration(cls, made, owner)
    if registration is not None and any(_reads_in_step(method, define.name) for method in methods_of(owner)):
        method, call = registration
        yield MadeByProperty(flow.site(made), define.name, cls.name, Site(method.chunk, call))


def _registration(cls: Class, made: t.Call, owner: Class) -> tuple[FunctionRef, t.Call] | None:
    """Where the constructor of a class registers hooks on the parts of what it is given, and nothing removes them."""
    init = cls.method("__init__")
    given = init.given_by(made) if init is not None else {}
    names = {name for name, value in given.items() if _is_of_object(owner, value)}
    text = "\n".join(each.chunk.program for each in cls.lineage())
    if init is None or not names or REMOVES.search(text) is not None or FREES_HOOKS.search(text) is not None:
        return None
    kept = {name: init.kept_as(name) for name in names if name not in init.assigned}
    paths = {path for path in kept.values() if path is not None and len(cls.assigned(path[5:])) == 1}
    methods = [m for m in methods_of(cls) if m.define.name in reached(methods_of(cls), ["__init__"])]
    asking = (call.func for m in methods for call in m.calls if call.name in _PARTS)
    # One that goes over its argument at once is known where it is called: what it does then is told of the loop.
    parts = [func.value for func in asking if isinstance(func, t.Attribute)]
    if not parts or not all(t.path_of(each) in paths for each in parts):
        return None
    calls = ((m, call) for m in methods for call in m.calls if call in m.calls_for_effect and _registers(m, call))
    return next(calls, None)


def _is_of_object(owner: Class, value: t.Expr) -> bool:
    """Whether it is an attribute that only a constructor sets."""
    path = t.path_of(value) or ""
    name = path.removeprefix("self.")
    made = owner.assigned(name) if path != name and name.isidentifier() else []
    return len(made) == 1 and made[0][0].name == "__init__"


def _registers(method: FunctionRef, call: t.Call) -> bool:
    """Whether a call registers a hook on what a loop goes over."""
    on = call.func.value if isinstance(call.func, t.Attribute) and _REGISTERS.match(call.name) else None
    loops = (stmt for stmt in method.define.statements if isinstance(stmt, t.Repeat) and stmt.target is not None)
    bound = (name for loop in loops if loop.target is not None for name in t.names_in(loop.target))
    is_of_loop = any(isinstance(name, t.Name) and isinstance(on, t.Name) and name.id == on.id for name in bound)
    return is_of_loop and isinstance(on, t.Name) and on.id not in method.assigned


def _reads_in_step(method: FunctionRef, name: str) -> bool:
    """Whether a method reads a property of its object, and does a backward."""
    reads = any(isinstance(node, t.Attribute) and t.path_of(node) == f"self.{name}" for node in method.define.nodes)
    return reads and method.trains
