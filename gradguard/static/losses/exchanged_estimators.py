"""Straight-through estimators the wrong way round: they have the value of what was to be rounded."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gradguard.static import tree as t
from gradguard.static.mistakes.losses import Exchanged
from gradguard.static.model import Mode
from gradguard.static.program.functions_called import functions_run
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_DEPTH = 6
_STEPS = frozenset(
    "round round_ floor ceil trunc fix sign sgn heaviside argmax argmin one_hot bernoulli multinomial searchsorted "
    "bucketize long int".split()
)
"""What has no gradient of what it is given: its derivative is zero, or it gives indices."""
_WITH_INDICES = frozenset("min max topk sort kthvalue".split())
"""What gives values and indices."""
_OF_SHAPE = frozenset("shape dtype device size dim ndim numel stride".split())
_LIKE_THESE = frozenset("view_as type_as reshape_as expand_as zeros_like ones_like empty_like full_like to".split())
_COMPARISONS = frozenset(("==", "!=", "<", ">", "<=", ">="))
_CHOOSES = re.compile(r"\barg(?:min|max)\b|\bone_hot\(|\bsearchsorted\(|\bbucketize\(|\.(?:min|topk)\(")
_OWN_ESTIMATOR = re.compile(r"\.detach\(\)|\.data\b|\.apply\(|autograd|stop_grad|softmax")


class _Term(NamedTuple):
    path: str
    is_added: bool
    is_cut: bool


class _Way(NamedTuple):
    """How a value is made of another one.

    Args:
        goes_through: a gradient may go from one to the other.
        is_stepped: it is made of it by rounding, or by a choice.
    """

    goes_through: bool = False
    is_stepped: bool = False


def exchanged(flow: Flow) -> Iterator[Exchanged]:
    """The sums ``q + (z - q).detach()`` in which ``q`` was rounded, or chosen by an index, of ``z``."""
    if flow.facts.is_test or flow.facts.entry_mode is Mode.OFF or not flow.module.names_torch:
        return
    for node in flow.ref.define.nodes:
        if not isinstance(node, t.Operation) or node.operator not in ("+", "-"):
            continue
        pair = _pair(list(_terms(flow, node)))
        if pair is not None and _is_step_of(flow, node, *pair):
            yield Exchanged(flow.site(node), *pair)


def _pair(terms: Sequence[_Term | None]) -> tuple[str, str] | None:
    """``q`` and ``z`` of ``q + z.detach() - q.detach()``."""
    known = [term for term in terms if term is not None]
    live = [term for term in known if not term.is_cut]
    cut = [term for term in known if term.is_cut]
    if len(known) != 3 or len(terms) != 3 or len(live) != 1 or not live[0].is_added:
        return None
    taken = [term.path for term in cut if not term.is_added]
    added = [term.path for term in cut if term.is_added]
    return (live[0].path, added[0]) if taken == [live[0].path] and added and added != taken else None


def _terms(flow: Flow, expr: t.Expr, *, is_added: bool = True, is_cut: bool = False) -> Iterator[_Term | None]:
    """What is added up, each with what is known of it; None for what is no variable."""
    inner = _cut(expr)
    if inner is not None:
        yield from _terms(flow, inner, is_added=is_added, is_cut=True)
    elif isinstance(expr, t.Operation) and expr.operator in ("+", "-"):
        for sign, operand in t.signed(expr):
            yield from _terms(flow, operand, is_added=is_added == (sign > 0), is_cut=is_cut)
    else:
        path = t.path_of(expr)
        bound = flow.ref.assigned.get(path, []) if isinstance(expr, t.Name) and path is not None else []
        if len(bound) == 1 and isinstance(difference := _cut(bound[0]), t.Operation) and difference.operator == "-":
            yield from _terms(flow, bound[0], is_added=is_added, is_cut=is_cut)
        else:
            yield _Term(path, is_added, is_cut) if path is not None else None


def _cut(expr: t.Expr) -> t.Expr | None:
    """``x`` of ``x.detach()`` and ``x.data``."""
    return expr.value if isinstance(expr, t.Attribute) and expr.name == "data" else t.detached(expr)


# --- how the one is made of the other ---------------------------------------------------------------------------


def _is_step_of(flow: Flow, whole: t.Expr, chosen: str, encoded: str) -> bool:
    """Whether what has the gradient is made of the other one by a step alone, and the other one not of it."""
    line = flow.site(whole).line
    made = _bound_before(flow, chosen, line)
    if not made or any(chosen in _paths(flow, value, line, _DEPTH) for value in _bound_before(flow, encoded, line)):
        return False
    ways = [_way(flow, value, encoded, line, _DEPTH) for value in made]
    return all(way.is_stepped and not way.goes_through for way in ways)


def _bound_before(flow: Flow, path: str, line: int) -> list[t.Expr]:
    return [value for value in flow.ref.assigned.get(path, []) if flow.site(value).line < line]


def _paths(flow: Flow, expr: t.Expr, line: int, depth: int) -> set[str]:
    """The variables of which a value is made, as far as the function shows it."""
    found = {path for node in t.walk(expr) if isinstance(node, t.Name | t.Attribute) and (path := t.path_of(node))}
    for path in list(found) if depth else ():
        for value in _bound_before(flow, path, line):
            if value is not expr:
                found |= _paths(flow, value, flow.site(value).line, depth - 1)
    return found


def _way(flow: Flow, expr: t.Expr, of: str, line: int, depth: int) -> _Way:
    """How an expression is made of a variable."""
    if not depth:
        return _Way(goes_through=True)
    path = t.path_of(expr)
    if path == of:
        return _Way(goes_through=True)
    if path is not None and isinstance(expr, t.Name | t.Attribute) and (bound := _bound_before(flow, path, line)):
        ways = [_way(flow, value, of, flow.site(value).line, depth - 1) for value in bound]
        if _is_second_of_two(flow, path):
            return _Way(is_stepped=any(way.goes_through or way.is_stepped for way in ways))
        return _together(ways)
    if isinstance(expr, t.Attribute) and expr.name in _OF_SHAPE:
        return _Way()
    parts = [_way(flow, part, of, line, depth) for part in _parts(expr)]
    way = _together(parts)
    if _is_step(flow, expr):
        return _Way(is_stepped=way.goes_through or way.is_stepped)
    return way


def _together(ways: Sequence[_Way]) -> _Way:
    return _Way(any(way.goes_through for way in ways), any(way.is_stepped for way in ways))


def _parts(expr: t.Expr) -> list[t.Expr]:
    """The operands of an expression, without those of which it takes the shape alone."""
    if isinstance(expr, t.Call):
        if isinstance(expr.func, t.Attribute) and expr.func.name in _OF_SHAPE:
            return []
        of = [expr.func.value] if isinstance(expr.func, t.Attribute) else []
        return of if expr.name in _LIKE_THESE else [*of, *(arg.value for arg in expr.args)]
    if isinstance(expr, t.Operation):
        return expr.operands
    if isinstance(expr, t.Subscript):
        return [expr.value, expr.index]
    if isinstance(expr, t.Attribute):
        return [expr.value]
    if isinstance(expr, t.Display):
        return expr.items
    return []


def _is_step(flow: Flow, expr: t.Expr) -> bool:
    """Whether what an expression gives has no gradient of what it is made of."""
    if isinstance(expr, t.Operation):
        return expr.operator in _COMPARISONS
    if isinstance(expr, t.Attribute):
        return expr.name == "indices"
    if isinstance(expr, t.Subscript):  # d.min(1)[1]
        is_second = isinstance(expr.index, t.Constant) and expr.index.value == 1
        return is_second and isinstance(expr.value, t.Call) and expr.value.name in _WITH_INDICES
    if not isinstance(expr, t.Call):
        return False
    is_step = expr.name in _STEPS and not (isinstance(expr.func, t.Name) and expr.name in ("round", "int"))
    return is_step or _chooses(flow, expr)


def _chooses(flow: Flow, call: t.Call) -> bool:
    """Whether a function of the program gives the index of what is nearest, and no estimator."""
    codes = [Site(ref.chunk, ref.define).code for ref in functions_run(flow, call)]
    return bool(codes) and all(_CHOOSES.search(code) and not _OWN_ESTIMATOR.search(code) for code in codes)


def _is_second_of_two(flow: Flow, path: str) -> bool:
    """Whether a variable has the indices of ``_, index = distances.min(1)``."""
    found = False
    for stmt in flow.ref.define.statements:
        target = stmt.targets[0] if isinstance(stmt, t.Assign) else None
        paths = [t.path_of(item) for item in target.items] if isinstance(target, t.Display) else []
        if isinstance(stmt, t.Assign) and (path in paths or path in list(map(t.path_of, stmt.targets))):
            is_second = len(paths) == 2 and paths[1] == path and paths[0] != path
            if not is_second or not isinstance(stmt.value, t.Call) or stmt.value.name not in _WITH_INDICES:
                return False
            found = True
    return found
