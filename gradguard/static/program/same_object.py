"""One object under two paths: what another object is made with, and keeps.

``self.head = Head(self.memory)``, where ``Head`` keeps it as ``self.memory``: ``self.head.memory`` is ``self.memory``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.program.parameters import making

if TYPE_CHECKING:
    from gradguard.static.program.classes import Class


def other_paths(cls: Class) -> dict[str, str]:
    """The paths, in the methods of a class, by which its parts have what it has itself; each with that."""
    constructor = cls.methods.get("__init__")
    if constructor is None or "(" not in constructor.chunk.text:
        return {}
    found: dict[str, str] = {}
    for stmt in constructor.define.body:
        for target, value in t.pairs(stmt.targets, stmt.value) if isinstance(stmt, t.Assign) else ():
            made, part = making(value), t.path_of(target) or ""
            if made is not None and _is_bound_once(cls, part):
                found.update((f"{part}.{name}", own) for name, own in _kept(cls, made) if own != part)
    return found


def _is_bound_once(cls: Class, path: str) -> bool:
    head, _, name = path.partition(".")
    return head == "self" and name.isidentifier() and len(cls.assigned(name)) == 1


def _kept(cls: Class, made: t.Call) -> Iterator[tuple[str, str]]:
    """The attributes by which an object keeps what a class gives to its constructor of its own, each with that."""
    maker = cls.module.value_of(made.func).ref if made.args else None
    constructor = maker.method("__init__") if isinstance(maker, type(cls)) else None
    if not isinstance(maker, type(cls)) or constructor is None:
        return
    for position, param in enumerate(constructor.define.params[1:]):
        given = made.argument(param.name, position)
        own = t.path_of(given) if isinstance(given, t.Attribute) else None
        if own is not None and _is_bound_once(cls, own):
            yield from ((name, own) for name in _keeping(maker, constructor.define, param.name))


def _keeping(maker: Class, constructor: t.Define, param: str) -> Iterator[str]:
    """The attributes that a parameter of a constructor is bound to for good, also by that of a base which gets it."""
    calls = (node for node in t.walk(constructor.body) if isinstance(node, t.Call) and _is_of_base(node))
    hands_on = any(t.path_of(arg.value) == param for call in calls for arg in call.args)
    family = [cls for cls in maker.lineage() if "__init__" in cls.methods]
    for cls in family if hands_on else family[:1]:
        assigned = (stmt for stmt in cls.methods["__init__"].define.body if isinstance(stmt, t.Assign))
        bound = (t.path_of(target) or "" for s in assigned if t.path_of(s.value) == param for target in s.targets)
        for head, _, name in (path.partition(".") for path in bound):
            if head == "self" and sum(len(each.assigned(name)) for each in maker.lineage()) == 1:
                yield name


def _is_of_base(call: t.Call) -> bool:
    """``super().__init__(memory)``, ``Base.__init__(self, memory)``."""
    return isinstance(call.func, t.Attribute) and call.func.name == "__init__"
