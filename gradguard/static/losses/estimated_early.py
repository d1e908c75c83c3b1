"""Straight-through estimators that come before the loss of the codebook: from there on the codebook has no gradient."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.mistakes.losses import EstimatedEarly
from gradguard.static.optimizers.trained_apart import cut
from gradguard.static.program.bound_paths import binds
from gradguard.static.program.order import following

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_DISTANCE = re.compile(r"loss|mse|l1|criterion|dist", re.I)


def estimated_early(flow: Flow) -> Iterator[EstimatedEarly]:
    """The estimators ``q = z + (q - z).detach()`` whose result is compared with ``z.detach()``, whatever its name."""
    for stmt in flow.ref.define.statements:
        result = t.path_of(stmt.targets[0]) if isinstance(stmt, t.Assign) and len(stmt.targets) == 1 else None
        if not isinstance(stmt, t.Assign) or result is None:
            continue
        chosen, encoded = _goes_through(stmt.value)
        loss = _compared_after(flow, stmt, result, encoded) if encoded not in (None, result) else None
        if chosen is not None and encoded is not None and loss is not None:
            yield EstimatedEarly(flow.site(stmt), flow.site(loss), result, chosen, encoded)


def _goes_through(value: t.Expr) -> tuple[str | None, str | None]:
    """``q`` and ``z`` of ``z + (q - z).detach()``."""
    operands = value.operands if isinstance(value, t.Operation) and value.operator == "+" else []
    for here, other in (operands, operands[::-1]) if len(operands) == 2 else ():
        path, difference = t.path_of(here), t.detached(other)
        of = difference.operands if isinstance(difference, t.Operation) and difference.operator == "-" else []
        if path is not None and len(of) == 2 and t.path_of(of[1]) == path:
            return t.path_of(of[0]), path
    return None, None


def _compared_after(flow: Flow, stmt: t.Stmt, chosen: str, encoded: str | None) -> t.Expr | None:
    """What compares the two after a statement, before either is bound to something else."""
    if encoded is None:
        return None
    shown = set(_shown(flow.ref.define))
    for each in following(flow.ref.define.body, stmt):
        exprs = (node for node in t.walk(each) if isinstance(node, t.Expr) and node not in shown)
        compared = (node for node in exprs if _compares(node, chosen, encoded))
        found = next(compared, None)
        if found is not None or binds(each, chosen) or binds(each, encoded):
            return found
    return None


def _shown(define: t.Define) -> Iterator[t.Node]:
    """What only numbers are taken of, or is computed without a graph."""
    yield from cut(define)
    for node in define.nodes:
        if isinstance(node, t.Call) and isinstance(node.func, t.Attribute) and node.name in ("item", "tolist"):
            yield from t.walk(node.func.value)


def _compares(node: t.Expr, chosen: str, encoded: str) -> bool:
    """``F.mse_loss(q, z.detach())``, ``q - z.detach()``."""
    if isinstance(node, t.Call):
        sides = [arg.value for arg in node.args] if _DISTANCE.search(node.name) is not None else []
    else:
        sides = node.operands if isinstance(node, t.Operation) and node.operator == "-" else []
    cut = (inner for side in sides if (inner := t.detached(side)) is not None)
    return chosen in map(t.path_of, sides) and encoded in map(t.path_of, cut)
