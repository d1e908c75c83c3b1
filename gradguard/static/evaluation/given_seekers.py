"""Losses that compute gradients themselves when a function calls them.

One may weigh its terms by their gradients: ``torch.autograd.grad(loss, last_layer)`` in its ``forward``. Under
``no_grad`` that would raise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.program.classes import Class
from gradguard.static.program.made_objects import Made, Place, makers, named_in

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_USUAL = 2
"""What a loss takes: an output and a target."""


def calls_seeker(flow: Flow) -> bool:
    """Whether a function calls a loss that computes gradients, or may be one (reads other files)."""
    place = Place(flow.module, flow.ref)
    calls = (call for call in flow.ref.calls if k.LOSS_CALLABLE.search(t.path_of(call.func) or ""))
    return any(_may_seek(flow, place, call) for call in calls)


def _may_seek(flow: Flow, place: Place, call: t.Call) -> bool:
    """Whether its object does, or one may whose class only the run knows: it is given what such a ``forward`` takes."""
    if named_in(place, call.func) is not None:
        return False
    made = makers(place, call.func)
    if any(_seeks(flow, each) for each in made):
        return True
    if made and all(isinstance(each.of, Class) or each.of.startswith("torch.") for each in made):
        return False
    if any(map(_is_weight, call.args)):
        return True
    given = len(call.args)
    is_plain = given <= _USUAL or any(arg.star for arg in call.args)
    return not is_plain and flow.project.survey.has_learning_forward(flow.module, given)


def _is_weight(arg: t.Arg) -> bool:
    """Whether a loss is given a weight of the model, to differentiate by: ``net.last_layer.weight``."""
    value = arg.value
    is_named = any("last_layer" in (name or "") for name in (arg.keyword, t.path_of(value)))
    is_got = isinstance(value, t.Call) and "last_layer" in value.name
    return is_named or is_got or (isinstance(value, t.Attribute) and value.name == "weight")


def _seeks(flow: Flow, made: Made) -> bool:
    method = made.of.method("forward" if made.of.is_module else "__call__") if isinstance(made.of, Class) else None
    run = flow.project.flow(method) if method is not None else None
    return run is not None and run.facts.needs_gradients
