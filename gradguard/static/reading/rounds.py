"""What trains in one iteration of a loop, in its order; what comes before and after something in it, going round."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gradguard.static import tree as t
from gradguard.static.model import Backward, Event, Function, Loop, OpaqueCall, Step, ZeroGrad

_TRAINING = (Backward, Step, ZeroGrad, OpaqueCall)


class Round:
    """One iteration of a loop that trains, or one call of a function.

    Args:
        loop: None of a function.
        body: its statements.
        events: the backwards, steps and resets in it, and the calls that may do any of these, in their order.
        modules: those that the function runs.
    """

    def __init__(
        self, loop: Loop | None, body: Sequence[t.Stmt], events: Sequence[Event], modules: frozenset[str | None]
    ) -> None:
        self.loop, self.body, self.events, self.modules = loop, body, events, modules

    @property
    def optimizer(self) -> str | None:
        """The path of the only optimizer, if it resets nothing by itself and runs no closure."""
        steps = [event for event in self.events if isinstance(event, Step)]
        targets = {step.target for step in steps}
        alone = len(targets) == 1 and not any(step.zeroes or step.runs_closure for step in steps)
        return targets.pop() if alone else None

    def after(self, event: Event) -> Iterator[Event]:
        """What comes next, into the next round, as far as to the event itself."""
        place = self._place(event)
        yield from self._on_its_way(event, self.events[place + 1 :])
        yield from self.events[:place]

    def earlier(self, event: Event) -> Iterator[Event]:
        """What comes before it in the same round, the last first."""
        return self._on_its_way(event, reversed(self.events[: self._place(event)]))

    def before(self, event: Event) -> Iterator[Event]:
        """What came last, back into the iteration before; what was before the call of a function is not known."""
        yield from self.earlier(event)
        yield from reversed(self.events[self._place(event) + 1 :] if self.loop is not None else ())

    def resets(self, event: Event | None, whenever: Event) -> bool:
        """Whether an event surely resets the gradients of the only optimizer, in each round with another event."""
        if not isinstance(event, ZeroGrad) or event.target is None or may_be_left_out(event):
            return False
        if event.target != self.optimizer and not (event.of_module and self.modules == {event.target}):
            return False  # of one of several modules
        always = event.loop is self.loop and not event.conditional
        return always or any(_stands_in(block, event) for block in blocks_around(self.body, whenever))

    def _place(self, event: Event) -> int:
        return next(place for place, each in enumerate(self.events) if each is event)

    def _on_its_way(self, event: Event, others: Iterable[Event]) -> Iterator[Event]:
        """Without those in the other branch of an ``if``, of the same round."""
        return (other for other in others if not excludes(self.body, event, other))


def round_of(function: Function, event: Event) -> Round | None:
    """The round that an event is in: of the innermost loop around it that has a backward, or else of the function."""
    around = event.loop.around() if event.loop is not None else ()
    loop = next((loop for loop in around if loop.backwards), None)
    site = loop.site if loop is not None else function.site
    stmt = site.node if site is not None else None  # a module's statements run once
    events = [e for e in function.events if e is event or (isinstance(e, _TRAINING) and _is_in(e, loop))]
    modules = frozenset(forward.module for forward in function.forwards)
    return Round(loop, stmt.body, events, modules) if isinstance(stmt, t.Repeat | t.Define) else None


def _is_in(event: Event, loop: Loop | None) -> bool:
    return loop is None or (event.loop is not None and event.loop.within(loop))


def may_be_left_out(event: Event) -> bool:
    """Whether the function that is called here does it on some of its ways only, or in a loop."""
    inner = event.inner
    while inner is not None:
        if inner.conditional or inner.loop is not None:
            return True
        inner = inner.inner
    return False


def blocks_around(body: Sequence[t.Stmt], event: Event) -> Iterator[Sequence[t.Stmt]]:
    """The blocks of statements that an event is in, the outermost first."""
    if event.is_in(body):
        yield body
        for stmt in body:
            for block in t.blocks(stmt):
                yield from blocks_around(block, event)


def _stands_in(block: Sequence[t.Stmt], event: Event) -> bool:
    """Whether an event is a statement of a block, or of a ``with`` in it."""
    return any(
        _stands_in(stmt.body, event) if isinstance(stmt, t.With)
        else isinstance(stmt, t.Evaluate) and stmt.value is event.site.node
        for stmt in block
    )  # fmt: skip


def excludes(body: Sequence[t.Stmt], event: Event, other: Event) -> bool:
    """Whether one of two events is in the body of an ``if``, and the other one in its ``else``.

    Or behind it, where the body leaves: ``if i % 2: ...; continue``.
    """
    for block in blocks_around(body, event):
        for place, stmt in enumerate(block):
            if isinstance(stmt, t.If):
                for way, rest in ((stmt.body, stmt.orelse), (stmt.orelse, stmt.body)):
                    others = [*rest, *block[place + 1 :]] if t.leaves(way) else rest
                    if (event.is_in(way) and other.is_in(others)) or (other.is_in(way) and event.is_in(others)):
                        return True
    return False


def are_apart(one: Event, other: Event) -> bool:
    """Whether two events are in two branches of an ``if``, of this function or of one whose call brings both."""
    while one.site.node is other.site.node and one.inner is not None and other.inner is not None:
        one, other = one.inner, other.inner
    if not (one.conditional or other.conditional) or one.site.chunk is not other.site.chunk:
        return False
    return excludes(_body_around(one), one, other)


def _body_around(event: Event) -> Sequence[t.Stmt]:
    """The body of the innermost function that an event is written in."""
    body: Sequence[t.Stmt] = event.site.chunk.statements
    inner: Sequence[t.Stmt] | None = body
    while inner is not None:
        body = inner
        defined = (stmt for stmt in t.walk_statements(body) if isinstance(stmt, t.Define | t.DefineClass))
        inner = next((stmt.body for stmt in defined if event.is_in(stmt.body)), None)
    return body
