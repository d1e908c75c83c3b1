"""Schedulers that an object makes once, while somebody else puts another optimizer in the place of theirs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from gradguard.static import tree as t
from gradguard.static.mistakes.optimizers import StaleScheduler
from gradguard.static.optimizers.schedulers import makes_optimizer
from gradguard.static.optimizers.stale_by_methods import (
    DEPTH,
    MadeOnce,
    Replacing,
    ScheduledObject,
    both_step,
    is_called_so,
    is_chosen,
    made_once,
    own_calls,
)
from gradguard.static.optimizers.stale_schedulers import cares, is_handed_over
from gradguard.static.program.bound_paths import binds, mentions
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.order import later
from gradguard.static.program.own_methods import is_object
from gradguard.static.screen import calling
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


class _Replaced(NamedTuple):
    """A statement of another function that gives an object another optimizer: ``trainer.optimizer = Adam(...)``.

    Args:
        receiver: the path of the object there.
    """

    ref: FunctionRef
    stmt: t.Stmt
    receiver: str

    def named(self, path: str) -> str:
        """The path there of an attribute of the object."""
        return self.receiver + path.removeprefix("self")


def stale_from_outside(flow: Flow) -> Iterator[StaleScheduler]:
    """Where a callback, or the function that made an object, replaces its optimizer beside its scheduler."""
    for once in made_once(flow):
        known = once.known
        if not once.is_first or once.is_guarded or not all(known.stepping.values()):
            continue
        for replaced in _replaced_outside(flow, once):
            if _goes_stale(flow, known, replaced) and not is_handed_over(flow):
                site = Site(replaced.ref.chunk, replaced.stmt)
                scheduler, optimizer = replaced.named(once.scheduler), replaced.named(once.optimizer)
                yield StaleScheduler(site, scheduler, optimizer, flow.site(once.stmt), site)
                break


def _replaced_outside(flow: Flow, once: MadeOnce) -> Iterator[_Replaced]:
    owner, name = once.known.owner, once.optimizer.partition(".")[2]
    sets = re.compile(rf"\b(?!self\b)\w+\.{name}\s*=(?!=)")
    for module in flow.project.survey.naming(name, flow.module, sets):
        if sets.search(module.source.text) is None:
            continue
        for ref in module.functions(calling(module.source, name)):
            for replaced in _replaced_in(flow, ref, owner, name):
                scheduler, optimizer = replaced.named(once.scheduler), replaced.named(once.optimizer)
                is_seen_to = any(cares(node, scheduler, optimizer) for node in ref.define.nodes)
                if not is_seen_to and not is_chosen(ref, replaced.stmt, once.scheduler, once.optimizer):
                    yield replaced


def _replaced_in(flow: Flow, ref: FunctionRef, owner: Class, name: str) -> Iterator[_Replaced]:
    """The statements of a function that bind the attribute of an object of a class to a new optimizer."""
    for stmt in ref.define.statements:
        for target, value in t.pairs(stmt.targets, stmt.value) if isinstance(stmt, t.Assign) else ():
            receiver = t.path_of(target.value) if isinstance(target, t.Attribute) and target.name == name else None
            if receiver is None or receiver == "self" or mentions(value, f"{receiver}.{name}"):
                continue
            if _makes_one(ref, owner, receiver, value) and _is_object(flow, owner, ref, receiver):
                yield _Replaced(ref, stmt, receiver)


def _makes_one(ref: FunctionRef, owner: Class, receiver: str, value: t.Expr) -> bool:
    """Whether an expression makes an optimizer, also by a method of the object: ``trainer.make_optimizer(lr)``."""
    if makes_optimizer(ref, value):
        return True
    func = value.func if isinstance(value, t.Call) else None
    is_of_object = isinstance(func, t.Attribute) and t.path_of(func.value) == receiver
    method = owner.method(func.name) if is_of_object and isinstance(func, t.Attribute) else None
    given = list(method.given_back()) if method is not None else []
    return method is not None and bool(given) and all(makes_optimizer(method, each) for each in given)


def _is_object(flow: Flow, owner: Class, ref: FunctionRef, receiver: str) -> bool:
    """Whether what is at a path is an object of a class: it is made there, or all callers seen give one."""
    if receiver not in (param.name for param in ref.define.params) or receiver in ref.assigned:
        return is_object(owner, ref, receiver)
    given = list(_given(flow, ref, receiver))
    return bool(given) and all(is_object(owner, caller, path) for caller, _, path in given)


def _goes_stale(flow: Flow, known: ScheduledObject, replaced: _Replaced) -> bool:
    """Whether both step with the object then, in the function that replaces the optimizer, or in one that calls it."""
    ref, receiver = replaced.ref, replaced.receiver
    if both_step(known, ref, _after(ref, replaced.stmt, receiver), receiver):
        return True
    return any(
        both_step(known, caller, _after(caller, stmt, path), path)
        or (path == "self" and is_called_so(flow, known, Replacing(caller, stmt, None), DEPTH))
        for caller, stmt, path in _given(flow, ref, receiver)
        if path != "self" or caller.define.name not in known.building  # before there is a scheduler
    )


def _after(ref: FunctionRef, stmt: t.Stmt, receiver: str) -> list[t.Stmt]:
    """The statements that may run after one, with the same object."""
    anew = next((each for each in ref.define.statements if binds(each, receiver)), None)
    return later(ref.define.body, stmt, without=anew)


def _given(flow: Flow, ref: FunctionRef, param: str) -> Iterator[tuple[FunctionRef, t.Stmt, str]]:
    """The statements that call a function, each with the path of what it gives as a parameter.

    Not those of a function of the same name that hands on what it is given: a list of callbacks, a derived class.
    """
    name = ref.define.name
    for caller in flow.project.written_calling(ref):
        params = {each.name for each in caller.define.params} if caller.define.name == name else set()
        for stmt in caller.define.statements:
            for call in own_calls(stmt):
                given = ref.given_by(call).get(param) if call.name == name else None
                path = t.path_of(given) if given is not None else None
                if call.name == name and path not in params - {"self"}:
                    yield caller, stmt, path or ""
