"""Ratios of a probability to itself, which have no gradient: ``old = new``, ``torch.exp(new - old)``.

Or to one that is the same, as the same policy computes it in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.losses.computed_again import computed_again
from gradguard.static.mistakes.losses import CancelledRatio
from gradguard.static.model import Mode
from gradguard.static.optimizers.trained_apart import cut
from gradguard.static.program.order import comes_before, has
from gradguard.static.values import Kind

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

# What is named as the policy that has acted; a reference may be the policy itself, where there is none.
_OLD = re.compile(r"(?:^|_)(?:old|prev|previous|behavio\w*|rollout|sampled|sampling|acted)(?:_|$)", re.I)
_PROBABILITY = re.compile(r"prob|likelihood|(?:^|[_.])pi(?:_|$)", re.I)
# What keeps the graph, and the number.
_KEEPING = frozenset("clone to float double half contiguous cuda cpu view_as type_as squeeze".split())


def cancelled_ratios(flow: Flow) -> Iterator[CancelledRatio]:
    """The ratios of a function in which the old probability is the new one, with its graph."""
    if flow.facts.is_test or flow.facts.entry_mode is Mode.OFF or not flow.module.names_torch:
        return
    told: set[t.Expr] = set()
    for ratio in flow.ref.define.nodes:
        pair = _of_two(flow, ratio) if isinstance(ratio, t.Call | t.Operation) else None
        for new, old in (pair, pair[::-1]) if pair is not None else ():
            kept, again = _kept(flow, ratio, new, old), _again(flow, new, old)
            found = kept if kept is not None else again
            if found is not None and found not in told and not _is_number(flow, ratio, found):
                told.add(found)
                yield CancelledRatio(flow.site(found), flow.site(ratio), new, old, is_made_again=found is again)


def _again(flow: Flow, new: str, old: str) -> t.Expr | None:
    """What computes the old one with its graph, in the way of the new one."""
    is_old = new != old and _OLD.search(old.rpartition(".")[2]) is not None
    again = computed_again(flow, new, old) if is_old and _may_have_graph(flow, new) else None
    return again if again is not None and _may_have_graph(flow, old) else None


def _is_number(flow: Flow, ratio: t.Node, kept: t.Expr) -> bool:
    """Whether the ratio, or a copy that is kept, is made without a graph; a name under ``no_grad`` has its graph."""
    unrecorded = set(cut(flow.ref.define))
    return ratio in unrecorded or (kept in unrecorded and isinstance(kept, t.Call))


def _of_two(flow: Flow, node: t.Call | t.Operation) -> tuple[str, str] | None:
    """The two paths of ``torch.exp(new - old)``, ``(new - old).exp()``, ``new / old``; also by way of a variable."""
    if isinstance(node, t.Operation):
        divided = _paths(node) if node.operator == "/" else None
        return divided if divided is not None and all(map(_PROBABILITY.search, divided)) else None
    if node.name != "exp":
        return None
    maker = flow.module.value_of(node.func)
    if maker.kind is Kind.EXTERNAL and not str(maker.ref).startswith("torch."):
        return None
    func = node.func
    given = node.args[0].value if node.args else func.value if isinstance(func, t.Attribute) else None
    bound = flow.ref.assigned.get(given.id, []) if isinstance(given, t.Name) else []
    given = bound[0] if len(bound) == 1 else given
    return _paths(given) if isinstance(given, t.Operation) and given.operator == "-" else None


def _paths(node: t.Operation) -> tuple[str, str] | None:
    paths = [path for operand in node.operands if (path := t.path_of(operand)) is not None]
    return (paths[0], paths[1]) if len(paths) == len(node.operands) == 2 else None


def _kept(flow: Flow, ratio: t.Node, new: str, old: str) -> t.Expr | None:
    """What the old one is bound to, where that is the new one with its graph, and stays so until the ratio."""
    if new == old or _OLD.search(old.rpartition(".")[2]) is None or not _may_have_graph(flow, new):
        return None
    body = flow.ref.define.body
    binding = [stmt for stmt in flow.ref.define.statements if _binds(stmt, old)]
    kept = [(stmt, found) for stmt in binding if isinstance(stmt, t.Assign) and (found := _same(stmt.value, new))]
    uses = next((stmt for stmt in flow.ref.define.statements if t.is_in(ratio, [stmt]) and not t.blocks(stmt)), None)
    if len(kept) != 1 or uses is None:
        return None
    stmt, found = kept[0]
    if not comes_before(body, stmt, uses):
        return None
    others = [each for each in binding if each is not stmt]
    if any(not comes_before(body, each, stmt) and not _is_other_way(body, each, stmt) for each in others):
        return None
    made = [each for each in flow.ref.define.statements if _binds(each, new)]
    return (
        found if all(comes_before(body, each, stmt) for each in made) and _same_loops(body, made, stmt, uses) else None
    )


def _same(value: t.Expr, new: str) -> t.Expr | None:
    """The part of what is bound that is the new one itself: ``new if old is None else old``, ``new.clone()``."""
    if isinstance(value, t.Conditional):
        return _same(value.body, new) or _same(value.orelse, new)
    if isinstance(value, t.Operation) and value.operator == "or":
        return next((found for each in value.operands if (found := _same(each, new)) is not None), None)
    whole = value
    while isinstance(value, t.Call) and isinstance(value.func, t.Attribute) and value.func.name in _KEEPING:
        value = value.func.value
    return whole if isinstance(value, t.Name | t.Attribute) and t.path_of(value) == new else None


def _binds(stmt: t.Stmt, path: str) -> bool:
    targets = stmt.targets if isinstance(stmt, t.Assign) else [stmt.target] if isinstance(stmt, t.Augment) else []
    if isinstance(stmt, t.Repeat) and stmt.target is not None:
        targets = [stmt.target]
    return any(t.path_of(each) == path for target in targets for each in t.names_in(target))


def _is_other_way(body: list[t.Stmt], some: t.Stmt, other: t.Stmt) -> bool:
    """Whether of two statements one condition chooses: they are in its two blocks."""
    conditions = (each for each in t.walk_statements(body) if isinstance(each, t.If))
    return any(
        (has(each.body, some) and has(each.orelse, other)) or (has(each.orelse, some) and has(each.body, other))
        for each in conditions
    )


def _same_loops(body: list[t.Stmt], made: list[t.Stmt], stmt: t.Stmt, uses: t.Stmt) -> bool:
    """Whether each loop that makes the new one again has the old one and the ratio in it as well."""
    loops = [each for each in t.walk_statements(body) if isinstance(each, t.Repeat)]
    return all(
        has(loop.body, stmt) and has(loop.body, uses) for loop in loops if any(has(loop.body, each) for each in made)
    )


def _may_have_graph(flow: Flow, path: str) -> bool:
    value = flow.read(flow.canonical(path), flow.final)
    return value.kind in (Kind.UNKNOWN, Kind.TENSOR, Kind.OUTPUT) and bool(value.reach)
