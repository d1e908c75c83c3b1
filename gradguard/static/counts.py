"""How often a loop runs, and how much a buffer takes, where the source says so."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_WRAPPERS = ("tqdm", "enumerate")


def written(iterable: t.Expr | None) -> int | None:
    """How often ``for i in range(10)`` runs, where that is written as a number."""
    iterable = _unwrapped(iterable)
    name = (t.path_of(iterable.func) or "").rsplit(".", 1)[-1] if isinstance(iterable, t.Call) else ""
    if isinstance(iterable, t.Call) and name == "islice" and len(iterable.args) == 2:
        return _number(iterable.args[1].value)
    if isinstance(iterable, t.Call) and name == "zip":
        counts = [count for arg in iterable.args if (count := written(arg.value)) is not None]
        return min(counts, default=None)
    if isinstance(iterable, t.Call) and name in ("range", "trange") and len(iterable.args) == 1:
        return _number(iterable.args[0].value)
    return len(iterable.items) if isinstance(iterable, t.Display) else None


def is_once_by_default(flow: Flow, iterable: t.Expr | None) -> bool:
    """Whether ``for i in range(self.parts)`` runs once, unless somebody configures another number."""
    iterable = _unwrapped(iterable)
    if not isinstance(iterable, t.Call) or t.path_of(iterable.func) not in ("range", "trange"):
        return False
    return len(iterable.args) == 1 and _is_one(flow, iterable.args[0].value)


def _is_one(flow: Flow, number: t.Expr) -> bool:
    if isinstance(number, t.Name):
        params = (p for p in flow.ref.define.params if p.name == number.id)
        return any(p.default is not None and _number(p.default) == 1 for p in params)
    if not isinstance(number, t.Attribute):
        return False
    owner = flow.ref.owner
    if t.path_of(number.value) == "self" and owner is not None:
        assigned = owner.assigned(number.name)
        return len(assigned) == 1 and _is_one_or_default(*assigned[0])
    option = re.compile(rf"['\"]--{re.escape(number.name).replace('_', '[-_]')}['\"][^)]*\bdefault\s*=\s*1\b")
    return flow.project.survey.mentions(option, flow.module)


def _is_one_or_default(define: t.Define, value: t.Expr) -> bool:
    """Whether a constructor's value is 1, or a setting or parameter whose default is: ``config.get("parts", 1)``."""
    if isinstance(value, t.Call) and (t.path_of(value.func) or "").rsplit(".", 1)[-1] in ("get", "getattr", "pop"):
        return bool(value.args) and _number(value.args[-1].value) == 1
    if isinstance(value, t.Name):
        return any(p.name == value.id and p.default is not None and _number(p.default) == 1 for p in define.params)
    return _number(value) == 1


def is_long_buffer(flow: Flow, length: t.Expr | None) -> bool:
    """Whether a limit bounds nothing: a replay buffer of 100,000 graphs is full long after the memory is."""
    known = _default(flow, length)
    if isinstance(known, t.Constant):
        return type(known.value) is not int or known.value >= k.LONG_BUFFER
    return known is None or k.LONG_BUFFER_NAME.search(t.path_of(known) or "") is not None


def wraps_at(flow: Flow, index: str) -> t.Expr | None:
    """Where an index begins anew, as it is advanced: ``self.size`` of ``self.at = (self.at + 1) % self.size``."""
    base, _, name = index.rpartition(".")
    if base == "self" and flow.ref.owner is not None:
        given = [value for _, value in flow.ref.owner.assigned(name)]
    else:
        statements = (s for s in t.walk_statements(flow.ref.define.body) if isinstance(s, t.Assign))
        given = [s.value for s in statements if any(t.path_of(target) == index for target in s.targets)]
    wrapped = (value for value in given if isinstance(value, t.Operation) and value.operator == "%")
    return next((value.operands[-1] for value in wrapped), None)


def _default(flow: Flow, number: t.Expr | None) -> t.Expr | None:
    """What a parameter, or an attribute that the constructor was given, is by default; else the number as written."""
    define, given = flow.ref.define, number
    if isinstance(number, t.Attribute) and t.path_of(number.value) == "self" and flow.ref.owner is not None:
        assigned = flow.ref.owner.assigned(number.name)
        define, given = assigned[0] if len(assigned) == 1 else (define, number)
    if isinstance(given, t.Name):
        param = next((p for p in define.params if p.name == given.id), None)
        given = param.default if param is not None and param.default is not None else number
    return given if isinstance(given, t.Constant) else number


def _unwrapped(iterable: t.Expr | None) -> t.Expr | None:
    while isinstance(iterable, t.Call) and iterable.args and t.path_of(iterable.func) in _WRAPPERS:
        iterable = iterable.args[0].value
    return iterable


def _number(expr: t.Expr) -> int | None:
    return expr.value if isinstance(expr, t.Constant) and type(expr.value) is int else None
