"""Whether a function is surely called where a graph is recorded: by what trains, or by a script, outside of no_grad."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static.files.outline import SCRIPT
from gradguard.static.model import Mode

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

_LEVELS = 4
"""Calls between a function and what trains, or the script."""
_ENTRIES = (SCRIPT, "main", "train", "run")


def runs_with_grad(flow: Flow) -> bool:
    """Whether calls of a function that can be seen happen where a graph is recorded, and none under ``no_grad``.

    One that nobody calls may be called under it by whoever uses it; where one call is, a class that overrides the
    method may be the one that is meant by the others. (Reads other files.)
    """
    is_seen = False
    for mode in _modes(flow):
        if mode is Mode.OFF:
            return False
        is_seen = True
    return is_seen


def _modes(flow: Flow) -> Iterator[Mode]:
    """The modes in which a function is called, as far as that is known of its callers; each of these is asked once."""
    waiting, known = [flow], {flow.ref.define}
    for _ in range(_LEVELS + 1):
        callers: list[Flow] = []
        for each in waiting:
            for caller, mode in flow.project.calls_with_modes(each.ref):
                if caller.facts.is_test:
                    continue
                if mode is not Mode.INHERITED:
                    yield Mode.ON if mode is Mode.ON else Mode.OFF
                elif caller.facts.entry_mode is not Mode.INHERITED:
                    yield Mode.OFF
                elif _begins(caller):
                    yield Mode.ON
                elif caller.ref.define not in known:
                    known.add(caller.ref.define)
                    callers.append(caller)
        waiting = callers


def _begins(caller: Flow) -> bool:
    """Whether a function runs by itself, or computes gradients itself: then it records graphs."""
    facts = caller.facts
    return bool(facts.backwards or facts.steps) or (facts.name in _ENTRIES and caller.ref.owner is None)
