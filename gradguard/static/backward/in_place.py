"""What a statement changes in place, as it is written, and what is a view of what."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gradguard.static import tree as t

_OPERATORS = frozenset("+ - * / ** // %".split())
# Each counts as a change, also where it leaves all numbers as they are.
_METHODS = frozenset(
    "mul_ add_ sub_ div_ multiply_ divide_ subtract_ true_divide_ pow_ clamp_ clamp_min_ clamp_max_ clip_ masked_fill_ "
    "masked_scatter_ zero_ fill_ copy_ index_fill_ index_add_ index_copy_ index_put_ scatter_ scatter_add_ addcmul_ "
    "addcdiv_ addmm_ baddbmm_ lerp_ nan_to_num_ relu_ sigmoid_ tanh_ exp_ log_ sqrt_ rsqrt_ reciprocal_ neg_ abs_ "
    "square_ floor_ ceil_ round_ tril_ triu_ renorm_ unsqueeze_ squeeze_ transpose_ t_".split()
)
_FUNCTIONS = frozenset("relu_ leaky_relu_ elu_ selu_ celu_ hardtanh_ rrelu_ threshold_ sigmoid_ tanh_ exp_".split())
# Where the argument `inplace` stands, if it is given by its place.
_MAY_BE_IN_PLACE = {
    "relu": 1, "relu6": 1, "leaky_relu": 2, "elu": 2, "selu": 1, "celu": 2, "silu": 1, "mish": 1, "hardtanh": 3,
    "hardswish": 1, "hardsigmoid": 1, "threshold": 3,
}  # fmt: skip
_DROPOUTS = frozenset("dropout dropout1d dropout2d dropout3d".split())
_VIEWS = frozenset(
    "view view_as transpose permute unsqueeze squeeze t select narrow swapaxes swapdims movedim diagonal".split()
)


class Change(NamedTuple):
    """Something that changes a tensor in place.

    Args:
        node: the statement, or the call in it.
        tensor: what is changed, where a view of it is named there that of which it is one.
    """

    node: t.Node
    tensor: t.Expr


def changes(stmt: t.Stmt, calls: bool = True) -> Iterator[Change]:
    """``y *= m``, ``y[0] = 1``, ``y.mul_(m)``, ``F.relu(y, inplace=True)``.

    Args:
        calls: those by calls too.
    """
    if isinstance(stmt, t.Augment) and stmt.operator in _OPERATORS:
        yield Change(stmt, _of_item(stmt.target))
    elif isinstance(stmt, t.Assign) and len(stmt.targets) == 1 and isinstance(stmt.targets[0], t.Subscript):
        yield Change(stmt, _of_item(stmt.targets[0]))
    for call in calls_in(stmt) if calls else ():
        tensor = _by_call(call)
        if tensor is not None:
            yield Change(call, without_views(tensor))


def changes_by_call(call: t.Call) -> bool:
    """Whether a call changes a tensor by itself: ``y.mul_(m)``."""
    return _by_call(call) is not None


def calls_in(stmt: t.Stmt) -> list[t.Call]:
    """The calls that a statement makes itself."""
    value = stmt.value if isinstance(stmt, t.Assign | t.Augment | t.Evaluate | t.Return) else None
    return [node for node in t.walk(value) if isinstance(node, t.Call)]


def without_views(expr: t.Expr) -> t.Expr:
    """The tensor that an expression is a view of, or the expression itself."""
    while (inner := _viewed(expr)) is not None:
        expr = inner
    return expr


def _of_item(target: t.Expr) -> t.Expr:
    return without_views(target.value if isinstance(target, t.Subscript) else target)


def _viewed(expr: t.Expr) -> t.Expr | None:
    if isinstance(expr, t.Subscript):
        return expr.value if _is_basic(expr.index) else None
    if isinstance(expr, t.Attribute):
        return expr.value if expr.name in ("T", "mT") else None
    func = expr.func if isinstance(expr, t.Call) else None
    return func.value if isinstance(func, t.Attribute) and func.name in _VIEWS and not _is_torch(func.value) else None


def _is_torch(expr: t.Expr) -> bool:
    return isinstance(expr, t.Name) and expr.id in ("torch", "F")


def _is_basic(index: t.Expr) -> bool:
    """Whether an index gives a view: numbers and slices; a mask or a list gives a copy."""
    if isinstance(index, t.Slice):
        return all(not isinstance(bound, str) or ":" in bound for bound in index.bounds)
    return isinstance(index, t.Constant) and (index.value is None or type(index.value) is int)


def _by_call(call: t.Call) -> t.Expr | None:
    """The tensor that a call changes."""
    func, name = call.func, call.name
    if isinstance(func, t.Attribute) and not _is_torch(func.value) and name in _METHODS:
        return func.value
    if not call.args or call.args[0].star:
        return None
    given = call.args[0].value
    if name in _FUNCTIONS:
        return given
    if name in _DROPOUTS:
        trains = call.argument("training", 2)
        in_place = call.argument("inplace", 3)
        return given if _is_true(in_place) and not _is_false(trains) else None
    if name in _MAY_BE_IN_PLACE:
        return given if _is_true(call.argument("inplace", _MAY_BE_IN_PLACE[name])) else None
    return None


def is_in_place(layer: str, made: t.Call) -> bool:
    """Whether a layer of torch changes what it is given.

    Args:
        layer: the name of its class.
        made: the call that makes it.
    """
    place = _LAYERS.get(layer)
    return place is not None and _is_true(made.argument("inplace", place))


_LAYERS = {
    "ReLU": 0, "ReLU6": 0, "SELU": 0, "SiLU": 0, "Mish": 0, "Hardswish": 0, "Hardsigmoid": 0, "LeakyReLU": 1, "ELU": 1,
    "CELU": 1, "Dropout": 1, "Dropout1d": 1, "Dropout2d": 1, "Dropout3d": 1, "Hardtanh": 2,
    "Threshold": 2,
}  # fmt: skip


def _is_true(value: t.Expr | None) -> bool:
    return isinstance(value, t.Constant) and value.value is True


def _is_false(value: t.Expr | None) -> bool:
    return isinstance(value, t.Constant) and value.value is False
