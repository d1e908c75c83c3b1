"""Optimizers that are kept, each of another model: of an ensemble, a boosting, the users."""

from __future__ import annotations

from gradguard.static import tree as t
from gradguard.static.model import Loop, Store
from gradguard.static.values import Held, node_within


def is_of_new_model(store: Store, loop: Loop) -> bool:
    """Whether an optimizer that is stored has the parameters of a model that an iteration of a loop makes, or takes."""
    made = (node_within(held.key) for held in store.value.holding(Held.OPTIMIZER))
    calls = (node for each in made for node in t.walk(each) if isinstance(node, t.Call) and node.name == "parameters")
    models = [call.func.value for call in calls if isinstance(call.func, t.Attribute)]
    return bool(models) and all(_is_another(model, loop) for model in models)


def _is_another(model: t.Expr, loop: Loop) -> bool:
    """``model`` of ``model = factory()``, ``self.models[-1]``."""
    if isinstance(model, t.Subscript):
        return not isinstance(model.index, t.Constant)
    return isinstance(model, t.Name) and model.id in loop.assigned
