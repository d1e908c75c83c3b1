"""Attacks that a table has one of, ``ATTACKS[args.attack]()``, between a reset and the backward that is trained."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.backward.attacks import asked_for, resets_model, tensor_of
from gradguard.static.backward.filled import filled
from gradguard.static.mistakes.backward import ChosenAttack
from gradguard.static.model import Backward, Event, OpaqueCall, Step, ZeroGrad
from gradguard.static.optimizers.made_modules import makers_of
from gradguard.static.optimizers.optimized import overlap
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.made_objects import callers

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_CONCERNED = (Backward, Step, ZeroGrad, OpaqueCall)
_DEPTH = 3


def chosen_attacks(flow: Flow) -> Iterator[ChosenAttack]:
    """Those that leave gradients for a step, whose reset comes before them (reads other files)."""
    events = [event for event in flow.facts.events if isinstance(event, _CONCERNED)]
    for place, step in enumerate(events):
        if isinstance(step, Step) and step.modules and not (step.zeroes or step.runs_closure or step.inner):
            found = _attacked(events[:place], step)
            if found is not None:
                reset, attack, trained = found
                backward = _leaving(flow, attack, step)
                if backward is not None and not flow.facts.switches_gradients():
                    sites = (attack.site, backward.site, trained.site, step.site)
                    yield ChosenAttack(reset.site, *sites)


def _attacked(before: Sequence[Event], step: Step) -> tuple[ZeroGrad, OpaqueCall, Backward] | None:
    """A reset, a call that nobody can follow, and the backward before a step: nothing else comes in between."""
    if len(before) < 3:
        return None
    reset, attack, trained = before[-3:]
    if not isinstance(reset, ZeroGrad) or not isinstance(attack, OpaqueCall) or not isinstance(trained, Backward):
        return None
    is_written = not (reset.inner or attack.inner or trained.inner) and not (attack.conditional or trained.conditional)
    return (reset, attack, trained) if is_written and resets_model(reset, step) else None


def _leaving(flow: Flow, attack: OpaqueCall, step: Step) -> Backward | None:
    """The backward by which one of what the call may run leaves gradients in the modules of an optimizer."""
    call = attack.site.node
    for ref in _chosen(flow, call.func) if isinstance(call, t.Call) else ():
        inner = flow.project.flow(ref)
        given = ref.given_by(call) if isinstance(call, t.Call) else {}
        for backward in inner.facts.backwards if inner is not None and not _cleans_up(inner) else ():
            names = filled(inner.facts, backward) if inner is not None and asked_for(backward) else frozenset()
            paths = frozenset(path for name in names if name in given and (path := t.path_of(given[name])) is not None)
            if backward.inner is None and overlap(paths, step.modules):
                return backward
    return None


def _cleans_up(flow: Flow) -> bool:
    """Whether a function resets more than a tensor, or does something else with the gradients of the model."""
    tensors = {tensor for backward in flow.facts.backwards for tensor in asked_for(backward)}
    resets = (tensor_of(reset.source.site.node) or reset.target for reset in flow.facts.zero_grads)
    return any(target not in tensors for target in resets) or bool(flow.facts.steps) or flow.facts.switches_gradients()


# --- what may be called -------------------------------------------------------------------------------------------


def _chosen(flow: Flow, func: t.Expr) -> Iterator[FunctionRef]:
    """The functions that a variable, or an attribute of the object, may be, and those of objects that are called."""
    path = t.path_of(func) or ""
    ref, owner, name = flow.ref, flow.ref.owner, path.removeprefix("self.")
    if name != path and name.isidentifier() and owner is not None:
        bound = [value for cls in owner.lineage() for _, value in cls.assigned(name)]
        constructor = owner.method("__init__")
        if len(bound) == 1 and constructor is not None:
            yield from _given(constructor, bound[0])
    elif path.isidentifier():
        yield from _given(ref, func)


def _given(ref: FunctionRef, expr: t.Expr) -> Iterator[FunctionRef]:
    """What an expression is in a function; of a parameter, what the callers give for it."""
    name = t.path_of(expr) or ""
    if name not in {param.name for param in ref.define.params} or name in ref.assigned:
        yield from _objects(ref, expr, _DEPTH)
        return
    for place, call in callers(ref):
        given = ref.given_by(call).get(name)
        if given is not None and place.ref is not None:
            yield from _objects(place.ref, given, _DEPTH)


def _objects(ref: FunctionRef, expr: t.Expr, depth: int) -> Iterator[FunctionRef]:
    bound = ref.assigned.get(expr.id, []) if isinstance(expr, t.Name) and depth else []
    if len(bound) == 1:
        yield from _objects(ref, bound[0], depth - 1)
    elif isinstance(expr, t.Subscript):
        for script, made in makers_of(ref, expr.value):
            meant = script.module.value_of(made).ref if isinstance(made, t.Expr) else made
            yield from (meant,) if isinstance(meant, FunctionRef) else ()
    elif isinstance(expr, t.Call):
        for cls in _classes(ref, expr.func, depth):
            method = cls.method("__call__")
            yield from (method,) if method is not None and not cls.is_module else ()


def _classes(ref: FunctionRef, func: t.Expr, depth: int) -> Iterator[Class]:
    """The classes that a table has, of which a call makes an object: ``ATTACKS[name](eps)``."""
    bound = ref.assigned.get(func.id, []) if isinstance(func, t.Name) and depth else []
    if len(bound) == 1:
        yield from _classes(ref, bound[0], depth - 1)
    elif isinstance(func, t.Subscript):
        for script, made in makers_of(ref, func.value):
            meant = script.module.value_of(made).ref if isinstance(made, t.Expr) else made
            yield from (meant,) if isinstance(meant, Class) else ()
