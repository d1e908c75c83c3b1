"""Dicts that keep what is made under a random number: ``start = rng.integers(n - size)``, ``made[path, start] = crop``.

It is another number nearly each time, so that what is kept is hardly ever found again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.kept.kept_under import kept_under, parts_of
from gradguard.static.mistakes.kept import RandomKey
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.functions_called import calls_of, functions_called

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_ANY_NUMBER = frozenset(
    "random uniform uniform_ rand randn normal normal_ gauss random_sample standard_normal normalvariate".split()
)
_ONLY_ONCE = frozenset("uuid1 uuid4 time time_ns perf_counter perf_counter_ns monotonic".split())
_WHOLE = frozenset("randint randrange integers".split())
_MADE_OF = frozenset("int float str tuple hash repr item tolist hex".split())
_SHIFTS = frozenset(("+", "-", "%"))
_SCALES = frozenset(("*", "/", "**"))
_MANY = 10_000
_DEPTH = 4


def random_keys(flow: Flow) -> Iterator[RandomKey]:
    """Where a function keeps what it makes under what it draws, or its caller."""
    for kept in kept_under(flow):
        if any(asks_length(node, kept.collection) for node in flow.ref.define.nodes):
            continue  # if len(self.made) < self.most: ...
        if _is_made_up(flow, kept.key):
            continue
        drawn = (each for part in parts_of(flow.ref, kept.key) for each in _drawn(flow, part))
        found = next(drawn, None)
        if found is not None:
            where, draw = found
            yield RandomKey(flow.site(kept.stmt), kept.collection, flow.site(kept.key), where.site(draw))


def _is_made_up(flow: Flow, key: t.Expr) -> bool:
    """Whether a key is a parameter that is drawn where the caller gives none: ``if key is None: key = uuid4()``."""
    if not isinstance(key, t.Name) or key.id not in flow.params:
        return False
    return any(_is_none(node, key.id) for node in flow.ref.define.nodes if isinstance(node, t.Operation))


def _is_none(test: t.Operation, name: str) -> bool:
    last = test.operands[-1]
    is_it = test.operator == "is" and t.path_of(test.operands[0]) == name
    return is_it and isinstance(last, t.Constant) and last.value is None


def asks_length(node: t.Node, path: str) -> bool:
    return isinstance(node, t.Call) and node.name == "len" and any(t.path_of(arg.value) == path for arg in node.args)


def _drawn(flow: Flow, expr: t.Expr, depth: int = _DEPTH, whole: bool = False) -> Iterator[tuple[Flow, t.Expr]]:
    """The draw that an expression surely comes from, with the function that draws.

    Args:
        whole: it is cut to a whole number, of which there are few where the draw is scaled, ``int(8 * random())``.
    """
    if isinstance(expr, t.Name):
        yield from _bound_to_draw(flow, expr.id, depth, whole) if depth else ()
    elif isinstance(expr, t.Text | t.Display):
        for part in expr.parts if isinstance(expr, t.Text) else expr.items:
            yield from _drawn(flow, part, depth, whole)
    elif isinstance(expr, t.Operation) and (expr.operator in _SHIFTS or (expr.operator in _SCALES and not whole)):
        for operand in expr.operands if expr.operator != "%" or isinstance(expr.operands[0], t.Constant) else ():
            yield from _drawn(flow, operand, depth, whole)
    elif isinstance(expr, t.Call):
        yield from _drawn_by(flow, expr, depth, whole)


def _bound_to_draw(flow: Flow, name: str, depth: int, whole: bool) -> Iterator[tuple[Flow, t.Expr]]:
    if name not in flow.params:
        bound = _without_defaults(flow, flow.ref.assigned.get(name, []))
        draws = [next(_drawn(flow, value, depth - 1, whole), None) for value in bound]
        yield from (draw for draw in draws[:1] if draw is not None and None not in draws)
    elif name not in flow.ref.assigned:
        for caller, call in calls_of(flow):
            given = flow.ref.given_by(call).get(name)
            yield from _drawn(caller, given, depth - 1, whole) if given is not None else ()


def _without_defaults(flow: Flow, bound: list[t.Expr]) -> list[t.Expr]:
    """Less the constants that come before all else: ``gain = 1.0``, ``if self.training: gain = uniform(0.5, 2)``."""
    others = [flow.site(value).line for value in bound if not isinstance(value, t.Constant)]
    first = min(others, default=0) if len(others) < len(bound) else 0
    return [value for value in bound if not first or flow.site(value).line >= first]


def _drawn_by(flow: Flow, call: t.Call, depth: int, whole: bool) -> Iterator[tuple[Flow, t.Expr]]:
    if _is_draw(flow.ref, call):
        yield flow, call
    elif call.name in _MADE_OF:
        of = [call.func.value] if isinstance(call.func, t.Attribute) else [arg.value for arg in call.args]
        for each in of:
            yield from _drawn(flow, each, depth, whole or call.name == "int")
    elif call.name == "format" and isinstance(call.func, t.Attribute):
        for arg in call.args:
            yield from _drawn(flow, arg.value, depth, whole)
    elif depth:
        for callee in functions_called(flow, call):
            given = list(callee.given_back())
            if given and all(isinstance(value, t.Call) and _is_draw(callee, value) for value in given):
                yield flow, call


def _is_draw(ref: FunctionRef, call: t.Call) -> bool:
    """Whether it gives one of very many numbers, or the place of a crop."""
    path = t.path_of(call.func) or ""
    if call.name in _WHOLE:
        return _is_of_many(ref, call)
    if call.name == "get_params":
        return "Crop" in path
    is_clock = call.name in _ONLY_ONCE and (path in _ONLY_ONCE or path.split(".")[0] in ("time", "uuid"))
    return is_clock or call.name in _ANY_NUMBER


def _is_of_many(ref: FunctionRef, call: t.Call) -> bool:
    """Whether the numbers that it is drawn from are many: all starts of a window, ``randint(0, n - size)``.

    Of ``randrange(len(self.files))`` there are as many as there are files, which is what a cache is for.
    """
    given = [arg.value for arg in call.args if arg.keyword is None and not isinstance(arg.value, t.Display)]
    named = [arg.value for arg in call.args if arg.keyword in ("high", "stop", "b")]
    ends = named or given[:2][-1:]
    return any(_is_many(each) for end in ends for each in _choices(ref, end))


def _choices(ref: FunctionRef, end: t.Expr) -> Iterator[t.Expr]:
    """What the end of a range may be: a variable's values, both of ``max(1, n - size)``."""
    for value in ref.bound_to(end):
        if isinstance(value, t.Call) and value.name in ("max", "min", "int"):
            yield from (each for arg in value.args for each in ref.bound_to(arg.value))
        else:
            yield value


def _is_many(end: t.Expr) -> bool:
    """``20_000``, ``2**31 - 1``, ``len(signal) - size + 1``, ``sys.maxsize``."""
    if isinstance(end, t.Constant):
        return isinstance(end.value, int) and end.value >= _MANY
    if not isinstance(end, t.Operation):
        return t.path_of(end) == "sys.maxsize"
    first, last = end.operands[0], end.operands[-1]
    if end.operator == "-":
        return not isinstance(last, t.Constant) or _is_many(first)
    if end.operator in ("**", "<<"):
        return isinstance(last, t.Constant) and isinstance(last.value, int) and last.value >= 14
    return end.operator == "+" and any(map(_is_many, end.operands))
