"""Keys of a cache that follow a schedule: a temperature that is another one in each step, ``cache[name, tau]``.

What is kept for the value of one step is not found again in the next one, and stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.kept.kept_under import KeptUnder, kept_under, parts_of
from gradguard.static.kept.varied_keys import calls_running
from gradguard.static.mistakes.kept import RandomKey
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.functions_called import functions_called

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_ARITHMETIC = frozenset(("+", "-", "*", "/", "**"))
_SMOOTH = frozenset("exp cos sin sqrt log tanh pow".split())
_AS_IT_IS = frozenset("str float repr".split())
_DEPTH = 5
_NOT, _COUNT, _COMPUTED = 0, 1, 2


def scheduled_keys(flow: Flow) -> Iterator[RandomKey]:
    """Where a function keeps what it makes under a number that a training computes of its step (reads other files)."""
    for kept in (*kept_under(flow), *_registered(flow)):
        made = (found for part in parts_of(flow.ref, kept.key) for found in _made_of_step(flow, part, _DEPTH))
        found = next(made, None)
        if found is not None and not _is_gone_through(flow, kept.collection):
            where, value = found
            yield RandomKey(flow.site(kept.stmt), kept.collection, flow.site(kept.key), where.site(value))


def _is_gone_through(flow: Flow, path: str) -> bool:
    """Whether a program asks how much there is in a dict, or goes through all: a record of the steps is read so."""
    word = path.rpartition(".")[2]
    name = re.escape(word)
    read = (
        rf"\b{name}\.(?:items|values|keys|pop\w*|clear)\(|\bfor\b[^\n]*\bin\s+[\w.(]*\b{name}\b|"
        rf"\([\w.]*\b{name}\)|\bdel\b[^\n]*\b{name}\["
    )
    return flow.project.survey.mentions(re.compile(read), flow.module, word)


# --- classes that register themselves ----------------------------------------------------------------------------


def _registered(flow: Flow) -> Iterator[KeptUnder]:
    """The classes that a function makes under a name it has looked for: ``type(name, (Op,), {...})``.

    Where the base keeps all of them: ``def __init_subclass__(cls): Op.registry[cls.__name__] = cls``.
    """
    looked_up = {
        t.path_of(node.operands[-1]): node.operands[0]
        for node in flow.ref.define.all(t.Operation)
        if node.operator in ("in", "not in")
    }
    for stmt in flow.ref.define.statements if looked_up else ():
        made = stmt.value if isinstance(stmt, t.Return | t.Assign) else None
        if not isinstance(made, t.Call) or t.path_of(made.func) != "type" or len(made.args) != 3:
            continue
        name, bases = made.args[0].value, made.args[1].value
        for base in bases.items if isinstance(bases, t.Display) else ():
            cls = flow.module.value_of(base).ref
            for path in _registries(cls) if isinstance(cls, Class) else ():
                if path in looked_up and t.path_of(looked_up[path]) == t.path_of(name) is not None:
                    yield KeptUnder(stmt, path, name)


def _registries(cls: Class) -> Iterator[str]:
    """The dicts in which a class keeps all that are derived from it, by their names."""
    method = cls.method("__init_subclass__")
    for stmt in method.define.statements if method is not None else ():
        target = stmt.targets[0] if isinstance(stmt, t.Assign) else None
        is_all = isinstance(target, t.Subscript) and t.path_of(target.index) == "cls.__name__"
        path = t.path_of(target.value) if isinstance(target, t.Subscript) and is_all else None
        if path is not None and isinstance(stmt, t.Assign) and t.path_of(stmt.value) == "cls":
            yield path.replace("cls.", f"{cls.name}.", 1) if path.startswith("cls.") else path


# --- numbers of a schedule ---------------------------------------------------------------------------------------


def _made_of_step(flow: Flow, expr: t.Expr, depth: int) -> Iterator[tuple[Flow, t.Expr]]:
    """The expression that computes a part of a key of the number of the step, with the function that does."""
    if depth == 0:
        return
    if isinstance(expr, t.Text | t.Display):
        for part in expr.parts if isinstance(expr, t.Text) else expr.items:
            yield from _made_of_step(flow, part, depth)
    elif isinstance(expr, t.Name) and expr.id in flow.params:
        for caller, call in calls_running(flow) if expr.id not in flow.ref.assigned else ():
            given = flow.ref.given_by(call).get(expr.id)
            yield from _made_of_step(caller, given, depth - 1) if given is not None else ()
    elif isinstance(expr, t.Call) and t.path_of(expr.func) in _AS_IT_IS and len(expr.args) == 1:
        yield from _made_of_step(flow, expr.args[0].value, depth - 1)
    elif _level(flow, flow.ref, expr, _counts(flow), _DEPTH) == _COMPUTED:
        yield flow, expr
    elif isinstance(expr, t.Name) and len(bound := flow.ref.assigned.get(expr.id, [])) == 1:
        yield from _made_of_step(flow, bound[0], depth - 1)


def _counts(flow: Flow) -> frozenset[str]:
    """The variables that count all steps of a training: no other loop that trains is around its loop."""
    found = set[str]()
    for loop in (loop for loop in flow.facts.loops if loop.trains and loop.is_long and loop.is_outermost):
        repeat = loop.site.node
        over = repeat.iterable if isinstance(repeat, t.Repeat) else None
        target = repeat.target if isinstance(repeat, t.Repeat) else None
        if not isinstance(over, t.Call):
            continue
        if over.name == "enumerate" and isinstance(target, t.Display):
            target = target.items[0]
        elif over.name not in ("range", "trange", "count"):
            continue
        found |= {target.id} if isinstance(target, t.Name) else set()
    return frozenset(found)


def _level(flow: Flow, ref: FunctionRef, expr: t.Expr, counts: frozenset[str], depth: int) -> int:
    """Whether an expression is a count, or computed of one so that it is another number for each.

    Args:
        ref: the function that it stands in.
    """
    if isinstance(expr, t.Name):
        bound = ref.assigned.get(expr.id, [])
        if expr.id in counts:
            return _COUNT if not bound else _NOT
        return _level(flow, ref, bound[0], counts, depth - 1) if len(bound) == 1 and depth else _NOT
    if isinstance(expr, t.Operation):
        if expr.operator not in _ARITHMETIC:
            return _NOT
        level = max(_level(flow, ref, each, counts, depth) for each in expr.operands)
        is_real = expr.operator in ("/", "**") or any(map(_is_fraction, expr.operands))
        return _COMPUTED if level and is_real else level
    if not isinstance(expr, t.Call) or not depth:
        return _NOT
    given = {arg.value: _level(flow, ref, arg.value, counts, depth - 1) for arg in expr.args}
    if not any(given.values()):
        return _NOT
    if expr.name in _SMOOTH and (t.path_of(expr.func) or "").split(".")[0] in ("math", "np", "numpy"):
        return _COMPUTED
    return min((_of_function(flow, each, expr, given, depth) for each in _functions(flow, ref, expr)), default=_NOT)


def _functions(flow: Flow, ref: FunctionRef, call: t.Call) -> list[FunctionRef]:
    if ref is flow.ref:
        return list(functions_called(flow, call))
    named = ref.module.value_of(call.func).ref
    return [named] if isinstance(named, FunctionRef) else []


def _of_function(flow: Flow, ref: FunctionRef, call: t.Call, given: dict[t.Expr, int], depth: int) -> int:
    """What a function gives back for what it is given: one thing only, as what may have an end is no schedule."""
    params = frozenset(name for name, value in ref.given_by(call).items() if given.get(value))
    returned = [stmt.value for stmt in ref.define.statements if isinstance(stmt, t.Return)]
    value = returned[0] if len(returned) == 1 else None
    return _level(flow, ref, value, params, depth - 1) if value is not None else _NOT


def _is_fraction(expr: t.Expr) -> bool:
    return isinstance(expr, t.Constant) and type(expr.value) is float
