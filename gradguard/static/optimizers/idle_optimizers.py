"""Which optimizers are made, and reset in each step of a training, and never stepped by anything in the program."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.mistakes.optimizers import IdleOptimizer
from gradguard.static.optimizers.optimized import modules_given, overlap
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.known_by import Place, places
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_OPTIMIZERS = "torch.optim."
_READING = frozenset(("state_dict", "load_state_dict"))


def idle_optimizers(flow: Flow) -> Iterator[IdleOptimizer]:
    """The optimizers that a function makes, where those who know them only reset gradients (reads other files)."""
    ref = flow.ref
    if flow.facts.is_test:
        return
    for path, stmt, call in _made(ref, ref.define.body):
        modules = modules_given(ref, call)
        if modules is None or any(overlap(modules, modules_given(ref, other)) for other in _beside(ref, stmt)):
            continue
        known = places(flow.project, ref, path, _READING, in_modules=True)
        reset = next((found for place in known or () if (found := _reset_in(place)) is not None), None)
        if reset is not None and not _may_be_stepped_elsewhere(flow, path):
            yield IdleOptimizer(flow.site(stmt), path, ", ".join(f"`{each}`" for each in sorted(modules)), reset)


def _made(ref: FunctionRef, body: list[t.Stmt]) -> Iterator[tuple[str, t.Stmt, t.Call]]:
    """The statements that bind a path to an optimizer of torch."""
    for stmt in t.walk_statements(body):
        path = t.path_of(stmt.targets[0]) if isinstance(stmt, t.Assign) and len(stmt.targets) == 1 else None
        value = stmt.value if isinstance(stmt, t.Assign) else None
        if path is not None and "[" not in path and isinstance(value, t.Call) and _makes_optimizer(ref, value):
            yield path, stmt, value


def _makes_optimizer(ref: FunctionRef, call: t.Call) -> bool:
    name = str(ref.module.value_of(call.func).ref) if call.name[:1].isupper() else ""
    return name.startswith(_OPTIMIZERS) and name.count(".") == 2


def _beside(ref: FunctionRef, stmt: t.Stmt) -> Iterator[t.Call]:
    """The other optimizers that are made where one is: not in another branch."""
    for block in _blocks_to(ref.define.body, stmt):
        inner = [each for each in block if each is not stmt and not t.blocks(each)]
        yield from (call for _, _, call in _made(ref, inner))


def _blocks_to(body: list[t.Stmt], stmt: t.Stmt) -> Iterator[list[t.Stmt]]:
    """The blocks that a statement is in, from the outside on."""
    if t.is_in(stmt, body):
        yield body
        for each in body:
            for block in t.blocks(each):
                yield from _blocks_to(block, stmt)


def _reset_in(place: Place) -> Site | None:
    """Where a function resets the gradients, that trains, and steps another optimizer."""
    calls = place.ref.calls
    names = {call.name for call in calls if isinstance(call.func, t.Attribute)}
    if "backward" not in names or "step" not in names or any(map(_is_gradient, place.ref.define.nodes)):
        return None
    reset = next((call for call in calls if t.path_of(call.func) == f"{place.path}.zero_grad"), None)
    return Site(place.ref.chunk, reset) if reset is not None else None


def _is_gradient(node: t.Node) -> bool:
    """``p.grad``: what moves the weights may be written there."""
    return isinstance(node, t.Attribute) and node.name == "grad"


def _may_be_stepped_elsewhere(flow: Flow, path: str) -> bool:
    """Whether some file steps what has the attribute's name: ``agent.optimizer.step()``, as in a notebook."""
    if not path.startswith("self."):
        return False
    stepped = re.compile(rf"\.{re.escape(path[5:])}\.step\(")
    return flow.project.survey.mentions_anywhere(path[5:], stepped, flow.module)
