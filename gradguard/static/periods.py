"""Every how many iterations a branch runs: as it is written, or by the default of the setting that says so."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.counts import setting

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_MOST_NAMES = 3


def period(test: t.Expr) -> int | None:
    """Every how many iterations a condition holds: 4 for ``(i + 1) % 4 == 0``.

    0 where the number is not written there (``i % accumulation_steps``), None where it is no such condition.
    """
    counts = _moduli(test)
    written = [c.value for c in counts if isinstance(c, t.Constant) and isinstance(c.value, int)]
    return max(written, default=0) if counts else None


def _moduli(test: t.Expr) -> list[t.Expr]:
    return [n.operands[-1] for n in t.walk(test) if isinstance(n, t.Operation) and n.operator == "%"]


def every(flow: Flow, stmt: t.If) -> int | None:
    """Every how many iterations the body runs; 0 where that is not known, None where it is no such condition.

    A setting is looked for only where an optimizer may step, which is what gradients are accumulated for:
    ``if (i + 1) % args.accumulate == 0: optimizer.step()``.
    """
    written = period(stmt.test)
    if written is None and (most := _counted_to(flow, stmt)) is not None:
        return _default(flow, most, _MOST_NAMES) or 0
    if written != 0 or not any(map(_steps, t.walk(stmt.body))):
        return written
    return max(
        (number for count in _moduli(stmt.test) if (number := _default(flow, count, _MOST_NAMES)) is not None),
        default=0,
    )


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


def _default(flow: Flow, number: t.Expr, names: int) -> int | None:
    """The number that something is unless somebody changes it.

    Args:
        names: how many names more may lead to it: ``every = args.every``.
    """
    if isinstance(number, t.Constant):
        return number.value if type(number.value) is int else None
    if not names:
        return None
    if isinstance(number, t.Name):
        return _of_name(flow, number.id, names)
    owner = flow.ref.owner
    if not isinstance(number, t.Attribute):
        return None
    if t.path_of(number.value) == "self" and owner is not None:
        assigned = owner.assigned(number.name)
        if len(assigned) != 1:
            return None
        define, value = assigned[0]
        return _of_parameter(define, value.id) if isinstance(value, t.Name) else _default(flow, value, names - 1)
    return _of_setting(flow, number.name)


def _of_name(flow: Flow, name: str, names: int) -> int | None:
    """Of a variable that is bound once, a parameter, or a constant of the module."""
    assigned = flow.ref.assigned.get(name, [])
    if assigned:
        return _default(flow, assigned[0], names - 1) if len(assigned) == 1 else None
    if name in flow.params:
        return _of_parameter(flow.ref.define, name)
    found = re.findall(rf"^{re.escape(name)}\s*(?::\s*int\s*)?=\s*(\d+)\s*(?:#.*)?$", flow.module.source.text, re.M)
    return int(found[0]) if len(found) == 1 else None


def _of_parameter(define: t.Define, name: str) -> int | None:
    default = next((p.default for p in define.params if p.name == name), None)
    return default.value if isinstance(default, t.Constant) and type(default.value) is int else None


def _of_setting(flow: Flow, name: str) -> int | None:
    """Of an option of the command line, or a field of a class of settings, in this file or those that it goes with."""
    pattern = setting(name, r"(\d+)")
    texts = flow.project.survey.texts_used(name, flow.module, pattern)
    found = {int(a or b) for text in texts for a, b in pattern.findall(text)}
    return found.pop() if len(found) == 1 else None
