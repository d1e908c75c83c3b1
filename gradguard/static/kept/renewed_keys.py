"""Keys that are made for the moment: ``self.state[p.data]``. What ``.data`` gives is a new object each time.

Nothing is ever found under it, and a dict that is filled so gets one more entry each time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.kept.never_emptied import is_never_emptied
from gradguard.static.kept.tensor_keys import fills_itself, is_made, makes_dict
from gradguard.static.mistakes.kept import RenewedKey
from gradguard.static.model import Scope
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.functions_called import functions_called
from gradguard.static.values import Kind

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_ADDING = ("setdefault", "add")
_ONCE = frozenset("__init__ __setstate__ load_state_dict".split())


def renewed_keys(flow: Flow) -> Iterator[RenewedKey]:
    """Those of a function: where it looks something up itself, and where it hands one on to a method that does."""
    if flow.ref.define.name in _ONCE:
        return
    for collection, key in _used(flow.ref):
        made = _made(flow, key)
        if made is not None and _keeps(flow, collection):
            yield RenewedKey(flow.site(made), collection, _of(made), None)
    for call in flow.ref.calls:
        if isinstance(call.func, t.Attribute) and t.path_of(call.func.value) == "self":
            given = ((arg.value, made) for arg in call.args if (made := _made(flow, arg.value)) is not None)
            yield from (each for value, made in given for each in _handed_on(flow, call, value, made))


def _handed_on(flow: Flow, call: t.Call, value: t.Expr, made: t.Expr) -> Iterator[RenewedKey]:
    """Where a method of the object uses as a key what it is given."""
    for ref in functions_called(flow, call):
        names = [name for name, given in ref.given_by(call).items() if given is value and name not in ref.assigned]
        used = [(path, key) for path, key in _used(ref) if t.path_of(key) in names]
        read = flow.project.flow(ref) if used and ref.define.name not in _ONCE else None
        for path, key in used if read is not None else ():
            if read is not None and _keeps(read, path):
                yield RenewedKey(flow.site(made), path, _of(made), read.site(key))
                return


def _of(made: t.Expr) -> str:
    """``p`` of ``p.data``, and of ``p.detach()``."""
    attribute = made.func if isinstance(made, t.Call) else made
    return t.path_of(attribute.value) or "" if isinstance(attribute, t.Attribute) else ""


def _made(flow: Flow, key: t.Expr) -> t.Expr | None:
    """``p.data`` or ``p.detach()`` of what surely is a tensor, also where a variable is bound to it."""
    bound = flow.ref.assigned.get(key.id, []) if isinstance(key, t.Name) and key.id not in flow.params else [key]
    made = bound[0] if len(bound) == 1 else None
    is_call = isinstance(made, t.Call) and not made.args and made.name == "detach"
    is_data = isinstance(made, t.Attribute) and made.name == "data"
    of = _of(made) if made is not None and (is_call or is_data) else ""
    return made if of and flow.read(flow.canonical(of), flow.final).kind is Kind.TENSOR else None


def _used(ref: FunctionRef) -> Iterator[tuple[str, t.Expr]]:
    """The collections that something is put into, or looked up in, each with the key."""
    for item in ref.define.all(t.Subscript):
        if not isinstance(item.index, t.Slice | t.Constant):
            yield t.path_of(item.value) or "", item.index
    for call in ref.define.all(t.Call):
        if isinstance(call.func, t.Attribute) and call.func.name in _ADDING and call.args:
            yield t.path_of(call.func.value) or "", call.args[0].value


def _keeps(flow: Flow, path: str) -> bool:
    """Whether a collection lasts, gets an entry for what is looked up in it, and nothing is taken out of it."""
    if flow.scope(path) in (Scope.LOCAL, Scope.PARAMETER) and flow.ref.define.name != "<module>":
        return False
    is_one = _is_state(flow.ref.owner, path) or is_made(flow, path, fills_itself) or _is_filled(flow, path)
    return is_one and is_never_emptied(flow, path)


def _is_state(owner: Class | None, path: str) -> bool:
    """Whether it is the state of an optimizer of the program, which is a dict that fills itself."""
    bases = owner.external_bases if owner is not None and path == "self.state" else []
    return any(name.startswith("torch.optim") for name in bases)


def _is_filled(flow: Flow, path: str) -> bool:
    """Whether it is a plain dict, or a set, into which the function puts something: a lookup raises a ``KeyError``."""
    stored = (target for stmt in flow.ref.define.statements if isinstance(stmt, t.Assign) for target in stmt.targets)
    is_stored = any(isinstance(each, t.Subscript) and t.path_of(each.value) == path for each in stored)
    funcs = (call.func for call in flow.ref.calls if call.name in _ADDING)
    is_added = any(isinstance(func, t.Attribute) and t.path_of(func.value) == path for func in funcs)
    return (is_stored or is_added) and is_made(flow, path, makes_dict)
