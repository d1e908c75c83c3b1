"""Histories that are trimmed by a condition that holds for all that is in them: ``if position <= self.position``.

What was put in under a count is at or before the count of now, always: nothing is ever dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from gradguard.static import tree as t
from gradguard.static.kept.counted_keys import goes_up
from gradguard.static.kept.same_again import binds_anew
from gradguard.static.mistakes.kept import TrimmedNever
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.functions_called import calls_of
from gradguard.static.program.own_methods import methods_of

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_LEVELS = 3
_TURNED = {"<=": ">=", ">=": "<=", "<": ">", ">": "<"}
_OTHERWISE = {"<=": ">", ">": "<=", "<": ">=", ">=": "<"}


class _Trim(NamedTuple):
    """A statement that keeps what is at or before a bound.

    Args:
        path: the collection.
        bound: the bound.
        test: the condition.
    """

    stmt: t.Stmt
    path: str
    bound: t.Expr
    test: t.Expr


def trimmed_never(flow: Flow) -> Iterator[TrimmedNever]:
    """Where a method trims a collection of its object, and drops nothing (reads other files)."""
    owner = flow.ref.owner
    for trim in _trims(flow.ref.define) if owner is not None else ():
        count = _count(flow, trim.bound)
        if owner is None or count is None or not _is_put_under(owner, trim.path, f"self.{count}"):
            continue
        name = trim.path.removeprefix("self.")
        is_emptied = flow.project.survey.empties(name, flow.module, (flow.defined,))
        if is_emptied or not goes_up(flow, owner, f"self.{count}"):
            continue
        if _is_run_in_training(flow, _LEVELS):
            yield TrimmedNever(flow.site(trim.test), trim.path, f"self.{count}")


def trims_by_keys(define: t.Define) -> bool:
    """Whether a method trims a collection of its object as a comparison of keys says."""
    return next(_trims(define), None) is not None


def _trims(define: t.Define) -> Iterator[_Trim]:
    """The statements that bind a collection to some of itself, or delete some, as a comparison of their keys says."""
    for stmt in define.statements:
        if isinstance(stmt, t.Assign) and len(stmt.targets) == 1:
            path, value = t.path_of(stmt.targets[0]), stmt.value
            if isinstance(value, t.Call) and value.name in ("deque", "list", "dict") and len(value.args) == 1:
                value = value.args[0].value
            if path is not None and isinstance(value, t.Comprehension) and len(value.clauses) == 1:
                (clause,) = value.clauses
                if _of(clause.iterable) == path and len(clause.conditions) == 1:
                    yield from _kept_up_to(stmt, path, clause.target, clause.conditions[0], is_kept=True)
        elif isinstance(stmt, t.Repeat) and stmt.iterable is not None and stmt.target is not None:
            path = _of(stmt.iterable)
            inner = stmt.body[0] if len(stmt.body) == 1 else None
            if path is not None and isinstance(inner, t.If) and not inner.orelse and _deletes(inner.body, path):
                yield from _kept_up_to(stmt, path, stmt.target, inner.test, is_kept=False)


def _of(iterable: t.Expr) -> str | None:
    """The collection of ``self.states.items()``, ``list(self.states)``."""
    if (
        isinstance(iterable, t.Call)
        and isinstance(iterable.func, t.Name)
        and iterable.name in ("list", "tuple", "sorted")
    ):
        return _of(iterable.args[0].value) if len(iterable.args) == 1 else None
    if isinstance(iterable, t.Call) and isinstance(iterable.func, t.Attribute) and not iterable.args:
        iterable = iterable.func.value if iterable.name in ("items", "keys", "copy") else iterable
    path = t.path_of(iterable)
    return path if path is not None and path.startswith("self.") and path[5:].isidentifier() else None


def _deletes(body: list[t.Stmt], path: str) -> bool:
    stmt = body[0] if len(body) == 1 else None
    if isinstance(stmt, t.Delete):
        return all(isinstance(each, t.Subscript) and t.path_of(each.value) == path for each in stmt.targets)
    call = stmt.value if isinstance(stmt, t.Evaluate) else None
    return isinstance(call, t.Call) and t.path_of(call.func) == f"{path}.pop"


def _kept_up_to(stmt: t.Stmt, path: str, target: t.Expr, test: t.Expr, *, is_kept: bool) -> Iterator[_Trim]:
    """The trim, if it keeps what has a key up to a bound, with that: ``k <= bound`` is kept, ``k > bound`` deleted."""
    key = t.path_of(target.items[0] if isinstance(target, t.Display) and target.items else target)
    if not isinstance(test, t.Operation) or test.operator not in _TURNED or len(test.operands) != 2:
        return
    (left, right), operator = test.operands, test.operator
    if t.path_of(right) == key:
        left, right, operator = right, left, _TURNED[operator]
    keeps = operator if is_kept else _OTHERWISE[operator]
    if key is not None and t.path_of(left) == key and keeps == "<=":
        yield _Trim(stmt, path, right, test)


def _count(flow: Flow, bound: t.Expr) -> str | None:
    """The attribute of the object that a bound is, also as callers give it: ``sampler.commit(sampler.position)``."""
    path = t.path_of(bound) or ""
    if path.startswith("self."):
        return path[5:] if path[5:].isidentifier() else None
    if path not in flow.params or path in flow.ref.assigned:
        return None
    found = set[str | None]()
    for _, call in calls_of(flow):
        given = t.path_of(each) if (each := flow.ref.given_by(call).get(path)) is not None else None
        receiver = t.path_of(call.func.value) if isinstance(call.func, t.Attribute) else None
        owner, _, name = (given or "").rpartition(".")
        found.add(name if receiver is not None and owner == receiver else None)
    return found.pop() if len(found) == 1 else None


def _is_put_under(owner: Class, path: str, count: str) -> bool:
    """Whether all that methods put into a dict, or a list, is under the count: ``self.states[self.position] = ...``."""
    keys: list[bool] = []
    for method in methods_of(owner):
        for node in method.define.nodes:
            if isinstance(node, t.Assign):
                into = [
                    each for each in node.targets if isinstance(each, t.Subscript) and t.path_of(each.value) == path
                ]
                keys += [_is_count(method, each.index, count) for each in into]
            elif isinstance(node, t.Call) and isinstance(node.func, t.Attribute) and t.path_of(node.func.value) == path:
                given = node.args[0].value if len(node.args) == 1 else None
                first = given.items[0] if isinstance(given, t.Display) and given.items else None
                is_append = node.name == "append" and first is not None and _is_count(method, first, count)
                keys += [is_append] if node.name not in ("items", "keys", "values", "get", "pop", "copy") else []
    return bool(keys) and all(keys)


def _is_count(method: FunctionRef, key: t.Expr, count: str) -> bool:
    bound = method.bound_to(key)
    return len(bound) == 1 and count in (t.path_of(key), t.path_of(bound[0]))


def _is_run_in_training(flow: Flow, levels: int) -> bool:
    """Whether a loop that trains runs a method of one object, or a method of it that runs this one."""
    for caller, call in calls_of(flow) if levels else ():
        base = (t.path_of(call.func.value) or "").partition(".")[0] if isinstance(call.func, t.Attribute) else ""
        around = [loop for loop in caller.facts.loops if loop.trains and loop.is_long and call in loop.nodes]
        if any(not binds_anew(loop, base) for loop in around):
            return True
        if not around and base == "self" and _is_run_in_training(caller, levels - 1):
            return True
    return False
