"""How an expression uses what is at the path that it is bound to: a sum, an average, a longer copy."""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.model import Form
from gradguard.static.program.clearing import COMPUTED
from gradguard.static.program.names import collections_of


def rebind_form(path: str, source: t.Expr | None) -> tuple[Form, t.Expr | None]:
    """How ``path = source`` uses its old value, and the part of the expression that is new."""
    if isinstance(source, t.Conditional):
        branch = source.body if mentions(source.body, path) else source.orelse
        return rebind_form(path, branch)[0], None  # the other branch is stored with its graph too
    if isinstance(source, t.Operation) and source.operator in "+-":
        left, right = source.operands[0], source.operands[-1]
        for old, new in ((left, right), (right, left)):
            if t.path_of(old) == path:
                if (aim := _aim(path, new)) is not None:
                    return Form.AVERAGE, aim
                kind = Form.APPEND if isinstance(new, t.Display) else Form.SUM
                return kind, new.items[0] if isinstance(new, t.Display) and len(new.items) == 1 else new
            if mentions(old, path) and isinstance(old, t.Operation) and old.operator in ("*", "/", "+", "-"):
                form, _ = rebind_form(path, old)
                scaled = old.operator in "*/" and any(mentions(o, path) for o in old.operands)
                return (Form.AVERAGE if scaled else form), new
    if isinstance(source, t.Operation) and source.operator in ("*", "/") and mentions(source, path):
        inner = next(o for o in source.operands if mentions(o, path))  # (mean * n + x) / (n + 1)
        return Form.AVERAGE, rebind_form(path, inner)[1] if isinstance(inner, t.Operation) else None
    if isinstance(source, t.Call) and (blended := _blended(path, source)) is not None:
        return blended
    if isinstance(source, t.Call) and isinstance(source.func, t.Attribute | t.Name):
        name = (t.path_of(source.func) or "").rsplit(".", 1)[-1]
        if name in ("cat", "concat", "concatenate", "stack", "vstack", "hstack") and source.args:
            items = source.args[0].value
            if isinstance(items, t.Display):
                new_items = [i for i in items.items if not mentions(i, path)]
                if len(new_items) < len(items.items):
                    return Form.CONCATENATE, new_items[0] if len(new_items) == 1 else None
    if isinstance(source, t.Display) and mentions(source, path):
        return Form.APPEND, None
    if (made := comprehension_of(source)) is not None:
        pair = made.element.items if isinstance(made.element, t.Display) and len(made.element.items) == 2 else []
        new = pair[1] if pair and isinstance(source, t.Call) else made.element  # dict((k, 0.9 * w + x) for k, w in ...)
        forms = (rebind_form(old, new) for old in _old_elements(path, made))
        return next((found for found in forms if found[0] is not Form.REBIND), (Form.REBIND, None))
    return Form.REBIND, None


def _aim(path: str, change: t.Expr) -> t.Expr | None:
    """What the old value comes nearer to, where a part of the distance is added: ``x`` of ``mean + (x - mean) / n``."""
    if not isinstance(change, t.Operation) or change.operator not in ("*", "/"):
        return None
    for part in change.operands:
        if isinstance(part, t.Operation) and part.operator == "-" and len(part.operands) == 2:
            one, other = part.operands
            if path in (t.path_of(one), t.path_of(other)):
                return one if t.path_of(other) == path else other
    return None


def comprehension_of(source: t.Expr | None) -> t.Comprehension | None:
    """The comprehension that a collection is made of: ``[...]``, ``{...}``, ``tuple(... for ...)``."""
    if isinstance(source, t.Call) and len(source.args) == 1 and t.path_of(source.func) in k.CONTAINER_BUILTINS:
        source = source.args[0].value
    return source if isinstance(source, t.Comprehension) else None


def _old_elements(path: str, made: t.Comprehension) -> Iterator[str]:
    """What a comprehension calls the elements of a collection: ``w`` in ``for k, w in means.items()``, ``means[k]``."""
    for clause in made.clauses:
        for name, paths in collections_of(clause.target, clause.iterable):
            if f"{path}[*]" in paths:
                yield name
    yield f"{path}[*]"


def _blended(path: str, call: t.Call) -> tuple[Form, t.Expr] | None:
    """``mean.lerp(x, 0.1)``, ``mean.mul(0.9).add(x, alpha=0.1)``, ``total.add(x)``, and the same functions of torch."""
    name, operands = _method(call)
    if len(operands) < 2 or name not in ("lerp", "add", "sub", "addcmul", "addcdiv"):
        return None
    one, other = operands[:2]
    for old, new in ((one, other), (other, one)) if name in ("lerp", "add") else ((one, other),):  # x.lerp(mean, 0.9)
        if t.path_of(old) == path:
            return (Form.AVERAGE if name == "lerp" else Form.SUM), new
        if isinstance(old, t.Call) and _method(old)[0] in ("mul", "div") and mentions(old, path):
            return Form.AVERAGE, new
    return None


def _method(call: t.Call) -> tuple[str, list[t.Expr]]:
    """The method that is called, or the function of torch, and what it works on."""
    if not isinstance(call.func, t.Attribute):
        return "", []
    given = [arg.value for arg in call.args if not arg.keyword and not arg.star]
    holder = [] if t.path_of(call.func.value) == "torch" else [call.func.value]
    return call.func.name, holder + given


def key_of(index: t.Expr) -> str | None:
    """A key as a store has it: a name, or a word with its quotes; ``COMPUTED`` of what a function makes of a name."""
    if isinstance(index, t.Constant):
        return f'"{index.value}"' if isinstance(index.value, str) else None
    if isinstance(index, t.Call):
        return COMPUTED
    return index.id if isinstance(index, t.Name) else None


def mentions(expr: t.Expr, path: str) -> bool:
    """Whether an arithmetic expression contains a path, not looking into calls."""
    if t.path_of(expr) == path:
        return True
    if isinstance(expr, t.Operation):
        return any(mentions(o, path) for o in expr.operands)
    if isinstance(expr, t.Display):
        return any(mentions(i, path) for i in expr.items)
    if isinstance(expr, t.Starred | t.Subscript):
        return mentions(expr.value, path)
    if isinstance(expr, t.Call) and isinstance(expr.func, t.Attribute):
        return mentions(expr.func.value, path)
    return False
