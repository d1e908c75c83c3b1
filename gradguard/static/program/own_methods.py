"""Which methods of one object call which others of it."""

from __future__ import annotations

from collections.abc import Iterable

from gradguard.static import tree as t
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef


def methods_of(cls: Class) -> list[FunctionRef]:
    """All methods of a class and of its bases in the project, also those that another one stands before."""
    return [method for each in cls.lineage() for method in each.methods.values()]


def reached(methods: list[FunctionRef], names: Iterable[str]) -> set[str]:
    """The methods of some names, and those that they call on their own object, in whatever class of its lineage."""
    found: set[str] = set()
    waiting = set(names)
    while waiting:
        name = waiting.pop()
        found.add(name)
        called = (each for method in methods if method.define.name == name for each in method.own_calls)
        waiting.update(set(called) - found)
    return found


def leading_to(methods: list[FunctionRef], names: Iterable[str]) -> set[str]:
    """The methods of some names, and those that call them, or call what does."""
    found = set(names)
    while more := {m.define.name for m in methods if not found.isdisjoint(m.own_calls)} - found:
        found |= more
    return found


def is_object(cls: Class, caller: FunctionRef, receiver: str) -> bool:
    """Whether what is at a path of another function is an object of a class, as far as that is written."""
    if receiver == "self":
        own = list(caller.owner.lineage()) if caller.owner is not None else []
        return any(base is each for base in cls.lineage() for each in own)
    made = [value.func for value in caller.assigned.get(receiver, []) if isinstance(value, t.Call)]
    classes = (caller.module.value_of(func).ref for func in made)
    return any(isinstance(each, Class) and any(cls is base for base in each.lineage()) for each in classes)
