"""Keys of samples, with which a loop goes over a batch: ``for i, error in zip(indices, errors): table[i] = error``.

Each batch has others: such a table has as many entries, in the end, as there are samples.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.kept.tensor_keys import bound_pairs
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.own_methods import methods_of
from gradguard.static.program.paths import is_or_is_in
from gradguard.static.reading import counts
from gradguard.static.reading.places import assigned_at

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_SAMPLE = (
    r"sample|transition|tree|leaf|item|example|instance|record|row|doc|document|image|img|clip|video|utt|utterance"
    r"|question|query|review|user|sentence|pair"
)
_OF_SAMPLES = re.compile(rf"(?:^|[._])(?:idxs?|idxes|ind(?:s|ex|exes|ices)|(?:{_SAMPLE})_?ids?)$", re.I)
_IDS = re.compile(r"(?:^|\.)u?ids$")
_FEW = re.compile(r"class|task|head|layer|domain|group|agent|expert|env|worker|rank|bin|level|label|stage|block", re.I)
_GIVING_NUMBERS = ("cpu", "detach", "numpy", "tolist")
_OF_REPLAY = re.compile(r"priorit(?:y|ies)", re.I)


def keys_of(flow: Flow, target: t.Subscript, source: t.Expr | None) -> str | None:
    """Where the keys are that a loop takes one by one, each with its own part of a batch, if they are of samples.

    Args:
        flow: the function with the loop.
        target: the entry that is stored.
        source: what is stored there.
    """
    key, table = target.index, t.path_of(target.value)
    loop = next((f.loop.site.node for f in reversed(flow.frames) if t.path_of(key) in f.loop.targets), None)
    if not isinstance(key, t.Name) or table is None or source is None or not isinstance(loop, t.Repeat):
        return None
    if loop.target is None or loop.iterable is None:
        return None
    others = {name.id for name in t.names_in(loop.target) if isinstance(name, t.Name)} - {key.id}
    if not any(isinstance(node, t.Name) and node.id in others for node in t.walk(source)):
        return None
    over = [each for target, each in bound_pairs(loop.target, loop.iterable) if t.path_of(target) == key.id]
    keys = t.path_of(_without_methods(over[0])) if over else None
    is_of_samples = keys is not None and (
        _OF_SAMPLES.search(keys) or _has_many(flow, table) or (_IDS.search(keys) and _begins_with_each(flow, table))
    )
    if not is_of_samples or len(flow.frames) == 1:
        return keys if is_of_samples else None
    return anew(flow, keys)


def anew(flow: Flow, keys: str | None) -> str | None:
    """The same, where a function gets other keys each time: in each iteration, or with each call."""
    if keys is None:
        return None
    if flow.frames:
        bound = [path for frame in flow.frames for path in (*frame.loop.targets, *frame.loop.assigned)]
        return keys if any(is_or_is_in(keys, path) for path in bound) else None
    head = keys.split(".", 1)[0]
    made = flow.ref.assigned.get(head, [])
    is_made = bool(made) and all(isinstance(value, t.Call) for value in made)
    return keys if is_made or (head in flow.params and head != "self") else None


def _without_methods(keys: t.Expr) -> t.Expr:
    """``indices`` of ``indices.cpu().tolist()``."""
    while isinstance(keys, t.Call) and isinstance(keys.func, t.Attribute) and keys.func.name in _GIVING_NUMBERS:
        keys = keys.func.value
    return keys


def _has_many(flow: Flow, table: str) -> bool:
    """Whether a table of the object is one of a replay buffer: by its name, or a long ring where it is filled."""
    owner = flow.ref.owner
    if _OF_REPLAY.search(table) is not None:
        return True
    return owner is not None and any(_fills_ring(flow, method, table) for method in methods_of(owner))


def _begins_with_each(flow: Flow, table: str) -> bool:
    """Whether a table is made with an entry for each of many numbers: ``{i: 0.0 for i in range(n)}``, ``[0.0] * n``."""
    counts_of = [_count(value) for value in assigned_at(flow, table)]
    return any(count is not None and not _is_few(count) for count in counts_of)


def _count(made: t.Expr) -> t.Expr | None:
    """How many entries a table is made with, as that is written."""
    if isinstance(made, t.Comprehension) and len(made.clauses) == 1:
        over = made.clauses[0].iterable
        is_range = isinstance(over, t.Call) and t.path_of(over.func) == "range" and len(over.args) == 1
        return over.args[0].value if isinstance(over, t.Call) and is_range else None
    is_repeated = isinstance(made, t.Operation) and made.operator == "*" and isinstance(made.operands[0], t.Display)
    return made.operands[1] if isinstance(made, t.Operation) and is_repeated else None


def _is_few(count: t.Expr) -> bool:
    """Whether there are but a few: a small number, or so many as there are classes, tasks or layers."""
    if isinstance(count, t.Constant):
        return not isinstance(count.value, int) or count.value < _MANY
    return any(isinstance(n, t.Name | t.Attribute) and _FEW.search(t.path_of(n) or "") for n in t.walk(count))


_MANY = 1000


def _fills_ring(flow: Flow, method: FunctionRef, table: str) -> bool:
    stored = (target for stmt in method.define.statements if isinstance(stmt, t.Assign) for target in stmt.targets)
    keys = (
        t.path_of(each.index) for each in stored if isinstance(each, t.Subscript) and t.path_of(each.value) == table
    )
    sizes = (counts.wraps_at(flow, key) for key in keys if key is not None and key.startswith("self."))
    return any(size is not None and counts.is_long_buffer(flow, size) for size in sizes)
