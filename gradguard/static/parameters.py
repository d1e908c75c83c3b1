"""What a class of modules trains: whether it may have parameters at all, and whether it freezes them itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.tree import walk_statements
from gradguard.static.values import Kind

if TYPE_CHECKING:
    from gradguard.static.definitions import Class

_BARE = frozenset({"torch.nn.Module"})
"""What a class may inherit from elsewhere and still have nothing to train."""

_PLAIN = k.CONTAINER_BUILTINS | {"int", "float", "str", "bool", "len", "tuple", "range", "max", "min"}
_PLAIN_MODULES = ("np.", "numpy.", "math.")
_GIVING = ("register_parameter", "add_module", "register_module", "setattr", "Parameter")


def may_learn(cls: Class) -> bool:
    """Whether a module may have parameters: its own, those of layers that it makes, those of modules it is given."""
    family = list(cls.lineage())
    strangers = (base.ref for each in family for base in each.bases if base.kind is not Kind.CLASS)
    return any(base not in _BARE for base in strangers) or any(_may_make_parameters(each) for each in family)


def _may_make_parameters(cls: Class) -> bool:
    for ref in cls.methods.values():
        plain = {p.name for p in ref.define.params if _is_plain(p)}
        for node in t.walk(ref.define.body):
            if isinstance(node, t.Call) and (t.path_of(node.func) or "").rsplit(".", 1)[-1] in _GIVING:
                return True
        if any(_may_bring_parameters(value, plain) for value in _attributes(ref.define)):
            return True
    return False


def _attributes(method: t.Define) -> Iterator[t.Expr]:
    """What a method puts into attributes of ``self``."""
    for stmt in walk_statements(method.body):
        for target, value in t.pairs(stmt.targets, stmt.value) if isinstance(stmt, t.Assign) else ():
            if (t.path_of(target) or "").startswith("self."):
                yield value


def _is_plain(param: t.Param) -> bool:
    """Whether an argument is a setting, by its default or its annotation: no module, and no list of modules."""
    if isinstance(param.annotation, t.Name):
        return param.annotation.id in _PLAIN
    if isinstance(param.default, t.Constant):
        return param.default.value is not None
    return isinstance(param.default, t.DictDisplay | t.Display)


def _may_bring_parameters(value: t.Expr, plain: set[str]) -> bool:
    if isinstance(value, t.Constant):
        return False
    if isinstance(value, t.Name):
        return value.id not in plain
    if not isinstance(value, t.Call):
        return any(isinstance(node, t.Call | t.Name) and _may_bring_parameters(node, plain) for node in t.walk(value))
    name = t.path_of(value.func) or ""
    last = name.rsplit(".", 1)[-1]
    if last in k.WITHOUT_PARAMETERS or last.endswith("Loss"):
        return False
    of_torch = name.startswith("torch.") and name.count(".") == 1 and last not in ("load", "compile")
    return not (of_torch or name in _PLAIN or name.startswith(_PLAIN_MODULES))


def is_frozen(cls: Class) -> bool:
    """Whether its constructor freezes all parameters, always or unless it is asked not to."""
    constructor = cls.methods.get("__init__")
    if constructor is None:
        return False
    off = {p.name for p in constructor.define.params if _is_false(p.default)}
    return any(_freezes_all(stmt, off) for stmt in constructor.define.body)


def _freezes_all(stmt: t.Stmt, off: set[str]) -> bool:
    call = stmt.value if isinstance(stmt, t.Evaluate) else None
    if isinstance(call, t.Call) and t.path_of(call.func) == "self.requires_grad_":
        return bool(call.args) and _switches_off(call.args[0].value, off)
    if isinstance(stmt, t.Repeat) and isinstance(stmt.iterable, t.Call):
        own = t.path_of(stmt.iterable.func) == "self.parameters"
        return own and any(_freezes(inner, stmt.target, off) for inner in stmt.body)
    return False


def _freezes(stmt: t.Stmt, parameter: t.Expr | None, off: set[str]) -> bool:
    """``parameter.requires_grad = False``."""
    if not isinstance(stmt, t.Assign) or parameter is None:
        return False
    wanted = f"{t.path_of(parameter)}.requires_grad"
    return any(t.path_of(target) == wanted for target in stmt.targets) and _switches_off(stmt.value, off)


def _switches_off(value: t.Expr, off: set[str]) -> bool:
    return _is_false(value) or (isinstance(value, t.Name) and value.id in off)


def _is_false(value: t.Expr | None) -> bool:
    return isinstance(value, t.Constant) and value.value is False
