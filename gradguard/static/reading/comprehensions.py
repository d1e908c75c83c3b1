"""Comprehensions: what all their elements are, as one value, and where such an expression is a loop over batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gradguard.static import tree as t
from gradguard.static.reading import loops
from gradguard.static.reading.binding import bind_element
from gradguard.static.values import Held, Kind, Value, Word, entries_of, holding, is_record, iterated, structure

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.reading.state import State

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
        entries = _entries(flow, expr, state)
        elements = (
            _of_each(flow, expr, entries, state)
            if entries is not None
            else _elements(flow, expr, _words(expr, batches), state)
        )
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


class _Entries(NamedTuple):
    """What ``{k: make(m) for k, m in nets.items()}`` goes over.

    Args:
        name: the variable that each entry is bound to.
        path: the dict.
        known: the modules in it by their keys.
    """

    name: str
    path: str
    known: tuple[tuple[str, Value], ...]


def _entries(flow: Flow, expr: t.Comprehension, state: State) -> _Entries | None:
    """The modules in a dict whose keys are all known, where a comprehension makes another one with the same keys."""
    clause, *others = expr.clauses
    call, names = clause.iterable, [t.path_of(name) for name in t.names_in(clause.target)]
    is_same = expr.key is not None and len(names) == 2 and names[0] == t.path_of(expr.key)
    func = call.func if isinstance(call, t.Call) and is_same and not others and not clause.conditions else None
    path = t.path_of(func.value) if isinstance(func, t.Attribute) and func.name == "items" else None
    if path is None or names[1] is None:
        return None
    path = flow.canonical(path)
    whole = flow.read(path, state)
    entries = whole.parts if path.startswith("self.") and is_record(whole) else entries_of(whole)
    known = tuple((key, value) for key, value in entries if isinstance(key, str) and value.kind is Kind.MODULE)
    return _Entries(names[1], path, known) if len(known) == len(entries) <= _MANY_WORDS and known else None


def _of_each(flow: Flow, expr: t.Comprehension, entries: _Entries, state: State) -> list[tuple[object, Value]]:
    """The entries of a dict that is made of another one's: each is known by the path of the one it is made of."""
    found: list[tuple[object, Value]] = []
    name, known = flow.canonical(entries.name), loops.marks(flow)
    before = flow.elements.get(name)
    for key, value in entries.known:
        loops.forget(flow, known)  # what happens in it is written once
        state.env[name] = value
        flow.elements[name] = (f'{entries.path}["{key}"]',)
        found.append((key, flow.value(expr.element, state)))
    flow.elements[name] = before or ()
    return found


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
