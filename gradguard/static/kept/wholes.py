"""Views that are kept: which of them pin more memory than all that is kept of the same tensor."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.values import Held, Holding, node_within

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.model import Store

Index = tuple[object, ...]
"""What picks a part of a tensor, dimension by dimension."""


def note_wholes(flow: Flow) -> None:
    """Mark the stores of views that lie side by side and are all kept: ``mu = h[:, 0]``, ``var = h[:, 1]``."""
    kept = [store for store in flow.facts.stores if store.piles_up(Held.VIEW)]
    by_tensor: dict[object, set[Index]] = defaultdict(set)
    for tensor, index in (part for store in kept for part in _parts(store)):
        by_tensor[tensor].add(index)
    for store in kept:
        parts = list(_parts(store))
        store.whole_is_kept = bool(parts) and all(_is_completed(index, by_tensor[tensor]) for tensor, index in parts)


def is_used_up(define: t.Define, part: t.Subscript) -> bool:
    """Whether a function takes the rest of a tensor too, wherever that goes: ``h[:, 20:]`` beside ``h[:, :20]``."""
    name, index = _name(part.value), _index(part.index)
    return name is not None and _is_completed(index, {index, *_rests(define, name)})


def _rests(define: t.Define, name: object) -> Iterator[Index]:
    """What a function takes of a tensor that is no small part of it."""
    taken = (node for node in define.all(t.Subscript) if _name(node.value) == name)
    yield from (node.index.bounds for node in taken if isinstance(node.index, t.Slice) and not node.index.narrows)


def _parts(store: Store) -> list[tuple[object, Index]]:
    """The parts that are stored, each with what tells its tensor from others; none where one of them is not known."""
    found = [_part(holding) for holding in store.value.holding(Held.VIEW)]
    return [part for part in found if part is not None] if None not in found else []


def _part(holding: Holding) -> tuple[object, Index] | None:
    node = node_within(holding.key)
    if not isinstance(node, t.Subscript):
        return None
    name, calls = _name(node.value), holding.key[:-1] if isinstance(holding.key, tuple) else ()
    return ((calls, name), _index(node.index)) if name is not None else None


def _name(tensor: t.Expr) -> object:
    """A path, or the method of what is at one: ``h.chunk``."""
    if isinstance(tensor, t.Call) and isinstance(tensor.func, t.Attribute):
        return tensor.func.name, t.path_of(tensor.func.value)
    return t.path_of(tensor)


def _index(index: t.Expr) -> Index:
    if isinstance(index, t.Slice):
        return index.bounds
    items = index.items if isinstance(index, t.Display) else [index]
    return tuple(item.value if isinstance(item, t.Constant) else t.path_of(item) or item for item in items)


def _is_completed(index: Index, kept: set[Index]) -> bool:
    """Whether an index and others that differ from it in one dimension are all of that dimension."""
    for i, _ in enumerate(index):
        alike = (other for other in kept if len(other) == len(index))
        if _is_all({other[i] for other in alike if (*other[:i], *other[i + 1 :]) == (*index[:i], *index[i + 1 :])}):
            return True
    return False


def _is_all(parts: set[object]) -> bool:
    """Whether these are the first two items or more, one after the other, or slices from the start to the end."""
    if len(parts) > 1 and parts == set(range(len(parts))):
        return True
    ends: dict[object, object] = dict(part for part in parts if isinstance(part, tuple))
    reached: object = ""
    for _ in range(len(ends)):
        reached = ends.get(reached, "?")
        if reached == "":
            return len(parts) > 1
    return False
