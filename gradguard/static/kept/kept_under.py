"""What a function keeps in a dict, after it has looked for that: ``if key not in made: made[key] = make(key)``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from gradguard.static import tree as t
from gradguard.static.kept.never_emptied import is_never_emptied
from gradguard.static.kept.tensor_keys import makes_dict
from gradguard.static.model import Scope
from gradguard.static.program.functions import FunctionRef
from gradguard.static.reading.places import assigned_anywhere

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


class KeptUnder(NamedTuple):
    """A statement that puts something into a dict under a key that was looked for before."""

    stmt: t.Stmt
    collection: str
    key: t.Expr


def kept_under(flow: Flow) -> Iterator[KeptUnder]:
    """Those of a function, where the dict is kept after the call, and nothing is ever taken out of it."""
    for kept in _kept(flow.ref):
        is_kept = flow.scope(kept.collection) not in (Scope.LOCAL, Scope.PARAMETER)
        if is_kept and _lasts(flow, kept.collection):
            yield kept


def parts_of(ref: FunctionRef, key: t.Expr) -> list[t.Expr]:
    """What a key consists of, also where it has a name: ``key = (length, device)``."""
    bound = ref.assigned.get(key.id, []) if isinstance(key, t.Name) else []
    whole = bound[0] if len(bound) == 1 else key
    return whole.items if isinstance(whole, t.Display) else [whole]


def _kept(ref: FunctionRef) -> Iterator[KeptUnder]:
    assigning = [stmt for stmt in ref.define.statements if isinstance(stmt, t.Assign)]
    entries = [(stmt, target) for stmt in assigning for target in stmt.targets if isinstance(target, t.Subscript)]
    asking = (*ref.define.all(t.Call), *ref.define.all(t.Operation), *ref.define.all(t.Try)) if entries else ()
    looked_up = frozenset(path for node in asking for path in _looked_up(node))
    for stmt, target in entries:
        path = t.path_of(target.value)
        if path is not None and path in looked_up:
            yield KeptUnder(stmt, path, target.index)


def _looked_up(node: t.Node) -> Iterator[str | None]:
    """The paths of what a key is looked for in: ``known.get(key)``, ``key in known``, ``known[key]`` in a ``try``."""
    if isinstance(node, t.Call) and isinstance(node.func, t.Attribute) and node.func.name == "get":
        yield t.path_of(node.func.value)
    elif isinstance(node, t.Operation) and node.operator in ("in", "not in"):
        yield t.path_of(node.operands[-1])
    elif isinstance(node, t.Try):
        yield from (t.path_of(each.value) for each in t.walk(node.body) if isinstance(each, t.Subscript))


def _lasts(flow: Flow, path: str) -> bool:
    """Whether a dict is never begun anew, nor anything taken out of it."""
    made = assigned_anywhere(flow, path)
    return bool(made) and all(map(makes_dict, made)) and is_never_emptied(flow, path)
