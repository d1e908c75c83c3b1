"""The ends of ``itertools.tee`` that an object keeps: one is gone through in training, one was read a first time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.classes import Class
from gradguard.static.functions import FunctionRef

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.model import Call

_BACKWARD = re.compile(r"\bbackward\(")
_GOING_ON = ("__iter__", "__next__")


def lagging_attribute(flow: Flow, call: Call) -> str | None:
    """The end that stays behind: ``self._batches, self._first = tee(stream)``, and ``next(self._first)`` once.

    The other one is what the object gives when it is iterated over.
    """
    owner = flow.ref.owner
    if owner is None or not flow.project.survey.mentions(_BACKWARD, flow.module):
        return None
    ends = _kept_in(flow, call)
    going, behind = ([end for end in ends if test(owner, end)] for test in (_is_gone_through, _is_read_once))
    return behind[0] if len(ends) == 2 and len(going) == len(behind) == 1 and going != behind else None


def _kept_in(flow: Flow, call: Call) -> list[str]:
    """The attributes of ``self`` that a call is bound to."""
    statements = (s for s in flow.ref.define.statements if isinstance(s, t.Assign))
    targets = [e for s in statements if s.value is call.source.site.node for e in s.targets]
    paths = [t.path_of(name) or "" for target in targets for name in t.names_in(target)]
    return [path for path in paths if path.startswith("self.")] if len(targets) == 1 else []


def _uses(cls: Class, path: str) -> Iterator[tuple[FunctionRef, t.Node | None]]:
    """The methods that use an attribute, each with what it is given to, or the statement that it is a part of."""
    for ref in cls.methods.values():
        for node in ref.define.nodes:
            if isinstance(node, t.Attribute) and t.path_of(node) == path:
                yield ref, _around(ref, node)


def _around(ref: FunctionRef, node: t.Expr) -> t.Node | None:
    """What directly uses an expression: a call that is given it, a loop over it, ``return`` or ``yield from``."""
    for outer in ref.define.nodes:
        if isinstance(outer, t.Call) and any(arg.value is node for arg in outer.args):
            return outer
        if isinstance(outer, t.Repeat) and outer.iterable is node:
            return outer
        if isinstance(outer, t.Return | t.Suspend) and outer.value is node:
            return outer
    return None


def _is_gone_through(cls: Class, path: str) -> bool:
    """Whether iterating over the object goes through it."""
    return any(ref.define.name in _GOING_ON and use is not None for ref, use in _uses(cls, path))


def _is_read_once(cls: Class, path: str) -> bool:
    """Whether it is only ever read by ``next`` in a method that nothing calls in a loop."""
    uses = [(ref, use) for ref, use in _uses(cls, path) if ref.define.name != "__init__" or use is not None]
    if not uses or path[len("self.") :] in _elsewhere(cls):
        return False
    return all(
        isinstance(use, t.Call) and t.path_of(use.func) == "next" and not _in_loop(ref.define.body, use)
        for ref, use in uses
    ) and all(_runs_once(ref) for ref, _ in uses)


def _elsewhere(cls: Class) -> set[str]:
    """The attributes that the rest of its file uses."""
    return set(re.findall(r"\.(\w+)", cls.module.source.text.replace(cls.chunk.text, "")))


def _runs_once(ref: FunctionRef) -> bool:
    """Whether a method is called, and never in a loop, as far as is seen."""
    name = ref.define.name
    decorators = (t.path_of(each) or "" for each in ref.define.decorators)
    if name == "__init__" or any(path.rpartition(".")[2] == "cached_property" for path in decorators):
        return True
    bodies = [caller.define.body for caller in ref.module.project.written_calling(ref)]
    calls = [
        (body, node)
        for body in bodies
        for node in t.walk(body)
        if isinstance(node, t.Call) and isinstance(node.func, t.Attribute) and node.func.name == name
    ]
    return bool(calls) and not any(_in_loop(body, node) for body, node in calls)


def _in_loop(body: list[t.Stmt], node: t.Node) -> bool:
    loops = (s for s in t.walk_statements(body) if isinstance(s, t.Repeat))
    return any(inner is node for loop in loops for inner in t.walk(loop.body))
