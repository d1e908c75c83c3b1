"""Every how many iterations a branch runs: as it is written, or as the setting that says so is by default, or given."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.reading.counts import setting
from gradguard.static.reading.periods import moduli, period

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_MOST_NAMES = 3


def every(flow: Flow, stmt: t.If) -> int | None:
    """Every how many iterations the body runs; 0 where that is not known, None where it is no such condition.

    A setting is looked for only where an optimizer may step, which is what gradients are accumulated for:
    ``if (i + 1) % args.accumulate == 0: optimizer.step()``.
    """
    written = period(stmt.test)
    if written is None and (most := _counted_to(flow, stmt)) is not None:
        return _default(flow.ref, most, _MOST_NAMES) or 0
    if written or not any(map(_steps, t.walk(stmt.body))):
        return written
    counts = moduli(stmt.test) or _moduli_of_names(flow, stmt.test)
    numbers = (_default(flow.ref, count, _MOST_NAMES) for count in counts)
    return max((number for number in numbers if number is not None), default=0) if counts else None


def _moduli_of_names(flow: Flow, test: t.Expr) -> list[t.Expr]:
    """``n`` of ``ends = (i + 1) % n == 0``, ``if ends:``; of ``start = i - i % n``, ``if i + 1 == start + n:``."""
    if flow.loop is None or not (isinstance(test, t.Name) or _is_equation(test)):
        return []
    bound = (flow.ref.assigned.get(node.id, []) for node in t.walk(test) if isinstance(node, t.Name))
    once = [values[0] for values in bound if len(values) == 1 and values[0] in flow.loop.nodes]
    told = [value for value in once if not isinstance(test, t.Name) or any(map(_is_equation, t.walk(value)))]
    return [count for value in told for count in moduli(value)]


def _is_equation(test: t.Node) -> bool:
    return isinstance(test, t.Operation) and test.operator == "=="


def _counted_to(flow: Flow, stmt: t.If) -> t.Expr | None:
    """``n`` of ``if self.pending == n:``, where the function counts up, and something begins at 0 again."""
    test = stmt.test
    if not isinstance(test, t.Operation) or test.operator not in ("==", ">=") or len(test.operands) != 2:
        return None
    path, most = t.path_of(test.operands[0]), test.operands[1]
    if path is None or (isinstance(most, t.Constant) and most.value in (0, 1)):
        return None
    counting = (s for s in flow.ref.define.statements if isinstance(s, t.Augment) and s.operator == "+")
    is_counted = any(t.path_of(s.target) == path and _is_one(s.value) for s in counting)
    return most if is_counted and _begins_again(flow, stmt, path) else None


def _is_one(expr: t.Expr) -> bool:
    return isinstance(expr, t.Constant) and expr.value == 1


def _begins_again(flow: Flow, stmt: t.If, path: str) -> bool:
    """Whether the body of a condition sets a counter to 0, or a method that it calls does."""
    calls = [node for node in t.walk(stmt.body) if isinstance(node, t.Call)]
    methods = [(t.path_of(call.func) or "").removeprefix("self.") for call in calls]
    owner = flow.ref.owner if path.startswith("self.") else None
    refs = [owner.method(name) for name in methods if name.isidentifier()] if owner is not None else []
    bodies = [stmt.body, *(ref.define.body for ref in refs if ref is not None)]
    assigned = (s for body in bodies for s in t.walk_statements(body) if isinstance(s, t.Assign))
    return any(t.is_zero(s.value) and path in map(t.path_of, s.targets) for s in assigned)


def _steps(node: t.Node) -> bool:
    return isinstance(node, t.Call) and isinstance(node.func, t.Attribute) and node.func.name == "step"


def _default(ref: FunctionRef, number: t.Expr, names: int) -> int | None:
    """The number that something is unless somebody changes it, or a caller of the program gives for it.

    Args:
        names: how many names more may lead to it: ``every = args.every``.
    """
    if isinstance(number, t.Constant):
        return number.value if type(number.value) is int else None
    if not names:
        return None
    if isinstance(number, t.Name):
        return _of_name(ref, number.id, names)
    if isinstance(number, t.Subscript) and isinstance(number.index, t.Constant):
        return _of_key(ref, number.index.value)
    owner = ref.owner
    if not isinstance(number, t.Attribute):
        return None
    if t.path_of(number.value) == "self" and owner is not None:
        assigned = owner.assigned(number.name)
        if len(assigned) != 1:
            return None
        define, value = assigned[0]
        if not isinstance(value, t.Name):
            return _default(ref, value, names - 1)
        method = owner.method(define.name)
        return _of_parameter(method, value.id, names) if method is not None and method.define is define else None
    return _of_setting(ref, number.name)


def _of_name(ref: FunctionRef, name: str, names: int) -> int | None:
    """Of a variable that is bound once, a parameter, also of the function around it, or a constant of the module."""
    assigned = ref.assigned.get(name, [])
    if assigned:
        return _default(ref, assigned[0], names - 1) if len(assigned) == 1 else None
    if any(param.name == name for param in ref.define.params):
        return _of_parameter(ref, name, names)
    if ref.outer is not None and name in ref.outer.params:
        return _of_name(ref.outer.ref, name, names)
    found = re.findall(rf"^{re.escape(name)}\s*(?::\s*int\s*)?=\s*(\d+)\s*(?:#.*)?$", ref.module.source.text, re.M)
    return int(found[0]) if len(found) == 1 else None


def _of_parameter(ref: FunctionRef, name: str, names: int) -> int | None:
    """Its default, or the largest number that somebody gives for it (reads other files)."""
    default = next((p.default for p in ref.define.params if p.name == name), None)
    number = default.value if isinstance(default, t.Constant) and type(default.value) is int else None
    if number is not None and number > 1:
        return number
    given = [_default(caller, value, names - 1) for caller, value in _given(ref, name)]
    return max((each for each in (number, *given) if each is not None), default=None)


def _given(ref: FunctionRef, name: str) -> Iterator[tuple[FunctionRef, t.Expr]]:
    """What the calls that surely run a function, or make an object with it, give for a parameter."""
    called = ref.owner.name if ref.owner is not None and ref.define.name == "__init__" else ref.define.name
    for caller in ref.module.project.written_calling(ref, name=called):
        for call in caller.calls if caller.define is not ref.define else ():
            value = ref.given_by(call).get(name) if call.name == called and _runs(caller, call, ref) else None
            if value is not None:
                yield caller, value


def _runs(caller: FunctionRef, call: t.Call, ref: FunctionRef) -> bool:
    """Whether a call surely runs a function: by its name, that of its class, or as a method of the same object."""
    found = caller.module.value_of(call.func).ref
    if isinstance(found, Class):
        found = found.method("__init__")
    if isinstance(call.func, t.Attribute) and t.path_of(call.func.value) == "self" and caller.owner is not None:
        found = caller.owner.method(call.func.name)
    return isinstance(found, FunctionRef) and found.define is ref.define


def _of_setting(ref: FunctionRef, name: str) -> int | None:
    """Of an option of the command line, or a field of a class of settings, in this file or those that it goes with."""
    return _told(ref, name, setting(name, r"(\d+)"))


def _of_key(ref: FunctionRef, key: object) -> int | None:
    """Of an entry of a dict of settings: ``dict(accumulate=4)``, ``{"accumulate": 4}``."""
    word = re.escape(key) if isinstance(key, str) and key.isidentifier() else ""
    pattern = rf"['\"]{word}['\"]\s*:\s*(\d+)\b(?!\.)|(?<![\w.]){word}\s*=\s*(\d+)\b(?!\.)"
    return _told(ref, str(key), re.compile(pattern)) if word else None


def _told(ref: FunctionRef, name: str, pattern: re.Pattern[str]) -> int | None:
    texts = ref.module.project.survey.texts_used(name, ref.module, pattern)
    found = {int(a or b) for text in texts for a, b in pattern.findall(text)}
    return found.pop() if len(found) == 1 else None
