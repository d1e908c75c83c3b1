"""Sequences that are no more than a list of layers: nothing calls them, and a loop chooses what to do with each layer.

``for name, layer in self.features.named_children()`` looks at the names, and computes with functions: with the weights
of another step, or with something between the layers. Which layers stand behind each other tells nothing then.
"""

from __future__ import annotations

from collections.abc import Iterator

from gradguard.static import tree as t
from gradguard.static.program.functions import FunctionRef


def run_layer_by_layer(ref: FunctionRef, made: t.Call) -> bool:
    """Whether a sequence that a class makes is only gone through, by a loop that does not just run each layer."""
    path = next((path for path, values in ref.assigned.items() if made in values and path.startswith("self.")), None)
    if path is None or ref.owner is None:
        return False
    methods = [method for cls in ref.owner.lineage() for method in cls.methods.values()]
    loops = [loop for method in methods for loop in _loops_over(method, path)]
    is_called = any(t.path_of(call.func) == path for method in methods for call in method.calls)
    return bool(loops) and not is_called and not any(map(_runs_each, loops))


def _loops_over(method: FunctionRef, path: str) -> Iterator[t.Repeat]:
    """The loops over the layers of a sequence: over itself, its children by name, or numbers of them."""
    loops = (stmt for stmt in method.define.statements if isinstance(stmt, t.Repeat))
    return (loop for loop in loops if any(_is_at(node, path) for node in t.walk(loop.iterable)))


def _is_at(node: t.Node, path: str) -> bool:
    return isinstance(node, t.Attribute) and t.path_of(node) == path


def _runs_each(loop: t.Repeat) -> bool:
    """Whether a loop calls its layer each time: ``for layer in self.layers: x = layer(x)``."""
    targets = t.names_in(loop.target) if loop.target is not None else ()
    names = {name.id for name in targets if isinstance(name, t.Name)}
    plain = (stmt for stmt in loop.body if isinstance(stmt, t.Assign | t.Evaluate | t.Augment))
    calls = (node for stmt in plain for node in t.walk(stmt) if isinstance(node, t.Call))
    return any(isinstance(call.func, t.Name) and call.func.id in names for call in calls)
