"""Conditions that exclude each other: what only training makes is not there where a loop's word says "validation".

``for phase in ("train", "valid")`` runs a body whose parts belong to one word each. A graph that was begun under
``if phase == "train"`` is not in what is stored under ``if phase == "valid"``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from gradguard.static import tree as t
from gradguard.static.reading.conditions import key_test
from gradguard.static.reading.roots import node_of
from gradguard.static.values import Root, Source

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.model import Loop, Store


class Told(NamedTuple):
    """What is known of a word in a part of a function: that it is ``text``, or that it is another one."""

    name: str
    text: str
    equal: bool
    nodes: frozenset[object]

    def excludes(self, other: Told) -> bool:
        """Whether both cannot hold of the same word."""
        if self.name != other.name:
            return False
        return self.equal != other.equal if self.text == other.text else self.equal and other.equal


def parts_of(define: t.Define) -> tuple[Told, ...]:
    """The parts of a function that run for one word, or for all but one."""
    found: list[Told] = []
    for node in define.nodes:
        if not isinstance(node, t.If | t.Conditional):
            continue
        name, text, equal = key_test(node.test)
        if name is not None:
            ways = [(node.body, equal), (node.orelse, not equal)]
            found += [Told(name, text, holds, frozenset(t.walk(way))) for way, holds in ways]
    return (*found, *_after_leaving(define)) if found else ()


def _after_leaving(define: t.Define) -> Iterator[Told]:
    """What comes after ``if phase != "train": continue``: only for that word."""
    for block in (define.body, *(inner for stmt in define.statements for inner in t.blocks(stmt))):
        for index, stmt in enumerate(block):
            name, text, equal = (
                key_test(stmt.test) if isinstance(stmt, t.If) and t.leaves(stmt.body) else (None, "", True)
            )
            if name is not None:
                yield Told(name, text, not equal, frozenset(t.walk(block[index + 1 :])))


def possible(flow: Flow, store: Store, roots: list[Root]) -> list[Root]:
    """Those of the roots of what is stored that can be there, by the words that loops go over."""
    here = told_at(flow, store.site.node)
    loops = {told.name: loop for told in here if (loop := _loop_over(told.name, store)) is not None}
    return [
        root for root in roots if not any(_excluded(flow, store, root, told, loops.get(told.name)) for told in here)
    ]


def told_at(flow: Flow, node: object) -> list[Told]:
    return [told for told in flow.told if node in told.nodes]


def _loop_over(name: str, store: Store) -> Loop | None:
    """The loop around a store that goes over the words."""
    around: Iterator[Loop] = store.loop.around() if store.loop is not None else iter(())
    return next((loop for loop in around if name in loop.targets), None)


def _excluded(flow: Flow, store: Store, root: Root, here: Told, loop: Loop | None) -> bool:
    """Whether a graph was begun in the same iteration of a loop, where its word was another one."""
    node = node_of(root.key)
    if loop is None or node is None or not loop.has(node):
        return False
    if any(r.source is Source.CARRIED and isinstance(r.key, tuple) and r.key[1] is loop for r in store.value.reach):
        return False  # it may be from an iteration before
    return any(here.excludes(there) for there in told_at(flow, node))
