"""Losses that a ``GradScaler`` has multiplied: their gradients are too large until it divides them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.program.classes import Class
from gradguard.static.reading.called import Called
from gradguard.static.values import Kind, Value

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

STEPS_BY_SCALER = re.compile(r"(?i:scaler)\w*(?:\(\))?\.step\(|\.step\(\s*(?:[\w.]*(?i:opt)|\*)")
"""A scaler takes a step, under whatever name: it is given an optimizer."""


def is_scaled(c: Called, loss: t.Expr | None) -> bool:
    """``scaler.scale(loss)``, also where the function gives that a name."""
    if isinstance(loss, t.Name):
        bound = c.flow.ref.assigned.get(loss.id, [])
        return bool(bound) and all(_scales(c, value) for value in bound)
    return loss is not None and _scales(c, loss)


def _scales(c: Called, value: t.Expr) -> bool:
    func = value.func if isinstance(value, t.Call) else None
    path = t.path_of(func.value) if isinstance(func, t.Attribute) and func.name == "scale" else None
    if path is None:
        return False
    scaler = c.flow.read(c.flow.canonical(path), c.state)
    is_scaler = k.SCALER_NAME.search(path) is not None or scaler.kind is Kind.SCALER
    return is_scaler and not _is_otherwise(c.flow, path, scaler)


def is_of_own_kind(flow: Flow, path: str) -> bool:
    """Whether a scaler may do something else than one of torch that is on: it is off, or a class of the program."""
    return _is_otherwise(flow, path, flow.read(flow.canonical(path), flow.final))


def _is_otherwise(flow: Flow, path: str, scaler: Value) -> bool:
    if isinstance(scaler.ref, Class) and not _is_of_torch(scaler.ref):
        return True
    return any(_is_switched_off(made) or _is_given(made, path) for made in _made(flow, path))


def _is_of_torch(scaler: Class) -> bool:
    """Whether a class of the program is, or has, one of torch: another one divides the gradients in its own way."""
    return any("GradScaler" in cls.chunk.program for cls in scaler.lineage())


def _made(flow: Flow, path: str) -> Iterator[t.Call]:
    """The calls of which a variable, or an attribute of the object, is made; and of which something is made of it."""
    bound = flow.ref.assigned
    values = [value for name, made in bound.items() for value in made if name == path or _is_given(value, path)]
    owner = flow.ref.owner
    for name in owner.assigned_names if owner is not None and path.startswith("self.") else ():
        made = [value for _, value in owner.assigned(name)] if owner is not None else []
        values += [value for value in made if f"self.{name}" == path or _is_given(value, path)]
    return (value for value in values if isinstance(value, t.Call))


def _is_switched_off(made: t.Call) -> bool:
    """``GradScaler(enabled=False)``, which gives a loss back as it is."""
    enabled = made.argument("enabled")
    return isinstance(enabled, t.Constant) and enabled.value is False


def _is_given(made: t.Expr, scaler: str) -> bool:
    """Whether something is made that knows the scaler, and may divide as it steps: ``AmpOptimizer(adam, scaler)``."""
    return isinstance(made, t.Call) and any(t.path_of(arg.value) == scaler for arg in made.args)
