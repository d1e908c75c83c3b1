"""Contexts of an ``autograd.Function`` in a collection which nothing empties: ``Quantize.calls.append(ctx)``.

A context is the node of the graph itself, and the node has those below it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.kept.never_emptied import is_never_emptied
from gradguard.static.mistakes.kept import KeptContext
from gradguard.static.model import Scope
from gradguard.static.program.classes import Class
from gradguard.static.program.functions_called import functions_called
from gradguard.static.reading.autograd_functions import held_by
from gradguard.static.values import Kind

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_GIVEN_ONE = ("forward", "setup_context", "backward")
_ADDING = frozenset("append appendleft add insert".split())
_BACKWARD = re.compile(r"\bbackward\(")


def kept_contexts(flow: Flow) -> Iterator[KeptContext]:
    """The statements that keep the context of every call of the function, there or in what it gives the context to."""
    owner, define = flow.ref.owner, flow.ref.define
    if owner is None or define.name not in _GIVEN_ONE or not define.params or not owner.is_autograd_function:
        return
    if define.name == "forward" and owner.method("setup_context") is not None:
        return  # the context is given to that one
    found = [*_kept(flow, define.params[0].name), *_kept_by_called(flow, define.params[0].name)]
    if found and flow.project.survey.mentions(_BACKWARD, flow.module):
        yield from found


def _kept_by_called(flow: Flow, context: str) -> Iterator[KeptContext]:
    for stmt in _always(flow.ref.define.body):
        call = stmt.value if isinstance(stmt, t.Evaluate) else None
        if not isinstance(call, t.Call) or not any(t.path_of(arg.value) == context for arg in call.args):
            continue
        for ref in functions_called(flow, call):
            names = [name for name, given in ref.given_by(call).items() if t.path_of(given) == context]
            read = flow.project.flow(ref) if names else None
            if read is not None:
                yield from _kept(read, names[0])


def _kept(flow: Flow, context: str) -> Iterator[KeptContext]:
    if any(
        context in map(t.path_of, stmt.targets) for stmt in flow.ref.define.statements if isinstance(stmt, t.Assign)
    ):
        return
    for stmt in _always(flow.ref.define.body):
        call = stmt.value if isinstance(stmt, t.Evaluate) else None
        func = call.func if isinstance(call, t.Call) else None
        if not isinstance(call, t.Call) or not isinstance(func, t.Attribute) or func.name not in _ADDING:
            continue
        path, added = t.path_of(func.value), call.args[-1].value if call.args else None
        if path is None or added is None or context not in list(held_by(flow, added)):
            continue
        if _gets_longer(flow, path) and is_never_emptied(flow, path) and not _is_emptied_in_its_file(flow, path):
            yield KeptContext(flow.site(stmt), path, context)


def _always(body: Sequence[t.Stmt]) -> Iterator[t.Stmt]:
    """The statements that run in each call: not those for which a test asks."""
    for stmt in body:
        yield stmt
        if isinstance(stmt, t.With):
            yield from _always(stmt.body)


def _gets_longer(flow: Flow, path: str) -> bool:
    """Whether it is a collection of a file or of a class that drops nothing by itself, as ``deque(maxlen=9)`` does."""
    if flow.scope(path) is not Scope.GLOBAL:
        return False
    base, _, name = path.rpartition(".")
    owner = flow.module.dotted(base) if base else None
    cls = owner.ref if owner is not None else None
    value = cls.attribute(name) if isinstance(cls, Class) else flow.module.dotted(path)
    return value is not None and value.kind is Kind.CONTAINER and not value.bounded


def _is_emptied_in_its_file(flow: Flow, path: str) -> bool:
    """Whether `registry.SEEN` is, where it is written without the file before it."""
    name = path.rpartition(".")[2]
    return flow.project.survey.empties(name, flow.module, (flow.defined,), bare=True)
