"""Which way of a condition is the steady state, and which is taken at the start only."""

from __future__ import annotations

import re

from gradguard.static import tree as t


def steady_branch(test: t.Expr) -> str:
    """Which branch of an ``if`` is the steady state, when the other one is only for the start."""
    if isinstance(test, t.Name) and _COUNTER.match(test.id):
        return "first"
    if (
        isinstance(test, t.Operation)
        and test.operator == "not"
        and isinstance(test.operands[0], t.Name | t.Attribute | t.Call)
    ):
        inner = test.operands[0]
        made_once = isinstance(inner, t.Call) and t.path_of(inner.func) == "hasattr"
        return "second" if made_once or (isinstance(inner, t.Name) and _COUNTER.match(inner.id)) else "both"
    if isinstance(test, t.Call) and t.path_of(test.func) == "hasattr":
        return "first"
    if isinstance(test, t.Operation) and len(test.operands) == 2:
        left, right = test.operands
        none = isinstance(right, t.Constant) and right.value is None
        zero = isinstance(right, t.Constant) and isinstance(right.value, int) and right.value in (0, 1)
        if (none and test.operator in ("is", "==")) or (zero and test.operator == "==" and t.path_of(left) is not None):
            return "second"
        if zero and test.operator in (">", "!=") and isinstance(left, t.Name):
            return "first"
    return "both"


_COUNTER = re.compile(r"(?:i|j|n|t|it|(?:\w+_)?(?:idx|index|step|iter|iteration|epoch))$")


def steady_way(stmt: t.If) -> str:
    """Which branch is the steady state: also where the other one makes what the condition misses, the first time.

    ``if average: average = 0.9 * average + 0.1 * loss``, ``else: average = loss``.
    """
    known = steady_branch(stmt.test)
    if known != "both":
        return known
    if _wraps_around(stmt):
        return "second"
    paths, is_set = set_test(stmt.test)
    makes, goes_on = (stmt.orelse, stmt.body) if is_set else (stmt.body, stmt.orelse)
    if "something" in _given(makes, paths) and _given(goes_on, paths) <= {"something"}:
        return "first" if is_set else "second"
    if is_set and "False" in _given(stmt.body, paths) and "something" not in _given(stmt.orelse, paths):
        return "second"  # if first: total, first = loss, False
    if is_set and not stmt.orelse and _goes_on_with(stmt.body, paths):
        return "first"  # if past is not None: keys = torch.cat([past, keys])
    counted, is_late = count_test(stmt.test)
    goes_on, makes = (stmt.body, stmt.orelse) if is_late else (stmt.orelse, stmt.body)
    if counted is not None and _bound(goes_on, anew=False) & _bound(makes, anew=True):
        return "first" if is_late else "second"
    return "both"


def _wraps_around(stmt: t.If) -> bool:
    """Whether a place in the data is behind its end, and begins anew: ``if at + size >= len(text): at, h = 0, start``.

    That is once in a pass over the data, as at the beginning of an epoch.
    """
    test = stmt.test
    if not isinstance(test, t.Operation) or test.operator not in (">=", ">") or len(test.operands) != 2:
        return False
    place, end = test.operands
    if not any(isinstance(node, t.Call) and node.name in ("len", "size") for node in t.walk(end)):
        return False
    bound = (pair for each in stmt.body if isinstance(each, t.Assign) for pair in t.pairs(each.targets, each.value))
    begun = {t.path_of(target) for target, value in bound if isinstance(value, t.Constant)}
    return not stmt.orelse and any(t.path_of(node) in begun for node in t.walk(place) if isinstance(node, t.Name))


def _goes_on_with(block: list[t.Stmt], paths: frozenset[str]) -> bool:
    """Whether all that a block does is to bind what it makes of what is at some paths."""
    used = set(paths)
    for stmt in block:
        if not isinstance(stmt, t.Assign | t.Augment) or used.isdisjoint(_paths_in(stmt.value)):
            return False
        targets = stmt.targets if isinstance(stmt, t.Assign) else [stmt.target]
        used |= {path for e in targets for n in t.names_in(e) if (path := t.path_of(n)) is not None}
    return bool(block)


