"""What the keys of a collection tell of how many there will be: few, or one more in each step."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.reading.places import assigned_at

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_FIELD = re.compile(r'(?:\.|\[")(\w+)(?:"\])?$')
_TELLS_APART = re.compile(
    r"path|file|url|uri|hash|sha\d*|key|round|episode|frame|tick|seq|version|token|serial|digest|stamp|name$|_no$|^no$|num",
    re.I,
)


def are_few(flow: Flow, base: str, index: t.Expr) -> bool:
    """Whether a store seems to put one thing for each of some objects that there are, again and again.

    ``latest[update.client] = update``; ``losses[i] = loss`` where ``i`` is one of the ids that the function is given,
    and the place of something in a collection that the object has: ``self.graphs[i]``.
    """
    path = t.path_of(index)
    return path is not None and (_is_whose(_written(flow, path)) or _is_of_another(flow, base, path))


def is_of_record(flow: Flow, key: str) -> bool:
    """Whether a handler of `logging` keeps by where a record was written, or its level: ``last[record.levelname]``."""
    head, _, attribute = key.partition(".")
    owner = flow.ref.owner
    is_told = attribute in k.FEW_IN_RECORDS and head in flow.params and head != "self"
    return is_told and owner is not None and any(name.startswith("logging.") for name in owner.external_bases)


def counts_up(flow: Flow, base: str, index: t.Expr) -> bool:
    """Whether a dict gets one more key in each step of a training: ``self.seen[self.global_step] = x``.

    A step of one epoch comes again in the next one: what counts the batches of a loader tells nothing. With the epoch
    beside it, ``self.seen[epoch, i]``, no key comes again.
    """
    return _is_dict(flow, base) and any(_counts(flow, part, pattern) for part, pattern in _parts(flow, index))


def _parts(flow: Flow, index: t.Expr) -> list[tuple[t.Expr, re.Pattern[str]]]:
    """What a key is made of, also one that has a name, each with what says that it counts."""
    made = flow.ref.assigned.get(index.id, []) if isinstance(index, t.Name) else []
    key = made[0] if len(made) == 1 else index
    return [(part, _COUNTER_OR_EPOCH) for part in key.items] if isinstance(key, t.Display) else [(index, _COUNTER)]


def _counts(flow: Flow, part: t.Expr, pattern: re.Pattern[str]) -> bool:
    path = t.path_of(part)
    if path is None or pattern.search(path) is None:
        return False
    return not any(path in frame.loop.targets and frame.loop.over_loader for frame in flow.frames)


_COUNTER = re.compile(r"(?:^|[._])(?:steps?|iter|iters|iteration|n_?iter|updates?)(?:_(?:count|no|num|id))?$", re.I)
_COUNTER_OR_EPOCH = re.compile(rf"{_COUNTER.pattern}|(?:^|[._])epoch$", re.I)


def _is_dict(flow: Flow, path: str) -> bool:
    """Whether all that is made for a path is an empty dict; a list would have an item for each key."""
    made = assigned_at(flow, path)
    return bool(made) and all(
        (isinstance(value, t.DictDisplay) and not value.entries)
        or (isinstance(value, t.Call) and (t.path_of(value.func) or "").rsplit(".", 1)[-1] in _DICTS)
        for value in made
    )


_DICTS = frozenset("dict OrderedDict defaultdict".split())


def _written(flow: Flow, key: str) -> str:
    """A key, or the one thing that its variable is bound to: ``cid = update.client``."""
    assigned = (stmt for stmt in flow.ref.define.statements if isinstance(stmt, t.Assign))
    bound = [v for stmt in assigned for name, v in t.pairs(stmt.targets, stmt.value) if t.path_of(name) == key]
    return (t.path_of(bound[0]) or key) if len(bound) == 1 else flow.canonical(key)


def _is_whose(key: str) -> bool:
    """Whether a key is a field of an object by which it says whose it is: not which of many it is."""
    field = _FIELD.search(key) if not key.startswith("self.") else None  # self.at: where it puts the next one
    return field is not None and not k.GROWING_KEY.search(field[1]) and not _TELLS_APART.search(field[1])


def _is_of_another(flow: Flow, base: str, key: str) -> bool:
    """Whether a key that the function is given is used for another collection of the object too, and not to fill it."""
    if base.split(".", 1)[0] != "self" or not _is_given(flow, key):
        return False
    body = flow.ref.define.body
    filled = {id(target) for stmt in t.walk_statements(body) if isinstance(stmt, t.Assign) for target in stmt.targets}
    uses = (n for n in t.walk(body) if isinstance(n, t.Subscript) and t.path_of(n.index) == key and id(n) not in filled)
    others = {path for use in uses if (path := t.path_of(use.value)) is not None and path != base}
    return any(path.startswith("self.") for path in others)


def _is_given(flow: Flow, key: str) -> bool:
    """Whether a variable is a parameter, or goes over one."""
    if key in flow.params:
        return True
    loops = (frame.loop.site.node for frame in flow.frames if key in frame.loop.targets)
    over = [loop.iterable for loop in loops if isinstance(loop, t.Repeat)]
    return any(isinstance(expr, t.Name) and expr.id in flow.params for expr in over)
