"""Queues: what is put into one is taken out again, by whoever reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.functions import FunctionRef

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
            kept = given[0] if len(given) == 1 else None
            if isinstance(func, t.Attribute) and func.name in _ADDING and isinstance(kept, t.Name):
                to = t.path_of(func.value) or ""
                if kept.id in taken and to.startswith("self.") and to != path:
                    return to
    return path


def _taken(ref: FunctionRef, path: str) -> Iterator[str]:
    """The names that a method gives to what it takes out of a queue, and leaves as it is."""
    for stmt in ref.define.statements:
        if isinstance(stmt, t.Assign) and len(stmt.targets) == 1 and isinstance(name := stmt.targets[0], t.Name):
            func = stmt.value.func if isinstance(stmt.value, t.Call) and takes_out(stmt.value) else None
            if isinstance(func, t.Attribute) and t.path_of(func.value) == path and _is_left(ref, name, stmt):
                yield name.id


def _is_left(ref: FunctionRef, name: t.Name, taken: t.Assign) -> bool:
    """Whether nothing else is bound to a name, nor to a part of what it has."""
    others = (s.targets for s in ref.define.statements if isinstance(s, t.Assign) and s is not taken)
    return not any(isinstance(node, t.Name) and node.id == name.id for bound in others for node in t.walk(bound))
