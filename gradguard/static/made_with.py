"""What an object was made with: a word or a truth that its constructor keeps decides which way its methods take.

``self.norm = Norm(64)``, whose ``kind`` is ``"plain"`` unless another one is asked for, never comes to what its
``forward`` does under ``if self.kind == "running"``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.classes import Class
from gradguard.static.module_calls import made_at

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.model import Event
    from gradguard.static.translation import Translation


def leaves_out(here: Translation, event: Event) -> bool:
    """Whether the object whose method is called was made so that the method never comes to an event."""
    callee = here.callee.ref
    path = here.given.paths.get("self") if callee.owner is not None else None
    if path in (None, "self"):
        return False
    return any(
        any(_test(stmt.test, value) is not is_in for value in [_kept(here.flow, str(path), name)] if value is not None)
        for stmt, name, is_in, nodes in _conditions(callee.define)
        if event.site.node in nodes
    )


@lru_cache(maxsize=64)
def _conditions(define: t.Define) -> tuple[tuple[t.If, str, bool, frozenset[t.Node]], ...]:
    """The conditions on an attribute of the object in a method, and what runs where they hold and where they do not."""
    asking = ((stmt, _asked(stmt.test)) for stmt in define.nodes if isinstance(stmt, t.If))
    return tuple(
        (stmt, name, holds, frozenset(t.walk(way)))
        for stmt, name in asking
        for way, holds in ((stmt.body, True), (stmt.orelse, False))
        if name is not None
    )


def _asked(test: t.Expr) -> str | None:
    """The attribute of the object that a condition is about: ``self.kind == "running"``, ``not self.frozen``."""
    if isinstance(test, t.Operation) and test.operator == "not":
        return _asked(test.operands[0])
    if isinstance(test, t.Operation):
        is_word = test.operator in ("==", "!=") and isinstance(test.operands[-1], t.Constant)
        return _asked(test.operands[0]) if is_word else None
    head, _, name = (t.path_of(test) or "").partition(".")
    return name if head == "self" and name.isidentifier() else None


def _test(test: t.Expr, value: object) -> bool:
    """Whether a condition holds if the attribute is a value."""
    if not isinstance(test, t.Operation):
        return bool(value)
    if test.operator == "not":
        return not _test(test.operands[0], value)
    right = test.operands[-1]
    return (isinstance(right, t.Constant) and right.value == value) == (test.operator == "==")


def _kept(flow: Flow, path: str, name: str) -> object:
    """What every call that makes the object at a path gives for an attribute; None where that is not known."""
    made = made_at(flow, path)
    values = {_given(flow, call, name) for call in made}
    return values.pop() if len(values) == 1 else None


def _given(flow: Flow, call: t.Call, name: str) -> object:
    """What a call that makes an object gives for an attribute that is bound once, by the constructor."""
    cls = flow.module.value_of(call.func).ref
    constructor = cls.methods.get("__init__") if isinstance(cls, Class) else None
    assigned = [found for each in cls.lineage() for found in each.assigned(name)] if isinstance(cls, Class) else []
    if constructor is None or len(assigned) != 1 or assigned[0][0] is not constructor.define:
        return None
    value = assigned[0][1]
    for position, param in enumerate(constructor.define.params[1:]):
        if isinstance(value, t.Name) and value.id == param.name and not any(arg.star for arg in call.args):
            given = call.argument(param.name, position)
            value = given if given is not None else param.default or value
            break
    return value.value if isinstance(value, t.Constant) and isinstance(value.value, str | bool) else None