def steady_value(expr: t.Conditional) -> str:
    """The same for an expression: that which goes on with what the condition asks for, if the other one does not."""
    known = steady_branch(expr.test)
    if known != "both":
        return known
    paths, is_set = set_test(expr.test)
    goes_on, makes = (expr.body, expr.orelse) if is_set else (expr.orelse, expr.body)
    used, made = _paths_in(goes_on), _paths_in(makes)
    if paths & used and not paths & made:
        return "first" if is_set else "second"
    return "both"


def set_test(test: t.Expr) -> tuple[frozenset[str], bool]:
    """The paths of which a condition asks whether they have something yet, and whether it holds if they have.

    ``x``, ``x is not None``, ``len(x) > 0``, ``key in x``, ``x and y``, and their opposites; no path for any other.
    """
    if isinstance(test, t.Operation) and test.operator == "not":
        paths, is_set = set_test(test.operands[0])
        return paths, not is_set
    if isinstance(test, t.Operation) and test.operator in ("and", "or"):
        parts = [set_test(operand) for operand in test.operands]
        if all(paths and is_set == (test.operator == "and") for paths, is_set in parts):
            return frozenset().union(*(paths for paths, _ in parts)), test.operator == "and"
        return frozenset(), True
    if isinstance(test, t.Operation) and len(test.operands) == 2:
        left, right = test.operands
        path = t.path_of(left.args[0].value) if isinstance(left, t.Call) and left.args else t.path_of(left)
        value = right.value if isinstance(right, t.Constant) else ...
        if value is None and test.operator in _IS_SET and not isinstance(left, t.Call):
            return _one(path), _IS_SET[test.operator]
        if value == 0 and test.operator in _IS_LONG and isinstance(left, t.Call) and t.path_of(left.func) == "len":
            return _one(path), _IS_LONG[test.operator]
        if test.operator in _IS_IN and isinstance(left, t.Constant | t.Name):
            return _one(t.path_of(t.Subscript(None, right, left))), _IS_IN[test.operator]
        return frozenset(), True
    return _one(t.path_of(test) if isinstance(test, t.Name | t.Attribute | t.Subscript) else None), True


def count_test(test: t.Expr) -> tuple[str | None, bool]:
    """The path of which a condition asks whether it counted anything yet, and whether it holds if it did."""
    if isinstance(test, t.Operation) and test.operator in _IS_LATE and len(test.operands) == 2:
        left, right = test.operands
        if isinstance(right, t.Constant) and type(right.value) is int and right.value in (0, 1):
            return t.path_of(left) if isinstance(left, t.Name | t.Attribute | t.Subscript) else None, _IS_LATE[
                test.operator
            ]
    return None, True


_IS_LATE = {">": True, ">=": True, "!=": True, "<": False, "<=": False, "==": False}
_IS_SET = {"is": False, "==": False, "is not": True, "!=": True}
_IS_LONG = {"==": False, "<": False, "!=": True, ">": True}
_IS_IN = {"in": True, "not in": False}


def _one(path: str | None) -> frozenset[str]:
    return frozenset((path,) if path is not None else ())


def _given(block: list[t.Stmt], paths: frozenset[str]) -> set[str]:
    """What a block binds some paths to, or entries of what is there: ``None``, ``False``, or ``something``."""
    found = set()
    for stmt in block:
        if isinstance(stmt, t.Assign) and any(_is_in(n, paths) for e in stmt.targets for n in t.names_in(e)):
            value = stmt.value.value if isinstance(stmt.value, t.Constant) else ...
            found.add("something" if value else "None" if value is None else "False")
    return found


def _is_in(target: t.Expr, paths: frozenset[str]) -> bool:
    """Whether it is one of some paths, or an entry of a collection there: ``states["h"]`` of ``states``."""
    return t.path_of(target) in paths or (isinstance(target, t.Subscript) and t.path_of(target.value) in paths)


def _bound(block: list[t.Stmt], *, anew: bool) -> set[str]:
    """The paths that a block binds: without what was there (``anew``), or going on from it."""
    found: set[str] = set()
    for stmt in block:
        if isinstance(stmt, t.Assign):
            used = _paths_in(stmt.value)
            targets = {path for e in stmt.targets for n in t.names_in(e) if (path := t.path_of(n)) is not None}
            found |= targets - used if anew else targets & used
        elif isinstance(stmt, t.Augment) and not anew and (path := t.path_of(stmt.target)) is not None:
            found.add(path)
    return found


def _paths_in(expr: t.Expr) -> set[str]:
    return {path for node in t.walk(expr) if isinstance(node, t.Expr) and (path := t.path_of(node)) is not None}
