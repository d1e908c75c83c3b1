"""A function that puts a model into evaluation mode and runs it once: on all nodes of a graph, or on one sample.

The loop that calls it is another function's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradguard.static.backward.copies import is_called_in_loop
from gradguard.static.model import Forward, Mode
from gradguard.static.reading.forwards import leaves_function

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


def evaluated_once(flow: Flow) -> Forward | None:
    """The first module call of a function that evaluates, whose graph nobody uses; none where no loop calls that."""
    facts = flow.facts
    if facts.needs_gradients or facts.steps or facts.is_test or any(f.mode is Mode.OFF for f in facts.forwards):
        return None  # what is run beside a part under `no_grad` may not need it
    found = next(filter(_records, facts.forwards), None)
    if found is None or leaves_function(flow, found) or not is_called_in_loop(flow.ref):
        return None
    return found


def _records(forward: Forward) -> bool:
    """Whether a model that this function has put into evaluation mode records a graph, outside of all loops."""
    is_here = forward.loop is None and forward.inner is None and forward.is_evaluated
    needs_none = forward.is_frozen or forward.is_foreign or forward.may_learn_itself
    return is_here and not needs_none and forward.mode in (Mode.INHERITED, Mode.ON)
