"""Statements with more than one way through them: ``if``, ``try``, ``with``, ``match``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gradguard.static import knowledge as k
from gradguard.static import tree as t
from gradguard.static.model import Backward, Forward, GradCall, HookRegistration, Mode
from gradguard.static.program.classes import Class
from gradguard.static.reading import turns
from gradguard.static.reading.binding import bind
from gradguard.static.reading.conditions import (
    Length,
    holds_once,
    is_flag,
    key_test,
    length_behind,
    length_test,
    no_tensors,
    outcome,
    shape_test,
    tensor_test,
)
from gradguard.static.reading.counts import holds_in_one, is_long_buffer
from gradguard.static.reading.limits import at_limit
from gradguard.static.reading.loops import loops_called
from gradguard.static.reading.state import Cap, State, hedge, merge
from gradguard.static.reading.steady import steady_branch, steady_way
from gradguard.static.values import NUMBER, UNKNOWN, Held, Kind, Value, Word, holding

if TYPE_CHECKING:
    from gradguard.static.flow import Flow


def if_(flow: Flow, stmt: t.If, state: State) -> State | None:
    """Both branches, each with what the condition says about it."""
    flow.value(stmt.test, state)
    if isinstance(stmt.test, t.Constant):  # `if False:` is how code is switched off
        return flow.block(stmt.body if stmt.test.value else stmt.orelse, state)
    settled = outcome(stmt.test, lambda name: flow.given(name, state))
    if settled is not None:
        return flow.block(stmt.body if settled else stmt.orelse, state)
    first, second = state.copy(), state
    steady = "first" if _is_on_by_default(flow, stmt.test) else steady_way(stmt)
    tested, holds = tensor_test(stmt.test)
    if tested is not None:  # in the other branch it is a number
        (second if holds else first).assign(flow.canonical(tested), NUMBER)
    key, text, equal = key_test(stmt.test)
    if key is not None:
        (first if equal else second).assign(flow.canonical(key), Value(kind=Kind.NUMBER, ref=Word(text)))
    flow.branches += 1
    every = turns.every(flow, stmt)
    flow.periods += [] if every is None else [every]
    once = flow.loop is not None and (
        holds_once(stmt.test, flow.loop.targets)
        or holds_in_one(stmt.test, [frame.loop.site.node for frame in flow.frames])
    )
    flow.once += once
    limit = at_limit(stmt.test)
    flow.at_limit += limit
    start = steady_branch(stmt.test)
    flow.starting += start == "second"
    flow.caps.append(_cap(flow, stmt.test))
    after_body = _way(flow, stmt.body, first)
    flow.caps.pop()
    if every is not None:
        flow.periods.pop()
    flow.once -= once
    flow.at_limit -= limit
    flow.starting += (start == "first") - (start == "second")
    after_else = _way(flow, stmt.orelse, second)
    flow.starting -= start == "first"
    flow.branches -= 1
    if after_body is not None and after_else is not None and is_flag(stmt.test):
        hedge(after_body, after_else)
    return merge(after_body, after_else, steady)


def _way(flow: Flow, body: list[t.Stmt], state: State) -> State | None:
    """What is on one way; behind one that leaves the function, the names are those of the same objects as before it."""
    aliases = flow.aliases.copy()
    after = flow.block(body, state)
    if body and isinstance(body[-1], t.Return | t.Raise):
        flow.aliases = aliases
    return after


def _cap(flow: Flow, test: t.Expr) -> Cap:
    """What a condition says of the size of a collection."""
    length = length_test(test)
    return Cap(flow.canonical(shape_test(test) or "")) if length is None else _of_length(flow, length)


def cap_behind(flow: Flow, stmt: t.If) -> Cap | None:
    """What is known of the size of a collection behind a statement that leaves where it is full."""
    length = length_behind(stmt)
    return None if length is None else _of_length(flow, length)._replace(is_behind=True)


def _of_length(flow: Flow, length: Length) -> Cap:
    is_long = length.limit is not None and is_long_buffer(flow, length.limit)
    return Cap(flow.canonical(length.path), is_long, length.is_below)


def _is_on_by_default(flow: Flow, test: t.Expr) -> bool:
    """Whether a condition is a parameter that is True unless a caller says otherwise: ``init_hidden=True``."""
    params = (p for p in flow.ref.define.params if isinstance(test, t.Name) and p.name == test.id)
    return any(isinstance(p.default, t.Constant) and p.default.value is True for p in params)


def try_(flow: Flow, stmt: t.Try, state: State) -> State | None:
    """A body that may stop anywhere, and what runs then; an exception keeps what its frames hold."""
    before = state.copy()
    first = len(flow.facts.events)
    flow.guards += bool(stmt.handlers)
    after = flow.block(stmt.body, state)
    flow.guards -= bool(stmt.handlers)
    worked = any(isinstance(e, Backward | Forward | GradCall) for e in flow.facts.events[first:])
    start = merge(before, after.copy() if after else None)
    after = flow.block(stmt.orelse, after)
    flow.branches += 1
    for handler in stmt.handlers:
        caught = start.copy() if start else None
        if caught is not None:
            for path in no_tensors(stmt, handler):
                caught.assign(flow.canonical(path), NUMBER)
            if handler.name:
                caught.env[handler.name] = holding(Value(), Held.EXCEPTION, handler.name) if worked else Value()
        after = merge(after, flow.block(handler.body, caught), "first")
    flow.branches -= 1
    return flow.block(stmt.final, after)


@dataclass(frozen=True)
class Entering:
    """``with Session(optimizer) as code``, as calls: of the constructor, of ``__enter__``, of ``__exit__``.

    Args:
        make: makes the object, where the context is the call that does: ``with session:`` enters one that there is.
    """

    make: t.Assign | None
    enter: t.Call
    leave: t.Call

    @classmethod
    def of(cls, context: t.Expr, class_name: str) -> Entering:
        name = t.Name(context.origin, f"{class_name}()")
        made = isinstance(context, t.Call)
        entered = name if made else context
        enter, leave = (t.Attribute(context.origin, entered, method) for method in ("__enter__", "__exit__"))
        nothing = [t.Arg(t.Constant(context.origin, None)) for _ in range(3)]
        make = t.Assign(context.origin, [name], context) if made else None
        return cls(make, t.Call(context.origin, enter, []), t.Call(context.origin, leave, nothing))


def with_(flow: Flow, stmt: t.With, state: State) -> State | None:
    """A block, in the gradient mode and the scope that its contexts give it."""
    from gradguard.static.reading.modes import gradient_context
    from gradguard.static.reading.suspended import resume

    mode, left_before = state.mode, state.left
    opened, loops_before, events_before = [], len(flow.facts.loops), len(flow.facts.events)
    expects = any(k.EXPECTS_ERROR.search(t.path_of(c.func) or "") for c, _ in stmt.items if isinstance(c, t.Call))
    leaving: list[t.Call] = []
    restores = False
    for context, target in stmt.items:
        entering = _entering(flow, context, state)
        flow.suspended[context] = []
        value = flow.value(context, state) if entering is None else _entered(flow, entering, state)
        leaving += [entering.leave] if entering is not None else []
        if isinstance(value.ref, HookRegistration):
            value.ref.removed = True  # the handle is a context: it removes its hook at the end
        opened += flow.calls_giving(context)[-1:]
        entered = gradient_context(flow, context, state)
        entered = flow.entered_modes.pop(context, entered)
        restores |= entered is not None or entering is not None
        if entered is not None:
            state.mode = entered
            if entered is Mode.OFF and flow.loop is not None:
                flow.loop.turns_grad_off = True
        if target is not None:
            bind(flow, target, value, state, stmt, None, plain=True)
            _name_again(flow, target, context, value)
            flow.entered.update((path, flow.loop) for n in t.names_in(target) if (path := t.path_of(n)) is not None)
    if restores:
        state.left = left_before
    flow.restoring += restores
    flow.guards += expects
    scoped = [p for c, _ in stmt.items if isinstance(c, t.Call) and (p := _scope_of(c)) is not None]
    flow.scoped += map(flow.canonical, scoped)
    after = flow.block(stmt.body, state)
    flow.guards -= expects
    del flow.scoped[len(flow.scoped) - len(scoped) :]
    for call in opened:
        call.loops = flow.facts.loops[loops_before:] + loops_called(flow.facts.events[events_before:])
    suspended = [each for context, _ in stmt.items for each in flow.suspended.pop(context, ())]
    for each in reversed(suspended):
        resume(each, after or state)  # also where the block ends with a `return`
    if after is not None:
        for leave in reversed(leaving):
            flow.value(leave, after)
        if after.left is left_before:
            after.mode = mode
    flow.restoring -= restores
    return after


def _entering(flow: Flow, context: t.Expr, state: State) -> Entering | None:
    """What entering and leaving ``Session(optimizer)`` runs; none where entering only gives the object itself."""
    if context not in flow.entering:
        func = context.func if isinstance(context, t.Call) else context
        of = flow.value(func, state) if isinstance(func, t.Name | t.Attribute) else UNKNOWN
        is_object = of.kind is (Kind.CLASS if isinstance(context, t.Call) else Kind.INSTANCE)
        cls = of.ref if is_object and isinstance(of.ref, Class) and not of.ref.is_module else None
        enter = cls.method("__enter__") if cls is not None else None
        acts = enter is not None and any(not isinstance(s, t.Return) for s in enter.define.body)
        flow.entering[context] = Entering.of(context, cls.name) if cls is not None and acts else None
    return flow.entering[context]


def _entered(flow: Flow, entering: Entering, state: State) -> Value:
    """The object is made, if it is not there already, and entered; what that gives."""
    if entering.make is not None:
        flow.locals |= {name.id for name in entering.make.targets if isinstance(name, t.Name)}
        flow.block([entering.make], state)
    return flow.value(entering.enter, state)


def _name_again(flow: Flow, target: t.Expr, context: t.Expr, value: Value) -> None:
    """``with tracker as t``: where ``__enter__`` returns its object, both are names of it."""
    path = t.path_of(context)
    enter = value.ref.method("__enter__") if isinstance(value.ref, Class) else None
    if path is not None and isinstance(target, t.Name) and enter is not None and _returns_self(enter.define):
        flow.aliases[target.id] = flow.canonical(path)


def _returns_self(define: t.Define) -> bool:
    returned = [s.value for s in define.statements if isinstance(s, t.Return) and s.value is not None]
    return bool(returned) and all(t.path_of(value) == "self" for value in returned)


def match(flow: Flow, stmt: t.Match, state: State) -> State | None:
    """Each case, or none of them."""
    subject = flow.value(stmt.subject, state)
    after: State | None = state.copy()
    flow.branches += 1
    for case in stmt.cases:
        way = state.copy()
        for name in case.names:
            way.env[name] = subject
        after = merge(after, flow.block(case.body, way))
    flow.branches -= 1
    return after


def _scope_of(context: t.Call) -> str | None:
    """``graph`` of ``with graph.local_scope()``: what is stored in it is dropped at the end (DGL)."""
    func = context.func
    return t.path_of(func.value) if isinstance(func, t.Attribute) and func.name == "local_scope" else None
