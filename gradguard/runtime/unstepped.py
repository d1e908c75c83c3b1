"""Parameters that backward gives a gradient each time, and that no optimizer steps.

A weight of a loss, a temperature, a module that was added later and not to the optimizer: it never learns. Or a part
that was meant to stay as it is: then its gradients cost memory and time for nothing. Either way they add up, since it
is an optimizer that clears them. No memory grows. Two backwards early in a run are looked at, once.

Silent where anything else tells of an intention: a gradient that is replaced, dropped or written to besides, a value
that changes, an optimizer that has not stepped yet.

Where there is no optimizer, the program moves its parameters itself (``w -= rate * w.grad``), and has to clear their
gradients itself: of those that move, and that nothing clears, each step is taken with the sum over all steps.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

from gradguard.runtime import leaves, training_threads

if TYPE_CHECKING:
    from gradguard.runtime.torch_internals import TorchInternals

FIRST = 16
"""The backward at which the leaves are noted."""

LAST = 48
"""The backward at which they are judged."""

LATER = 100
"""The step after which they are looked at again, and when half as many more have ended, and so on."""

BRIEFLY = 4
"""Steps in which an optimizer would have written to what it has."""


class Unstepped:
    """Looks once at what backward gives gradients to; and once more after an optimizer has stepped.

    Only in one thread: the gradients that another one makes are freed while that one runs.

    Args:
        internals: of torch.
        has_stepped: whether an optimizer has stepped yet.
        note: called with what the reader of the report should know.
    """

    def __init__(self, internals: TorchInternals, has_stepped: Callable[[], bool], note: Callable[[str], None]) -> None:
        self._torch = internals
        self._has_stepped = has_stepped
        self._note = note
        self._by_hand = True
        self._thread = 0
        self._backwards = 0
        self._noted: list[leaves.Noted] = []
        self.is_on = True

    def before_backward(self, tensor: Any, frame: FrameType) -> None:
        """A backward begins.

        Args:
            tensor: whose ``backward`` it is.
            frame: that calls it.
        """
        if self._by_hand and self._has_stepped():
            self._by_hand, self._backwards = False, 0
        here = threading.get_ident()
        self._thread = self._thread if self._backwards else here
        if here != self._thread:
            return
        self._backwards += 1
        if FIRST <= self._backwards <= LAST:
            self._look(tensor, frame)

    def _look(self, tensor: Any, frame: FrameType) -> None:
        try:
            if self._torch.is_capturing() or self._torch.has_compiled():
                self.is_on = False
            elif self._backwards == FIRST:
                with self._torch.without_overrides():
                    self._noted = leaves.noted(tensor, self._torch)
                self.is_on = self._by_hand or bool(self._noted)
            elif any(map(leaves.is_cleared, self._noted[: leaves.SAMPLED])):
                self._noted = []
            elif self._backwards == LAST:
                self.is_on = self._by_hand
                with self._torch.without_overrides():
                    found = leaves.added_up(self._noted, self._torch, LAST - FIRST, moved=self._by_hand)
                if found:
                    self._note(_said_of_moved(found, frame) if self._by_hand else _said(found, frame))
        except Exception:  # leaves without values, or of somebody's own making: nothing can be told
            self.is_on = False


class SteppedNoMore:
    """Looks now and then at what backward gives gradients to: a part that is replaced leaves the optimizer behind.

    First at what nothing writes to, which is cheap and nearly always nothing; only then at what no optimizer has.

    Args:
        internals: of torch.
        note: called with what the reader of the report should know.
    """

    def __init__(self, internals: TorchInternals, note: Callable[[str], None]) -> None:
        self._torch = internals
        self._note = note
        self._noted: list[leaves.Noted] = []
        self._noted_after = 0
        self._is_asked = False
        """Whether those that are noted are known to be in no optimizer."""
        self.next_step = LATER

    def before_backward(self, tensor: Any, steps: int, frame: FrameType) -> None:
        """A backward begins, after ``next_step`` or later.

        Args:
            tensor: whose ``backward`` it is.
            steps: how many have ended.
            frame: that calls it.
        """
        try:
            if self._torch.is_capturing() or self._torch.has_compiled():
                self.next_step = sys.maxsize
            elif training_threads.are_others():
                self._wait_for([], steps)
            else:
                with self._torch.without_overrides():
                    self._look(tensor, steps, frame)
        except Exception:  # leaves without values, or of somebody's own making: nothing can be told
            self.next_step = sys.maxsize

    def _look(self, tensor: Any, steps: int, frame: FrameType) -> None:
        before, backwards = self._noted, steps - self._noted_after
        if not before:
            self._wait_for(leaves.with_gradients(tensor), steps)
        elif not self._is_asked:
            fresh = leaves.noted(tensor, self._torch) if leaves.are_left_alone(before, backwards) else []
            self._wait_for([each for each in fresh if not leaves.is_cleared(each)], steps, is_asked=True)
        else:
            noted = [each for each in before if not leaves.is_cleared(each)]
            found = leaves.added_up(noted, self._torch, backwards, moved=False)
            self._wait_for([], steps)
            if found:
                self._note(_said(found, frame))
                self.next_step = sys.maxsize

    def _wait_for(self, noted: list[leaves.Noted], steps: int, *, is_asked: bool = False) -> None:
        """Look again, after a while at the same leaves, or much later at any."""
        self._noted, self._noted_after, self._is_asked = noted, steps, is_asked
        window = LAST - FIRST if is_asked else BRIEFLY
        self.next_step = steps + (window if noted else steps // 2)


def _said(found: list[Any], frame: FrameType) -> str:
    who = leaves.listed(found, frame)
    if len(found) == 1:
        return (
            f"{who} gets a gradient from each backward and is in no optimizer: it never changes, and its gradient only"
            " adds up. Give it to an optimizer; if it is to stay as it is, `requires_grad_(False)`"
        )
    size = sum(leaf.grad.nbytes for leaf in found)
    return (
        f"{who} get gradients from each backward and are in no optimizer: they never change, and their gradients"
        f" ({size:,} bytes) only add up. Give them to an optimizer (one that was made before they were does not know"
        " them, GG210); if they are to stay as they are, `requires_grad_(False)`"
    )


def _said_of_moved(found: list[Any], frame: FrameType) -> str:
    who, is_one = leaves.listed(found, frame), len(found) == 1
    changes, its = ("changes", "its gradient") if is_one else ("change", "their gradients")
    return (
        f"{who} {changes} between the backwards, without an optimizer, and nothing clears {its}: each backward adds to"
        " what all before it have left. Call `.grad.zero_()` once in each step, or the `zero_grad()` of the module"
        " (GG201)"
    )
