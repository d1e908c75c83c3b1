"""What an object was made with: a word or a truth that its constructor keeps decides which way its methods take.

``self.norm = Norm(64)``, whose ``kind`` is ``"plain"`` unless another one is asked for, never comes to what its
``forward`` does under ``if self.kind == "running"``.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.program.classes import Class
from gradguard.static.reading.module_calls import made_at
from gradguard.static.reading.places import assigned_at
from gradguard.static.values import NUMBER, Flag, Value, Word

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.model import Event
    from gradguard.static.program.functions import FunctionRef
    from gradguard.static.program.translation import Translation
    from gradguard.static.reading.called import Called

_TRAINING = "self.training"
_EVALUATED = ((_TRAINING, NUMBER._replace(ref=Flag(False))),)


def as_made(c: Called, ref: FunctionRef, receiver: str | None) -> FunctionRef:
    """A method as it runs for the object that it is called on, where what that was made with decides its way.

    Args:
        receiver: the path of the object, where the call itself does not name it.
    """
    owner, path = ref.owner, receiver if receiver is not None else c.receiver_path
    if owner is None or not path:
        return ref
    if path == "self":
        known = tuple(each for each in c.flow.ref.bindings if each[0].startswith("self."))
    elif owner.is_module:
        known = _EVALUATED if _is_evaluated(c, path) and _TRAINING in ref.chunk.text else ()
    else:
        known = tuple(_settled(c.flow, owner, path))
    return ref.bound((*ref.bindings, *known), (ref.variant, tuple((n, v.ref) for n, v in known))) if known else ref


def _is_evaluated(c: Called, path: str) -> bool:
    """Whether a module is in evaluation mode, by itself or with the one whose method calls it."""
    return c.state.evaluates(path) or (path.startswith("self.") and _EVALUATED[0] in c.flow.ref.bindings)


def _settled(flow: Flow, owner: Class, path: str) -> Iterator[tuple[str, Value]]:
    """The attributes that decide between two ways somewhere in a class, each with what an object of it has there."""
    for name in owner.choices:
        value = _kept(flow, path, name)
        if value is not None:
            yield f"self.{name}", NUMBER._replace(ref=Word(value) if isinstance(value, str) else Flag(bool(value)))


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
    asking = ((stmt, _asked(stmt.test)) for stmt in define.all(t.If))
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
    if path in flow.params or len(made) < len(assigned_at(flow, path)) or f"{path}.{name}" in flow.ref.assigned:
        return None
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
