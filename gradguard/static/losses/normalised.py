"""What a tensor surely is, on each way, up to its shape: the result of a softmax, or of a layer that ends in none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from gradguard.static import tree as t
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.made_objects import Made, Place, functions_of, makers, named_in
from gradguard.static.program.reaching import bound_at

_DEEPEST = 14
_FUNCTIONS = {"softmax": "softmax", "sigmoid": "sigmoid", "expit": "sigmoid"}
_LAYERS = {
    "Softmax": "softmax", "Softmax2d": "softmax", "Sigmoid": "sigmoid", "Linear": "raw", "Bilinear": "raw",
    "LazyLinear": "raw", "Conv1d": "raw", "Conv2d": "raw", "Conv3d": "raw",
}  # fmt: skip
_SHAPES = frozenset(
    "view reshape squeeze unsqueeze transpose permute flatten contiguous float double half to cuda cpu clone t type "
    "expand repeat view_as swapaxes movedim cat stack concat".split()
)
_SHAPING_LAYERS = ("Identity", "Flatten", "Unflatten", "Dropout")
_VIEWS = ("T", "mT")
_HARMLESS = ("autocast", "custom_fwd", "jit", "typechecked", "jaxtyped")


class Result(NamedTuple):
    """An expression, and what it is.

    Args:
        kind: of ``softmax``, ``sigmoid``, a ``raw`` layer; empty for what is not known.
        given_by: the function that gives it, where it depends on the class of an object which one runs.
    """

    kind: str
    place: Place
    node: t.Expr
    given_by: FunctionRef | None = None


def results(place: Place, expr: t.Expr, depth: int = 0) -> list[Result]:
    """What makes a tensor, on each way (reads other files)."""
    unknown = [Result("", place, expr)]
    if depth > _DEEPEST:
        return unknown
    if isinstance(expr, t.Conditional):
        return [*results(place, expr.body, depth + 1), *results(place, expr.orelse, depth + 1)]
    if isinstance(expr, t.Call):
        return _of_call(place, expr, depth) or unknown
    if isinstance(expr, t.Subscript):
        key = expr.index.value if isinstance(expr.index, t.Constant) else None
        parts = _parts(place, expr.value, key, depth + 1) if isinstance(key, int | str) else []
        if parts or isinstance(key, str):
            return _all(parts, depth) or unknown
        return results(place, expr.value, depth + 1)
    if isinstance(expr, t.Attribute) and expr.name in _VIEWS:
        return results(place, expr.value, depth + 1)
    return _all(_bound(place, expr, depth), depth) or unknown


def _all(parts: list[tuple[Place, t.Expr]], depth: int) -> list[Result]:
    return [found for place, expr in parts for found in results(place, expr, depth + 1)]


def _bound(place: Place, expr: t.Expr, depth: int) -> list[tuple[Place, t.Expr]]:
    """What a variable is bound to where it stands; none if one way is not known."""
    path, found = t.path_of(expr), list[tuple[Place, t.Expr]]()
    if path is None or place.ref is None:
        return []
    for each in bound_at(place.ref.define, expr, path):
        if each.value is None:
            return []
        more = [(place, each.value)] if each.place is None else _parts(place, each.value, each.place, depth + 1)
        if not more:
            return []
        found += more
    return found


def _parts(place: Place, whole: t.Expr, key: object, depth: int) -> list[tuple[Place, t.Expr]]:
    """The expressions that make an item of a tuple, a list or a dict, on each way; none if one is not known."""
    if depth > _DEEPEST:
        return []
    if isinstance(whole, t.Display):
        is_plain = isinstance(key, int) and not any(isinstance(item, t.Starred) for item in whole.items)
        inside = is_plain and isinstance(key, int) and 0 <= key < len(whole.items)
        return [(place, whole.items[key])] if inside and isinstance(key, int) else []
    if isinstance(whole, t.DictDisplay):
        values = [value for name, value in whole.entries if isinstance(name, t.Constant) and name.value == key]
        return [(place, values[-1])] if values else []
    wholes = list(_returned(place, whole, depth)) if isinstance(whole, t.Call) else _bound(place, whole, depth + 1)
    found = [_parts(inner, expr, key, depth + 1) for inner, expr in wholes]
    return [part for each in found for part in each] if all(found) else []


def _of_call(place: Place, call: t.Call, depth: int) -> list[Result]:
    func, named = call.func, named_in(place, call.func)
    if isinstance(named, str):
        return _of_torch(place, call, named, depth)
    returned = list(_returned(place, call, depth))
    if len({inner.ref.define for inner, _ in returned if inner.ref is not None}) > 1:
        every = [(inner, each) for inner, expr in returned for each in results(inner, expr, depth + 1)]
        return [each._replace(given_by=inner.ref) for inner, each in every]
    if returned:
        return _all(returned, depth)
    if isinstance(func, t.Attribute) and t.path_of(func.value) != "self":
        if func.name in _FUNCTIONS and _is_of_tensor(call):
            return [Result(_FUNCTIONS[func.name], place, call)]
        if func.name in _SHAPES:
            return results(place, func.value, depth + 1)
    found = [result for made in makers(place, func, depth + 1) for result in _of_layer(place, made, call, depth + 1)]
    return [] if found and _may_be_replaced(place, func) else found


def _may_be_replaced(place: Place, func: t.Expr) -> bool:
    """Whether something puts another layer there: ``trainer.net.softmax = nn.Identity()``."""
    if not isinstance(func, t.Attribute) or t.path_of(func.value) != "self":
        return False
    stores = re.compile(rf"(?<!\bself)\.{func.name}(?:\[[^\]\n]*\])?\s*=(?!=)")
    return place.module.project.survey.mentions(stores, place.module, f".{func.name}")


def _of_torch(place: Place, call: t.Call, named: str, depth: int) -> list[Result]:
    package, _, name = named.rpartition(".")
    if package not in ("torch", "torch.nn.functional", "torch.special") or not call.args:
        is_parallel = name == "data_parallel" and len(call.args) > 1
        run = t.Call(call.origin, call.args[0].value, call.args[1:2]) if is_parallel else None
        return _of_call(place, run, depth + 1) if run is not None else []
    if name in _FUNCTIONS:
        return [Result(_FUNCTIONS[name], place, call)]
    given = call.args[0].value
    if name in _SHAPES:
        items = given.items if isinstance(given, t.Display) else [given]
        return [result for item in items for result in results(place, item, depth + 1)]
    return []


def _is_of_tensor(call: t.Call) -> bool:
    """``x.sigmoid()``, ``x.softmax(-1)``; not a layer that is given a tensor: ``head.softmax(x)``."""
    if call.name != "softmax":
        return not call.args
    first = call.args[0] if call.args else None
    is_number = first is not None and isinstance(first.value, t.Constant | t.Operation)
    return first is not None and (first.keyword == "dim" or is_number)


def _returned(place: Place, call: t.Call, depth: int) -> Iterator[tuple[Place, t.Expr]]:
    """What the functions that a call runs return: also the ``forward`` of an object."""
    refs = functions_of(place, call, depth) or _forwards(place, call, depth)
    if not all(_is_plain(ref) for ref in refs):
        return
    for ref in refs:
        for stmt in ref.define.statements:
            if isinstance(stmt, t.Return) and stmt.value is not None:
                yield Place(ref.module, ref), stmt.value


def _is_plain(ref: FunctionRef) -> bool:
    """Whether it gives what it returns, and always something."""
    names = [t.path_of(each.func if isinstance(each, t.Call) else each) or "" for each in ref.define.decorators]
    empty = any(isinstance(stmt, t.Return) and stmt.value is None for stmt in ref.define.statements)
    told = all(any(word in name for word in _HARMLESS) for name in names)
    return told and not ref.define.is_generator and not ref.is_abstract and not empty


def _forwards(place: Place, call: t.Call, depth: int) -> list[FunctionRef]:
    if not isinstance(call.func, t.Name | t.Attribute | t.Call):
        return []
    made = makers(place, call.func, depth + 1)
    classes = [each.of for each in made if isinstance(each.of, Class) and each.of.is_module]
    found = [cls.method("forward") for cls in classes if cls.method("__call__") is None]
    sure = [ref for ref in found if ref is not None]
    return sure if len(sure) == len(made) else []


def _of_layer(place: Place, made: Made, call: t.Call, depth: int) -> list[Result]:
    """What a module gives: its last layer is what counts."""
    unknown = [Result("", place, call)]
    if isinstance(made.of, Class):
        forward = made.of.method("forward")
        if forward is None or not _is_plain(forward) or made.of.method("__call__") is not None:
            return unknown
        returned = [stmt.value for stmt in forward.define.statements if isinstance(stmt, t.Return)]
        inner = Place(forward.module, forward)
        found = [result for value in returned if value is not None for result in results(inner, value, depth + 1)]
        return found or unknown
    package, _, name = made.of.rpartition(".")
    if not package.startswith("torch.nn") or depth > _DEEPEST:
        return unknown
    if name != "Sequential":
        return [Result(_LAYERS[name], made.place, made.call)] if name in _LAYERS else unknown
    for last in reversed(layers_of(made.call)):
        layers = makers(made.place, last, depth + 1)
        if any(_shapes_only(each) for each in layers):
            if not all(_shapes_only(each) for each in layers):
                return unknown
            continue
        found = [result for each in layers for result in _of_layer(place, each, call, depth + 1)]
        return found or unknown
    return unknown


def _shapes_only(made: Made) -> bool:
    return isinstance(made.of, str) and made.of.rpartition(".")[2] in _SHAPING_LAYERS


def layers_of(call: t.Call) -> list[t.Expr]:
    """The layers of a sequence, in order: those behind the last one that is not written out."""
    layers = list[t.Expr]()
    for arg in call.args:
        layers = [] if arg.star else [*layers, arg.value]
    only = layers[0] if len(call.args) == 1 and layers else None
    if isinstance(only, t.Call) and only.name == "OrderedDict" and only.args:
        given = only.args[0].value
        if isinstance(given, t.DictDisplay):
            return [value for _, value in given.entries]
        pairs = given.items if isinstance(given, t.Display) else []
        return [pair.items[1] for pair in pairs if isinstance(pair, t.Display) and len(pair.items) == 2]
    return layers
