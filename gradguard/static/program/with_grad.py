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


def runs_with_grad(flow: Flow, levels: int = _LEVELS) -> bool:
    """Whether some call of a function that can be seen happens where a graph is recorded (reads other files).

    One that nobody calls may be called under ``no_grad`` by whoever uses it; so may a method that another class has
    as well, where only its name tells who calls it.
    """
    return any(
        mode is Mode.ON or (mode is Mode.INHERITED and (_begins(caller) or runs_with_grad(caller, levels - 1)))
        for caller, mode in (_calls(flow) if levels else ())
    )


def _begins(caller: Flow) -> bool:
    """Whether a function runs by itself, or computes gradients itself: then it records graphs."""
    facts = caller.facts
    return bool(facts.backwards or facts.steps) or (facts.name in _ENTRIES and caller.ref.owner is None)


def _calls(flow: Flow) -> Iterator[tuple[Flow, Mode]]:
    for caller, mode in flow.project.calls_with_modes(flow.ref):
        if caller.facts.entry_mode in (Mode.INHERITED, Mode.ON) and not caller.facts.is_test:
            yield caller, mode
