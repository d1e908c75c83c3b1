"""Parameters that are given the storage of another one: two parameters of one memory, and no tie."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.mistakes.optimizers import TiedByData
from gradguard.static.optimizers.made_modules import is_made
from gradguard.static.program.classes import Class
from gradguard.static.program.own_methods import methods_of, reached

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_DATA = ".data"
_TIES = re.compile(r"(?<![a-z])t(?:ie|ying)|share", re.I)
# One that follows another one, or is not trained, and what is kept to look back at.
_APART = re.compile(
    r"target|teacher|(?:^|[._])ema(?:$|[._])|momentum|shadow|frozen|fixed|(?:^|[._])old|slow|backup|prev|(?:^|[._])key(?:$|[._])|"
    r"(?:^|\.)\w+_k\b|anchor|(?:^|[._])ref(?:erence)?(?:$|[._])",
    re.I,
)
_TRANSPOSED = frozenset("t transpose".split())
_FREEZES = frozenset("requires_grad requires_grad_ freeze".split())


def tied_by_data(flow: Flow) -> Iterator[TiedByData]:
    """The statements ``self.head.weight.data = self.embed.weight.data`` of a module that is made, or ties its own."""
    if flow.facts.is_test or not _sets_up(flow):
        return
    for stmt in flow.ref.define.statements:
        for target, value in t.pairs(stmt.targets, stmt.value) if isinstance(stmt, t.Assign) else ():
            one = _parameter(target, value)
            other, is_turned = _shared(value)
            if one is None or other is None or one == other or _APART.search(f"{one} {other}") is not None:
                continue
            are_trained = _is_trained(flow, one) and _is_trained(flow, other)
            if are_trained and not _is_tied(flow, one, other) and not _are_frozen_elsewhere(flow, one, other):
                yield TiedByData(flow.site(stmt), one, other, is_turned)


def _sets_up(flow: Flow) -> bool:
    """Whether a function makes a module, or ties what it has."""
    owner, name = flow.ref.owner, flow.ref.define.name
    if owner is None:
        return True  # of what it has made itself
    if not owner.is_module:
        return False
    return name == "__init__" or _TIES.search(name) is not None or name in reached(methods_of(owner), {"__init__"})


def _parameter(target: t.Expr, value: t.Expr) -> str | None:
    """The parameter that a statement gives other memory: its ``.data`` is bound, or a new one takes its place."""
    path = t.path_of(target) or ""
    if path.endswith(_DATA):
        return path.removesuffix(_DATA)
    return path if isinstance(value, t.Call) and value.name == "Parameter" and "." in path else None


def _shared(value: t.Expr) -> tuple[str | None, bool]:
    """The parameter whose memory an expression has, and whether it is transposed: ``w``, ``w.data``, ``w.data.t()``."""
    is_turned = False
    if isinstance(value, t.Call) and value.name == "Parameter" and len(value.args) == 1:
        value = value.args[0].value
    if isinstance(value, t.Call) and isinstance(value.func, t.Attribute) and value.name in _TRANSPOSED:
        value, is_turned = value.func.value, True
    elif isinstance(value, t.Attribute) and value.name in ("T", "mT"):
        value, is_turned = value.value, True
    path = t.path_of(value) if isinstance(value, t.Attribute) else None
    return (path.removesuffix(_DATA) if path is not None else None), is_turned


def _is_trained(flow: Flow, path: str) -> bool:
    """Whether it is a parameter of a layer that the object, or the function, has made, and freezes nowhere."""
    names = path.split(".")
    is_own = names[0] == "self" and len(names) > 1
    name = ".".join(names[:2]) if is_own else names[0]
    owner = flow.ref.owner
    if not is_own or owner is None:
        made = flow.ref.assigned.get(name, [])
        return len(made) == 1 and _learns(made[0]) and is_made(flow.ref, made[0]) and not _freezes(flow.ref.define)
    return _is_made_once(owner, name) and not any(_freezes(method.define) for method in methods_of(owner))


def _is_made_once(owner: Class, path: str) -> bool:
    bound = [value for cls in owner.lineage() for _, value in cls.assigned(path.removeprefix("self."))]
    for cls in owner.lineage():
        constructor = cls.methods.get("__init__")
        made = constructor.assigned.get(path.partition("[")[0], []) if constructor is not None else []
        if constructor is not None and len(made) == 1 and len(set(bound)) <= 1:
            return _learns(made[0]) and any(is_made(constructor, node) for node in _calls(made[0]))
    return False


def _calls(value: t.Expr) -> list[t.Call]:
    """The layers in an expression: that of a list, of which there are several."""
    return [node for node in t.walk(value) if isinstance(node, t.Call)]


def _learns(value: t.Expr) -> bool:
    """Whether it wants a gradient: an embedding of given vectors does where it is told to."""
    for call in _calls(value):
        freeze = call.argument("freeze", 1)
        is_free = isinstance(freeze, t.Constant) and freeze.value is False
        wants = call.argument("requires_grad")
        if (call.name == "from_pretrained" and not is_free) or call.name in _FREEZES or wants is not None:
            return False
    return True


def _freezes(define: t.Define) -> bool:
    """Whether it says something of what wants a gradient."""
    return any(isinstance(node, t.Attribute) and node.name in _FREEZES for node in define.nodes)


def _is_tied(flow: Flow, one: str, other: str) -> bool:
    """Whether something makes one parameter of the two, or takes one of them away."""
    owner = flow.ref.owner
    methods = methods_of(owner) if owner is not None else [flow.ref]
    for method in methods:
        for stmt in method.define.statements:
            pairs = t.pairs(stmt.targets, stmt.value) if isinstance(stmt, t.Assign) else ()
            if any({t.path_of(target), t.path_of(value)} == {one, other} for target, value in pairs):
                return True
            if isinstance(stmt, t.Delete) and any(
                (t.path_of(each) or "?") in f"{one} {other}" for each in stmt.targets
            ):
                return True
    return False


def _are_frozen_elsewhere(flow: Flow, *paths: str) -> bool:
    """Whether something in its program freezes one of them, by the name of its layer."""
    names = [path.removeprefix("self.").partition(".")[0].partition("[")[0] for path in paths]
    freezing = re.compile(rf"\b(?:{'|'.join(map(re.escape, names))})\b[^\n]*requires_grad")
    return flow.project.survey.mentions(freezing, flow.module, "requires_grad")
