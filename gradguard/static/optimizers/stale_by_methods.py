"""Schedulers that an object makes once, while a method of it puts another optimizer in the place of theirs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from gradguard.static import tree as t
from gradguard.static.mistakes.optimizers import StaleScheduler
from gradguard.static.optimizers.schedulers import is_stepped, makes_optimizer, scheduled
from gradguard.static.optimizers.stale_schedulers import cares, is_handed_over, schedulers_made
from gradguard.static.program.bound_paths import binds, bound, mentions
from gradguard.static.program.classes import Class
from gradguard.static.program.functions import FunctionRef
from gradguard.static.program.order import has, later
from gradguard.static.program.own_methods import is_object, leading_to, methods_of, reached
from gradguard.static.source import Site

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

DEPTH = 3


class ScheduledObject(NamedTuple):
    """An object with a scheduler and its optimizer.

    Args:
        making: the methods that lead to where the scheduler is made; none where the constructor does.
        building: those that the constructor runs.
        stepping: of the optimizer, and of the scheduler, each with the methods that lead to its step.
    """

    owner: Class
    methods: list[FunctionRef]
    making: set[str]
    building: set[str]
    stepping: dict[str, set[str]]


class MadeOnce(NamedTuple):
    """Where an object gets the only scheduler that it ever has.

    Args:
        condition: it is made where there is none yet, by this one.
        is_guarded: so it is, or by a property that is computed once.
        is_first: the constructor makes it, or what that runs.
    """

    known: ScheduledObject
    stmt: t.Stmt
    scheduler: str
    optimizer: str
    condition: t.Expr | None
    is_guarded: bool
    is_first: bool


class Replacing(NamedTuple):
    """A method that replaces the optimizer, or calls what does.

    Args:
        stmt: the statement of it.
        param: the parameter that is the new one; None where it is made anew there.
    """

    method: FunctionRef
    stmt: t.Stmt
    param: str | None


def stale_by_methods(flow: Flow) -> Iterator[StaleScheduler]:
    """Where a method makes a scheduler once for its object, and the optimizer is replaced later."""
    for once in made_once(flow):
        known, scheduler, optimizer = once.known, once.scheduler, once.optimizer
        besides = {"__init__", flow.ref.define.name} if once.is_first else {"__init__"}
        for replacing in _replacing(known.methods, optimizer, scheduler, besides):
            if all(known.stepping.values()) and _goes_stale(flow, known, replacing) and not is_handed_over(flow):
                site, replaced = flow.site(once.stmt), Site(replacing.method.chunk, replacing.stmt)
                condition = flow.site(once.condition) if once.condition is not None else None
                shown = site if once.is_guarded else replaced
                yield StaleScheduler(shown, scheduler, optimizer, site, replaced, condition)
                break


def made_once(flow: Flow) -> Iterator[MadeOnce]:
    """The schedulers that a method makes for its object, where nothing makes another one (reads other files)."""
    owner, ref = flow.ref.owner, flow.ref
    for made, scheduler, optimizer in _made_for_object(ref) if owner is not None and not flow.facts.is_test else ():
        methods = methods_of(owner) if owner is not None else []
        building = reached(methods, {"__init__"})
        is_first = ref.define.name in building
        condition = _made_once_by(ref, made, scheduler)
        is_guarded = condition is not None or isinstance(made, t.Return)  # of a cached property
        if owner is None or not (is_first or is_guarded) or not _is_only_one(flow, methods, made, scheduler, optimizer):
            continue
        if is_first and ref.define.name != "__init__" and not is_guarded and _is_made_again(flow, methods, building):
            continue
        stepping = {path: leading_to(methods, _stepping(methods, path)) for path in (scheduler, optimizer)}
        making = set() if is_first else leading_to(methods, {ref.define.name})
        known = ScheduledObject(owner, methods, making, building, stepping)
        yield MadeOnce(known, made, scheduler, optimizer, condition, is_guarded, is_first)


def _made_for_object(ref: FunctionRef) -> Iterator[tuple[t.Stmt, str, str]]:
    """The statements that make a scheduler of an attribute of the object, for another one."""
    is_cached = any((t.path_of(each) or "").endswith("cached_property") for each in ref.define.decorators)
    for stmt in ref.define.body if is_cached else ():
        of = scheduled(ref, stmt.value) if isinstance(stmt, t.Return) and stmt.value is not None else None
        if of is not None and _is_attribute(of):
            yield stmt, f"self.{ref.define.name}", of
    for made, scheduler, optimizer in schedulers_made(ref):
        if _is_attribute(scheduler) and _is_attribute(optimizer):
            yield made, scheduler, optimizer


def _is_attribute(path: str) -> bool:
    head, _, name = path.partition(".")
    return head == "self" and name.isidentifier()


def _made_once_by(ref: FunctionRef, made: t.Stmt, scheduler: str) -> t.Expr | None:
    """The condition under which it is made where there is none yet: ``if self.scheduler is None``."""
    around = (each for each in ref.define.statements if isinstance(each, t.If) and has(each.body, made))
    return next((each.test for each in around if _asks_for(each.test, scheduler)), None)


def _asks_for(test: t.Expr, path: str) -> bool:
    """``self.scheduler is None``, ``not self.scheduler``, ``not hasattr(self, "scheduler")``."""
    name = path.partition(".")[2]
    if not isinstance(test, t.Operation):
        return False
    if test.operator == "and":
        return any(_asks_for(each, path) for each in test.operands)
    words = (node.value for node in t.walk(test) if isinstance(node, t.Constant))
    is_named = mentions(test, path) or name in words
    return is_named and test.operator in ("not", "is", "==")


def _is_only_one(flow: Flow, methods: list[FunctionRef], made: t.Stmt, scheduler: str, optimizer: str) -> bool:
    """Whether no other statement of the program makes a scheduler for the object, or gives it the new optimizer."""
    name = scheduler.partition(".")[2]
    for method in methods:
        others = (stmt for stmt in method.define.statements if stmt is not made)
        if any(binds(stmt, scheduler) and not _is_none_at_start(method, stmt, scheduler) for stmt in others):
            return False
        if any(cares(node, scheduler, optimizer) for node in method.define.nodes):
            return False
    beside = reached(methods, {flow.ref.define.name, *_called_in(made)})
    besides = (method for method in methods if method.define.name not in beside)
    if any(scheduled(method, call) == optimizer for method in besides for call in method.calls):
        return False
    anew = re.compile(
        rf"(?<!self)\.{name}(?:\.optimizer)?\s*=[^=]|setattr\([^)\n]*['\"]{name}['\"]|\bdel \w+\.{name}\b"
    )
    owner, survey = flow.ref.owner, flow.project.survey
    if owner is None or survey.mentions(anew, flow.module, name):
        return False
    if not survey.is_base(owner.name, flow.module):
        return True
    own = {method.define.name for method in methods if any(binds(s, scheduler) for s in method.define.statements)}
    return not survey.acts(name, re.compile(rf"\bself\.{name}\s*(?:=(?!=)|,)"), flow.module, own)


def _is_none_at_start(method: FunctionRef, stmt: t.Stmt, scheduler: str) -> bool:
    return method.define.name == "__init__" and isinstance(bound(stmt, scheduler), t.Constant)


def _called_in(stmt: t.Stmt) -> Iterator[str]:
    """The methods of the object that a statement calls."""
    return (node.name for node in t.walk(stmt) if isinstance(node, t.Call) and receiver_of(node) == "self")


def _is_made_again(flow: Flow, methods: list[FunctionRef], building: set[str]) -> bool:
    """Whether somebody calls what the constructor calls to make the scheduler, once more."""
    name = flow.ref.define.name
    if any(name in m.own_calls for m in methods if m.define.name not in building):
        return True
    return flow.project.survey.mentions(re.compile(rf"(?<!self)\.{name}\("), flow.module, name)


def _stepping(methods: list[FunctionRef], path: str) -> set[str]:
    return {method.define.name for method in methods if is_stepped(method, method.define.nodes, path)}


def _replacing(methods: list[FunctionRef], optimizer: str, scheduler: str, besides: set[str]) -> Iterator[Replacing]:
    """The statements that put another optimizer in the place of the first; one that the constructor runs may do both.

    Args:
        besides: the methods that do not: the constructor, and what makes the scheduler for it.
    """
    for method in methods:
        params = {param.name for param in method.define.params}
        for stmt in method.define.statements if method.define.name not in besides else ():
            value = bound(stmt, optimizer)
            if value is None or mentions(value, optimizer) or is_chosen(method, stmt, optimizer, scheduler):
                continue
            if makes_optimizer(method, value):
                yield Replacing(method, stmt, None)
            elif isinstance(value, t.Name) and value.id in params and value.id not in method.assigned:
                yield Replacing(method, stmt, value.id)


def is_chosen(method: FunctionRef, stmt: t.Stmt, *paths: str) -> bool:
    """Whether a condition around a statement asks for the optimizer, or the scheduler: it may be the first."""
    tests = (each.test for each in method.define.statements if isinstance(each, t.If) and has([each], stmt))
    names = {path.partition(".")[2] for path in paths}
    return any(
        (isinstance(node, t.Attribute) and node.name in names) or (isinstance(node, t.Constant) and node.value in names)
        for test in tests
        for node in t.walk(test)
    )


def _goes_stale(flow: Flow, known: ScheduledObject, replacing: Replacing) -> bool:
    """Whether the optimizer is replaced when there is a scheduler, and both step then."""
    is_again = replacing.method.define.name not in known.building
    is_sure = replacing.param is None and not known.making and is_again
    if is_sure and both_step(known, replacing.method, _after(replacing), "self"):
        return True
    return is_called_so(flow, known, replacing, DEPTH)


def _after(replacing: Replacing) -> list[t.Stmt]:
    return later(replacing.method.define.body, replacing.stmt)


def both_step(known: ScheduledObject, ref: FunctionRef, body: Iterable[t.Stmt], receiver: str) -> bool:
    """Whether some statements have the optimizer and the scheduler of an object step."""
    nodes = list(t.walk(list(body)))
    called = {node.name for node in nodes if isinstance(node, t.Call) and receiver_of(node) == receiver}
    return all(
        not called.isdisjoint(names) or is_stepped(ref, nodes, receiver + path.removeprefix("self"))
        for path, names in known.stepping.items()
    )


def receiver_of(call: t.Call) -> str | None:
    return t.path_of(call.func.value) if isinstance(call.func, t.Attribute) else None


def is_called_so(flow: Flow, known: ScheduledObject, replacing: Replacing, depth: int) -> bool:
    """Whether somebody calls the method, or one that calls it, when the scheduler is there, and both step then."""
    for caller in flow.project.written_calling(replacing.method) if depth else ():
        if any(caller.define is each.define for each in known.methods) and caller.define.name in known.building:
            continue  # the first time
        for place in _calls_of(known, caller, replacing.method):
            if _is_stale_at(known, replacing, place):
                return True
            outer = _as_callers_see(replacing, place) if place.receiver == "self" else None
            if outer is not None and is_called_so(flow, known, outer, depth - 1):
                return True
    return False


class _Place(NamedTuple):
    """Where a method of an object is called.

    Args:
        anew: the statement that makes the object, in the same function.
    """

    caller: FunctionRef
    stmt: t.Stmt
    call: t.Call
    receiver: str
    anew: t.Stmt | None

    def after(self) -> list[t.Stmt]:
        """The statements that may run after it, with the same object."""
        return later(self.caller.define.body, self.stmt, without=self.anew)


def _calls_of(known: ScheduledObject, caller: FunctionRef, method: FunctionRef) -> Iterator[_Place]:
    """The calls of a method of the object in another function."""
    for stmt in caller.define.statements:
        for call in own_calls(stmt):
            receiver = receiver_of(call) if call.name == method.define.name else None
            if receiver is not None and is_object(known.owner, caller, receiver):
                anew = next((each for each in caller.define.statements if binds(each, receiver)), None)
                yield _Place(caller, stmt, call, receiver, anew)


def own_calls(stmt: t.Stmt) -> list[t.Call]:
    """The calls in a statement itself, not those in its blocks."""
    value = stmt.value if isinstance(stmt, t.Assign | t.Evaluate | t.Return | t.Augment) else None
    return [node for node in t.walk(value) if isinstance(node, t.Call)]


def _as_callers_see(replacing: Replacing, place: _Place) -> Replacing | None:
    """The method that calls the one which replaces the optimizer, as one that does so itself."""
    if replacing.param is None:
        return Replacing(place.caller, place.stmt, None)
    given = replacing.method.given_by(place.call).get(replacing.param)
    if given is not None and makes_optimizer(place.caller, given):
        return Replacing(place.caller, place.stmt, None)
    params = {param.name for param in place.caller.define.params}
    name = given.id if isinstance(given, t.Name) else ""
    is_handed_on = name in params and name not in place.caller.assigned
    return Replacing(place.caller, place.stmt, name) if is_handed_on else None


def _is_stale_at(known: ScheduledObject, replacing: Replacing, place: _Place) -> bool:
    """Whether a call replaces the optimizer of the scheduler that is there by then."""
    after = place.after()
    is_again = place.stmt in after and not _is_once(place)
    if known.making and not is_again and not _is_made_before(known, place):
        return False
    if replacing.param is not None and not _is_given_another(known, replacing, place):
        return False
    in_method = both_step(known, replacing.method, _after(replacing), "self")
    return in_method or both_step(known, place.caller, after, place.receiver)


def _is_once(place: _Place) -> bool:
    """Whether a condition around a call holds in one iteration: ``if epoch == 0``."""
    around = (
        each.test for each in place.caller.define.statements if isinstance(each, t.If) and has(each.body, place.stmt)
    )
    operators = ({node.operator for node in t.walk(test) if isinstance(node, t.Operation)} for test in around)
    return any("==" in each and "%" not in each for each in operators)


def _is_made_before(known: ScheduledObject, place: _Place) -> bool:
    """Whether a call that has the scheduler made comes before another one."""
    body = place.caller.define.body
    makes = (stmt for stmt in place.caller.define.statements if _makes(known, place, stmt))
    return any(stmt is not place.stmt and place.stmt in later(body, stmt, without=place.anew) for stmt in makes)


def _makes(known: ScheduledObject, place: _Place, stmt: t.Stmt) -> bool:
    return any(call.name in known.making and receiver_of(call) == place.receiver for call in own_calls(stmt))


def _is_given_another(known: ScheduledObject, replacing: Replacing, place: _Place) -> bool:
    """Whether a call gives the method another optimizer than the one before."""
    caller, given = place.caller, replacing.method.given_by(place.call).get(replacing.param or "")
    if given is None:
        return False
    around = [each for each in caller.define.statements if isinstance(each, t.Repeat) and has(each.body, place.stmt)]
    if makes_optimizer(caller, given) or any(_is_new_in(caller, loop, given, place.anew) for loop in around):
        return True
    path = t.path_of(given) or ""
    made = caller.assigned.get(path, [])
    is_first = bool(known.making) and place.stmt in place.after()  # each time the same one
    is_made = len(made) == 1 and makes_optimizer(caller, made[0])
    return is_made and not is_first and path not in _given_before(known, place)


def _is_new_in(caller: FunctionRef, loop: t.Repeat, given: t.Expr, anew: t.Stmt | None) -> bool:
    """Whether each iteration of a loop has another optimizer: one that it makes, or takes from a collection."""
    if has(loop.body, anew):
        return False
    targets = {t.path_of(each) for each in (t.names_in(loop.target) if loop.target is not None else ())}
    names = {node.id for node in t.walk(given) if isinstance(node, t.Name)}
    values = [value for name in names for each in t.walk_statements(loop.body) if (value := bound(each, name))]
    taken = (node.id for value in (given, *values) for node in t.walk(value) if isinstance(node, t.Name))
    return any(name in targets for name in taken) or any(makes_optimizer(caller, value) for value in values)


def _given_before(known: ScheduledObject, place: _Place) -> set[str | None]:
    """The paths of what the object is given where it is made, or where its scheduler is."""
    makes = (stmt for stmt in place.caller.define.statements if stmt is place.anew or _makes(known, place, stmt))
    others = (call for stmt in makes if stmt is not place.stmt for call in own_calls(stmt))
    return {t.path_of(arg.value) for call in others for arg in call.args}
