"""Modules that surely compute something else while they train: what they are made of, and not what they may be."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
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
    """A call that makes a module, and the function that it is in."""

    module: Module
    function: FunctionRef | None
    call: t.Call


def surely_has_mode_layers(module: Module, function: FunctionRef | None, value: t.Expr) -> bool:
    """Whether what an expression makes has batch norm, or a dropout that drops something, whatever it is told.

    Args:
        function: the one that the expression is in.
    """
    waiting, seen = list(calls_in(module, function, value)), set[object]()
    given = _class_given(function, value)
    waiting += _made_by(given) if given is not None else []
    while waiting and len(seen) < _MANY:
        made = waiting.pop()
        named = made.module.value_of(made.call.func).ref
        if isinstance(named, str) and _is_mode_layer(named, made.call):
            return True
        if isinstance(named, Class | FunctionRef) and named.define not in seen:
            seen.add(named.define)
            waiting += _made_by(named)
    return False


def _class_given(function: FunctionRef | None, value: t.Expr) -> Class | None:
    """The class of what all callers give for a parameter (reads other files)."""
    params = [param.name for param in function.define.params] if function is not None else []
    if function is None or not isinstance(value, t.Name) or value.id not in params:
        return None
    return function.module.project.passed.argument_class(function, value.id)


def _made_by(maker: Class | FunctionRef) -> list[Made]:
    functions = [maker] if isinstance(maker, FunctionRef) else constructors(maker)
    statements = ((each, stmt) for each in functions for stmt in always_run(each.define.body))
    return [made for each, stmt in statements for made in calls_in(each.module, each, stmt)]


def _is_mode_layer(name: str, call: t.Call) -> bool:
    if _NORM.match(name):
        tracks = call.argument("track_running_stats", 4)
        return tracks is None or (isinstance(tracks, t.Constant) and tracks.value is True)
    if _DROPOUT.match(name):
        share = call.argument("p", 0)
        return share is None or (isinstance(share, t.Constant) and isinstance(share.value, float) and share.value > 0)
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
