"""Comprehensions: what all their elements are, as one value, and where such an expression is a loop over batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradguard.static import loops
from gradguard.static import tree as t
from gradguard.static.binding import bind_element
from gradguard.static.values import Held, Kind, Value, Word, holding, iterated, structure

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.state import State

_MANY_WORDS = 12


def comprehension(flow: Flow, expr: t.Comprehension, state: State) -> Value:
    """The collection that a comprehension makes."""
    collects = expr.kind != "generator" or expr in flow.drained
    known, before = loops.marks(flow), state.copy() if collects else state
    value = _collection(flow, expr, state, trains=False)
    if not collects:
        return value
    trains = len(flow.facts.backwards) > known["backwards"]  # [train_step(x) for x in batches] is a loop
    ran = flow.facts.forwards[known["forwards"] :]
    if trains or (ran and loops.evaluates_each(flow, expr, ran)):
        loops.forget(flow, known)
        state.become(before)
        value = _collection(flow, expr, state, trains=trains, is_loop=True)
    return value


def _collection(flow: Flow, expr: t.Comprehension, state: State, *, trains: bool, is_loop: bool = False) -> Value:
    """All elements of a comprehension as one value."""
    names = [p for c in expr.clauses for e in t.names_in(c.target) if (p := t.path_of(e)) is not None]
    hidden = {name: state.env.get(name) for name in names}
    one_by_one = expr.kind == "generator" and not trains
    first, *others = expr.clauses
    batches = _bind(flow, first, expr, state)
    flow.generating += one_by_one  # what a list is made of lives together
    with loops.collecting(flow, expr, batches, state, is_loop=is_loop) as collected:
        if trains:
            flow.value(first.iterable, state)  # a generator of the project runs in step with it
        for clause in others:
            _bind(flow, clause, expr, state)
        if expr.key is not None:
            flow.value(expr.key, state)
        elements = _elements(flow, expr, _words(expr, batches), state)
        collected.append(elements[0][1] if len(elements) == 1 else structure(elements))
    flow.generating -= one_by_one
    for name, before in hidden.items():
        if before is None:
            state.env.pop(name, None)
        else:
            state.env[name] = before
    if not one_by_one:
        elements = [(key, holding(value, Held.MEMBER, expr)) for key, value in elements]
    return structure(elements, Kind.CONTAINER)


def _bind(flow: Flow, clause: t.Clause, expr: t.Comprehension, state: State) -> Value:
    """Bind what one ``for`` of a comprehension goes over; the value is the whole that it goes over."""
    iterable = flow.value(clause.iterable, state)
    bind_element(flow, clause.target, iterated(iterable), state, expr, clause.iterable)
    for condition in clause.conditions:
        flow.value(condition, state)
    return iterable


def _words(expr: t.Comprehension, iterable: Value | None) -> list[tuple[str, Value]]:
    """The keys of a dict, where they are written out: ``{key: stack(row[key]) for key in ("obs", "action")}``."""
    clause, *others = expr.clauses
    key = expr.key.id if isinstance(expr.key, t.Name) else None
    is_plain = isinstance(clause.target, t.Name) and clause.target.id == key and not others and not clause.conditions
    parts = [part for _, part in iterable.parts] if iterable is not None and is_plain else []
    words = [(part.ref.text, part) for part in parts if isinstance(part.ref, Word)]
    return words if len(words) == len(parts) <= _MANY_WORDS else []


def _elements(
    flow: Flow, expr: t.Comprehension, words: list[tuple[str, Value]], state: State
) -> list[tuple[object, Value]]:
    """What an element is; by its key, where the keys are known."""
    if not words:
        return [("each", flow.value(expr.element, state))]
    found: list[tuple[object, Value]] = []
    name, known = flow.canonical(t.path_of(expr.clauses[0].target) or ""), loops.marks(flow)
    for text, word in words:
        loops.forget(flow, known)  # what happens in it is written once
        state.env[name] = word
        found.append((text, flow.value(expr.element, state)))
    return found
