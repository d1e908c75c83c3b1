"""A function that evaluates a model once, without a loop: on all nodes of a graph, on one sample, to draw a picture.

The loop that calls it is another function's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.backward.copies import is_called_in_loop
from gradguard.static.model import Forward, Mode
from gradguard.static.reading.forwards import leaves_function

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_PICTURES = frozenset("save_image make_grid add_image add_images imshow imsave".split())


def evaluated_once(flow: Flow) -> Forward | None:
    """The first module call of a function that evaluates, whose graph nobody uses; none where no loop calls that."""
    facts = flow.facts
    if facts.needs_gradients or facts.steps or facts.is_test or any(f.mode is Mode.OFF for f in facts.forwards):
        return None  # what is run beside a part under `no_grad` may not need it
    here = [forward for forward in facts.forwards if _records(forward)]
    found = next((forward for forward in here if forward.is_evaluated), None)
    if found is None and here and _only_looks(flow):
        found = next((forward for forward in here if _is_used(flow, forward)), None)
    if found is None or leaves_function(flow, found) or not is_called_in_loop(flow):
        return None
    return found


def _records(forward: Forward) -> bool:
    """Whether a model records a graph here, outside of all loops."""
    is_here = forward.loop is None and forward.inner is None
    needs_none = forward.is_frozen or forward.is_foreign or forward.may_learn_itself
    return is_here and not needs_none and forward.mode in (Mode.INHERITED, Mode.ON)


def _only_looks(flow: Flow) -> bool:
    """Whether a function draws pictures, or takes one batch of a loader: ``x, y = next(iter(loader))``.

    In whatever mode its models are: those that are trained may have their outputs looked at as they are.
    """
    if flow.facts.is_module_method:
        return False
    return any(call.name in _PICTURES or _is_of_one_batch(call) for call in flow.ref.calls)


def _is_of_one_batch(call: t.Call) -> bool:
    taken = call.args[0].value if isinstance(call.func, t.Name) and call.func.id == "next" and call.args else None
    if not isinstance(taken, t.Call) or t.path_of(taken.func) != "iter" or not taken.args:
        return False
    return k.LOADER_NAME.search(t.path_of(taken.args[0].value) or "") is not None


def _is_used(flow: Flow, forward: Forward) -> bool:
    """Whether something becomes of what a model gives: it is not run for what happens in it."""
    return forward.site.node not in flow.ref.calls_for_effect
