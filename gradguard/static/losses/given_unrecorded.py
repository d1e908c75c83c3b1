"""Networks that an optimizer is given, and that are only run by a method under ``no_grad`` of an object that has them.

``conditioner.encode(ids)`` in the loss, and ``AdamW([*net.parameters(), *encoder.parameters()])``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.losses.never_recorded import is_of_loss
from gradguard.static.mistakes.losses import NeverRecorded
from gradguard.static.optimizers.made_modules import is_made
from gradguard.static.optimizers.schedulers import makes_optimizer
from gradguard.static.optimizers.trained_apart import cut, turns_off
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.functions_called import functions_called
from gradguard.static.program.known_by import Place, places
from gradguard.static.program.own_methods import methods_of
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_ASKED = frozenset(("parameters", "named_parameters"))
# Weights that somebody moves, or sets, otherwise than an optimizer does.
_OTHERWISE = re.compile(r"\.(?:copy|lerp|set)_\(|deepcopy|\bEMA\b|AveragedModel|functional_call|\bvmap\b")


def given_unrecorded(flow: Flow) -> Iterator[NeverRecorded]:
    """The calls of such methods that a loss is computed with (reads other files)."""
    if flow.facts.is_test or not flow.facts.backwards:
        return
    unrecorded = {call: method for call in flow.ref.calls for method in _unrecorded(flow, call)}
    called = [(call, method) for call, method in unrecorded.items() if is_of_loss(flow, call)]
    for path, ref, made in _optimized(flow) if called else ():
        known = places(flow.project, ref, path, _ASKED)
        runs = [(place, call) for place in known or () for call in place.ref.calls if _is_run(call, place.path)]
        if not runs or any(call not in set(cut(place.ref.define)) for place, call in runs):
            continue
        for call, method in called:
            if any(place.ref.define is method.define for place, _ in runs) and not _is_meant(flow, known or []):
                decorated, part = Site(method.chunk, method.define), path.removeprefix("self.")
                yield NeverRecorded(flow.site(call), method.define.name, part, decorated, made, is_sure=True)
                break


def _unrecorded(flow: Flow, call: t.Call) -> Iterator[FunctionRef]:
    """The method under ``no_grad`` that a call runs, of an object that is no module."""
    for method in functions_called(flow, call) if isinstance(call.func, t.Attribute) else ():
        if method.owner is not None and not method.owner.is_module and any(map(turns_off, method.define.decorators)):
            yield method


def _optimized(flow: Flow) -> Iterator[tuple[str, FunctionRef, Site]]:
    """The networks that an optimizer of the function, or of its object, is given by name, each with who makes it."""
    refs = methods_of(flow.ref.owner) if flow.ref.owner is not None else [flow.ref]
    asked = {path for ref in refs for call in ref.calls if makes_optimizer(ref, call) for path in _asked_for(ref, call)}
    for path in sorted(asked):
        for ref in refs if path.startswith("self.") else [flow.ref]:
            made = [value for value in ref.assigned.get(path, []) if is_made(ref, value)]
            if len(made) == len(ref.assigned.get(path, [])) == 1:
                yield path, ref, Site(ref.chunk, made[0])


def _asked_for(ref: FunctionRef, call: t.Call) -> Iterator[str]:
    """``encoder`` of ``AdamW([{"params": encoder.parameters()}])``, also of a list that has a name."""
    given = [node for arg in call.args[:1] for value in ref.bound_to(arg.value) for node in t.walk(value)]
    for node in given:
        func = node.func if isinstance(node, t.Call) else None
        if isinstance(func, t.Attribute) and func.name in _ASKED and (path := t.path_of(func.value)) is not None:
            yield path


def _is_run(call: t.Call, path: str) -> bool:
    func = call.func
    return t.path_of(func) == path or (
        isinstance(func, t.Attribute) and func.name == "forward" and t.path_of(func.value) == path
    )


def _is_meant(flow: Flow, known: list[Place]) -> bool:
    """Whether something moves its weights otherwise, or calls the function under ``no_grad`` (reads other files)."""
    modules = {place.ref.module.path: place.ref.module for place in known}
    if any(_OTHERWISE.search(module.source.text) is not None for module in modules.values()):
        return True
    return flow.facts.called_without_grad()
