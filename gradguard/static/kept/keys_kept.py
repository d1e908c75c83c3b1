"""Tensors that a list keeps, and that a cached function is given again and again: the cache finds each of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.kept.same_again import ALWAYS, loop_of_same
from gradguard.static.program.bound_paths import binds
from gradguard.static.program.functions_called import calls_of, functions_called
from gradguard.static.program.names import iterable_path

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_LEVELS = 2
_GIVING_THEM = frozenset(("enumerate", "tqdm", "list", "reversed", "sorted"))


def is_given_kept(flow: Flow) -> bool:
    """Whether each call gives a cached function elements of a list that is made once (reads other files)."""
    given = [
        (caller, flow.ref.given_by(call).get(name))
        for caller, call in calls_of(flow)
        for name in flow.facts.tensor_params
    ]
    return bool(given) and all(_is_element(caller, value) for caller, value in given)


def _is_element(flow: Flow, value: t.Expr | None) -> bool:
    """Whether a variable is only ever bound to what is taken out of such a list, or to a part of that."""
    if isinstance(value, t.Subscript) and isinstance(value.value, t.Name) and not isinstance(value.index, t.Slice):
        return _is_made_once(flow, value.value.id, _LEVELS)
    if not isinstance(value, t.Name) or value.id in flow.params:
        return False
    collections = list(_taken_from(flow, value.id))
    return bool(collections) and all(name is not None and _is_made_once(flow, name, _LEVELS) for name in collections)


def _taken_from(flow: Flow, name: str) -> Iterator[str | None]:
    """What each statement that binds a variable takes it out of: ``x, edges = parts[i]``, ``for x, edges in parts``."""
    for stmt in flow.ref.define.statements:
        if isinstance(stmt, t.Repeat) and stmt.target is not None and stmt.iterable is not None:
            if name in map(t.path_of, t.names_in(stmt.target)):
                is_as_it_is = not isinstance(stmt.iterable, t.Call) or stmt.iterable.name in _GIVING_THEM
                yield iterable_path(stmt.iterable) if is_as_it_is else None
        elif isinstance(stmt, t.Assign) and binds(stmt, name):
            is_item = isinstance(stmt.value, t.Subscript) and not isinstance(stmt.value.index, t.Slice)
            yield t.path_of(stmt.value.value) if is_item and isinstance(stmt.value, t.Subscript) else None
        elif not isinstance(stmt, t.Repeat) and binds(stmt, name):
            yield None


def _is_made_once(flow: Flow, name: str, levels: int) -> bool:
    """Whether a variable is a list that no loop makes anew, there or in each function that gives it."""
    if name in flow.params:
        given = [(caller, flow.ref.given_by(call).get(name)) for caller, call in calls_of(flow)] if levels else []
        paths = [(caller, t.path_of(value)) for caller, value in given if value is not None]
        is_known = bool(paths) and len(paths) == len(given)
        return is_known and all(path is not None and _is_made_once(at, path, levels - 1) for at, path in paths)
    bound = flow.ref.assigned.get(name, [])
    loops = (stmt for stmt in flow.ref.define.statements if isinstance(stmt, t.Repeat))
    if len(bound) != 1 or any(binds(each, name) for loop in loops for each in t.walk_statements([loop])):
        return False
    return _is_list(flow, bound[0]) and loop_of_same(flow, bound[0], (ALWAYS,)) is None


def _is_list(flow: Flow, value: t.Expr) -> bool:
    """Whether an expression is written as a list, or is what functions of the program fill one with."""
    if isinstance(value, t.Display | t.Comprehension):
        return value.kind == "list"
    called = functions_called(flow, value) if isinstance(value, t.Call) else iter(())
    made = [each for ref in called for each in ref.given_back()]
    return bool(made) and all(isinstance(each, t.Display | t.Comprehension) and each.kind == "list" for each in made)
