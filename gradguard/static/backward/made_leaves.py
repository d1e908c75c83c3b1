"""Leaves made of a value right before it is backpropagated: ``loss = torch.tensor(loss, requires_grad=True)``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.model import Backward, Call
from gradguard.static.reading.roots import node_of
from gradguard.static.reading.unrecorded import Copied, innermost
from gradguard.static.values import Held, Kind, Root, Source, Value, node_within

if TYPE_CHECKING:
    from gradguard.static.flow import Flow
    from gradguard.static.source import Site

_REDUCES = frozenset(("sum", "mean"))


def made_leaf(flow: Flow, backward: Backward) -> Site | None:
    """Where the leaf was made that is handed to a backward, or whose sum or mean is; no optimizer was given it."""
    value = backward.value
    leaves = [root for root in value.roots if root.source is Source.LEAF]
    node = node_of(leaves[0].key) if len(leaves) == 1 else None
    if node is None or node.origin is None or backward.inner is not None or backward.conditional:
        return None
    if value.holding(Held.PARAMETER, Held.STATE) or is_wanted(flow, backward, leaves[0]):
        return None
    others = [root for root in value.roots if root is not leaves[0]]
    alone = not value.maybe and all(is_begun_with_leaf(root) or _is_data(flow, root) for root in others)
    made = _copied_at(value, leaves[0]) or flow.site(node)
    return made if alone or _is_marked(flow, value, leaves[0]) else None


def _copied_at(value: Value, leaf: Root) -> Site | None:
    """Where losses were made the leaf, in whatever function that was: ``torch.tensor(losses, requires_grad=True)``."""
    keys = [innermost(held.key) for held in value.holding(Held.COPIED)]
    sites = (key.site for key in keys if isinstance(key, Copied) and key.site.node is node_within(leaf.key))
    return next(sites, None)


def is_wanted(flow: Flow, backward: Backward, leaf: Root) -> bool:
    """Whether a leaf may be trained itself: it is there before, an optimizer has it, or its gradient is looked at."""
    node = node_of(leaf.key)
    if node is None or node not in flow.ref.define.nodes:
        return True  # an attribute, of what another method has made
    if backward.loop is not None and not backward.loop.has(node):
        return True
    return _is_optimized(flow, leaf) or _is_asked(flow, node)


def is_begun_with_leaf(root: Root) -> bool:
    """Whether a graph was begun by ``x.sum()``, or ``2 * x``: all that it can come from is what ``x`` comes from."""
    node = node_within(root.key)
    if root.source is not Source.GRAPH or isinstance(node, t.Operation):
        return root.source is Source.GRAPH
    func = node.func if isinstance(node, t.Call) and not node.args else None
    return isinstance(func, t.Attribute) and func.name in _REDUCES


def _is_data(flow: Flow, root: Root) -> bool:
    """Whether it is a tensor, or a number, that an object was made with: ``objective.weights``."""
    if root.source is not Source.PLACE or not isinstance(root.key, str):
        return False
    value = flow.read(root.key, flow.final)
    return value.kind is Kind.NUMBER or value.ref == "data"


def _is_marked(flow: Flow, value: Value, leaf: Root) -> bool:
    """Whether the last that was done with a value is ``x.requires_grad = True``.

    Torch refuses that of the result of an operation, so that whatever it was it has no graph.
    """
    marks = (call for call in flow.facts.calls if call.name == "requires_grad_" and _sets(call, leaf))
    return any(not mark.conditional and value == mark.of.with_roots(leaf) for mark in marks)


def _sets(call: Call, leaf: Root) -> bool:
    assignment = call.site.node
    return isinstance(assignment, t.Assign) and any(target is leaf.key for target in assignment.targets)


def _is_optimized(flow: Flow, leaf: Root) -> bool:
    """Whether an optimizer is made of it here."""
    return any(leaf in given.reach for call in flow.facts.calls_of("torch.optim") for _, given in call.given)


def _is_asked(flow: Flow, leaf: t.Node) -> bool:
    """Whether the gradient of a leaf is looked at, ``x.grad``: that is what the backward is for."""
    asked = {t.path_of(n.value) for n in flow.ref.define.all(t.Attribute) if n.name == "grad"}
    made = (value for path in asked if path for value in flow.ref.assigned.get(path, ()))
    return any(node is leaf for value in made for node in t.walk(value))
