"""Which of the things that tick end a step.

In this order of preference: an explicit call, the optimizer that steps last in a cycle, an item asked of a DataLoader,
a call of the top-level module or a replay of a CUDA graph, a backward. The clock lets the best source that is ticking
decide.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic, perf_counter_ns
from types import FrameType

PREFERENCE = ("explicit", "optimizer", "loader", "module", "backward")
_RANK = {source: rank for rank, source in enumerate(PREFERENCE)}

PATIENCE = 64
"""A source that has been silent for this many ticks of a lesser one (eight times its usual number) hands over."""

FEW = 4
"""After a pause it takes this many ticks more than usual: one is no evaluation, it is the next step's forward."""

EARLY = 64
"""Steps within which it may turn out that some were counted in another unit."""


class Clock:
    """Decides which ticks end a step.

    Most steps of a long run have nothing at their end but to be counted: so many as :meth:`let_pass` was told of pass
    without ``on_step``, and what ends no step is not heard meanwhile.

    Args:
        on_step: called at the end of each other step, with the source and the frame in which the step ended.
    """

    __slots__ = (
        "__weakref__",
        "_allowed",
        "_counted_by",
        "_is_after_pause",
        "_is_stopped",
        "_least_patience",
        "_newest",
        "_on_step",
        "_rank",
        "_silence",
        "_usual_silence",
        "counted",
        "deciding",
        "heard_at",
        "key",
        "last",
        "left",
        "listening",
        "optimizer_has_stepped",
        "source",
        "unheard",
    )

    def __init__(self, on_step: Callable[[str, FrameType | None], None]) -> None:
        self.left = 0
        """Steps that may still pass."""
        self.unheard = 0
        """Ticks of lesser sources that may still go unheard, before the last of these steps ends."""
        self.heard_at = 0
        """So many are left in the step whose backward is heard; 0 where none is."""
        self.deciding = 0
        """The address of the optimizer that ends steps, if none of its steps is within another; it may be gone."""
        self._allowed = 0
        self.last = monotonic()
        """When the last step ended at whose end there was something to do."""
        self.source: str | None = None
        self._rank = len(PREFERENCE)
        self.counted = 0
        """Steps that were ended in the unit of the present source; fewer than all while a better one was not known."""
        self.optimizer_has_stepped = False
        self.listening = 0
        """Nanoseconds that listeners took before they ticked."""
        self._is_stopped = False
        self._on_step = on_step
        self.key: int | None = None
        self._newest = 0
        self._counted_by: dict[int, int] = {}
        self._silence = 0
        self._usual_silence = 0
        self._least_patience = PATIENCE
        self._is_after_pause = False

    def tick(self, source: str, key: int, frame: FrameType | None) -> None:
        """Something happened that may end a step.

        Args:
            source: one of ``PREFERENCE``.
            key: which loader or module it was; which optimizer, numbered in the order of their first steps.
            frame: where in the user's program.
        """
        if self._is_stopped:
            return
        if self.left:
            if source == self.source and key == self.key:
                self.step_passes(perf_counter_ns())
                return
            if self.unheard and not self._is_better(source, key):
                self.unheard -= 1
                return
            self._let_none_pass()  # who ends the steps has been silent for long, or somebody better ticks
        self.optimizer_has_stepped |= source == "optimizer"
        if self._silence < self._least_patience and _RANK[source] > self._rank and not self._is_after_pause:
            self._silence += 1  # one of the many that end nothing
            return
        if self._decides(source, key):
            if self._silence > self._usual_silence:
                self._usual_silence = self._silence
                self._least_patience = max(PATIENCE, 8 * self._silence)
            self._silence = 0
            self._is_after_pause = False
            self.counted += 1 + self.passed
            if self.counted <= EARLY:
                self._counted_by[key] = self._counted_by.get(key, 0) + 1
            self.last = monotonic()
            self._on_step(source, frame)
        else:
            self._silence += 1
            if source == "optimizer" == self.source:
                # One that ended steps before steps again: they take turns, and only the last one ends a cycle.
                self.counted -= self._counted_by.pop(key, 0)

    def let_pass(self, steps: int, heard: int = 0) -> None:
        """There is nothing to do at the end of so many steps from now on.

        Args:
            steps: how many.
            heard: which of them has its backward heard all the same, from 1; 0 for none.
        """
        is_known = self.deciding or self.source != "optimizer"
        self.left = self._allowed = max(steps, 0) if is_known else 0
        self.heard_at = self.left - heard + 1 if 0 < heard <= self.left else 0
        self.unheard = 0 if self.source == "backward" else self._least_patience + self._usual_silence * self.left

    def step_passes(self, start: int) -> None:
        """A step ends at whose end there is nothing to do.

        Args:
            start: when our own work began, in nanoseconds; that of the last of these steps stands for all of them.
        """
        self.left -= 1
        if not self.left:
            self.listening += (perf_counter_ns() - start) * self.passed

    @property
    def passed(self) -> int:
        """Steps that passed since they were last taken note of."""
        return self._allowed - self.left

    def take_passed(self) -> int:
        """Take note of the steps that passed."""
        passed, self._allowed = self._allowed - self.left, self.left
        return passed

    def _let_none_pass(self) -> None:
        self._allowed, self.left = self._allowed - self.left, 0

    def decided_by(self, optimizer: int) -> None:
        """Which optimizer ends steps.

        Args:
            optimizer: its address; 0 for one of which each step must be looked at.
        """
        self.deciding = optimizer
        if not optimizer:
            self._let_none_pass()

    def stop(self) -> None:
        """End no more steps. The listeners may stay: torch may be going over its hooks now, and must find all."""
        self._is_stopped = True
        self._let_none_pass()

    def hand_over(self) -> None:
        """The deciding source has been silent for too long a time: a few ticks of others now, and they decide."""
        self._is_after_pause = True
        self._let_none_pass()

    def _patience(self) -> int:
        return self._usual_silence + FEW if self._is_after_pause else self._least_patience

    def _decides(self, source: str, key: int) -> bool:
        if source == self.source and key == self.key:
            return True
        if self.source == "explicit":
            return False
        is_better = self._is_better(source, key)
        if is_better or self._silence >= self._patience():
            if source != self.source:
                if self.source == "optimizer":
                    self.deciding = 0  # its next step takes over again: it must be looked at
                self._silence = self._usual_silence = 0
                self._least_patience = PATIENCE
            if source != self.source and is_better:
                self.counted = 0
                self._counted_by.clear()
            self.source, self.key, self._rank = source, key, _RANK[source]
            if source == "optimizer":
                self._newest = max(self._newest, key)
            return True
        return False

    def _is_better(self, source: str, key: int) -> bool:
        if self.source is None:
            return True
        rank, present = _RANK[source], self._rank
        # Of several optimizers (a GAN's), the one that came last ends the cycle.
        return rank < present or (rank == present and source == "optimizer" and key > self._newest)
