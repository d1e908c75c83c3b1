"""How often a loop runs, where the source says so."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

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


def holds_in_one(test: t.Expr, loops: Sequence[t.Node]) -> bool:
    """Whether a condition holds in one iteration of all: ``step == 0``, of a counter that nothing sets back.

    Args:
        loops: those that it stands in, the outermost first.
    """
    if isinstance(test, t.Operation) and test.operator == "and":
        return any(holds_in_one(part, loops) for part in test.operands)
    if not isinstance(test, t.Operation) or test.operator != "==" or len(test.operands) != 2:
        return False
    left, right = test.operands if _number(test.operands[1]) is not None else reversed(test.operands)
    counter, inner = t.path_of(left), loops[-1] if loops else None
    if counter is None or _number(right) is None or not isinstance(inner, t.Repeat) or not _counts(inner, counter):
        return False
    begins_anew = len(loops) > 1 and counter in _targets(inner)
    return not begins_anew and not any(_sets(loop, counter, inner) for loop in loops)


def _counts(loop: t.Repeat, counter: str) -> bool:
    """Whether each iteration of a loop has another number: of its target, or of what it adds to."""
    adds = (s for s in loop.body if isinstance(s, t.Augment) and s.operator == "+" and _number(s.value))
    return counter in _targets(loop) or any(t.path_of(s.target) == counter for s in adds)


def _targets(loop: t.Repeat) -> set[str | None]:
    return {t.path_of(name) for name in t.names_in(loop.target)} if loop.target is not None else set()


def _sets(loop: t.Node, counter: str, inner: t.Repeat) -> bool:
    """Whether a loop sets a counter to something else; that ``inner`` goes over it does not count."""
    statements = list(t.walk_statements([loop])) if isinstance(loop, t.Stmt) else []
    assigned = (target for s in statements if isinstance(s, t.Assign) for target in s.targets)
    bound = (s.target for s in statements if isinstance(s, t.Repeat) and s is not inner and s.target is not None)
    return any(t.path_of(name) == counter for target in (*assigned, *bound) for name in t.names_in(target))


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


def _unwrapped(iterable: t.Expr | None) -> t.Expr | None:
    while isinstance(iterable, t.Call) and iterable.args and t.path_of(iterable.func) in _WRAPPERS:
        iterable = iterable.args[0].value
    return iterable


def _number(expr: t.Expr) -> int | None:
    return expr.value if isinstance(expr, t.Constant) and type(expr.value) is int else None
