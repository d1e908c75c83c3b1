"""Which methods of one object call which others of it."""

from __future__ import annotations

from collections.abc import Iterable

from gradguard.static.classes import Class
from gradguard.static.functions import FunctionRef


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
