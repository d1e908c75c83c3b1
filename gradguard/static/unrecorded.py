"""What is computed of a tensor with a graph, and has none: under ``no_grad``, of ``.data``, by a comparison."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum, auto
from typing import NamedTuple

from gradguard.static import tree as t
from gradguard.static.scalars import is_scalar
from gradguard.static.source import Site
from gradguard.static.values import NONE, Held, Holding, Kind, Root, Roots, Source, Value

_ASKED = (Source.PARAM,)
_SETTINGS = (Source.PARAM, Source.PLACE)


class Severed(Enum):
    """How the numbers of a tensor lost their graph."""

    COPIED = auto()  # by ``.item()``, ``torch.tensor([aux])``
    NO_GRAD = auto()  # they were computed where no graph is recorded
    COMPARED = auto()  # a comparison, ``argmax``: it has no gradient
    DATA = auto()  # they were computed of ``.data``
    NO_CREATE_GRAPH = auto()  # they are gradients that ``torch.autograd.grad`` gave without their graph


class Copied(NamedTuple):
    """Numbers without the graph that they came from: where they lost it, and where it came from."""

    site: Site
    roots: Roots
    how: Severed = Severed.COPIED

    @property
    def is_certain(self) -> bool:
        """Whether there surely was a graph; of an argument, only the caller knows."""
        return any(root.source not in _ASKED for root in self.roots)


class Term(NamedTuple):
    """A term of a sum, as written, and what it is made of."""

    site: Site
    copied: Copied


def cut_off(given: Iterable[Value], result: Value, site: Callable[[], Site], how: Severed) -> Value:
    """The result of what takes the graph away.

    Args:
        given: what had one.
        result: what is known of the result besides.
        site: where that happens.
    """
    roots = NONE.union(*(_recorded(value, how) for value in given))
    return _with(result, {Holding(Held.UNRECORDED, Copied(site(), roots, how))}) if roots else result


def of_operation(given: Iterable[Value], result: Value, site: Callable[[], Site], *, is_off: bool) -> Value:
    """The result of an operation: what has a graph is of no interest here.

    Args:
        is_off: whether it is computed where no graph is recorded.
    """
    if result.holds and not is_setting(result):
        return result._replace(holds=result.holds - result.holding(Held.UNRECORDED))
    return cut_off(given, result, site, Severed.NO_GRAD) if is_off else result


def of_call(call: t.Call, result: Value, *, gives_number: bool = False) -> Value:
    """The result of a call; one number as a tensor is what a term of a loss may be."""
    lost = result.holding(Held.UNRECORDED)
    if not lost or not (gives_number or is_scalar(call, ())):
        return result
    copied = frozenset(Holding(Held.COPIED, held.key) for held in lost)
    return result._replace(holds=result.holds - lost | copied)


def of_callee(given: Iterable[Value], result: Value) -> Value:
    """What a callee computed of arguments that have lost their graphs."""
    if not is_setting(result):
        return result
    return _with(result, frozenset().union(*(value.holding(Held.UNRECORDED) for value in given)))


def translated(value: Value, outer: Callable[[Root], Value]) -> frozenset[Holding]:
    """What has lost its graph in a callee, in the caller's terms.

    Args:
        outer: what a parameter of the callee is there.
    """
    found: set[Holding] = set()
    for held in value.holding(Held.UNRECORDED, Held.COPIED, Held.TERM):
        key = held.key
        copied = key.copied if isinstance(key, Term) else key
        if not isinstance(copied, Copied) or copied.is_certain:
            continue
        given = (outer(root) for root in copied.roots if root.source in _ASKED)
        here = copied._replace(roots=NONE.union(*(_recorded(value, copied.how) for value in given)))
        if here.roots:
            found.add(Holding(held.held, key._replace(copied=here) if isinstance(key, Term) else here))
    return frozenset(found)


def is_setting(value: Value) -> bool:
    """Whether a value is no graph as far as its function shows: a number, ``self.alpha``."""
    return all(root.source in _SETTINGS for root in value.reach)


def _with(result: Value, holds: Iterable[Holding]) -> Value:
    found = result.holds.union(holds)
    return result if len(found) == len(result.holds) else result._replace(holds=found)


def _recorded(value: Value, how: Severed) -> Roots:
    """The graph that a value has, on some way, or may have as the caller knows; of ``.data``, a parameter's, too."""
    if value.kind in (Kind.TENSOR, Kind.OUTPUT) and any(root.source is Source.GRAPH for root in value.roots):
        return value.roots
    leaves = NONE
    if how is Severed.DATA:
        leaves = frozenset(root for root in value.roots if root.source is Source.LEAF)
    asked = value.kind in (Kind.UNKNOWN, Kind.TENSOR) and not value.parts
    return leaves | frozenset(root for root in value.roots if root.source in _ASKED) if asked else leaves
