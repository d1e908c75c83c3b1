"""Why growth may be no leak: inputs that grow, a bound, what empties a place or backpropagates it."""

from __future__ import annotations

import ast
from itertools import pairwise
from math import inf

from gradguard.findings import Place
from gradguard.runtime import bounds, lifetime
from gradguard.runtime.diagnosed import CARRIED
from gradguard.runtime.evidence import Evidence, items_gained
from gradguard.runtime.holders import Suspect
from gradguard.runtime.limits import host_room
from gradguard.runtime.references import ANY_ITEM
from gradguard.runtime.source import IsOff, Source, place_of
from gradguard.runtime.switches import is_unconditional
from gradguard.runtime.tracer import step_into
from gradguard.runtime.verdict import LARGE_BUFFER

LONG_BUFFER = 1_000
"""Entries: a bounded buffer of so many graphs is nobody's intention, whatever they weigh."""

SEVERAL_AT_ONCE = 8
"""Entries beside twice its bound that a collection may have before it is cut: a step may store several."""


def excuse(seen: Evidence, kind: str) -> tuple[str | None, Place | None]:
    """Why growth is none: what only a look at the place and at the source can tell."""
    suspect = seen.suspect
    is_carried = seen.form in (*CARRIED, "index") and not (seen.statement and bounds.keeps_the_last(seen.statement))
    if suspect.inputs and (suspect.gain.attached > 0 or not is_carried):
        return "items" if any(each.label == ANY_ITEM for each in suspect.chain) else "inputs", None
    suspect.maxlen = suspect.maxlen or _written_bound(seen)
    if _is_filling(suspect, kind, seen.rate) or _is_cache_of_items(seen):
        return "filling", None
    if suspect.root is None or kind in ("hook", "cache", "cycle"):
        return None, None
    trimmed = _trimmed(seen)
    if trimmed is not None and not _keeps_too_many(suspect):
        return "emptied", place_of(seen.lines[0].filename, trimmed[0])
    emptied = _emptied(seen)
    if emptied is not None and (trimmed is None or emptied.line not in _lines_of(trimmed[0])):
        return "emptied", emptied
    if seen.statement is not None:
        consumed = lifetime.backpropagated_after_loop(seen.sources, seen.lines[0].filename, seen.statement, seen.name)
        if consumed is not None:
            return "consumed", consumed
    return None, None


def _emptied(seen: Evidence) -> Place | None:
    """The statement that empties a collection now and then.

    A sum that starts anew with each epoch is the classic leak all the same, and so is a list that is local to it.
    """
    suspect = seen.suspect
    source = seen.sources.get(seen.lines[0].filename) if seen.lines else None
    if suspect.entries <= 0:
        return None
    is_off = _never_empties(seen)
    if suspect.holder.scope == "local":
        if source is None or seen.statement is None:
            return None
        return lifetime.emptied_in_its_loop(source, seen.statement, seen.name, seen.outlived, seen.key, is_off)
    stored = (seen.lines[0].filename, seen.statement) if seen.statement is not None else None
    return lifetime.emptied_in_a_loop(
        seen.sources,
        seen.name,
        suspect.holder.scope,
        suspect.home,
        seen.outlived,
        seen.key,
        stored,
        _kinds_of_owner(seen),
        is_off,
    )


def _kinds_of_owner(seen: Evidence) -> frozenset[str]:
    """The names of the classes that the object is of whose attribute grows, where one has it."""
    spots = pairwise(seen.suspect.chain)
    owners = [spot.owner or type(parent.thing) for parent, spot in spots if spot.label == f".{seen.name}"]
    return frozenset(cls.__name__ for cls in owners[-1].__mro__ if cls is not object) if owners else frozenset()


def _written_bound(seen: Evidence) -> int | None:
    """How many items the statements let the collection have; 1 where it has a bound whose value is not known.

    Of graphs only a number that is written there counts: what a setting says may be anything.
    """
    source = seen.sources.get(seen.lines[0].filename) if seen.lines else None
    if source is None or seen.statement is None or seen.lengthens is None:
        return None
    bound = bounds.index_of_ring(seen.statement, seen.name)
    if bound is None and items_gained(seen.suspect):
        if not seen.suspect.gain.attached:
            bound = bounds.bound_of(source, seen.lengthens, seen.name, seen.switches.is_off)
        trimmed = _trimmed(seen) if bound is None else None
        if trimmed is not None and _is_passed(*trimmed, source, seen):
            return None  # cut later, or not at all
        bound = bound or (trimmed[1] if trimmed is not None else None)
    if _is_open(bound, source, seen):
        return None
    known = _value_of(bound, seen)
    if seen.suspect.gain.attached:
        return known if isinstance(bound, ast.Constant) or (known or 0) >= LONG_BUFFER else None
    return known or (1 if bound is not None else None)


