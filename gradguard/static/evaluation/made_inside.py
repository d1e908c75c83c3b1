"""Whether a module is a part of an object that a function makes for itself: no caller has it, nor its mode."""

from __future__ import annotations

import re

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef

_MODEL = re.compile(
    r"model|net|encoder|decoder|backbone|module|extractor|student|teacher|critic|actor|policy|embed|layer|head|body",
    re.I,
)


def is_made_inside(ref: FunctionRef, path: str) -> bool:
    """Whether a path leads to what an object of its own makes: ``self.net`` of ``probe = Probe(8)``.

    Args:
        ref: the function that has the path.
    """
    head, _, rest = path.partition(".")
    name, bound = rest.partition(".")[0], ref.assigned.get(head, [])
    if not name or not bound or any(param.name == head for param in ref.define.params):
        return False
    classes = [ref.module.value_of(value.func).ref if isinstance(value, t.Call) else None for value in bound]
    return all(isinstance(cls, Class) and _makes(cls, name) for cls in classes)


def _makes(cls: Class, name: str) -> bool:
    values = [value for each in cls.lineage() for _, value in each.assigned(name)]
    return bool(values) and all(map(_is_new, values))


def _is_new(value: t.Expr) -> bool:
    """Whether a call makes something, and is given nothing that may be a module."""
    while isinstance(value, t.Call) and isinstance(value.func, t.Attribute) and value.func.name in k.FLUENT_METHODS:
        value = value.func.value
    if not isinstance(value, t.Call):
        return False
    return not any(_MODEL.search(t.path_of(arg.value) or "") for arg in value.args)
