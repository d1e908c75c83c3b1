"""What pack hooks of ``saved_tensors_hooks`` put away under a new key each time, and nothing takes out again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.kept.never_emptied import is_never_emptied
from gradguard.static.mistakes.kept import PutAway
from gradguard.static.model import Call, Scope, Site
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_BACKWARD = re.compile(r"\bbackward\(")
_KEEPING = frozenset("detach clone cpu cuda to half float contiguous pin_memory copy_ numpy type".split())
_NEW = frozenset("next len uuid1 uuid4".split())


def put_away(flow: Flow) -> Iterator[PutAway]:
    """Where the pack hooks that a function installs do so, for as long as an object lives that no loop makes."""
    for call in flow.facts.calls:
        if call.name != "torch.autograd.graph.saved_tensors_hooks" or call.inner is not None:
            continue
        pack = call.first.ref
        read = flow.project.flow(pack) if isinstance(pack, FunctionRef) and pack.define.params else None
        for stmt, path in _stored(read) if read is not None else ():
            if read is not None and _lasts(read, path) and flow.project.survey.mentions(_BACKWARD, flow.module):
                yield PutAway(read.site(stmt), path, call.site, _read_back(flow, call, path))


def _read_back(flow: Flow, call: Call, path: str) -> Site | None:
    """Where the unpack hook takes it by its key, of the same object or file: ``self.kept[key]``."""
    unpack = call.given[1][1].ref if len(call.given) > 1 else None
    read = flow.project.flow(unpack) if isinstance(unpack, FunctionRef) else None
    for node in read.ref.define.nodes if read is not None else ():
        if read is not None and isinstance(node, t.Subscript) and t.path_of(node.value) == path:
            return read.site(node)
    return None


def _stored(pack: Flow) -> Iterator[tuple[t.Stmt, str]]:
    """The statements that make a collection longer by the tensor that is packed, each with the collection."""
    for stmt in pack.ref.define.statements:
        for place, value in (*_under_keys(pack.ref, stmt), *_appended(stmt)):
            if (path := t.path_of(place)) is not None and _is_tensor(pack.ref, value):
                yield stmt, path


def _under_keys(pack: FunctionRef, stmt: t.Stmt) -> Iterator[tuple[t.Expr, t.Expr]]:
    """``self.kept[key] = tensor``, where the key is new."""
    for target in stmt.targets if isinstance(stmt, t.Assign) else ():
        if isinstance(stmt, t.Assign) and isinstance(target, t.Subscript) and _is_new(pack, target.index):
            yield target.value, stmt.value


def _appended(stmt: t.Stmt) -> Iterator[tuple[t.Expr, t.Expr]]:
    """``self.kept.append(tensor)``."""
    call = stmt.value if isinstance(stmt, t.Evaluate) else None
    if (
        isinstance(call, t.Call)
        and isinstance(call.func, t.Attribute)
        and call.name == "append"
        and len(call.args) == 1
    ):
        yield call.func.value, call.args[0].value


def _is_tensor(pack: FunctionRef, value: t.Expr, asked: frozenset[str] = frozenset()) -> bool:
    """Whether a value has what is packed in it, or a copy: ``t.detach().cpu()``, ``(t, t.device)``.

    Args:
        asked: the variables that are asked about already.
    """
    if isinstance(value, t.Display):
        return any(_is_tensor(pack, item, asked) for item in value.items)
    while isinstance(value, t.Call) and isinstance(value.func, t.Attribute) and value.func.name in _KEEPING:
        value = value.func.value
    if not isinstance(value, t.Name) or value.id in asked:
        return False
    bound = pack.assigned.get(value.id, [])
    if value.id == pack.define.params[-1].name:
        return not bound
    return len(bound) == 1 and _is_tensor(pack, bound[0], asked | {value.id})


def _is_new(pack: FunctionRef, key: t.Expr) -> bool:
    """Whether a key is another one each time: ``next(self.ids)``, ``len(self.kept)``, ``self.count``, which counts."""
    bound = pack.assigned.get(t.path_of(key) or "", [])
    augments = (stmt for stmt in pack.define.statements if isinstance(stmt, t.Augment) and stmt.operator == "+")
    paths = (t.path_of(stmt.target) or "" for stmt in augments)
    counted = {path for path in paths if path.startswith("self.") or path in pack.names[1]}
    given = bound if len(bound) == 1 else [key]
    return any((isinstance(each, t.Call) and each.name in _NEW) or t.path_of(each) in counted for each in given)


def _lasts(pack: Flow, path: str) -> bool:
    """Whether a collection, of the file or of an object that no loop makes, is there for all steps."""
    if pack.scope(path) in (Scope.LOCAL, Scope.PARAMETER, Scope.CLOSURE) or not is_never_emptied(pack, path):
        return False
    owner = pack.ref.owner
    return not path.startswith("self.") or (owner is not None and not _is_made_in_loop(pack, owner))


def _is_made_in_loop(pack: Flow, cls: Class) -> bool:
    """Whether anything makes objects of a class again and again, or that cannot be told: none is made by its name."""
    constructor = cls.method("__init__")
    if constructor is None:
        return True
    callers = list(pack.project.calling(constructor, cls.name))
    made = [(caller, call) for caller in callers for call in caller.ref.calls if call.name == cls.name]
    return not made or any(_is_in_loop(caller, call) for caller, call in made)


def _is_in_loop(caller: Flow, call: t.Call) -> bool:
    loops = (stmt for stmt in caller.ref.define.statements if isinstance(stmt, t.Repeat))
    return any(node is call for loop in loops for node in t.walk(loop))