def _value_of(bound: ast.expr | None, seen: Evidence) -> int | None:
    """The number that a bound is: one that is written, or an attribute of the object that holds the collection."""
    value: object = None
    if isinstance(bound, ast.Constant):
        value = bound.value
    elif isinstance(bound, ast.Attribute) and len(seen.suspect.chain) > 1:
        value = step_into(seen.suspect.chain[-2].thing, f".{bound.attr}")
    return value if type(value) is int and value >= 1 else None


def _trimmed(seen: Evidence) -> tuple[ast.stmt, ast.expr] | None:
    """The statement that keeps the collection short, with the length, where one does."""
    source, written = _written_trim(seen)
    if source is None or seen.statement is None or written is None or _is_open(written[1], source, seen):
        return None
    is_vain = _is_passed(*written, source, seen) and is_unconditional(source, written[0], seen.statement)
    return None if is_vain else written


def _written_trim(seen: Evidence) -> tuple[Source | None, tuple[ast.stmt, ast.expr] | None]:
    """The statement that would keep the collection short, with the length, and its file."""
    source = seen.sources.get(seen.lines[0].filename) if seen.lines else None
    if source is None or seen.statement is None or not items_gained(seen.suspect):
        return source, None
    return source, bounds.trimmed_at(source, seen.statement, seen.name, seen.key, seen.switches.is_off)


def _never_empties(seen: Evidence) -> IsOff:
    """Tells what is never run, and what belongs to a statement that keeps the collection short, and does not."""
    source, written = _written_trim(seen)
    if written is None or _trimmed(seen) is not None:
        return seen.switches.is_off
    vain = set(ast.walk(written[0]))
    return lambda where, node: (where is source and node in vain) or seen.switches.is_off(where, node)


def _is_passed(statement: ast.stmt, bound: ast.expr, source: Source, seen: Evidence) -> bool:
    """Whether the collection is far longer already than a statement would leave it."""
    spot = seen.suspect.spot
    if spot.count != 1 or bounds.is_by_key(statement, seen.name):
        return False  # several collections, each of which is short
    most = seen.switches.value(source, bound)
    return type(most) is int and spot.length > 2 * most + SEVERAL_AT_ONCE


def _is_open(bound: ast.expr | None, source: Source, seen: Evidence) -> bool:
    """Whether a bound is none: infinite, or an attribute of the object that holds the collection, and None there."""
    written = bound.operand if isinstance(bound, ast.UnaryOp) else bound
    if written is None:
        return False
    most = seen.switches.value(source, written)
    if type(most) in (int, float) and _needs_more_than_there_is(most, seen.suspect):
        return True
    if not isinstance(written, ast.Attribute) or len(seen.suspect.chain) < 2:
        return False
    return step_into(seen.suspect.chain[-2].thing, f".{written.attr}") is None


def _needs_more_than_there_is(most: float, suspect: Suspect) -> bool:
    """Whether so many items would take more memory than the host has left; of a device that is not asked here."""
    items = items_gained(suspect)
    if most == inf or items <= 0 or suspect.devices != ("cpu",):
        return most == inf
    left = host_room()
    return left is not None and most * max(suspect.gain.storage, 0) / items > left


def _lines_of(statement: ast.stmt) -> range:
    return range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)


def _is_cache_of_items(seen: Evidence) -> bool:
    """Whether a data set keeps each item that it was asked for: ``self.cache[index] = ...`` in ``__getitem__``."""
    if seen.statement is None or seen.form != "index" or seen.suspect.gain.attached > 0:
        return False
    source = seen.sources.get(seen.lines[0].filename)
    function = source.function_of(seen.statement) if source is not None else None
    if not isinstance(function, ast.FunctionDef) or function.name != "__getitem__":
        return False
    index = function.args.args[1].arg if len(function.args.args) > 1 else ""
    keys = [t.slice for t in ast.walk(seen.statement) if isinstance(t, ast.Subscript) and isinstance(t.ctx, ast.Store)]
    return any(isinstance(key, ast.Name) and key.id == index for key in keys)


def _keeps_too_many(suspect: Suspect) -> bool:
    """Whether its bound lets it have more graphs than anybody can want."""
    return suspect.gain.attached > 0 and (suspect.maxlen or 0) >= LONG_BUFFER


def _is_filling(suspect: Suspect, kind: str, rate: float) -> bool:
    """Whether it is a bounded buffer that may well become full."""
    if kind == "optimizer" and any(spot.label == ".state" for spot in suspect.chain[:-1]):
        return True  # the history of LBFGS, up to its history_size
    if suspect.is_in_block:
        return True
    entries = items_gained(suspect) or suspect.gain.attached or (suspect.gain.tensors if kind == "cache" else 0)
    if suspect.maxlen is None or entries <= 0:
        return False
    if _keeps_too_many(suspect):
        return False
    visible = suspect.gain.storage / suspect.steps
    per_step = max(rate, visible) if suspect.gain.attached else visible
    return per_step * suspect.steps / entries * suspect.maxlen < LARGE_BUFFER
