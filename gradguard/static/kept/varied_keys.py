"""Keys of a cache that are new with nearly each batch: a number for each sample, ``tuple(len(s) for s in batch)``.

There are as many as there are batches that differ, which has no end where the batches are drawn.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.model import Site
from gradguard.static.program.functions_called import functions_called, functions_run

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_DRAWS = frozenset(
    "sample choice choices randint randrange randperm permutation integers rand randn uniform multinomial".split()
)
_SHUFFLES = re.compile(r"\bshuffle\s*=\s*True\b|\bRandomSampler\(")
_DEPTH = 8


def varied_keys(flow: Flow) -> Iterator[Site]:
    """Where the arguments of a function are made that are nearly never the same: in each step of a training anew.

    Only of a function that gives tensors.
    """
    if any(map(_is_tensor, flow.ref.given_back())):
        for caller, call in calls_running(flow):
            for given in flow.ref.given_by(call).values():
                yield from (at.site(made) for at, made in _numbers(caller, given, _runs_again(caller), _DEPTH))


def _numbers(flow: Flow, expr: t.Expr, again: bool, depth: int) -> Iterator[tuple[Flow, t.Expr]]:
    """The tuple of a number for each sample that an expression is, with the function that makes it.

    Args:
        again: each step runs the function anew.
    """
    rows = _rows(expr)
    if rows is not None:
        is_new = (again or _is_again(flow, expr)) and _is_drawn(flow, rows, again, depth)
        yield from [(flow, expr)] if is_new else ()
    elif depth:
        for at, value, anew in _before(flow, expr, again):
            yield from _numbers(at, value, anew, depth - 1)


def _is_tensor(value: t.Expr) -> bool:
    """Whether what may be a tensor is no number that Python computes: ``torch.zeros(n)``, ``ends.float() / n``."""
    if isinstance(value, t.Operation):
        return any(map(_is_tensor, value.operands))
    return isinstance(value, t.Call) and isinstance(value.func, t.Attribute) and value.name != "item"


def _rows(expr: t.Expr) -> t.Expr | None:
    """The samples of each of which a tuple has a number: lengths, or the values of a tensor."""
    if not isinstance(expr, t.Call) or t.path_of(expr.func) not in ("tuple", "sorted") or not expr.args:
        return None
    given = expr.args[0].value
    if isinstance(given, t.Comprehension):
        clause = given.clauses[0]
        each = t.path_of(clause.target)
        return clause.iterable if len(given.clauses) == 1 and _asks_length(given.element, each) else None
    if not isinstance(given, t.Call):
        return None
    if isinstance(given.func, t.Attribute) and given.name == "tolist":
        return given.func.value
    if t.path_of(given.func) == "map" and len(given.args) == 2 and t.path_of(given.args[0].value) == "len":
        return given.args[1].value
    return _rows(given)


def _asks_length(element: t.Expr, each: str | None) -> bool:
    """Whether it is the length of a sample, or one more or less: what is rounded up to a bucket has few values."""
    if isinstance(element, t.Operation) and element.operator in ("+", "-") and len(element.operands) == 2:
        first, last = element.operands
        return isinstance(last, t.Constant) and _asks_length(first, each)
    if not isinstance(element, t.Call) or t.path_of(element.func) != "len" or len(element.args) != 1:
        return False
    return each is not None and t.path_of(element.args[0].value) == each


def _is_drawn(flow: Flow, rows: t.Expr, again: bool, depth: int) -> bool:
    """Whether samples are drawn in each step, on each way that is seen to them."""
    if any(_draws(node) for node in t.walk([rows])):
        return again or _is_again(flow, rows)
    if depth == 0 or _is_of_shuffled(flow, rows):
        return depth > 0
    before = list(_before(flow, rows, again))
    return any(_is_drawn(at, value, anew, depth - 1) for at, value, anew in before)


def _is_of_shuffled(flow: Flow, rows: t.Expr) -> bool:
    """Whether it is a part of the batch of a loader that shuffles: ``for x, lengths in loader``."""
    path = t.path_of(rows)
    taken = (loop for loop in flow.facts.loops if loop.trains and loop.over_loader and path in loop.targets)
    return any(True for _ in taken) and flow.project.survey.mentions(_SHUFFLES, flow.module)


def _draws(node: t.Node) -> bool:
    """Whether it draws, or makes something several times over of the same: ``[sentence(rng) for _ in range(8)]``."""
    if isinstance(node, t.Call):
        return node.name in _DRAWS
    if not isinstance(node, t.Comprehension) or not isinstance(node.element, t.Call):
        return False
    over = node.clauses[0].iterable
    used = {name.id for name in t.walk([node.element]) if isinstance(name, t.Name)}
    is_counted = isinstance(over, t.Call) and t.path_of(over.func) == "range" and len(node.clauses) == 1
    return is_counted and t.path_of(node.clauses[0].target) not in used and bool(node.element.args)


def _before(flow: Flow, expr: t.Expr, again: bool) -> Iterator[tuple[Flow, t.Expr, bool]]:
    """What an expression has its value of: what binds it, what a function gives back, what callers give.

    Each with its function, and whether each step runs that anew.
    """
    path = t.path_of(expr)
    if isinstance(expr, t.Call):
        yield from _given_back(flow, expr, None, again)
    elif isinstance(expr, t.Subscript) and isinstance(expr.value, t.Call) and isinstance(expr.index, t.Constant):
        yield from _given_back(flow, expr.value, expr.index.value, again)
    elif path is not None and path in flow.ref.assigned:
        yield from _bound(flow, path, again)
    elif path in flow.params:
        for caller, call in calls_running(flow):
            given = flow.ref.given_by(call).get(path)
            yield from [(caller, given, _runs_again(caller))] if given is not None else ()


def _bound(flow: Flow, path: str, again: bool) -> Iterator[tuple[Flow, t.Expr, bool]]:
    """What assignments bind a path to, also as one of several that a function gives back."""
    bound = (stmt for stmt in flow.ref.define.statements if isinstance(stmt, t.Assign))
    for target, value in (pair for stmt in bound for pair in t.pairs(stmt.targets, stmt.value)):
        if t.path_of(target) == path:
            yield flow, value, again
        for place, item in enumerate(target.items if isinstance(target, t.Display) else ()):
            if t.path_of(item) == path and isinstance(value, t.Call):
                yield from _given_back(flow, value, place, again)


def _given_back(flow: Flow, call: t.Call, place: object, again: bool) -> Iterator[tuple[Flow, t.Expr, bool]]:
    """What the functions that a call names give back: all of it, or one of several things."""
    anew = again or _is_again(flow, call)
    for ref in functions_called(flow, call):
        inner = flow.project.flow(ref)
        for value in ref.given_back() if inner is not None else ():
            items = value.items if isinstance(value, t.Display) else []
            if inner is not None and place is None:
                yield inner, value, anew
            elif inner is not None and isinstance(place, int) and 0 <= place < len(items):
                yield inner, items[place], anew


def _runs_again(flow: Flow) -> bool:
    """Whether a loop that trains runs a function in each of its iterations, as a method that takes one step."""
    return any(_is_again(caller, call) for caller, call in calls_running(flow))


def calls_running(flow: Flow) -> Iterator[tuple[Flow, t.Call]]:
    """The calls of a function, by its name; of a ``forward`` also those of its object."""
    ref = flow.ref
    for caller in flow.project.calling(ref):
        for call in caller.ref.calls if caller.ref.define is not ref.define else ():
            if any(each.define is ref.define for each in functions_run(caller, call)):
                yield caller, call


def _is_again(flow: Flow, node: t.Node) -> bool:
    """Whether a loop that trains comes to a node anew in each of its iterations."""
    loops = (loop for loop in flow.facts.loops if loop.trains and loop.is_long)
    return any(any(inner is node for inner in loop.nodes) for loop in loops)
