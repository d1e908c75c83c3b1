"""What is computed under ``no_grad`` of a tensor with a graph: its numbers only, as by ``.item()``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from gradguard.static import tree as t
from gradguard.static.scalars import is_scalar
from gradguard.static.source import Site
from gradguard.static.values import NONE, NOTHING_HELD, Held, Holding, Kind, Root, Roots, Source, Value

_ASKED = (Source.PARAM,)


class Copied(NamedTuple):
    """Numbers that were copied out of a graph: where they were, and where the graph came from."""

    site: Site
    roots: Roots
    was_recorded: bool = True
    """Whether they were copied by ``.item()`` or the like; else they were computed where no graph is recorded."""

    @property
    def is_certain(self) -> bool:
        """Whether there surely was a graph; of an argument, only the caller knows."""
        return any(root.source not in _ASKED for root in self.roots)


def of_operation(given: Iterable[Value], result: Value, *, is_off: bool) -> Value:
    """The result of an operation, with the graphs that it would have if they were recorded.

    Args:
        given: the operands.
        result: what is known of the result besides.
        is_off: whether it is computed where no graph is recorded.
    """
    if result.reach:
        return _with(result, NONE)
    roots = NONE
    for value in given:
        roots |= _kept_from(value)
        roots |= _recorded(value) if is_off else NONE
    return _with(result, roots)


def of_call(call: t.Call, site: Callable[[], Site], result: Value) -> Value:
    """The result of a call; one number as a tensor is what a term of a loss may be."""
    roots = _kept_from(result)
    if not roots or not is_scalar(call, ()):
        return result
    return _with(result, NONE, Copied(site(), roots, was_recorded=False))


def translated(value: Value, outer: Callable[[Root], Value]) -> frozenset[Holding]:
    """What a value of a callee was computed from without a graph, in the caller's terms.

    Args:
        outer: what a parameter of the callee is there.
    """
    found: set[Holding] = set()
    for held in value.holding(Held.UNRECORDED, Held.COPIED):
        copied = held.key
        if isinstance(copied, Copied) and not copied.is_certain:
            roots = _of_arguments(copied.roots, outer)
            found |= {Holding(Held.COPIED, copied._replace(roots=roots))} if roots else NOTHING_HELD
        elif held.held is Held.UNRECORDED and isinstance(copied, frozenset):
            roots = _of_arguments(copied, outer)
            found |= {Holding(Held.UNRECORDED, roots)} if roots else NOTHING_HELD
    return frozenset(found)


def _of_arguments(roots: Roots, outer: Callable[[Root], Value]) -> Roots:
    given = (outer(root) for root in roots if root.source in _ASKED)
    return NONE.union(*(_kept_from(value) | _recorded(value) for value in given))


def _with(result: Value, roots: Roots, copied: Copied | None = None) -> Value:
    others = result.holds - result.holding(Held.UNRECORDED) if result.holds else result.holds
    if roots:
        others |= {Holding(Held.UNRECORDED, roots)}
    if copied is not None:
        others |= {Holding(Held.COPIED, copied)}
    return result if others == result.holds else result._replace(holds=others)


def _kept_from(value: Value) -> Roots:
    """The graphs that a value without one was computed from."""
    found = NONE
    for held in value.holding(Held.UNRECORDED):
        found |= held.key if isinstance(held.key, frozenset) else NONE
    return found


def _recorded(value: Value) -> Roots:
    """The graph that a value surely has, or may have as the caller knows."""
    if value.is_operation_result:
        return value.roots
    asked = value.kind in (Kind.UNKNOWN, Kind.TENSOR) and not value.parts
    return frozenset(root for root in value.roots if root.source in _ASKED) if asked else NONE
