"""Straight-through estimators that come before the loss of the codebook: from there on the codebook has no gradient."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.mistakes import EstimatedEarly

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_DISTANCE = re.compile(r"loss|mse|l1|criterion|dist", re.I)


def estimated_early(flow: Flow) -> Iterator[EstimatedEarly]:
    """The estimators ``q = z + (q - z).detach()`` after which ``q`` is compared with ``z.detach()``."""
    for stmt in flow.ref.define.statements:
        if not isinstance(stmt, t.Assign) or len(stmt.targets) != 1:
            continue
        chosen = t.path_of(stmt.targets[0])
        encoded = _goes_through_to(stmt.value, chosen) if chosen is not None else None
        line = flow.site(stmt).line
        if encoded is None or len(flow.ref.assigned.get(str(chosen), [])) > _BOUND_TWICE:
            continue
        for node in flow.ref.define.nodes:
            if _compares(node, str(chosen), encoded) and isinstance(node, t.Expr) and flow.site(node).line > line:
                yield EstimatedEarly(flow.site(stmt), flow.site(node), str(chosen), encoded)
                break


_BOUND_TWICE = 2


def _goes_through_to(value: t.Expr, chosen: str) -> str | None:
    """``z`` of ``z + (q - z).detach()``."""
    operands = value.operands if isinstance(value, t.Operation) and value.operator == "+" else []
    for here, other in (operands, operands[::-1]) if len(operands) == 2 else ():
        path, difference = t.path_of(here), _detached(other)
        of = difference.operands if isinstance(difference, t.Operation) and difference.operator == "-" else []
        if path is not None and [t.path_of(operand) for operand in of] == [chosen, path]:
            return path
    return None


def _detached(expr: t.Expr) -> t.Expr | None:
    is_detach = isinstance(expr, t.Call) and isinstance(expr.func, t.Attribute) and expr.func.name == "detach"
    return expr.func.value if is_detach else None  # type: ignore[attr-defined]


def _compares(node: t.Node, chosen: str, encoded: str) -> bool:
    """``F.mse_loss(q, z.detach())``, ``q - z.detach()``."""
    if isinstance(node, t.Call):
        sides = [arg.value for arg in node.args] if _DISTANCE.search(node.name) is not None else []
    else:
        sides = node.operands if isinstance(node, t.Operation) and node.operator == "-" else []
    cut = (inner for side in sides if (inner := _detached(side)) is not None)
    return chosen in map(t.path_of, sides) and encoded in map(t.path_of, cut)
