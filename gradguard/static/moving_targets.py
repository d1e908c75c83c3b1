"""Targets that the network which is trained computes itself, with their graph: ``reward + gamma * net(following)``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.mistakes import MovingTarget
from gradguard.static.model import Forward, Mode
from gradguard.static.roots import node_of
from gradguard.static.values import Source

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_CUTS = frozenset("detach data item numpy tolist".split())
_DISCOUNT = re.compile(r"gamma|discount", re.I)
_DISTANCE = re.compile(r"(?:loss|loss_?f\w*|criterion|mse|huber|l1)$", re.I)


def moving_targets(flow: Flow) -> Iterator[MovingTarget]:
    """Where a function compares what a network gives with what the same network gives for something else."""
    if len(flow.facts.forwards) < 2:
        return
    for call in (node for node in flow.ref.define.nodes if isinstance(node, t.Call)):
        given = _compared(call)
        made = _discounted(flow, given[1]) if given is not None else None
        if given is None or made is None:
            continue
        ours, theirs = _run(flow, given[0]), _run(flow, given[1])
        both = {each.module for each in ours} & {each.module for each in theirs if each not in ours}
        if both:
            target = t.path_of(given[1]) or "the target"
            yield MovingTarget(flow.site(made), flow.site(call), target, min(module or "" for module in both))


def _compared(call: t.Call) -> tuple[t.Expr, t.Expr] | None:
    """The prediction and the target that a distance is computed of."""
    name = call.func.name if isinstance(call.func, t.Attribute) else t.path_of(call.func)
    if name is None or _DISTANCE.search(name) is None or len(call.args) < 2:
        return None
    given, target = call.argument("input", 0), call.argument("target", 1)
    return (given, _unshaped(target)) if given is not None and target is not None else None


def _unshaped(expr: t.Expr) -> t.Expr:
    """``target`` of ``target.unsqueeze(1)``."""
    while isinstance(expr, t.Call) and isinstance(expr.func, t.Attribute) and expr.func.name in k.SHAPING_METHODS:
        expr = expr.func.value
    return expr


def _run(flow: Flow, value: t.Expr) -> list[Forward]:
    """The calls of modules that a value surely comes from, with their graph."""
    written = list(t.walk(value))
    if any(isinstance(node, t.Attribute) and node.name in _CUTS for node in written):
        return []
    paths = [path for node in written if isinstance(node, t.Expr) and (path := t.path_of(node)) is not None]
    roots = (root for path in paths for root in flow.read(flow.canonical(path), flow.final).roots)
    nodes = {node_of(root.key) for root in roots if root.source is Source.GRAPH}
    runs = (each for each in flow.facts.forwards if each.mode is not Mode.OFF)
    return [each for each in runs if each.site.node in nodes or each.site.node in written]


def _discounted(flow: Flow, target: t.Expr) -> t.Expr | None:
    """What a target is, where that is a reward and a share of what is to come: ``r + gamma * following``."""
    path = t.path_of(target)
    bound = list(flow.ref.assigned.get(path, ())) if path is not None else [target]
    found = [value for value in bound if any(_is_sum(flow, node) for node in t.walk(value))]
    return found[0] if len(found) == len(bound) == 1 else None


def _is_sum(flow: Flow, node: object) -> bool:
    if not isinstance(node, t.Operation) or node.operator != "+" or len(node.operands) != 2:
        return False
    ways = (node.operands, node.operands[::-1])
    return any(_is_discounted(share) and _is_data(flow, reward) for reward, share in ways)


def _is_data(flow: Flow, reward: t.Expr) -> bool:
    """Whether nothing that a network gives is in it, and it is not only a number."""
    named = any(isinstance(node, t.Name | t.Attribute) for node in t.walk(reward))
    return named and not _run(flow, reward)


def _is_discounted(expr: t.Expr) -> bool:
    """``gamma * following``, whatever is done with it besides."""
    if not isinstance(expr, t.Operation) or expr.operator != "*":
        return False
    return any(_is_discount(node) for node in t.walk(expr))


def _is_discount(node: object) -> bool:
    if isinstance(node, t.Constant):
        return isinstance(node.value, float) and 0.8 <= node.value < 1
    path = t.path_of(node) if isinstance(node, t.Name | t.Attribute) else None
    return path is not None and _DISCOUNT.search(path) is not None
