"""Queues: what is put into one is taken out again, by whoever reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.program.functions import FunctionRef

PUTTING = ("put", "put_nowait")
_TAKING = ("get", "get_nowait")
_ADDING = ("append", "appendleft", "add")
# A dict's `get` is given a key.
_TAKES = re.compile(r"\.get(?:_nowait)?(?:\(\s*(?:\)|(?:block|timeout)\s*=|True\b|False\b)|\s*,\s*None\s*\))")


def is_read(flow: Flow) -> bool:
    """Whether a function of the program takes something out of a queue, other than the one that makes it."""
    return flow.project.survey.acts(".get", _TAKES, flow.module, besides=(flow.facts.name,))


def takes_out(call: t.Call) -> bool:
    """Whether a call takes the next item out of a queue: ``jobs.get()``, ``jobs.get(timeout=1)``."""
    func = call.func
    keys = [arg for arg in call.args if not arg.keyword and not _is_flag(arg.value)]
    return isinstance(func, t.Attribute) and func.name in _TAKING and not keys


def _is_flag(expr: t.Expr) -> bool:
    return isinstance(expr, t.Constant) and isinstance(expr.value, bool)


def where_it_ends(flow: Flow, path: str) -> str:
    """Where what is put into a queue of an object stays: ``self.rows``, to which its reader appends it as it is."""
    owner = flow.ref.owner
    for ref in owner.methods.values() if owner is not None and path.startswith("self.") else ():
        taken = set(_taken(ref, path))
        for call in ref.calls if taken else ():
            func, given = call.func, [arg.value for arg in call.args]
            kept = _names(given[0]) if len(given) == 1 else ()
            if isinstance(func, t.Attribute) and func.name in _ADDING and kept in taken:
                to = t.path_of(func.value) or ""
                if to.startswith("self.") and to != path:
                    return to
    return path


def _names(expr: t.Expr) -> tuple[str, ...]:
    """A name, or those of a tuple of names: ``item``, ``step, value``; none for anything else."""
    items = expr.items if isinstance(expr, t.Display) else [expr]
    return tuple(item.id for item in items if isinstance(item, t.Name)) if _are_names(items) else ()


def _are_names(items: list[t.Expr]) -> bool:
    return all(isinstance(item, t.Name) for item in items)


def _taken(ref: FunctionRef, path: str) -> Iterator[tuple[str, ...]]:
    """The names that a method gives to what it takes out of a queue, or to all parts of it, and leaves as they are."""
    assigned = [s for s in ref.define.statements if isinstance(s, t.Assign) and len(s.targets) == 1]
    named = [(names, s) for s in assigned if (names := _names(s.targets[0])) and _are_left(ref, names, s)]
    whole = {names for names, stmt in named if _takes_from(stmt.value, path)}
    yield from whole
    yield from (names for names, stmt in named if _names(stmt.value) in whole)


def _takes_from(value: t.Expr, path: str) -> bool:
    func = value.func if isinstance(value, t.Call) and takes_out(value) else None
    return isinstance(func, t.Attribute) and t.path_of(func.value) == path


def _are_left(ref: FunctionRef, names: tuple[str, ...], taken: t.Assign) -> bool:
    """Whether nothing else is bound to some names, nor to a part of what they have."""
    others = (s.targets for s in ref.define.statements if isinstance(s, t.Assign) and s is not taken)
    return not any(isinstance(node, t.Name) and node.id in names for bound in others for node in t.walk(bound))
