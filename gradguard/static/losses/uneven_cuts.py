"""Symmetric losses of which one term detaches its target, the other does not: ``f(p1, z2.detach()) + f(p2, z1)``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.backward.filled import may_be_stepped
from gradguard.static.losses.moving_targets import cuts, runs_of
from gradguard.static.mistakes.losses import UnevenCut
from gradguard.static.model import Mode
from gradguard.static.program.functions_called import functions_run
from gradguard.static.values import Kind, Source

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

# The words by which people tell two views apart.
_TWINS = (
    ("1", "2"), ("0", "1"), ("_a", "_b"), ("_i", "_j"), ("_x", "_y"), ("_l", "_r"), ("one", "two"), ("left", "right"),
    ("first", "second"),
)  # fmt: skip
_LAST = re.compile(r"(?<=[a-z])[ab]$")


def uneven_cuts(flow: Flow) -> Iterator[UnevenCut]:
    """The arguments whose twin in the other term is detached, while they are not."""
    if flow.facts.is_test or flow.facts.entry_mode is Mode.OFF:
        return
    calls = [call for call in flow.ref.calls if len(call.args) == 2]
    cutting = [(call, place) for call in calls if (place := _place_cut(call)) is not None]
    live = [call for call in calls if _place_cut(call) is None] if cutting else []
    for (one, place), other in product(cutting, live):
        target = other.args[place].value
        if not _are_twins(one, other) or not _has_graph(flow, target) or _cuts_itself(flow, other):
            continue
        if _is_of_one_network(flow, target, other.args[1 - place].value):
            yield UnevenCut(flow.site(target), flow.site(one.args[place].value))


def _place_cut(call: t.Call) -> int | None:
    """Which of two arguments is detached, the other not."""
    cut = [t.detached(arg.value) is not None for arg in call.args]
    return cut.index(True) if sum(cut) == 1 else None


def _are_twins(one: t.Call, other: t.Call) -> bool:
    """Whether two calls of one function are given the same, with the two views in each other's place."""
    path = t.path_of(one.func)
    if path is None or path != t.path_of(other.func):
        return False
    here, there = _named(one), _named(other)
    return len(here) == len(there) == 2 and here != there and any(swapped == there for swapped in _swapped(here))


def _named(call: t.Call) -> list[str]:
    """The arguments, by their paths."""
    given = (t.detached(arg.value) or arg.value for arg in call.args)
    return [path for expr in given if (path := t.path_of(expr)) is not None]


def _swapped(names: Sequence[str]) -> Iterator[list[str]]:
    """The names with each of two words in the other's place."""
    for one, other in _TWINS:
        word, words = re.compile(f"{one}|{other}"), {one: other, other: one}
        yield [word.sub(lambda found, words=words: words[found.group()], name) for name in names]  # type: ignore[misc]
    yield [_LAST.sub(lambda found: "b" if found.group() == "a" else "a", name) for name in names]


def _has_graph(flow: Flow, expr: t.Expr) -> bool:
    """Whether something may have a graph: it is none of what was computed under ``no_grad``, or detached before."""
    path = t.path_of(expr)
    bound = _bound_to(flow, path)
    frozen = {run.site.node for run in flow.facts.forwards if run.is_frozen or run.mode is Mode.OFF}
    if path is None or any(node in frozen or cuts(flow, node) for value in bound for node in t.walk(value)):
        return False
    value = flow.read(flow.canonical(path), flow.final)
    is_item = any(isinstance(each, t.Subscript) for each in bound)  # of a bank, as far as nothing shows its graph
    asked = (Source.GRAPH,) if is_item else (Source.GRAPH, Source.PARAM, Source.PLACE)
    is_tensor = value.kind in (Kind.UNKNOWN, Kind.TENSOR, Kind.OUTPUT)
    return is_tensor and any(root.source in asked for root in value.reach)


def _bound_to(flow: Flow, path: str | None) -> list[t.Expr]:
    """What the assignments of a function bind to a path, each target with its own value."""
    bound = (stmt for stmt in flow.ref.define.statements if isinstance(stmt, t.Assign))
    pairs = (pair for stmt in bound for pair in t.pairs(stmt.targets, stmt.value))
    return [value for target, value in pairs if any(t.path_of(name) == path for name in t.names_in(target))]


def _is_of_one_network(flow: Flow, target: t.Expr, prediction: t.Expr) -> bool:
    """Whether what gives a target is trained by the term: a network that gives the prediction, too, as far as is seen.

    One that follows another, or is frozen, needs no detach.
    """
    runs = runs_of(flow, target)
    modules = {run.given_as or run.module for run in runs}
    others = {run.given_as or run.module for run in runs_of(flow, prediction)}
    return not runs or (not modules.isdisjoint(others) and all(may_be_stepped(flow.facts, run) for run in runs))


def _cuts_itself(flow: Flow, call: t.Call) -> bool:
    """Whether the function that is called detaches what it is given."""
    return any(cuts(flow, node) for ref in functions_run(flow, call) for node in ref.define.nodes)
