"""Entries of a ``WeakKeyDictionary`` whose values have their keys: no such entry ever goes.

``memo[batch] = Encoded(batch, hidden)``: the dict keeps the value, and that keeps the key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.kept.never_emptied import is_never_emptied
from gradguard.static.mistakes.kept import KeptKey
from gradguard.static.program.classes import Class
from gradguard.static.program.names import in_method
from gradguard.static.reading.places import assigned_anywhere

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_BACKWARD = re.compile(r"\bbackward\(")
_KEEPING = ("partial", "SimpleNamespace")


def kept_keys(flow: Flow) -> Iterator[KeptKey]:
    """The statements that put a value with its own key under a weak key, in a program that trains."""
    for stmt in flow.ref.define.statements:
        for target in stmt.targets if isinstance(stmt, t.Assign) else ():
            if not isinstance(stmt, t.Assign) or not isinstance(target, t.Subscript):
                continue
            key, path = target.index, t.path_of(target.value)
            if not isinstance(key, t.Name) or path is None or not _is_weak(flow, path):
                continue
            if not _holds(flow, stmt.value, key.id) or not is_never_emptied(flow, path):
                continue
            if flow.project.survey.mentions(_BACKWARD, flow.module):
                yield KeptKey(flow.site(stmt), in_method(path), key.id)


def _is_weak(flow: Flow, path: str) -> bool:
    """Whether all that is made for a path is a dict that does not keep its keys."""
    made = assigned_anywhere(flow, path)
    return bool(made) and all(isinstance(value, t.Call) and value.name == "WeakKeyDictionary" for value in made)


def _holds(flow: Flow, value: t.Expr, key: str) -> bool:
    """Whether what is stored surely has a variable in it: in a tuple, or in an object that keeps what it is given."""
    if isinstance(value, t.Name):
        made = flow.ref.assigned.get(value.id, [])
        return value.id != key and len(made) == 1 and _holds(flow, made[0], key)
    if isinstance(value, t.Display):
        return any(
            _is_it(item, key) or (not isinstance(item, t.Name) and _holds(flow, item, key)) for item in value.items
        )
    if isinstance(value, t.DictDisplay):
        return any(_is_it(item, key) for _, item in value.entries)
    return isinstance(value, t.Call) and any(_is_it(arg.value, key) and _keeps(flow, value, arg) for arg in value.args)


def _is_it(item: t.Expr, key: str) -> bool:
    return isinstance(item, t.Name) and item.id == key


def _keeps(flow: Flow, call: t.Call, given: t.Arg) -> bool:
    """Whether an object that is made keeps one of the arguments, as it is."""
    if call.name in _KEEPING:
        return True
    cls = flow.module.value_of(call.func).ref
    if not isinstance(cls, Class) or given.star:
        return False
    constructor = cls.method("__init__")
    names = [param.name for param in constructor.define.params[1:]] if constructor is not None else list(cls.fields)
    number = call.args.index(given)
    name = given.keyword or (names[number] if number < len(names) else None)
    if constructor is None:
        return cls.is_record and name in names and name not in cls.replaced_fields
    kept = (each for base in cls.lineage() for each in base.kept_names)
    return any(ref.define is constructor.define and param == name for _, ref, param in kept)
