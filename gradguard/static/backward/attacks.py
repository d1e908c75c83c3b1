"""Backwards for the gradient of an input, ``delta.grad``, which leave gradients in the model that is then trained."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gradguard.static import tree as t
from gradguard.static.backward.filled import filled
from gradguard.static.model import Backward, Event, Function, OpaqueCall, Step, ZeroGrad
from gradguard.static.optimizers.optimized import overlap
from gradguard.static.values import Source

_CONCERNED = (Backward, Step, ZeroGrad, OpaqueCall)


@dataclass(frozen=True, slots=True)
class Attack:
    """What the gradients of an adversarial example leave for a step.

    Args:
        backward: what computes them.
        tensor: whose gradient is asked for.
        module: the path of the model that gets gradients besides.
        added_to: the backward of the loss that is to be trained.
        used_by: the step that uses the sum.
        reset: the one before, which comes too early; None where none is seen.
    """

    backward: Backward
    tensor: str
    module: str
    added_to: Backward
    used_by: Step
    reset: ZeroGrad | None


def attacks(function: Function) -> Iterator[Attack]:
    """The attacks between whose backward and a step nothing resets the gradients of the model, each once."""
    events = [event for event in function.events if isinstance(event, _CONCERNED)]
    told: set[object] = set()
    for place, step in enumerate(events):
        found = _before(function, step, events[:place]) if isinstance(step, Step) else None
        if found is not None and found.backward.source.site.node not in told:
            told.add(found.backward.source.site.node)
            yield found


def _before(function: Function, step: Step, before: Sequence[Event]) -> Attack | None:
    if step.zeroes or step.runs_closure:
        return None
    trained: Backward | None = None
    for place, event in reversed(list(enumerate(before))):
        if isinstance(event, Step | OpaqueCall):
            return None
        if isinstance(event, ZeroGrad) and resets_model(event, step):
            return None
        if isinstance(event, Backward) and trained is None:
            trained = event
        elif isinstance(event, Backward) and trained is not None:
            return _attack(function, event, trained, step, before[:place])
    return None


def resets_model(reset: ZeroGrad, step: Step) -> bool:
    """Whether a reset may be that of the model: ``delta.grad = None`` is that of one tensor."""
    if reset.target is None:
        return tensor_of(reset.source.site.node) is None
    return reset.target == step.target or overlap(reset.modules, step.modules)


def _attack(
    function: Function, first: Backward, trained: Backward, step: Step, before: Sequence[Event]
) -> Attack | None:
    tensor = next(iter(asked_for(first)), None)
    if tensor is None or any(root.source is Source.LEAF for root in trained.value.roots):
        return None
    shared = filled(function, first) & filled(function, trained)
    own = sorted(path for path in shared if step.modules is None or overlap(frozenset((path,)), step.modules))
    resets = (event for event in reversed(before) if isinstance(event, ZeroGrad) and resets_model(event, step))
    return Attack(first, tensor, own[0], trained, step, next(resets, None)) if own else None


def asked_for(backward: Backward) -> list[str]:
    """The tensors whose gradients are read beside a backward of what wants one; no parameters that a loop goes over."""
    if not any(root.source is Source.LEAF for root in backward.value.roots):
        return []
    nodes = list(t.walk(backward.source.site.chunk.statements))
    loops = [node for node in nodes if isinstance(node, t.Repeat) and _goes_over_parameters(node)]
    each = {t.path_of(name) for loop in loops if loop.target is not None for name in t.names_in(loop.target)}
    called = {node.func for node in nodes if isinstance(node, t.Call)}  # `autograd.grad(loss, x)` is no gradient
    asked = (node for node in nodes if isinstance(node, t.Attribute) and node.name == "grad" and node not in called)
    read = (t.path_of(node.value) for node in asked)
    return [path for path in read if path is not None and path not in each and "." not in path]


def _goes_over_parameters(loop: t.Repeat) -> bool:
    named = (t.path_of(node) or "" for node in t.walk(loop.iterable) if isinstance(node, t.Name | t.Attribute))
    return any("param" in path for path in named)


def tensor_of(node: object) -> str | None:
    """``delta`` of ``delta.grad = None``, ``delta.grad.zero_()``."""
    if isinstance(node, t.Assign):
        targets = [target for target in node.targets if isinstance(target, t.Attribute) and target.name == "grad"]
        return t.path_of(targets[0].value) if len(targets) == 1 else None
    func = node.func if isinstance(node, t.Call) else None
    owner = func.value if isinstance(func, t.Attribute) else None
    return t.path_of(owner.value) if isinstance(owner, t.Attribute) and owner.name in ("grad", "data") else None
