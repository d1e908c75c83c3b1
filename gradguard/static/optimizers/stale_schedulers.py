"""Schedulers of an optimizer that is replaced while both go on: the rate of the one that trains never changes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.mistakes.optimizers import StaleScheduler
from gradguard.static.optimizers.schedulers import is_stepped, makes_optimizer, scheduled
from gradguard.static.program.bound_paths import binds, bound, mentions, names_of
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.order import following, has, later
from gradguard.static.program.paths import is_within

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_HANDED_OVER = re.compile(r"\b\w*(?:sched|lr)\w*\.optimizer\s*=(?!=)", re.I)


def stale_schedulers(flow: Flow) -> list[StaleScheduler]:
    """Where a function replaces the optimizer of a scheduler that it has made, and goes on with both."""
    ref, found = flow.ref, {}
    for made, scheduler, optimizer in schedulers_made(ref) if not flow.facts.is_test else ():
        for stmt in _replacing(ref, made, scheduler, optimizer):
            if not is_handed_over(flow):
                found[stmt] = StaleScheduler(flow.site(stmt), scheduler, optimizer, flow.site(made), flow.site(stmt))
            break
    return list(found.values())


def is_handed_over(flow: Flow) -> bool:
    """Whether something in the program gives a scheduler another optimizer (reads other files)."""
    return flow.project.survey.mentions(_HANDED_OVER, flow.module, ".optimizer")


def schedulers_made(ref: FunctionRef) -> Iterator[tuple[t.Assign, str, str]]:
    """The statements that make a scheduler, each with a path of it, and one of its optimizer."""
    for stmt in ref.define.statements:
        of = scheduled(ref, stmt.value) if isinstance(stmt, t.Assign) else None
        if of is None or not isinstance(stmt, t.Assign):
            continue
        for target in filter(None, map(t.path_of, stmt.targets)):
            for scheduler in names_of(ref, target):
                yield from ((stmt, scheduler, optimizer) for optimizer in names_of(ref, of))


def _replacing(ref: FunctionRef, made: t.Assign, scheduler: str, optimizer: str) -> Iterator[t.Stmt]:
    """The statements after which the optimizer is another one, while the scheduler is that of the first."""
    body = ref.define.body
    after = later(body, made, without=made)
    if any(binds(stmt, scheduler) or _is_scheduled(ref, stmt, optimizer) for stmt in after):
        return
    for stmt in following(body, made, on_every_way=True):
        value = bound(stmt, optimizer)
        if value is None or mentions(value, optimizer) or not makes_optimizer(ref, value):
            continue
        then = later(body, stmt, without=made)
        nodes = list(t.walk(then))
        if any(cares(node, scheduler, optimizer) for node in nodes) or _is_put_back(then, optimizer):
            continue
        steps = (each for each in then if isinstance(each, t.Evaluate) and is_stepped(ref, t.walk(each), scheduler))
        if is_stepped(ref, nodes, optimizer) and any(not _excludes(body, stmt, each) for each in steps):
            yield stmt


def _is_scheduled(ref: FunctionRef, stmt: t.Stmt, optimizer: str) -> bool:
    """Whether another scheduler is made of what is at the path of an optimizer."""
    value = stmt.value if isinstance(stmt, t.Assign | t.Evaluate) else None
    return any(isinstance(node, t.Call) and scheduled(ref, node) == optimizer for node in t.walk(value))


def _is_put_back(after: Iterable[t.Stmt], optimizer: str) -> bool:
    values = (bound(stmt, optimizer) for stmt in after)
    return any(value is not None and not isinstance(value, t.Call | t.Conditional) for value in values)


def cares(node: t.Node, scheduler: str, optimizer: str) -> bool:
    """Whether something gives the scheduler the new optimizer, or sets rates by hand.

    ``scheduler.optimizer = optimizer``, ``scheduler.attach(optimizer)``, ``set_rate(optimizer, scheduler.get_lr())``,
    ``group["lr"] = rate``.
    """
    if isinstance(node, t.Assign):
        paths = [t.path_of(target) or "" for target in node.targets]
        return any(is_within(path, scheduler) or path.endswith('["lr"]') for path in paths)
    if not isinstance(node, t.Call):
        return False
    func, given = node.func, [arg.value for arg in node.args]
    is_of_scheduler = isinstance(func, t.Attribute) and t.path_of(func.value) == scheduler and func.name != "step"
    is_told_rate = any(t.path_of(value) != scheduler and mentions(value, scheduler) for value in given)
    is_given = any(t.path_of(value) == optimizer for value in given)
    return is_given and (is_of_scheduler or is_told_rate)


def _excludes(body: Sequence[t.Stmt], one: t.Stmt, other: t.Stmt) -> bool:
    """Whether two statements are under conditions of their own that ask for the same: ``if epoch < 10``."""
    return not _asked(body, one, other).isdisjoint(_asked(body, other, one))


def _asked(body: Sequence[t.Stmt], stmt: t.Stmt, besides: t.Stmt) -> set[str]:
    """What the conditions around a statement ask for, those that are not around another one."""
    found: set[str] = set()
    for each in t.walk_statements(body):
        blocks = t.blocks(each) if isinstance(each, t.If) else []
        if isinstance(each, t.If) and any(has(block, stmt) and not has(block, besides) for block in blocks):
            names = {t.path_of(node) for node in t.walk(each.test) if isinstance(node, t.Name | t.Attribute)}
            found |= {name for name in names if name is not None}
    return {name for name in found if not any(is_within(other, name) for other in found)}
