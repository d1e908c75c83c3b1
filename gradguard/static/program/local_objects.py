"""What a field of an object that a function makes for itself is, by what its constructor is given."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.model import Scope
from gradguard.static.program.classes import Class

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.reading.state import State


def as_given(flow: Flow, path: str, state: State, call: t.Call) -> str:
    """The path by which the function had what is a field of its local object: ``self.net.fc`` of ``taps.net.fc``.

    ``taps = Taps(self.net)``; ``with Taps(self.net):``. Any other path as it is.

    Args:
        call: the method's call at which this is asked.
    """
    head, _, rest = path.partition(".")
    if not rest or flow.scope(path) is not Scope.LOCAL:
        return path
    name = rest.split(".", 1)[0].split("[", 1)[0]
    cls = flow.read(head, state).ref
    made = [assign.value for assign in _making(flow, head, call)]
    if len(made) != 1 or not isinstance(made[0], t.Call) or not isinstance(cls, Class) or cls.is_module:
        return path
    given = given_for(cls, name, made[0])
    before = t.path_of(given) if given is not None else None
    return path if before is None else flow.canonical(before) + rest[len(name) :]


def _making(flow: Flow, name: str, call: t.Call) -> Iterator[t.Assign]:
    """The statements that bind a variable, or the context that is entered, or left, by this call."""
    contexts = [each for each in flow.entering.values() if each is not None]
    entered = [each.make for each in contexts if each.make and (each.enter is call or each.leave is call)]
    yield from entered
    for stmt in flow.ref.define.statements if not entered else ():
        if isinstance(stmt, t.Assign) and any(t.path_of(target) == name for target in stmt.targets):
            yield stmt


def given_for(cls: Class, name: str, made: t.Call) -> t.Expr | None:
    """The argument of a constructor's call that becomes a field, and nothing else does."""
    if cls.method("__init__") is None:
        return made.argument(name, cls.fields.index(name)) if name in cls.fields else None
    assigned = cls.assigned(name)
    define, value = assigned[0] if len(assigned) == 1 else (None, None)
    if define is None or define.name != "__init__" or not isinstance(value, t.Name):
        return None
    params = [param.name for param in define.params]
    return made.argument(value.id, params.index(value.id) - 1) if value.id in params[1:] else None
