"""Modules that surely compute something else while they train: what they are made of, and not what they may be."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from gradguard.static import tree as t
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef

if TYPE_CHECKING:
    from gradguard.static.project import Module

_NORM = re.compile(r"torch\.nn\.(?:modules\.\w+\.)?(?:Sync|Lazy)?BatchNorm\w*$")
_DROPOUT = re.compile(r"torch\.nn\.(?:modules\.\w+\.)?(?:Feature)?(?:Alpha)?Dropout\w*$")
_NETWORKS = re.compile(
    r"torchvision\.models\.(?:\w+\.)*(?:resnet|resnext|wide_resnet|densenet|mobilenet|efficientnet|regnet|shufflenet|"
    r"googlenet|inception|mnasnet|vgg\d+_bn|get_model$)\w*$"
)
"""Those that have batch norm in them from the first layer on; ``get_model`` gives one by its name, most often such."""
_MANY = 40


class Made(NamedTuple):
    """A call that makes a module, and the function that it is in, with the numbers that are known to be given to it."""

    module: Module
    function: FunctionRef | None
    call: t.Call
    numbers: Mapping[str, float] = MappingProxyType({})


class _Given(NamedTuple):
    """A part that a constructor is given: ``self.net = net``."""

    constructor: FunctionRef
    param: str


def surely_has_mode_layers(module: Module, function: FunctionRef | None, value: t.Expr) -> bool:
    """Whether what an expression makes has batch norm, or a dropout that drops something, whatever it is told.

    Args:
        function: the one that the expression is in.
    """
    given = _class_given(function, value)
    parts: list[_Given] = []
    return _have_mode_layers([*calls_in(module, function, value), *(_made_by(given, parts) if given else ())], parts)


def class_has_mode_layers(cls: Class) -> bool:
    """Whether the constructor of a class surely makes such layers, or is given them."""
    parts: list[_Given] = []
    return _have_mode_layers(_made_by(cls, parts), parts)


def _have_mode_layers(waiting: list[Made], parts: list[_Given]) -> bool:
    """Whether one of some calls makes such a layer.

    Args:
        parts: what constructors are given besides, which is asked last: that reads other files.
    """
    seen = set[object]()
    while (waiting or parts) and len(seen) < _MANY:
        if not waiting:
            part = parts.pop()
            cls = part.constructor.module.project.passed.argument_class(part.constructor, part.param)
            waiting += _made_by(cls, parts) if cls is not None and cls.define not in seen else []
            seen.add(part.constructor.define if cls is None else cls.define)
            continue
        made = waiting.pop()
        named = _own_method(made) or made.module.value_of(made.call.func).ref
        if isinstance(named, str) and _is_mode_layer(named, made):
            return True
        if isinstance(named, Class | FunctionRef):
            numbers = _numbers(named, made)
            key = named.define, tuple(sorted(numbers.items()))
            if key not in seen:
                seen.add(key)
                waiting += _made_by(named, parts, numbers)
    return False


def _own_method(made: Made) -> FunctionRef | None:
    """The method that a constructor calls for a part: ``self.layers = self.make_layers(3)``."""
    func, owner = made.call.func, made.function.owner if made.function is not None else None
    is_own = owner is not None and isinstance(func, t.Attribute) and t.path_of(func.value) == "self"
    return owner.method(func.name) if is_own and owner is not None and isinstance(func, t.Attribute) else None


def _class_given(function: FunctionRef | None, value: t.Expr) -> Class | None:
    """The class of what all callers give for a parameter (reads other files)."""
    params = [param.name for param in function.define.params] if function is not None else []
    if function is None or not isinstance(value, t.Name) or value.id not in params:
        return None
    return function.module.project.passed.argument_class(function, value.id)


def _made_by(maker: Class | FunctionRef, parts: list[_Given], numbers: Mapping[str, float] | None = None) -> list[Made]:
    functions = _making(maker)
    made: list[Made] = []
    for place, each in enumerate(functions):
        known = _defaults(each) if numbers is None and not place else numbers if numbers and not place else {}
        for stmt in always_run(each.define.body):
            made += [call._replace(numbers=known) for call in calls_in(each.module, each, stmt)]
            parts += _parts_given(each, stmt) if isinstance(maker, Class) else ()
    return made


def _making(maker: Class | FunctionRef) -> list[FunctionRef]:
    """The functions that make what a call gives; some classes make an object of another one."""
    if isinstance(maker, FunctionRef):
        return [maker]
    return constructors(maker) or [each.methods["__new__"] for each in maker.lineage() if "__new__" in each.methods]


def _parts_given(constructor: FunctionRef, stmt: t.Stmt) -> Iterator[_Given]:
    params = [param.name for param in constructor.define.params[1:] if not param.star]
    for target, value in t.pairs(stmt.targets, stmt.value) if isinstance(stmt, t.Assign) else ():
        if isinstance(value, t.Name) and value.id in params and (t.path_of(target) or "").startswith("self."):
            yield _Given(constructor, value.id)


def _numbers(maker: Class | FunctionRef, made: Made) -> dict[str, float]:
    """The numbers that a call surely gives for the parameters of what it calls, those that are left out among them."""
    functions = _making(maker)
    if not functions or any(arg.star for arg in made.call.args):
        return {}
    given = functions[0].given_by(made.call)
    numbers = {name: _number(value, made) for name, value in given.items()}
    known = {name: number for name, number in numbers.items() if number is not None}
    return known | {name: number for name, number in _defaults(functions[0]).items() if name not in given}


def _defaults(function: FunctionRef) -> dict[str, float]:
    numbers = ((param.name, _as_number(param.default)) for param in function.define.params)
    return {name: number for name, number in numbers if number is not None}


def _number(expr: t.Expr | None, made: Made) -> float | None:
    """The number that an expression is, if that is written there, or known of a parameter."""
    path = t.path_of(expr) if expr is not None else None
    if path is None:
        return _as_number(expr)
    bound = made.function.assigned.get(path, []) if made.function is not None else []
    if not bound:
        return made.numbers.get(path)
    is_param = len(bound) == 1 and t.path_of(bound[0]) != path and t.path_of(bound[0]) is not None
    known = made.numbers.get(t.path_of(bound[0]) or "") if is_param else None
    return known if known is not None or len(bound) > 1 else _as_number(bound[0])


def _as_number(expr: t.Expr | None) -> float | None:
    value = expr.value if isinstance(expr, t.Constant) else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _is_mode_layer(name: str, made: Made) -> bool:
    if _NORM.match(name):
        tracks = made.call.argument("track_running_stats", 4)
        return tracks is None or (isinstance(tracks, t.Constant) and tracks.value is True)
    if _DROPOUT.match(name):
        share = made.call.argument("p", 0)
        return share is None or (_number(share, made) or 0) > 0
    return _NETWORKS.match(name) is not None


def constructors(cls: Class) -> list[FunctionRef]:
    return [each.methods["__init__"] for each in cls.lineage() if "__init__" in each.methods]


def calls_in(module: Module, function: FunctionRef | None, within: t.Node) -> Iterator[Made]:
    """The calls that surely run, those of the variables that stand there as well."""
    waiting, seen = [within], set[str]()
    while waiting:
        part = waiting.pop()
        unsure = {node for each in t.walk(part) if isinstance(each, t.Conditional | t.Lambda) for node in t.walk(each)}
        for node in t.walk(part):
            if node in unsure:
                continue
            if isinstance(node, t.Call):
                yield Made(module, function, node)
            elif function is not None and isinstance(node, t.Name) and node.id not in seen:
                seen.add(node.id)
                bound = function.assigned.get(node.id, [])
                waiting += bound if len(bound) == 1 else []


def always_run(body: Sequence[t.Stmt]) -> Iterator[t.Stmt]:
    """The statements of a function that no condition is around; a loop is taken to run."""
    for stmt in body:
        if isinstance(stmt, t.Repeat | t.With):
            yield from always_run(stmt.body)
        elif isinstance(stmt, t.Assign | t.Evaluate | t.Return):
            yield stmt
