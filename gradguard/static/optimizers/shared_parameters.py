"""Modules that may have parameters in common, by what they are made with and what is assigned between them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.paths import is_part
from gradguard.static.reading.module_calls import made_at
from gradguard.static.reading.places import assigned_anywhere
from gradguard.static.values import Kind

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_MODULE = re.compile(
    r"(?:emb(?:ed(?:der|dings?)?)?|(?:en|de)coder|backbone|body|shared|layers?|modules?|net(?:work)?|model)\d*$",
    re.I,
)


def may_share(flow: Flow, one: str, other: str) -> bool:
    """Whether two modules may have parameters in common: one is made of the other, or both of a third one.

    Or one is given a part of the other: ``critic.body = actor.body``.
    """
    ours, theirs = set(_made_of(flow, one)), set(_made_of(flow, other))
    if any(_concern(path, other) for path in ours) or any(_concern(path, one) for path in theirs):
        return True
    if any(_may_be_module(flow, path) for path in sorted(ours & theirs)):
        return True
    pairs = [pair for ref in _scopes(flow) for pair in _assigned(ref)]
    return any(
        (is_part(target, one) and is_part(value, other)) or (is_part(target, other) and is_part(value, one))
        for target, value in pairs
    )


def _made_of(flow: Flow, path: str) -> Iterator[str]:
    """What a module is made with, by the paths of it."""
    for call in (*made_at(flow, path), *_made_in_tuples(flow, path)):
        given = [item for arg in call.args for item in _items(arg.value)]
        yield from (found for item in given if (found := t.path_of(item)) is not None)


def _made_in_tuples(flow: Flow, path: str) -> Iterator[t.Call]:
    """``Critic(words)`` of ``actor, critic = Actor(words), Critic(words)``."""
    for ref in _scopes(flow):
        for stmt in ref.define.statements:
            if isinstance(stmt, t.Assign) and isinstance(stmt.value, t.Display):
                pairs = t.pairs(stmt.targets, stmt.value)
                yield from (made for target, made in pairs if isinstance(made, t.Call) and t.path_of(target) == path)


def _items(expr: t.Expr) -> list[t.Expr]:
    return list(expr.items) if isinstance(expr, t.Display) else [expr]


def _concern(path: str, module: str) -> bool:
    """Whether one of two paths leads to what is in the other one; an object has its modules, and is none itself."""
    return is_part(path, module) or (path != "self" and is_part(module, path))


def _may_be_module(flow: Flow, path: str) -> bool:
    """Whether what is at a path may be a module, by its name or by what makes it: no number, no setting."""
    if _MODULE.search(path.rpartition(".")[2]) is not None:
        return True
    made = (value for value in assigned_anywhere(flow, path) if isinstance(value, t.Call))
    return any(_makes_module(flow, call) for call in made)


def _makes_module(flow: Flow, call: t.Call) -> bool:
    maker = flow.module.value_of(call.func)
    if maker.kind is Kind.EXTERNAL:
        return str(maker.ref).startswith("torch.nn.")
    return isinstance(maker.ref, Class) and maker.ref.is_module


def _scopes(flow: Flow) -> Iterator[FunctionRef]:
    """A function, and the methods of its object."""
    yield flow.ref
    for cls in flow.ref.owner.lineage() if flow.ref.owner is not None else ():
        yield from cls.methods.values()


def _assigned(ref: FunctionRef) -> Iterator[tuple[str, str]]:
    for target, values in ref.assigned.items():
        yield from ((target, path) for value in values if (path := t.path_of(value)) is not None)
