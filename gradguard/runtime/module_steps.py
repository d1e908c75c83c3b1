"""The forward hook that ends steps where nothing better does, kept only as long as it is needed.

A global module hook costs a microsecond per module call. It is taken off when an optimizer or a loader ticks. When
those fall silent (an evaluation after training), somebody has to notice. The class of a module that the program calls
tells of each look-up of its ``forward``, for a fraction of a microsecond, and one look in some says whether steps
still end. What calls other modules then is left to Python's cyclic collector: it runs whenever a program keeps making
objects that stay, and a leaking loop does; its callback looks at the clock.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from time import monotonic
from types import FunctionType
from typing import Any

from gradguard.runtime.clock import PATIENCE, Clock
from gradguard.runtime.steps import Attribute, module_hook

SILENCE_SECONDS = 1.0

BETWEEN_LOOKS = 16
"""Forwards after which it is asked whether a step has ended."""

MOST_CLASSES = 8
"""Of modules whose forwards are counted: a program that makes classes as it runs has ever more."""


class Forwards:
    """Counts the calls of the program's own modules after the last step.

    Args:
        steps: how many have ended.
        on_silence: called when steps have ceased to end, though modules are called.
    """

    def __init__(self, steps: Callable[[], int], on_silence: Callable[[], None]) -> None:
        self._steps = steps
        self._on_silence = on_silence
        self._known: dict[type, Attribute] = {}
        self._left = BETWEEN_LOOKS
        self._looked_at = 0
        self._steps_seen = 0
        self._silent = self._usual = 0
        self._silent_since: int | None = 0
        """The call after which no better step ended; what comes before the first of them is a silence, too."""

    def of(self, module: Any) -> None:
        """Count those of a module's class from now on, if it is written in Python."""
        owner = type(module)
        if owner in self._known or len(self._known) >= MOST_CLASSES:
            return
        if isinstance(getattr(owner, "forward", None), FunctionType):
            self._known[owner] = listener = Attribute(owner, "forward", self._begins)
            listener.install()

    def remove(self) -> None:
        """Count no more."""
        while self._known:
            self._known.popitem()[1].remove()

    @property
    def after_last_step(self) -> int:
        """Forwards after the last step, to within the few between two looks; never too many."""
        return self._silent + BETWEEN_LOOKS - self._left if self._steps() == self._steps_seen else 0

    def heard(self) -> None:
        """From now on they are steps, for want of better ones."""
        if self._silent_since is None:
            self._silent_since = self._calls - self._silent

    def steps_again(self) -> None:
        """The better steps go on: that they were silent for so many forwards is usual in this program."""
        if self._silent_since is not None:
            self._usual = max(self._usual, self._calls - self._silent_since)
            self._silent_since = None

    @property
    def _calls(self) -> int:
        return self._looked_at + BETWEEN_LOOKS - self._left

    def _begins(self, module: Any) -> None:
        self._left -= 1
        if self._left:
            return
        self._left = BETWEEN_LOOKS
        self._looked_at += BETWEEN_LOOKS
        steps = self._steps()
        if steps != self._steps_seen:
            self._usual, self._silent = max(self._usual, self._silent), 0
        else:
            self._silent += BETWEEN_LOOKS
        self._steps_seen = steps
        if self._silent >= max(PATIENCE, 8 * self._usual):
            self._on_silence()


class ModuleSteps:
    """Registers and removes the forward hook; ``registered`` is how many handles that took (PyTorch numbers them).

    Args:
        clock: what to tick.
        register: ``register_module_forward_pre_hook``.
        is_compiling: whether torch.compile is tracing.
        steps: how many have ended.
        seconds_per_step: how long one usually takes; None where that is not known.
    """

    def __init__(
        self,
        clock: Clock,
        register: Callable[..., Any],
        is_compiling: Callable[[], bool],
        steps: Callable[[], int],
        seconds_per_step: Callable[[], float | None],
    ) -> None:
        self._clock = clock
        self._register = register
        self._is_compiling = is_compiling
        self._steps = steps
        self._seconds_per_step = seconds_per_step
        self._seen = 0, monotonic()
        self._handle: Any = None
        self.registered = 0
        self._is_wanted = True
        self._forwards = Forwards(steps, self._take_over)

    def install(self) -> None:
        """Listen."""
        self._listen()
        gc.callbacks.append(self._collected)

    def remove(self) -> None:
        """Listen no more."""
        self.rest()
        self._forwards.remove()
        gc.callbacks.remove(self._collected)

    def stay_away(self) -> None:
        """Something is compiled: code that torch.compile made with the hook would be made again without it."""
        self.rest()
        self._forwards.remove()
        self._is_wanted = False

    def rest(self) -> None:
        """A better source ticks: take the hook off."""
        if self._handle is not None:
            self._handle.remove()
            self._handle = None
            self._forwards.steps_again()

    @property
    def unwatched(self) -> int:
        """Calls of the program's modules after the last step, as far as they are counted."""
        return self._forwards.after_last_step

    def _listen(self) -> None:
        if self._handle is None and self._is_wanted:
            self._handle = self._register(module_hook(self._clock, self._is_compiling, self._forwards.of))
            self.registered += 1

    def _take_over(self) -> None:
        if self._handle is None and self._clock.source != "explicit":
            self._forwards.heard()
            self._listen()
            self._clock.hand_over()

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        if phase == "stop" and self._handle is None and self._clock.source != "explicit":
            steps, now = self._steps(), monotonic()
            if steps != self._seen[0]:  # of a step that only passed it is not known when it ended
                self._seen = steps, now if self._clock.passed else self._clock.last
            if now - self._seen[1] > max(SILENCE_SECONDS, 20 * (self._seconds_per_step() or 0.0)):
                self._take_over()
