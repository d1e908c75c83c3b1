"""Context managers that are generators: what they do before the ``yield``, and what as their block is left."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

from gradguard.static import tree as t
from gradguard.static.model import Event, Mode
from gradguard.static.program.translation import Translation
from gradguard.static.reading.called import Called
from gradguard.static.reading.replay import replay
from gradguard.static.reading.state import State


class Suspended(NamedTuple):
    """A call that has come as far as its ``yield``.

    Args:
        here: the call.
        events: what happens in it when it goes on.
    """

    here: Translation
    events: Sequence[Event]


def left_for_exit(here: Translation) -> Sequence[Event]:
    """What a callee does once the block is left that its call is the context of; nothing where it is none."""
    suspended = here.flow.suspended.get(here.c.node)
    if suspended is None or not here.callee.ref.define.is_generator:
        return ()
    modes = dict.fromkeys(here.callee.modes_at_yield)
    if modes and list(modes) != [Mode.INHERITED]:
        here.flow.entered_modes[here.c.node] = next(iter(modes)) if len(modes) == 1 else Mode.UNKNOWN
    rest = _behind_yield(here.callee.ref.define.body) or []
    events = [event for event in here.callee.facts.events if event.is_in(rest)]
    if events:
        suspended.append(Suspended(here, events))
    return events


def resume(suspended: Suspended, state: State) -> None:
    """Do in the caller what comes behind the ``yield``, when the block has led to a state."""
    c, here = suspended.here.c, suspended.here
    called = Called(c.flow, state, c.node, c.func, c.receiver, c.values, c.runs)
    for event in suspended.events:
        replay(Translation(called, here.callee, here.given), event)


def _behind_yield(body: Sequence[t.Stmt]) -> list[t.Stmt] | None:
    """The statements of a block that run when a generator goes on; None where it does not stop there."""
    for place, stmt in enumerate(body):
        rest = list(body[place + 1 :])
        if _stops(stmt):
            return rest
        blocks = t.blocks(stmt)
        for number, block in enumerate(blocks):
            inside = _behind_yield(block)
            if inside is not None:
                ends = blocks[number + 1 :] if isinstance(stmt, t.Try) else []
                return [*inside, *chain.from_iterable(ends), *rest]
    return None


def _stops(stmt: t.Stmt) -> bool:
    value = stmt.value if isinstance(stmt, t.Evaluate | t.Assign) else None
    return isinstance(value, t.Suspend) and value.kind == "yield"
