"""What a class of modules trains: whether it may have parameters at all, and whether it freezes them itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.build import walk_statements

if TYPE_CHECKING:
    from gradguard.static.definitions import Class

_BARE = frozenset({"torch.nn.Module"})
"""What a class may inherit from elsewhere and still have nothing to train."""

_PLAIN = k.CONTAINER_BUILTINS | {"int", "float", "str", "bool", "len", "tuple", "range", "max", "min"}
_PLAIN_MODULES = ("np.", "numpy.", "math.")
_GIVING = ("register_parameter", "add_module", "register_module", "setattr", "Parameter")


def may_learn(cls: Class) -> bool:
    """Whether a module may have parameters: its own, those of layers that it makes, those of modules it is given."""
    if not cls.external_bases <= _BARE:
        return True
    return any(_may_make_parameters(each) for each in cls.lineage())


def _may_make_parameters(cls: Class) -> bool:
    for ref in cls.methods.values():
        for node in t.walk(ref.define.body):
            if isinstance(node, t.Call) and (t.path_of(node.func) or "").rsplit(".", 1)[-1] in _GIVING:
                return True
    return any(_may_bring_parameters(cls, value) for value in _attributes(cls))


def _attributes(cls: Class) -> Iterator[t.Expr]:
    """What its methods put into attributes of ``self``."""
    for ref in cls.methods.values():
        for stmt in walk_statements(ref.define.body):
            for target, value in t.pairs(stmt.targets, stmt.value) if isinstance(stmt, t.Assign) else ():
                if (t.path_of(target) or "").startswith("self."):
                    yield value


def _may_bring_parameters(cls: Class, value: t.Expr) -> bool:
    if isinstance(value, t.Constant):
        return False
    if isinstance(value, t.Name):  # a module that it was given has a module's name, or a module's use
        return bool(k.MODULE_NAME.search(value.id) or f"self.{value.id}" in cls.modules or _is_called(cls, value.id))
    if not isinstance(value, t.Call):
        return any(isinstance(node, t.Call) and _may_bring_parameters(cls, node) for node in t.walk(value))
    name = t.path_of(value.func) or ""
    last = name.rsplit(".", 1)[-1]
    if last in k.WITHOUT_PARAMETERS or last.endswith("Loss"):
        return False
    plain = name in _PLAIN or name.startswith(_PLAIN_MODULES) or (name.startswith("torch.") and name.count(".") == 1)
    return not plain


def _is_called(cls: Class, attribute: str) -> bool:
    """Whether its methods call ``self.attribute(...)``."""
    calls = (n for ref in cls.methods.values() for n in t.walk(ref.define.body) if isinstance(n, t.Call))
    return any(t.path_of(call.func) == f"self.{attribute}" for call in calls)


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
