"""Statements that change a variable in place through ``.data`` or ``.detach()``, as they are written."""

from __future__ import annotations

from typing import NamedTuple

from gradguard.static import tree as t

_SCALES = frozenset("mul_ div_ multiply_ divide_ true_divide_".split())
_ADDS = frozenset("add_ sub_ subtract_".split())
_FILLS = frozenset("masked_fill_ index_fill_".split())
_SCALING, _ADDING = frozenset(("*", "/")), frozenset(("+", "-"))
_SCALING_TO = frozenset("mul div multiply divide where masked_fill".split())


class Written(NamedTuple):
    """What a statement changes behind autograd's back.

    Args:
        name: the variable.
        is_watched: it is changed through ``.detach()``, which counts as a change of the tensor itself.
        is_sum: something is added to it; otherwise it is scaled, or filled in.
        operands: what it is changed with.
    """

    name: str
    is_watched: bool
    is_sum: bool
    operands: tuple[t.Expr, ...]


def written(stmt: t.Stmt) -> Written | None:
    """What ``h.data.mul_(mask)``, ``h.data[i] = 0`` or ``h.data *= mask`` changes, as it is written."""
    if isinstance(stmt, t.Evaluate):
        return _by_call(stmt.value) if isinstance(stmt.value, t.Call) else None
    if isinstance(stmt, t.Assign):
        target = stmt.targets[0]
        is_filled = isinstance(target, t.Subscript) and len(stmt.targets) == 1 and isinstance(stmt.value, t.Constant)
        is_number = is_filled and isinstance(stmt.value, t.Constant) and _is_small(stmt.value)
        return _of(target.value, False, ()) if is_number and isinstance(target, t.Subscript) else None
    if isinstance(stmt, t.Augment) and (stmt.operator in _SCALING or stmt.operator in _ADDING):
        return _of(stmt.target, stmt.operator in _ADDING, (stmt.value,))
    return None


def _by_call(call: t.Call) -> Written | None:
    func, name, given = call.func, call.name, tuple(arg.value for arg in call.args)
    if (out := call.argument("out")) is not None:
        return _of(out, False, given) if name in _SCALING_TO else None
    if not isinstance(func, t.Attribute) or not (name in _SCALES or name in _ADDS or name in _FILLS):
        return None
    if name in _FILLS and not (given and _is_small(given[-1])):
        return None
    return _of(func.value, name in _ADDS, given)


def _is_small(value: t.Expr) -> bool:
    """Whether it is 0 or 1; what a softmax makes 0 of has no gradient anyway."""
    return isinstance(value, t.Constant) and type(value.value) in (int, float) and value.value in (0, 1)


def _of(changed: t.Expr, is_sum: bool, operands: tuple[t.Expr, ...]) -> Written | None:
    """The variable behind ``h.data``, ``h[:, 0].detach()``, ``h.data[mask]``."""
    while isinstance(changed, t.Subscript):
        changed = changed.value
    is_data = isinstance(changed, t.Attribute) and changed.name == "data"
    whole = changed.value if isinstance(changed, t.Attribute) and is_data else t.detached(changed)
    while isinstance(whole, t.Subscript):
        whole = whole.value
    return Written(whole.id, not is_data, is_sum, operands) if isinstance(whole, t.Name) else None
