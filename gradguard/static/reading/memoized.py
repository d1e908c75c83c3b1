"""Caches that a program writes by itself: ``if args not in known: known[args] = fn(*args)``."""

from __future__ import annotations

from collections.abc import Sequence

from gradguard.static import tree as t


def keeps_arguments(decorator: t.Define) -> t.Assign | None:
    """The statement by which what a function puts in its argument's place keeps what it is given, for ever; or None.

    Args:
        decorator: the function that is applied by ``@decorator``.
    """
    kept = {path for stmt in t.walk_statements(decorator.body) for path in _empty_dicts(stmt)}
    if not kept or not decorator.params or _lets_go(decorator.body):
        return None
    function = decorator.params[0].name
    inner = (stmt for stmt in decorator.body if isinstance(stmt, t.Define))
    return next((stmt for define in inner if (stmt := _keeping(define, function, kept)) is not None), None)


def keeps_arguments_in_object(constructor: t.Define, call: t.Define) -> t.Assign | None:
    """The same for a class whose object takes the function's place: ``self.known[args] = self.fn(*args)``.

    Args:
        constructor: is given the function.
        call: runs instead of it.
    """
    kept = {path for stmt in t.walk_statements(constructor.body) for path in _empty_dicts(stmt)}
    begins_again = any(_empty_dicts(stmt) for stmt in t.walk_statements(call.body))
    if not kept or len(constructor.params) < 2 or begins_again or _lets_go(call.body):
        return None
    function = constructor.params[1].name
    assigned = (stmt for stmt in t.walk_statements(constructor.body) if isinstance(stmt, t.Assign))
    bound = (pair for stmt in assigned for pair in t.pairs(stmt.targets, stmt.value))
    named = [t.path_of(target) for target, value in bound if t.path_of(value) == function]
    own = t.Define(call.origin, call.name, call.params[1:], call.body, call.decorators)
    return next((stmt for path in named if path is not None and (stmt := _keeping(own, path, kept)) is not None), None)


def _empty_dicts(stmt: t.Stmt) -> list[str]:
    """The paths that a statement binds to an empty dict: ``known = {}``, ``wrapper.known = dict()``."""
    if not isinstance(stmt, t.Assign):
        return []
    value = stmt.value
    is_made = isinstance(value, t.Call) and t.path_of(value.func) == "dict" and not value.args
    if not is_made and not (isinstance(value, t.DictDisplay) and not value.entries):
        return []
    return [path for target in stmt.targets if (path := t.path_of(target)) is not None]


def _lets_go(body: Sequence[t.Stmt]) -> bool:
    """Whether anything is taken out again, or counted."""
    for node in t.walk(body):
        if isinstance(node, t.Delete) or (isinstance(node, t.Attribute) and node.name in _TAKING):
            return True
        if isinstance(node, t.Operation) and any(map(_is_length, node.operands)):
            return True
    return False


_TAKING = frozenset("pop popitem clear move_to_end".split())


def _is_length(expr: t.Expr) -> bool:
    return isinstance(expr, t.Call) and t.path_of(expr.func) == "len"


def _keeping(inner: t.Define, function: str, kept: set[str]) -> t.Assign | None:
    """The statement by which a function stores what another one gives, under the very arguments."""
    own = {param.name for param in inner.params if param.star != "**"}
    assigned = [stmt for stmt in t.walk_statements(inner.body) if isinstance(stmt, t.Assign)]
    bound = {target.id: stmt.value for stmt in assigned for target in stmt.targets if isinstance(target, t.Name)}
    for stmt in assigned:
        for target in stmt.targets:
            if not isinstance(target, t.Subscript) or t.path_of(target.value) not in kept:
                continue
            value, key = (_written(expr, bound) for expr in (stmt.value, target.index))
            if isinstance(value, t.Call) and t.path_of(value.func) == function and _has_one_of(key, own):
                return stmt
    return None


def _written(expr: t.Expr, bound: dict[str, t.Expr]) -> t.Expr:
    """An expression, or what the variable that it names is bound to."""
    return bound.get(expr.id, expr) if isinstance(expr, t.Name) else expr


def _has_one_of(key: t.Expr, names: set[str]) -> bool:
    """Whether a key consists of some of these variables, as they are: not of their shapes, nor of texts of them."""
    while isinstance(key, t.Starred):
        key = key.value
    if isinstance(key, t.Call) and t.path_of(key.func) in ("tuple", "frozenset") and len(key.args) == 1:
        return _has_one_of(key.args[0].value, names)
    if isinstance(key, t.Name):
        return key.id in names
    parts = key.items if isinstance(key, t.Display) else key.operands if isinstance(key, t.Operation) else []
    return any(_has_one_of(part, names) for part in parts)
