"""Parts of tensors: which share the storage of the whole, and which are copies."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.kept.wholes import is_used_up
from gradguard.static.reading.state import State
from gradguard.static.values import (
    ARRAY,
    NOTHING_HELD,
    ON_DEVICE,
    Held,
    Holding,
    Holdings,
    Kind,
    Root,
    Source,
    Value,
    computed,
    holding,
    viewed,
)

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


class Taken(NamedTuple):
    """A small part that was taken out of an argument: a view, where the caller gives a tensor.

    Args:
        of: what it was taken from.
        by_position: in several dimensions, as only tensors and arrays can be.
        where: the expression.
    """

    of: Root
    by_position: bool
    where: t.Node


def indexed(flow: Flow, base: Value, expr: t.Subscript, state: State) -> Value:
    """``tensor[index]``: a view for numbers and slices, a copy for lists, masks and tensors."""
    base = viewed(base)
    if _is_mask(expr.index):  # a copy of some of the rows
        return computed(base)._replace(holds=base.holding(*ON_DEVICE, Held.GIVEN, Held.CUT))
    if not _is_position(expr.index) and not _is_picked(flow, expr.index, state):
        base = computed(base)  # by a name: one of many rows, or a copy
    base = base._replace(holds=base.holds - base.holding(*ON_DEVICE))
    if isinstance(expr.value, t.Call) and k.MEASURE_OF_CLASSES.search(t.path_of(expr.value.func) or ""):
        return base  # precision(predicted, y, classes)[1]: the whole is hardly larger
    is_tensor = _has_dimensions(expr.index) or (base.kind is Kind.TENSOR and base.ref != "batch")
    return holding(base, Held.VIEW, expr) if is_tensor and _is_small_part(flow, expr, state) else base


def of_given(flow: Flow, base: Value, expr: t.Subscript, state: State) -> Value:
    """``x[index]``, where what ``x`` is only the caller knows: what is taken out of it, if that is a small part."""
    params = [root for root in base.roots if root.source is Source.PARAM]
    if base.kind is not Kind.UNKNOWN or not params or not _is_small_part(flow, expr, state):
        return base
    taken = (Holding(Held.PART, Taken(root, _has_dimensions(expr.index), expr)) for root in params)
    return base._replace(holds=base.holds | frozenset(taken))


def taken_from(taken: Taken, given: Value, call: t.Node) -> Holdings:
    """What the caller holds with a part of an argument."""
    if given.kind is Kind.UNKNOWN:
        params = (root for root in given.roots if root.source is Source.PARAM)
        return frozenset(Holding(Held.PART, taken._replace(of=root)) for root in params)
    by_position = taken.by_position and given.kind in (Kind.TENSOR, Kind.OUTPUT)
    is_tensor = by_position or (given.kind is Kind.TENSOR and given.ref != "batch")
    return frozenset((Holding(Held.VIEW, (call, taken.where)),)) if is_tensor else NOTHING_HELD


def _is_small_part(flow: Flow, expr: t.Subscript, state: State) -> bool:
    """Whether it is a part of a tensor that keeps more than is used."""
    return _narrows(flow, expr, state) and not is_used_up(flow.ref.define, expr)


def _narrows(flow: Flow, expr: t.Subscript, state: State) -> bool:
    """Whether a small part is picked: by numbers, or the first few."""
    index = expr.index
    if isinstance(index, t.Display) and index.kind == "tuple":
        return all(_is_integer(i) or _is_one_number(flow, i, state) for i in index.items)
    if isinstance(index, t.Slice):
        return index.narrows
    through_data = isinstance(expr.value, t.Attribute) and expr.value.name == "data"
    return (
        _is_integer(index) or _is_picked(flow, index, state)
    ) and not through_data  # loss.data[0] was the item() of torch 0.3


def _is_one_number(flow: Flow, index: t.Expr, state: State) -> bool:
    """Whether it is a number, no array of them: ``order[np.arange(n), labels]`` is a copy."""
    from gradguard.static.reading.expressions import evaluate

    value = evaluate(flow, index, state)
    return value.kind is Kind.NUMBER and value.ref != ARRAY.ref


def _is_picked(flow: Flow, index: t.Expr, state: State) -> bool:
    """Whether it is a number that a call gave, not one of all in turn: ``k`` after ``k = int(losses.argmax())``."""
    if not isinstance(index, t.Name) or index.id in flow.params:
        return False
    known = state.env.get(index.id)
    if known is None or known.kind is not Kind.NUMBER or known.ref is not None:
        return False
    given = [made.value for made in flow.ref.bindings_made if index.id in made.names]
    in_turn = {
        name for frame in flow.frames for name in frame.loop.targets if state.env.get(name, known).kind is Kind.NUMBER
    }
    return bool(given) and all(isinstance(value, t.Call) and not _mentions(value, in_turn) for value in given)


def _mentions(expr: t.Expr, names: set[str]) -> bool:
    return any(isinstance(node, t.Name) and node.id in names for node in t.walk(expr))


def _has_dimensions(index: t.Expr) -> bool:
    """Whether it is about several dimensions: ``[0, 1]``, ``[:, 0]``."""
    by_position = isinstance(index, t.Display) and index.kind == "tuple"
    return by_position or (isinstance(index, t.Slice) and index.dimensions > 1)


def _is_position(index: t.Expr) -> bool:
    """Whether it may give a view."""
    if isinstance(index, t.Display):
        return index.kind == "tuple"
    return isinstance(index, t.Slice | t.Constant | t.Operation)


def _is_mask(index: t.Expr) -> bool:
    """Whether rows are picked by a condition: ``labels == c``, ``~done & seen``."""
    return isinstance(index, t.Operation) and index.operator in _OF_MASKS


_OF_MASKS = ("==", "!=", "<", "<=", ">", ">=", "&", "|", "~")


def _is_integer(index: t.Expr) -> bool:
    if isinstance(index, t.Operation) and index.operator == "-" and len(index.operands) == 1:
        index = index.operands[0]
    return isinstance(index, t.Constant) and isinstance(index.value, int) and not isinstance(index.value, bool)
