"""Weights that are changed in place through ``.data`` between a forward and its backward.

Autograd does not see that, and the backward computes with weights that the forward did not have: no version is counted,
so nothing raises, as it does where the weights are changed under ``no_grad``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.backward.filled import goes_through
from gradguard.static.mistakes.backward import ChangedBetween
from gradguard.static.model import Backward, Forward, Mode
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.functions_called import functions_called
from gradguard.static.program.order import blocks_of
from gradguard.static.program.parameter_names import loops_of, named
from gradguard.static.program.paths import is_part
from gradguard.static.reading.places import assigned_at
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_IN_PLACE = frozenset("clamp_ clamp_min_ clamp_max_ clip_ relu_ abs_ mul_ div_ add_ sub_ renorm_ zero_".split())
_OPERATORS = frozenset("+ - * /".split())
_MODULES = ("modules", "named_modules", "children", "named_children")
# Of these the backward uses no weights, or not those that are changed.
_UNUSED = frozenset("Embedding EmbeddingBag BatchNorm1d BatchNorm2d BatchNorm3d".split())
# A single layer has no other one before it, for whose gradient its weight is needed.
_LAYERS = frozenset("Linear Conv1d Conv2d Conv3d Embedding Bilinear Parameter".split())

Changed = tuple[str, Site]
"""The path of a module, and the node that changes its weights."""


def changed_between(flow: Flow) -> Iterator[ChangedBetween]:
    """The statements of a function that change the weights of a module which ran, before the backward of that."""
    facts = flow.facts
    if facts.is_test or not facts.backwards:
        return
    for block in blocks_of(flow.ref.define.body):
        for place, stmt in enumerate(block):
            for module, site in _changed(flow, stmt):
                run, backward = _around(flow, block, place, module)
                if run is None or backward is None or _is_one_layer(flow, module):
                    continue
                if not _is_put_back(flow, block[:place], module):
                    yield ChangedBetween(flow.site(stmt), module, site, run.site, backward.site)
                    return


def _around(flow: Flow, block: Sequence[t.Stmt], place: int, module: str) -> tuple[Forward | None, Backward | None]:
    """The last run of a module before a statement of a block, and the backward behind it that goes through that run."""
    before, after = block[:place], block[place + 1 :]
    runs = [f for f in flow.facts.forwards if f.mode is not Mode.OFF and not f.is_frozen and f.is_in(before)]
    backwards = [each for each in flow.facts.backwards if each.is_in(after)]
    for run in reversed(runs):
        if is_part(run.given_as or run.module or "", module):
            found = next((each for each in backwards if goes_through(each, run)), None)
            if found is not None:
                return run, found
    return None, None


def _is_one_layer(flow: Flow, module: str) -> bool:
    made = [value for value in assigned_at(flow, module) if isinstance(value, t.Call)]
    return any(call.name in _LAYERS for call in made)


def _is_put_back(flow: Flow, before: Sequence[t.Stmt], module: str) -> bool:
    """Whether the weights are changed before the forward, too: to something that holds for it alone, and then back."""
    return any(of == module for stmt in before for of, _ in _changed(flow, stmt))


def _changed(flow: Flow, stmt: t.Stmt) -> Iterator[Changed]:
    """The modules whose weights a statement changes through ``.data``, itself or by what it calls."""
    if isinstance(stmt, t.Repeat):
        for each in _changed_in(flow.ref):
            if any(node is each[1].node for node in t.walk(stmt)):
                yield each
    call = stmt.value if isinstance(stmt, t.Evaluate) else None
    if not isinstance(call, t.Call):
        inside = stmt.body if isinstance(stmt, t.If | t.With) else []
        yield from (found for each in inside for found in _changed(flow, each))
        return
    for ref in functions_called(flow, call):
        owner = t.path_of(call.func.value) if isinstance(call.func, t.Attribute) else None
        given = {name: t.path_of(value) for name, value in ref.given_by(call).items()} | {"self": owner}
        for module, site in _changed_in(ref):
            head, dot, rest = module.partition(".")
            path = given.get(head)
            if path is not None:
                yield flow.canonical(path) + dot + rest, site


def _changed_in(ref: FunctionRef) -> Iterator[Changed]:
    """The modules of which a function changes the weights in a loop over all, by its own paths."""
    tensors = {(t.path_of(name) or "") + ".data": model for name, model in named(ref)}
    for target, iterable in loops_of(ref):
        func = iterable.func if isinstance(iterable, t.Call) else None
        model = t.path_of(func.value) if isinstance(func, t.Attribute) and func.name in _MODULES else None
        if model is not None:
            tensors.update((f"{t.path_of(name)}.weight.data", model) for name in t.names_in(target))
    if not tensors or _is_of_some(ref):
        return
    for node in ref.define.nodes:
        path = _in_place(node)
        if path in tensors:
            yield tensors[path], Site(ref.chunk, node)


def _is_of_some(ref: FunctionRef) -> bool:
    """Whether it chooses what need not matter: biases, tables."""
    nodes = ref.define.nodes
    words = (node.value for node in nodes if isinstance(node, t.Constant) and isinstance(node.value, str))
    names = (node.name for node in nodes if isinstance(node, t.Attribute))
    return any("bias" in word for word in words) or not _UNUSED.isdisjoint(names)


def _in_place(node: t.Node) -> str:
    """The path of what a node changes in place: ``p.data.clamp_(-1, 1)``, ``p.data *= 0.9``."""
    if isinstance(node, t.Augment) and node.operator in _OPERATORS:
        return t.path_of(node.target) or ""
    func = node.func if isinstance(node, t.Call) else None
    is_changing = isinstance(func, t.Attribute) and func.name in _IN_PLACE
    return (t.path_of(func.value) or "") if is_changing and isinstance(func, t.Attribute) else ""
