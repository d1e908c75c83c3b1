"""Buffers that have a limit and go over it: ``if len(buf) < size: buf.append(x)``, and ``buf.append(x)`` if it is full.

One is drawn from them each time, ``buf[randrange(len(buf))]``, and stays in them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeGuard

from gradguard.static import tree as t
from gradguard.static.kept.never_emptied import is_never_emptied
from gradguard.static.mistakes.kept import OverLimit
from gradguard.static.model import Scope
from gradguard.static.reading.conditions import length_test

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_READING = frozenset(
    "len list tuple enumerate zip iter reversed sum shuffle choice choices sample stack cat randrange".split()
)
_DRAWING = frozenset("randrange randint integers random rand uniform".split())
_SIZE = re.compile(r"size|buf|capacity|max|limit|pool|length|shuffle|window|maxlen", re.I)
_TO_BEGIN_WITH = re.compile(r"batch|min|warm|start|burn|initial|learn", re.I)


def over_limit(flow: Flow) -> Iterator[OverLimit]:
    """Where a function adds to a list that its own test says is full, and takes nothing out."""
    for block in _blocks(flow.ref.define.body):
        for place, stmt in enumerate(block):
            length = length_test(stmt.test) if isinstance(stmt, t.If) else None
            if not isinstance(stmt, t.If) or length is None or not length.is_below or not _adds(stmt.body, length.path):
                continue
            full = stmt.orelse or (block[place + 1 :] if t.leaves(stmt.body) else [])
            added = next(_adding(full, length.path), None)
            if added is None or not _is_limit(length.limit) or not _is_drawn_from(flow, length.path):
                continue
            if _is_only_read(flow, length.path) and _lasts(flow, stmt, length.path):
                yield OverLimit(flow.site(added), length.path, flow.site(stmt.test))


def _is_limit(limit: t.Expr | None) -> bool:
    """Whether it is the size that a buffer may have, by its name: no number of samples to begin with."""
    names = {node.name if isinstance(node, t.Attribute) else node.id for node in t.walk(limit) if _is_name(node)}
    return any(map(_SIZE.search, names)) and not any(map(_TO_BEGIN_WITH.search, names))


def _is_name(node: t.Node) -> TypeGuard[t.Name | t.Attribute]:
    return isinstance(node, t.Name | t.Attribute)


def _is_drawn_from(flow: Flow, path: str) -> bool:
    """Whether a function draws one of a list: ``buf[k]`` of ``k = random.randrange(len(buf))``, ``choice(buf)``."""
    for node in flow.ref.define.nodes:
        if isinstance(node, t.Call) and node.name == "choice" and node.args and t.path_of(node.args[0].value) == path:
            return True
        index = node.index if isinstance(node, t.Subscript) and t.path_of(node.value) == path else None
        if index is not None and any(map(_draws, flow.ref.bound_to(index))):
            return True
    return False


def _draws(value: t.Expr) -> bool:
    return any(isinstance(node, t.Call) and node.name in _DRAWING for node in t.walk(value))


def _blocks(body: Sequence[t.Stmt]) -> Iterator[Sequence[t.Stmt]]:
    yield body
    for stmt in body:
        for block in t.blocks(stmt):
            yield from _blocks(block)


def _adds(block: Sequence[t.Stmt], path: str) -> bool:
    return next(_adding(block, path), None) is not None


def _adding(block: Sequence[t.Stmt], path: str) -> Iterator[t.Stmt]:
    """The statements of a block itself that put one more into a list: ``buf.append(x)``."""
    for stmt in block:
        call = stmt.value if isinstance(stmt, t.Evaluate) else None
        func = call.func if isinstance(call, t.Call) and call.name == "append" else None
        if isinstance(func, t.Attribute) and t.path_of(func.value) == path:
            yield stmt


def _is_only_read(flow: Flow, path: str) -> bool:
    """Whether all that a function does with a list is to make it once, to add to it, and to read what is in it."""
    nodes = flow.ref.define.nodes
    made = flow.ref.assigned.get(path, [])
    if len(made) > 1 or not all(isinstance(value, t.Display) and not value.items for value in made):
        return False
    known = {id(target) for stmt in nodes if isinstance(stmt, t.Assign) for target in stmt.targets}
    set_here = {id(target) for target in _changed(nodes)}
    for node in nodes:
        if isinstance(node, t.Call):
            func = node.func
            is_added = isinstance(func, t.Attribute) and func.name == "append"
            known |= {id(func.value)} if isinstance(func, t.Attribute) and is_added else set()
            known |= {id(arg.value) for arg in node.args} if node.name in _READING else set()
        elif isinstance(node, t.Subscript) and id(node) not in set_here:
            known.add(id(node.value))
        elif isinstance(node, t.Repeat):
            known.add(id(node.iterable))
        elif isinstance(node, t.Suspend) and node.kind == "yield from":
            known.add(id(node.value))
    mentions = (node for node in nodes if isinstance(node, t.Name | t.Attribute) and t.path_of(node) == path)
    return all(id(node) in known for node in mentions)


def _changed(nodes: Sequence[t.Node]) -> Iterator[t.Expr]:
    for node in nodes:
        if isinstance(node, t.Assign | t.Delete):
            yield from node.targets
        elif isinstance(node, t.Augment):
            yield node.target


def _lasts(flow: Flow, stmt: t.Stmt, path: str) -> bool:
    """Whether a list is there for as long as a loop goes on; one of the object, that nothing else empties."""
    scope = flow.scope(path)
    if scope is Scope.LOCAL:
        loops = [loop for loop in flow.ref.define.statements if isinstance(loop, t.Repeat) and t.is_in(stmt, loop.body)]
        makers = [s for s in flow.ref.define.statements if isinstance(s, t.Assign) and t.path_of(s.targets[0]) == path]
        return bool(loops and makers) and all(any(not t.is_in(s, loop.body) for loop in loops) for s in makers)
    return scope is Scope.ATTRIBUTE and path.startswith("self.") and is_never_emptied(flow, path)
