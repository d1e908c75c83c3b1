"""The tensors that an operation keeps as they are for its backward: what it gives, or what it is given.

What is in these tables was measured with torch 2.13, see ``tests/static/backward/test_kept_for_backward.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from gradguard.static import tree as t
from gradguard.static.backward.in_place import without_views
from gradguard.static.program.made_objects import Made, Place, makers, named_in
from gradguard.static.program.reaching import bound_at

_DEEPEST = 8
_PACKAGES = ("torch", "torch.nn.functional", "torch.special", "torch.linalg")
_BARE = frozenset("sigmoid tanh exp exp2 expm1 relu sqrt rsqrt reciprocal".split())
KEEP_RESULT = _BARE | frozenset("softmax softmin log_softmax logsumexp norm amax amin std cumprod prod expit".split())
KEEP_INPUT = frozenset(
    "sin cos log log1p log2 log10 abs square erf gelu silu mish elu selu celu leaky_relu softplus logsigmoid hardtanh "
    "relu6 hardswish hardsigmoid clamp norm std var".split()
)
LAYERS_KEEP_RESULT = {
    "ReLU": "relu", "Sigmoid": "sigmoid", "Tanh": "tanh", "Softmax": "softmax", "Softmin": "softmin",
    "LogSoftmax": "log_softmax", "Softmax2d": "softmax",
}  # fmt: skip
LAYERS_KEEP_INPUT = frozenset(
    "Linear Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d BatchNorm1d BatchNorm2d BatchNorm3d "
    "LayerNorm GroupNorm PReLU RNNCell GRUCell LSTMCell".split()
)
_PRODUCTS = frozenset("mul mm bmm".split())
MAY_KEEP_OPERANDS = KEEP_INPUT | _PRODUCTS | {"pow"}
# What a layer that gives an activation is called.
_ACTIVATION = re.compile(r"relu|act|sig|tanh|soft|gate|nonlin")


class Kept(NamedTuple):
    """A tensor that is kept for a backward.

    Args:
        name: of the operation.
        node: its call, or its expression.
        tensor: what is kept, where that is an operand.
        graphs: one of these has a graph, or nothing is kept; none where a layer has parameters itself.
    """

    name: str
    node: t.Expr
    tensor: t.Expr | None
    graphs: tuple[t.Expr, ...]


def may_keep_result(value: t.Expr) -> bool:
    """Whether an expression looks like an operation that keeps its result: by a name."""
    value = without_views(value)
    if isinstance(value, t.Conditional):
        return may_keep_result(value.body) and may_keep_result(value.orelse)
    if not isinstance(value, t.Call):
        return False
    return value.name.removesuffix("_") in KEEP_RESULT or _ACTIVATION.search(value.name) is not None


def keeps_result(place: Place, expr: t.Expr, at: t.Node | None = None, depth: int = 0) -> list[Kept]:
    """The operations that give a tensor, and keep it, on each way; none where one way is not known, or keeps nothing.

    Args:
        at: where a variable has the value that is asked for, if not where it stands.
    """
    if place.ref is None or depth > _DEEPEST:
        return []
    expr = without_views(expr)
    if isinstance(expr, t.Call):
        kept = _call_keeping_result(place, expr)
        return [kept] if kept is not None else []
    values: list[t.Expr | None] = []
    if depth and isinstance(expr, t.Name):
        return []  # another name for it
    if isinstance(expr, t.Conditional):
        values += [expr.body, expr.orelse]
    elif isinstance(expr, t.Name):
        values += [
            each.value if each.place is None else None for each in bound_at(place.ref.define, at or expr, expr.id)
        ]
    found = [keeps_result(place, value, None, depth + 1) if value is not None else [] for value in values]
    return [kept for each in found for kept in each] if all(found) else []


def _call_keeping_result(place: Place, call: t.Call) -> Kept | None:
    func, name, named = call.func, call.name.removesuffix("_"), named_in(place, call.func)
    given = call.args[0].value if call.args and not call.args[0].star else None
    if isinstance(named, str):
        is_function = named.rpartition(".")[0] in _PACKAGES and name in KEEP_RESULT
        return Kept(name, call, None, (given,)) if is_function and given is not None else None
    if isinstance(func, t.Attribute) and t.path_of(func.value) != "self" and name in KEEP_RESULT:
        return Kept(name, call, None, (func.value,)) if not call.args or name not in _BARE else None
    if named is not None or given is None or not isinstance(func, t.Attribute) or not _ACTIVATION.search(name):
        return None
    names = {_kept_by(made) for made in makers(place, func)}
    layer = names.pop() if len(names) == 1 else None
    return Kept(layer, call, None, (given, call)) if layer is not None else None


def _kept_by(made: Made) -> str | None:
    """The operation of a layer that keeps its result."""
    package, _, name = made.of.rpartition(".") if isinstance(made.of, str) else ("", "", "")
    return LAYERS_KEEP_RESULT.get(name) if package.startswith("torch.nn") else None


def keeps_operands(place: Place, node: t.Node) -> Iterator[Kept]:
    """What an operation keeps of what it is given; of a layer of the object only what it surely keeps."""
    if isinstance(node, t.Operation) and len(node.operands) == 2:
        yield from _of_operator(node, node.operator, *node.operands)
    if not isinstance(node, t.Call):
        return
    func, name, named = node.func, node.name, named_in(place, node.func)
    given = [arg.value for arg in node.args if arg.keyword is None and not arg.star]
    if isinstance(named, str) and named.rpartition(".")[0] in _PACKAGES:
        operands = given
    elif named is None and isinstance(func, t.Attribute) and t.path_of(func.value) != "self":
        operands = [func.value, *given]
    else:
        return
    if name in KEEP_INPUT and operands:
        yield Kept(name, node, operands[0], (operands[0],))
    elif name in _PRODUCTS and len(operands) == 2:
        yield from _of_operator(node, "*", *operands)
    elif name == "pow" and len(operands) == 2:
        yield from _of_operator(node, "**", *operands)


def _of_operator(node: t.Expr, operator: str, one: t.Expr, other: t.Expr) -> Iterator[Kept]:
    if operator == "*":
        yield Kept("product", node, one, (other,))
        yield Kept("product", node, other, (one,))
    elif operator == "/":
        yield Kept("quotient", node, one, (other,))
        yield Kept("quotient", node, other, (one, other))
    elif operator == "**" and isinstance(other, t.Constant) and other.value not in (0, 1):
        yield Kept("power", node, one, (one,))


def layer_keeps_input(place: Place, call: t.Call) -> Iterator[Kept]:
    """What a layer with parameters, or the first one of a sequence, keeps of what it is given."""
    if not call.args or any(arg.star for arg in call.args) or not isinstance(call.func, t.Name | t.Attribute):
        return
    names = {_first(made) for made in makers(place, call.func)}
    layer = names.pop() if len(names) == 1 else None
    if layer is None or layer not in LAYERS_KEEP_INPUT:
        return
    for arg in call.args if layer.endswith("Cell") else call.args[:1]:
        for given in arg.value.items if isinstance(arg.value, t.Display) else [arg.value]:
            if layer != "Linear" or not _may_be_turned(place, given):
                yield Kept(layer, call, given, ())


def _may_be_turned(place: Place, expr: t.Expr) -> bool:
    """Whether it is a view whose entries do not lie in a row: a linear layer may keep a copy of that."""
    if isinstance(expr, t.Subscript):
        return isinstance(expr.index, t.Slice)
    if not isinstance(expr, t.Name) or place.ref is None:
        return True
    values = (each.value for each in bound_at(place.ref.define, expr, expr.id))
    return any(value is not None and without_views(value) is not value for value in values)


def _first(made: Made, depth: int = 0) -> str | None:
    """The class of a layer, or of the first one of a sequence."""
    if depth > _DEEPEST or not isinstance(made.of, str) or not made.of.startswith("torch.nn."):
        return None
    name = made.of.rpartition(".")[2]
    if name != "Sequential":
        return name
    first = made.call.args[0] if made.call.args else None
    if first is None or first.star:
        return None
    names = {_first(each, depth + 1) for each in makers(made.place, first.value)}
    return names.pop() if len(names) == 1 else None
