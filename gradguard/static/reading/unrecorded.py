"""What is computed of a tensor with a graph, and has none: under ``no_grad``, of ``.data``, by a comparison."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from enum import Enum, auto
from typing import NamedTuple

from gradguard.static import tree as t
from gradguard.static.knowledge import PICKING
from gradguard.static.reading.scalars import is_scalar
from gradguard.static.source import Site
from gradguard.static.values import NONE, Held, Holding, Kind, Root, Roots, Source, Value

_LOSS = re.compile(r"loss|criteri|objective", re.I)
_ASKED = (Source.PARAM,)
_SETTINGS = (Source.PARAM, Source.PLACE)


class Severed(Enum):
    """How the numbers of a tensor lost their graph."""

    COPIED = auto()  # by ``.item()``, ``torch.tensor([aux])``
    ARRAY = auto()  # NumPy was given them
    NO_GRAD = auto()  # they were computed where no graph is recorded
    COMPARED = auto()  # a comparison: it has no gradient
    CHOSEN = auto()  # ``argmax``, ``long()``, the indices of ``topk``: whole numbers have no gradient
    DATA = auto()  # they were computed of ``.data``
    STATE = auto()  # they were computed of ``state_dict()``, which detaches what it gives
    NO_CREATE_GRAPH = auto()  # they are gradients that ``torch.autograd.grad`` gave without their graph


_GIVEN_BACK = (Severed.COPIED, Severed.ARRAY)


class Copied(NamedTuple):
    """Numbers without the graph that they came from: where they lost it, and where it came from.

    Args:
        is_second: they are derivatives of a derivative, for which the graph of that was made.
        is_given: a function was given that graph by its caller, and gives the numbers back.
        is_guess: that they come of the argument of a function is not sure.
        is_doubtful: there is a graph if one is recorded there, as under ``torch.set_grad_enabled(phase == "train")``.
    """

    site: Site
    roots: Roots
    how: Severed = Severed.COPIED
    is_second: bool = False
    is_given: bool = False
    is_doubtful: bool = False
    is_guess: bool = False

    @property
    def is_certain(self) -> bool:
        """Whether there surely was a graph; of an argument, only the caller knows."""
        return any(root.source not in _ASKED for root in self.roots)


class Term(NamedTuple):
    """A term of a sum, as written, and what it is made of.

    Args:
        is_weighed: it is weighed with parameters, which are trained by it; nothing else is.
        is_open: it is a derivative, and what it is the derivative of is no term of the sum so far.
        is_asked: the other terms may have a graph as the caller knows, who backpropagates the sum or does not.
        beside: what of it may have a graph, as the caller knows: where that has one, the term is no number.
    """

    site: Site
    copied: Copied
    is_weighed: bool = False
    is_open: bool = False
    is_asked: bool = False
    beside: Roots = NONE


def cut_off(given: Iterable[Value], result: Value, site: Callable[[], Site], how: Severed) -> Value:
    """The result of what takes the graph away.

    Args:
        given: what had one.
        result: what is known of the result besides.
        site: where that happens.
    """
    values = list(given)
    roots, is_doubtful = _graphs_of(values, how)
    if not roots:
        return result
    return _with(result, {Holding(Held.UNRECORDED, Copied(site(), roots, how, is_doubtful=is_doubtful))})


def numbers_on_one_way(a: Value, b: Value, both: Value) -> Value:
    """A number that was copied out of a graph on one way, and is a plain one, as 0, on the other: it trains nothing."""
    copied = [value.ref for value in (a, b) if isinstance(value.ref, Copied)]
    if len(copied) != 1:
        return both
    is_number = a.kind is b.kind  # else nothing is known of the other one
    return both._replace(ref=copied[0] if is_number else None)


def of_slope(given: Value) -> Value:
    """The derivative of a derivative, without its graph."""
    holds = (h._replace(key=h.key._replace(is_second=True)) if isinstance(h.key, Copied) else h for h in given.holds)
    return given._replace(holds=frozenset(holds))


def of_choice(given: Value, result: Value, site: Callable[[], Site]) -> Value:
    """The whole numbers that are made of a tensor; of some that were made before, these ended the graph."""
    lost = given.holding(Held.UNRECORDED)
    return _with(result, lost) if lost else cut_off([given], result, site, Severed.CHOSEN)


def of_state(node: t.Call, result: Value, site: Callable[[], Site]) -> Value:
    """What ``model.state_dict()`` gives: the parameters, detached, where nobody asks for them as they are."""
    if node.argument("keep_vars", 2) is not None:
        return result
    parameters = Value(frozenset((Root(Source.LEAF, node),)), kind=Kind.TENSOR)
    return cut_off([parameters], result, site, Severed.STATE)


def of_copy(result: Value) -> Value:
    """A copy of what ``state_dict()`` gave: that is kept to compare with, for the parameters as they were."""
    kept = (h for h in result.holding(Held.UNRECORDED) if isinstance(h.key, Copied) and h.key.how is Severed.STATE)
    return result._replace(holds=result.holds.difference(kept)) if result.holds else result


def of_operation(
    given: Sequence[Value], result: Value, site: Callable[[], Site], *, is_off: bool, name: str = ""
) -> Value:
    """The result of an operation: what has a graph is of no interest here.

    Args:
        is_off: whether it is computed where no graph is recorded.
        name: its operator, or the function.
    """
    if result.holds and (not is_setting(result) or _may_pick(name, given)):
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
    for held in value.holding(Held.UNRECORDED, Held.COPIED, Held.REBUILT, Held.TERM):
        key = held.key
        copied = key.copied if isinstance(key, Term) else key
        if not isinstance(copied, Copied) or copied.is_certain:
            if isinstance(copied, Copied) and copied.how is Severed.NO_CREATE_GRAPH:
                # nobody wants that: what is computed under no_grad may be meant as a target
                found.add(held if key is not copied else held._replace(key=_as_given(copied, outer)))
            continue
        given = [outer(root) for root in copied.roots if root.source in _ASKED]
        roots, is_doubtful = _graphs_of(given, copied.how)
        if not roots and isinstance(key, Term) and key.is_weighed and _LOSS.search(copied.site.code):
            roots = NONE.union(*map(_begun_in, given))  # of functions that are not known: they compute losses
        is_doubtful = is_doubtful or copied.is_doubtful
        if isinstance(key, Term) and key.beside:
            key = key._replace(beside=NONE.union(*(outer(root).reach for root in key.beside)))
        here = copied._replace(roots=roots, is_doubtful=is_doubtful, is_given=copied.how in _GIVEN_BACK)
        if here.roots:
            is_sure = here.is_certain and (not here.is_guess or _LOSS.search(copied.site.code) is not None)
            of = Held.COPIED if held.held is Held.REBUILT and is_sure else held.held
            found.add(Holding(of, key._replace(copied=here) if isinstance(key, Term) else here))
    return frozenset(found)


def _as_given(copied: Copied, outer: Callable[[Root], Value]) -> Copied:
    """The same, with the graphs of the arguments that the numbers were computed of."""
    given = (outer(root).roots for root in copied.roots if root.source in _ASKED)
    return copied._replace(roots=copied.roots.union(*given)) if copied.is_second else copied


def innermost(key: object) -> object:
    """What a holding is of, in whatever function that was."""
    while isinstance(key, tuple) and key and not isinstance(key, Term | Copied):
        key = key[-1]
    return key


def is_setting(value: Value) -> bool:
    """Whether a value is no graph as far as its function shows: a number, ``self.alpha``."""
    return all(root.source in _SETTINGS for root in value.reach)


def _may_pick(name: str, given: Sequence[Value]) -> bool:
    """Whether whole numbers may say which of some weights are taken, which then learn: ``hot @ self.codebook``."""
    outer = _SETTINGS if name in PICKING else (Source.PLACE,) if name == "*" else ()
    if not outer or not any(_is_chosen(value) for value in given):
        return False
    others = [value for value in given if value.kind is not Kind.NUMBER and not value.holding(Held.UNRECORDED)]
    return any(root.source in outer for value in others for root in value.reach)


def _is_chosen(value: Value) -> bool:
    lost = (held.key for held in value.holding(Held.UNRECORDED))
    return any(isinstance(key, Copied) and key.how in (Severed.CHOSEN, Severed.COMPARED) for key in lost)


def _with(result: Value, holds: Iterable[Holding]) -> Value:
    found = result.holds.union(holds)
    return result if len(found) == len(result.holds) else result._replace(holds=found)


def recorded_in(value: Value) -> Roots:
    """The graphs that the elements of a collection may have, as the caller knows."""
    asked = value.kind in (Kind.UNKNOWN, Kind.TENSOR, Kind.CONTAINER) and value.ref is None
    return frozenset(root for root in value.reach if root.source in _ASKED) if asked else NONE


def _graphs_of(values: Sequence[Value], how: Severed) -> tuple[Roots, bool]:
    """The graphs that some values have, and whether they only have them if a graph is recorded there at all."""
    roots = NONE.union(*(_recorded(value, how) for value in values))
    if roots:
        return roots, False
    possible = NONE.union(*map(possible_in, values))
    return possible, bool(possible)


def possible_in(value: Value) -> Roots:
    """The graphs that a tensor has if one is recorded where it is computed, as only the run knows."""
    is_tensor = value.kind in (Kind.TENSOR, Kind.OUTPUT) and not value.roots
    return value.maybe if is_tensor and any(root.source is Source.GRAPH for root in value.maybe) else NONE


def _begun_in(value: Value) -> Roots:
    """The graphs that a value may have, of what surely is no number."""
    tensors = value.kind in (Kind.TENSOR, Kind.OUTPUT, Kind.CONTAINER)
    return frozenset(root for root in value.reach if root.source is Source.GRAPH) if tensors else NONE


def _recorded(value: Value, how: Severed) -> Roots:
    """The graph that a value has, on some way, or may have as the caller knows; of ``.data``, a parameter's, too."""
    if how is Severed.COPIED and (value.kind is Kind.CONTAINER or value.parts):
        return value.roots if value.has_own_graph else recorded_in(value)
    if value.kind in (Kind.TENSOR, Kind.OUTPUT) and any(root.source is Source.GRAPH for root in value.roots):
        return value.roots
    leaves = NONE
    if how in (Severed.DATA, Severed.STATE):
        leaves = frozenset(root for root in value.roots if root.source is Source.LEAF)
    asked = value.kind in (Kind.UNKNOWN, Kind.TENSOR) and not value.parts
    return leaves | frozenset(root for root in value.roots if root.source in _ASKED) if asked else leaves
