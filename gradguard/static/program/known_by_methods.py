"""Modules whose class only the run knows, and what their methods tell of it: ``model.log_likelihood(x, y)``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.program.functions import FunctionRef
from gradguard.static.reading.places import assigned_at
from gradguard.static.values import NUMBER, Kind, Value

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.reading.called import Called

_DECODES = re.compile(r"\btorchcrf\b")
_FEW = 6
"""Of more classes than these a method does not tell which one is meant."""


def gives_numbers(c: Called) -> bool:
    """Whether what a module is called for are numbers, in each class that has the methods which are called on it.

    A table has several models, and a function that asks its model for ``log_likelihood`` is given one that has it.
    """
    is_asked = bool(c.path) and not c.method and c.func.ref is None
    if not is_asked or not c.flow.project.survey.mentions(_DECODES, c.flow.module, "torchcrf"):
        return False  # to find the methods files are read: only where some model gives tags
    forwards = list(_forwards(c.flow, c.path))
    return bool(forwards) and all(_are_numbers(c.flow, ref) for ref in forwards)


def decoded(c: Called) -> Value | None:
    """The best tags of a CRF, as ``torchcrf`` gives them: lists of whole numbers."""
    path = c.receiver_path if c.method == "decode" else None
    made = assigned_at(c.flow, path) if path is not None else []
    makers = [c.flow.module.value_of(call.func) for call in made if isinstance(call, t.Call)]
    is_crf = any(maker.kind is Kind.EXTERNAL and maker.ref == "torchcrf.CRF" for maker in makers)
    return NUMBER if is_crf and len(makers) == len(made) else None


def _forwards(flow: Flow, path: str) -> Iterator[FunctionRef]:
    """The ``forward`` of each class of modules that has all the methods which a function calls on one."""
    names = {
        call.func.name
        for call in flow.ref.calls
        if isinstance(call.func, t.Attribute) and t.path_of(call.func.value) == path
    } - k.OF_EVERY_MODULE
    if not names:
        return
    methods = flow.project.survey.methods_of_modules(min(names), flow.module)
    owners = {ref.owner for ref in methods if ref.owner is not None}
    fitting = [owner for owner in owners if all(owner.method(name) is not None for name in names)]
    if len(fitting) > _FEW:
        return
    for owner in fitting:
        forward = owner.method("forward")
        if forward is not None:
            yield forward


def _are_numbers(flow: Flow, forward: FunctionRef) -> bool:
    read = flow.project.flow(forward)
    return read is not None and read.facts.returns.kind is Kind.NUMBER and not read.facts.returns.reach
