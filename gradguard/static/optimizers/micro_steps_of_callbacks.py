"""Schedulers of callbacks that are told of the updates, and step where a trainer is done with each batch."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from gradguard.static import tree as t
from gradguard.static.mistakes.optimizers import ScheduleLength
from gradguard.static.optimizers.micro_steps import every_of, stepped_beside
from gradguard.static.optimizers.stale_schedulers import schedulers_made
from gradguard.static.program.classes import Class
from gradguard.static.program.fired import fired
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.order import blocks_of
from gradguard.static.program.own_methods import methods_of
from gradguard.static.program.paths import last
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


class _Stepped(NamedTuple):
    """A step that a callback has its scheduler take.

    Args:
        made: the statement that makes the scheduler.
    """

    cls: Class
    site: Site
    scheduler: str
    made: Site


def micro_steps_of_callbacks(flow: Flow) -> Iterator[ScheduleLength]:
    """Where a callback, told of ``steps``, is called for each of ``steps * accumulate`` batches (reads other files)."""
    for block in blocks_of(flow.ref.define.body) if not flow.facts.is_test else ():
        for stmt in block:
            every = every_of(stmt)
            if every is None or not isinstance(stmt, t.If) or not _steps_some(stmt):
                continue
            for name in (name for other in block if other is not stmt for name in fired(flow.ref, other)):
                for each in _stepping(flow, name, last(every)):
                    length = _told_of_updates(flow, each.cls, last(every))
                    if length is not None:
                        sites = (each.site, each.made, length)
                        yield ScheduleLength(*sites, each.scheduler, is_in_epochs=False, in_updates=True)


def _steps_some(stmt: t.If) -> bool:
    return any(isinstance(node, t.Call) and node.name == "step" for node in t.walk(stmt.body))


def _stepping(flow: Flow, name: str, every: str) -> Iterator[_Stepped]:
    """The steps of schedulers by the methods of a name, of classes that know nothing of how many batches there are."""
    for method in flow.project.survey.methods_named(name, flow.module):
        cls = method.owner
        if cls is None or any(each.chunk.shows(re.compile(rf"\b{re.escape(every)}\b")) for each in cls.lineage()):
            continue
        for call, scheduler in stepped_beside(method.define.body):
            for maker in methods_of(cls):
                for made, path, _ in schedulers_made(maker):
                    if path == scheduler and len(maker.assigned.get(path, [])) == 1:
                        yield _Stepped(cls, Site(method.chunk, call), scheduler, Site(maker.chunk, made))


def _told_of_updates(flow: Flow, cls: Class, every: str) -> Site | None:
    """Where an object of the class is made with a number that is multiplied for the batches, in the same function."""
    constructor = cls.method("__init__")
    callers = flow.project.written_calling(constructor, name=cls.name) if constructor is not None else ()
    for caller in callers:
        updates = set(_multiplied(caller, every))
        for call in caller.calls if updates else ():
            if call.name == cls.name and caller.module.value_of(call.func).ref is cls:
                told = (arg.value for arg in call.args if t.path_of(arg.value) in updates)
                found = next(told, None)
                if found is not None:
                    return Site(caller.chunk, found)
    return None


def _multiplied(ref: FunctionRef, every: str) -> Iterator[str]:
    """``args.steps`` of ``args.steps * args.accumulate``."""
    for node in ref.define.nodes:
        if isinstance(node, t.Operation) and node.operator == "*" and len(node.operands) == 2:
            paths = [t.path_of(each) for each in node.operands]
            of = [path for path in paths if path is not None and last(path) != every]
            yield from of if None not in paths and len(of) == 1 else ()
