"""Whether a tensor has one element, as far as that is written: what ``.item()`` may be called on."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gradguard.static import tree as t
from gradguard.static.knowledge import LOSS_CALLABLE, LOSS_NAME, MOVING_METHODS

_REDUCING = frozenset("sum mean prod norm std var median nansum nanmean".split())
_JOINING = frozenset("cat concat stack vstack hstack".split())
_LOSS_FUNCTION = re.compile(r"\b(?:cross_entropy|binary_cross_entropy\w*|kl_div)$")
_WITH_METHODS = MOVING_METHODS | {"clone", "abs", "neg", "exp", "sqrt", "square"}
_LEVELS = 4
"""Names that are followed to what they are bound to, one after another."""


def is_scalar(expr: t.Node | None, body: Sequence[t.Stmt]) -> bool | None:
    """Whether an expression is one number as a tensor: surely, surely not in general, or None when nothing tells.

    Args:
        expr: a tensor.
        body: statements around it, which bind its names.
    """
    return _Scalars(body).holds(expr, _LEVELS)


class _Scalars:
    """What is known of the names of a block, each of which is asked for once: where ways part, many lead to it."""

    def __init__(self, body: Sequence[t.Stmt]) -> None:
        self.body = body
        self._known: dict[tuple[str, int], bool | None] = {}

    def holds(self, expr: t.Node | None, levels: int) -> bool | None:
        """Whether an expression is one number, of which names are followed a number of times."""
        if isinstance(expr, t.Name):
            return self._of_name(expr.id, levels)
        if isinstance(expr, t.Operation) and expr.operator in ("+", "-", "*", "/", "**"):
            return _all_alike([self.holds(o, levels) for o in expr.operands if not isinstance(o, t.Constant)])
        if isinstance(expr, t.Subscript) and isinstance(expr.value, t.Call):
            return False if self.holds(expr.value, levels) is False else None
        return self._of_call(expr, levels) if isinstance(expr, t.Call) else None

    def _of_name(self, name: str, levels: int) -> bool | None:
        if (name, levels) not in self._known:
            bound = bound_to(name, self.body) if levels else []
            found = _all_alike([self.holds(value, levels - 1) for value in bound])
            is_loss = found is None and (LOSS_NAME.search(name) is not None or _is_backpropagated(name, self.body))
            self._known[name, levels] = True if is_loss else found
        return self._known[name, levels]

    def _of_call(self, call: t.Call, levels: int) -> bool | None:
        func = call.func
        path = t.path_of(func) or ""
        name = func.name if isinstance(func, t.Attribute) else path
        of_torch = path.startswith(("torch.", "F."))
        if name == "norm" and isinstance(func, t.Attribute) and len(call.args) - of_torch == 1:
            return call.argument("dim") is None  # of all dimensions, with another exponent
        if name in _REDUCING and isinstance(func, t.Attribute):
            return len(call.args) == of_torch  # of all dimensions
        if name in _JOINING:
            return False
        if name in _WITH_METHODS and isinstance(func, t.Attribute) and not of_torch:
            return self.holds(func.value, levels)
        if LOSS_CALLABLE.search(path) or _LOSS_FUNCTION.search(path):
            reduction = call.argument("reduction")
            return not (isinstance(reduction, t.Constant) and reduction.value == "none")
        return None


def _is_backpropagated(name: str, body: Sequence[t.Stmt]) -> bool:
    """Whether ``x.backward()`` is called, which torch refuses where there are several elements."""
    funcs = (node.func for node in t.walk(body) if isinstance(node, t.Call) and not node.args)
    return any(isinstance(f, t.Attribute) and f.name == "backward" and t.path_of(f.value) == name for f in funcs)


def _all_alike(found: Sequence[bool | None]) -> bool | None:
    """What holds of a result: one that is computed of a tensor with several elements has several."""
    if False in found:
        return False
    return True if found and None not in found else None


def bound_to(path: str, body: Sequence[t.Stmt]) -> list[t.Expr]:
    """What a name, or an attribute, is bound to, wherever that is written."""
    assigns = (stmt for stmt in t.walk(body) if isinstance(stmt, t.Assign))
    pairs = (pair for stmt in assigns for pair in t.pairs(stmt.targets, stmt.value))
    return [value for target, value in pairs if t.path_of(target) == path]
