"""Losses that a ``GradScaler`` has multiplied: their gradients are too large until it divides them."""

from __future__ import annotations

import re

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.called import Called
from gradguard.static.values import Kind

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
    return k.SCALER_NAME.search(path) is not None or c.flow.read(c.flow.canonical(path), c.state).kind is Kind.SCALER
