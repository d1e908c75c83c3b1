"""The classes of the program of which a call may make an object, where a name picks one: ``LOSSES[args.loss](512)``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gradguard.signs import CHOOSES_LOSS
from gradguard.static import tree as t
from gradguard.static.optimizers.made_modules import makers_of
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef

_DEEPEST = 6


def classes_chosen(ref: FunctionRef, call: t.Call) -> list[Class]:
    """Those in a dict, or of a function that gives what it made; none that is known of what anything else gives."""
    callee = ref.callee(call) if re.fullmatch(CHOOSES_LOSS, call.name) is not None else None
    return list(dict.fromkeys(_given_by(callee, 0) if callee is not None else _picked(ref, call.func, 0)))


def _given_by(function: FunctionRef, depth: int) -> Iterator[Class]:
    """The classes of what a function gives that it made, itself or by another one."""
    for given in function.given_back():
        if isinstance(given, t.Call):
            yield from _made_by(function, given, depth + 1)


def _made_by(ref: FunctionRef, call: t.Call, depth: int) -> Iterator[Class]:
    callee = ref.callee(call) if depth < _DEEPEST else None
    yield from _given_by(callee, depth) if callee is not None else _picked(ref, call.func, depth, is_sure=True)


def _picked(ref: FunctionRef, maker: t.Expr, depth: int, *, is_sure: bool = False) -> Iterator[Class]:
    """The classes that an expression may be.

    Args:
        is_sure: also one that is named there, where nothing picks.
    """
    if depth > _DEEPEST:
        return
    named = ref.module.value_of(maker).ref if isinstance(maker, t.Name | t.Attribute) else None
    values = ref.assigned.get(maker.id, []) if isinstance(maker, t.Name) else []
    if isinstance(named, Class) and not values:
        yield from (named,) if is_sure else ()
    elif isinstance(maker, t.Conditional):
        for way in (maker.body, maker.orelse):
            yield from _picked(ref, way, depth + 1, is_sure=True)
    elif isinstance(maker, t.Subscript):
        yield from _in_dict(ref, maker.value, depth)
    elif isinstance(maker, t.Call) and maker.name == "get" and isinstance(maker.func, t.Attribute):
        yield from _in_dict(ref, maker.func.value, depth)
    elif isinstance(maker, t.Call) and (callee := ref.callee(maker)) is not None:
        for given in callee.given_back():
            yield from _picked(callee, given, depth + 1, is_sure=True)
    elif len(values) == 1:
        yield from _picked(ref, values[0], depth + 1, is_sure=True)


def _in_dict(ref: FunctionRef, registry: t.Expr, depth: int) -> Iterator[Class]:
    """The classes in a dict that is written out there, that the function makes, or that the program has."""
    written = ref.bound_to(registry)
    entries = [value for each in written if isinstance(each, t.DictDisplay) for _, value in each.entries]
    for maker in entries:
        yield from _of_entry(ref, maker, depth)
    for script, entry in makers_of(ref, registry) if not entries else ():
        yield from _of_entry(script, entry, depth)


def _of_entry(ref: FunctionRef, maker: t.Expr | FunctionRef | Class, depth: int) -> Iterator[Class]:
    if isinstance(maker, Class):
        yield maker
    elif isinstance(maker, FunctionRef):
        yield from _given_by(maker, depth + 1)
    elif isinstance(maker, t.Lambda):
        yield from _made_by(ref, maker.body, depth + 1) if isinstance(maker.body, t.Call) else ()
    elif isinstance(function := ref.module.value_of(maker).ref, FunctionRef):
        yield from _given_by(function, depth + 1)
    else:
        yield from _picked(ref, maker, depth + 1, is_sure=True)
