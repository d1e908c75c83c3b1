"""Parameters that an optimizer has, and that no backward reaches.

A network that runs under ``no_grad``, or whose output is detached or copied through ``.data`` on its way to the loss:
its parameters never get a gradient, ``step()`` passes over them, and nothing raises. No memory grows. A few early steps
of each optimizer are looked at. What is frozen, or changes in another way, is left alone; so is a small part, which may
well be of no use to a model (a pooler that nobody asks).
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from gradguard.runtime import leaves, training_threads
from gradguard.runtime.variables import optimizer_in_words

LOOKS = (4, 8, 16, 24)
"""The steps of an optimizer at whose end its parameters are looked at."""

PART = 0.1
"""Of all elements that it is to train: less is not worth a word."""


@dataclass(slots=True, eq=False)
class _Seen:
    """What is known of one optimizer.

    Args:
        steps: that it has made.
        waiting: its parameters that have had no gradient yet, each with how often it has been written to.
    """

    steps: int = 0
    waiting: list[tuple[weakref.ref[Any], int]] = field(default_factory=list)


class Unreached:
    """Looks at which of an optimizer's parameters have a gradient at its steps."""

    def __init__(self) -> None:
        self._seen: weakref.WeakKeyDictionary[Any, _Seen] = weakref.WeakKeyDictionary()

    def stepped(self, optimizer: Any, frame: FrameType) -> str | None:
        """An optimizer has stepped; returns what the reader of the report should know.

        Args:
            optimizer: any object that torch takes for one.
            frame: in which its step has ended.
        """
        seen = self._seen.setdefault(optimizer, _Seen())
        seen.steps += 1
        if seen.steps not in LOOKS:
            return None
        if training_threads.are_others():
            seen.waiting = []  # somebody else's backward may be at these gradients
        elif seen.steps == LOOKS[0]:
            seen.waiting = [(weakref.ref(p), p._version) for p in _trained(optimizer) if p.grad is None]
        else:
            seen.waiting = [(ref, version) for ref, version in seen.waiting if _waits(ref(), version)]
        if seen.steps != LOOKS[-1] or not seen.waiting:
            return None
        every, rest = _trained(optimizer), [parameter for ref, _ in seen.waiting if (parameter := ref()) is not None]
        is_much = sum(p.numel() for p in rest) >= PART * sum(p.numel() for p in every)
        return _said(optimizer, rest, len(every), frame) if is_much else None


def _trained(optimizer: Any) -> list[Any]:
    """The parameters that an optimizer is to train."""
    return [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]


def _waits(parameter: Any, version: int) -> bool:
    return parameter is not None and parameter.grad is None and parameter._version == version


def _said(optimizer: Any, waiting: list[Any], count: int, frame: FrameType) -> str:
    who, at = optimizer_in_words(optimizer, frame)
    how = "under `no_grad`, detached, or copied through `.data`"
    if len(waiting) == count:
        return (
            f"{who} steps, and none of its parameters has had a gradient in its first {LOOKS[-1]} steps{at}: it trains"
            f" nothing. Is what they compute {how} on its way to the loss (GG209)?"
        )
    which = leaves.listed(waiting, frame)
    return (
        f"{who} steps, and {len(waiting)} of its {count} parameters have had no gradient in its first {LOOKS[-1]}"
        f" steps{at}, and do not change: {which}. Is what they compute {how} on its way to the loss?"
    )
