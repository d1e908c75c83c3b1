"""Which loops are over epochs, and in which of them a function is called, by whatever function."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.program.functions_called import calls_of
from gradguard.static.program.reaching import levels_of
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_EPOCH = re.compile(r"(?:^|[._])(?:n|num|cur|current|i|max|total)?_?epochs?(?:$|[._])", re.I)
_COUNTING = ("range", "trange", "tqdm", "enumerate", "count", "progress_bar", "track")
_DEPTH = 2


def is_over_epochs(loop: t.Repeat) -> bool:
    """``for epoch in range(n)``, ``for _ in range(args.epochs)``, ``while epoch < n``; not one over what has a name."""
    if loop.iterable is None:
        return loop.test is not None and any(map(_is_named_so, t.walk(loop.test)))
    made = loop.iterable
    counts = isinstance(made, t.Call) and made.name in _COUNTING
    named = [*t.names_in(loop.target)] if loop.target is not None else []
    return any(map(_is_named_so, named)) or (counts and any(map(_is_named_so, t.walk(made))))


def _is_named_so(node: t.Node) -> bool:
    path = t.path_of(node) if isinstance(node, t.Name | t.Attribute) else None
    return path is not None and _EPOCH.search(path) is not None


def loops_around(define: t.Define, node: t.Node) -> list[t.Repeat]:
    """The loops whose blocks a node of a function is in, the outer ones first."""
    around = [block[at] for block, at in levels_of(define.body, node)[:-1]]
    return [stmt for stmt in around if isinstance(stmt, t.Repeat)]


def counted(flow: Flow, loop: t.Repeat) -> Site:
    """What tells of a loop that it is over epochs."""
    told = loop.iterable or loop.test
    return flow.site(told if told is not None else loop)


def calls_in_epochs(flow: Flow, depth: int = _DEPTH) -> Iterator[tuple[Flow, t.Call, t.Repeat]]:
    """The calls of a function once in each epoch, also of one that calls it without a loop (reads other files).

    Each with the function that has the loop, and the loop.
    """
    for caller, call in calls_of(flow):
        around = loops_around(caller.ref.define, call)
        if around and is_over_epochs(around[-1]):
            yield caller, call, around[-1]
        elif not around and depth > 1:
            yield from calls_in_epochs(caller, depth - 1)
