"""Parts of a batch that a ``collate_fn`` of the program leaves as they are: ``return torch.stack(xs), list(names)``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.program.functions import FunctionRef
from gradguard.static.values import Kind

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_GIVEN = re.compile(r"\bcollate_fn\s*=\s*([\w.]+\.)?(\w+)")
_PLAIN = frozenset("list tuple sorted set dict array asarray".split())


def is_collated(flow: Flow, path: str) -> bool:
    """Whether a loop binds a variable to a part of each batch that is no tensor, as a function of the file makes it."""
    places = [
        (index, len(stmt.target.items))
        for stmt in flow.ref.define.statements
        if isinstance(stmt, t.Repeat) and isinstance(stmt.target, t.Display)
        for index, item in enumerate(stmt.target.items)
        if t.path_of(item) == path
    ]
    return bool(places) and any(_leaves(ref, place) for ref in _collating(flow) for place in places)


def _collating(flow: Flow) -> Iterator[FunctionRef]:
    """What the loaders of the program put batches together with: ``DataLoader(data, collate_fn=collate)``."""
    survey = flow.project.survey
    for module in survey.naming("collate_fn", flow.module, _GIVEN):
        for owner, name in sorted(set(_GIVEN.findall(module.source.text))):
            value = module.resolve(name) if not owner else None
            if value is not None and isinstance(value.ref, FunctionRef):
                yield value.ref
            elif owner:
                yield from survey.methods_named(name, module)


def _leaves(ref: FunctionRef, place: tuple[int, int]) -> bool:
    """Whether a function returns something that is no tensor at a place, of so many."""
    index, count = place
    returned = [stmt.value for stmt in ref.define.statements if isinstance(stmt, t.Return)]
    tuples = [value.items for value in returned if isinstance(value, t.Display) and len(value.items) == count]
    return any(_is_plain(ref, items[index]) for items in tuples)


def _is_plain(ref: FunctionRef, value: t.Expr) -> bool:
    """Whether an expression makes a list, an array, or is a part of ``xs, names = zip(*rows)``."""
    if isinstance(value, t.Name):
        return any(_is_plain(ref, each) or _is_zip(each) for each in ref.assigned.get(value.id, []))
    if isinstance(value, t.Call):
        called = ref.module.value_of(value.func)
        return value.name in _PLAIN and not (called.kind is Kind.EXTERNAL and str(called.ref).startswith("torch."))
    return isinstance(value, t.Display | t.DictDisplay | t.Comprehension)


def _is_zip(value: t.Expr) -> bool:
    """``zip(*rows)``, ``map(list, zip(*rows))``."""
    return isinstance(value, t.Call) and value.name in ("zip", "map")
