"""Targets that the network which is trained computes itself, with their graph: ``reward + gamma * net(following)``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.backward.filled import began_at
from gradguard.static.mistakes.losses import MovingTarget
from gradguard.static.model import Forward, Mode
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.functions_called import functions_called
from gradguard.static.program.paths import is_part, is_within
from gradguard.static.reading.roots import node_of
from gradguard.static.source import Site
from gradguard.static.values import Kind, Source

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_DISCOUNT = re.compile(r"gamma|discount", re.I)
_STOPS = re.compile(r"stop|detach|(?:^|_)sg$|no_?grad|freez|frozen|const", re.I)
_CUTTING = re.compile(r"\bdetach|no_grad|inference_mode|\.item\(|\.data\b|\.tolist\(|numpy")
_DISTANCE = re.compile(r"(?:loss|loss_?f\w*|criterion|mse|huber|l1)$", re.I)


def moving_targets(flow: Flow) -> Iterator[MovingTarget]:
    """Where a function compares what a network gives with what the same network gives for something else."""
    if len(flow.facts.forwards) < 2:
        return
    for node in (*flow.ref.define.all(t.Operation), *flow.ref.define.all(t.Call)):
        sides = compared(flow, node)
        for prediction, target in (sides, sides[::-1]) if sides is not None else ():
            made = _discounted(flow, target)
            run = _trained(flow, prediction, target) if made is not None else None
            if made is not None and run is not None:
                yield MovingTarget(flow.site(made), flow.site(node), t.path_of(target), run.module or "", run.site)
                break


def _trained(flow: Flow, prediction: t.Expr, target: t.Expr) -> Forward | None:
    """The call for the target, of the module that gives both."""
    ours, items = runs_of(flow, prediction), _run_for_items(flow, target)
    theirs = [*(each for each in runs_of(flow, target) if _is_backpropagated(flow, each)), *items]
    asked = [each for each in theirs if each not in ours and any(_ask_the_same(each, other) for other in ours)]
    recorded = (each for each in asked if each.module is not None and not _is_in_own_context(flow, each))
    return min(recorded, key=lambda each: each.module or "", default=None)


def _ask_the_same(call: Forward, other: Forward) -> bool:
    """Whether two calls run one module in one way, as far as can be read: ``net(x, target=True)`` may run another."""
    here, there = call.source.site.node, other.source.site.node
    if call.module != other.module or not isinstance(here, t.Call) or not isinstance(there, t.Call):
        return False
    return here.name == there.name and _settings(here) == _settings(there)


def _settings(call: t.Call) -> set[tuple[str | None, object]]:
    """The arguments that have a name, or are written there."""
    said = ((arg.keyword, arg.value.value if isinstance(arg.value, t.Constant) else None) for arg in call.args)
    return {(name, value) for name, value in said if name is not None or value is not None}


def _is_backpropagated(flow: Flow, forward: Forward) -> bool:
    """Whether a backward goes through what a call gives, or the caller gets it; what is only logged is no loss."""
    values = [*(backward.value for backward in flow.facts.backwards), flow.facts.returns]
    return any(began_at(root.key, forward) for value in values for root in value.reach)


def _is_in_own_context(flow: Flow, forward: Forward) -> bool:
    """Whether a context of the program is around a call, which may freeze the network: ``with frozen(net):``."""
    around = (s for s in flow.ref.define.statements if isinstance(s, t.With) and forward.is_in(s.body))
    contexts = (context.func for stmt in around for context, _ in stmt.items if isinstance(context, t.Call))
    return any(flow.module.value_of(func).kind is not Kind.EXTERNAL for func in contexts)


def compared(flow: Flow, node: t.Node, *, is_loss: bool = False) -> tuple[t.Expr, t.Expr] | None:
    """The two that a distance is computed of: people write the target on either side.

    Args:
        is_loss: the function computes losses, wherever these are backpropagated: a square is a distance there.
    """
    if isinstance(node, t.Call) and _is_distance(node):
        given, target = node.argument("input", 0), node.argument("target", 1)
        return None if given is None or target is None else (unshaped(given), unshaped(target))
    squared = _squared(node) if is_loss or flow.facts.backwards else None
    difference = None if squared is None else _bound_to(flow, unshaped(squared))
    if not isinstance(difference, t.Operation) or difference.operator != "-" or len(difference.operands) != 2:
        return None
    return unshaped(difference.operands[0]), unshaped(difference.operands[1])


def _is_distance(call: t.Call) -> bool:
    """``F.mse_loss(a, b)``, ``criterion(a, b)``, ``nn.MSELoss()(a, b)``."""
    func = call.func.func if isinstance(call.func, t.Call) else call.func
    name = func.name if isinstance(func, t.Attribute) else t.path_of(func)
    return name is not None and _DISTANCE.search(name) is not None and len(call.args) >= 2


def _squared(node: t.Node) -> t.Expr | None:
    """``d`` of ``d ** 2``, ``d.pow(2)``, ``torch.square(d)``."""
    if isinstance(node, t.Operation) and node.operator == "**" and _is_two(node.operands[-1]):
        return node.operands[0]
    if not isinstance(node, t.Call) or not isinstance(node.func, t.Attribute):
        return None
    operands = [node.func.value, *(arg.value for arg in node.args)]
    if node.func.name == "pow" and _is_two(operands[-1]):
        return operands[-2]
    return operands[-1] if node.func.name == "square" else None


def _is_two(expr: t.Expr) -> bool:
    return isinstance(expr, t.Constant) and expr.value == 2


def _bound_to(flow: Flow, expr: t.Expr) -> t.Expr:
    """What a name stands for, where that is one thing."""
    path = t.path_of(expr)
    bound = flow.ref.assigned.get(path, []) if path is not None else []
    return unshaped(bound[0]) if len(bound) == 1 else expr


def unshaped(expr: t.Expr) -> t.Expr:
    """``target`` of ``target.unsqueeze(1)``."""
    while isinstance(expr, t.Call) and isinstance(expr.func, t.Attribute) and expr.func.name in k.SHAPING_METHODS:
        expr = expr.func.value
    return expr


def runs_of(flow: Flow, value: t.Expr) -> list[Forward]:
    """The calls of modules that a value surely comes from, with their graph."""
    written = list(t.walk(value))
    if any(cuts(flow, node) for node in written):
        return []
    paths = [path for node in written if isinstance(node, t.Expr) and (path := t.path_of(node)) is not None]
    roots = (root for path in paths for root in flow.read(flow.canonical(path), flow.final).roots)
    nodes = {node_of(root.key) for root in roots if root.source is Source.GRAPH}
    runs = (each for each in flow.facts.forwards if each.mode is not Mode.OFF)
    return [each for each in runs if each.site.node in nodes or each.site.node in written]


def cuts(flow: Flow, node: t.Node) -> bool:
    """``x.detach()``, ``stop_gradient(x)``, or a function of the program with such a thing in it."""
    if isinstance(node, t.Attribute):
        return node.name in k.CUTS
    if not isinstance(node, t.Call) or not isinstance(node.func, t.Name):
        return False
    helper = flow.module.value_of(node.func).ref
    code = Site(helper.chunk, helper.define).code if isinstance(helper, FunctionRef) else ""
    return _STOPS.search(node.func.id) is not None or _CUTTING.search(code) is not None


def _run_for_items(flow: Flow, target: t.Expr) -> list[Forward]:
    """The calls of modules whose results are put into a tensor, element by element: it has their graphs then."""
    path = t.path_of(target)
    if path is None or any(_cuts_itself(value, path) for value in flow.ref.assigned.get(path, [])):
        return []
    places = [place for place in flow.ref.assigned if is_within(place, path)]
    return [each for place in places for value in flow.ref.assigned[place] for each in runs_of(flow, value)]


def _cuts_itself(value: t.Expr, path: str) -> bool:
    """``target = target.detach()``."""
    nodes = list(t.walk(value))
    names = {t.path_of(node) for node in nodes if isinstance(node, t.Name | t.Attribute)}
    return path in names and any(isinstance(node, t.Attribute) and node.name in k.CUTS for node in nodes)


def _discounted(flow: Flow, target: t.Expr) -> t.Expr | None:
    """What a target is, where that is a reward and a share of what is to come: ``r + gamma * following``."""
    values = list(_values(flow, target))
    found = [value for value in values if _has_sum(flow, value) or _gives_sum(flow, value)]
    return found[0] if len(found) == 1 else None


def _has_sum(flow: Flow, value: t.Expr) -> bool:
    return any(_is_sum(flow, node) for node in t.walk(value))


def _gives_sum(flow: Flow, value: t.Expr) -> bool:
    """Whether a function of the program gives it: ``self.backup(reward, following)``."""
    for ref in functions_called(flow, value) if isinstance(value, t.Call) else ():
        callee = flow.project.flow(ref)
        given = [s.value for s in ref.define.statements if isinstance(s, t.Return) and s.value is not None]
        if callee is not None and any(_has_sum(callee, each) for expr in given for each in _values(callee, expr)):
            return True
    return False


def _values(flow: Flow, expr: t.Expr) -> Iterator[t.Expr]:
    """What an expression, and what is put into its places, may be: a name is what it is bound to."""
    waiting, seen = [expr], set()
    while waiting:
        value = waiting.pop()
        path = t.path_of(value)
        bound = [] if path is None or path in seen else _bound_below(flow, path)
        if not bound:
            yield value
        seen.add(path)
        waiting += bound


def _bound_below(flow: Flow, path: str) -> list[t.Expr]:
    """What a path is bound to, and its items."""
    places = [each for each in flow.ref.assigned if is_part(each, path)]
    return [value for place in places for value in flow.ref.assigned[place]]


def _is_sum(flow: Flow, node: object) -> bool:
    if not isinstance(node, t.Operation) or node.operator != "+" or len(node.operands) != 2:
        return False
    ways = (node.operands, node.operands[::-1])
    return any(_is_discounted(flow, share) and _is_data(flow, reward) for reward, share in ways)


def _is_data(flow: Flow, reward: t.Expr) -> bool:
    """Whether nothing that a network gives is in it, and it is not only a number; nor a share: ``(1 - gamma) * y``."""
    nodes = list(t.walk(reward))
    named = any(isinstance(node, t.Name | t.Attribute) for node in nodes)
    return named and not any(_is_rest(node) for node in nodes) and not runs_of(flow, reward)


def _is_discounted(flow: Flow, expr: t.Expr) -> bool:
    """``gamma * following``, whatever is done with it besides, but to cut a part of it."""
    if not isinstance(expr, t.Operation) or expr.operator != "*":
        return False
    nodes = list(t.walk(expr))
    rests = [id(part) for node in nodes if _is_rest(node) for part in t.walk(node)]
    bound = (value for node in nodes if isinstance(node, t.Name) for value in flow.ref.assigned.get(node.id, []))
    if any(cuts(flow, part) for value in bound for part in t.walk(value)):
        return False
    return any(_is_discount(node) and id(node) not in rests for node in nodes)


def _is_rest(node: object) -> bool:
    """``1 - gamma``: what is left of a whole, or what a damping leaves."""
    if not isinstance(node, t.Operation) or node.operator != "-" or len(node.operands) != 2:
        return False
    whole, share = node.operands
    return isinstance(whole, t.Constant) and whole.value == 1 and _is_discount(share)


def _is_discount(node: object) -> bool:
    if isinstance(node, t.Constant):
        return isinstance(node.value, float) and 0.8 <= node.value < 1
    if isinstance(node, t.Subscript) and isinstance(node.index, t.Constant):  # config["gamma"]
        return isinstance(node.index.value, str) and _DISCOUNT.search(node.index.value) is not None
    path = t.path_of(node) if isinstance(node, t.Name | t.Attribute) else None
    return path is not None and _DISCOUNT.search(path) is not None
