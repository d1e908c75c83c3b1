"""The forward hook that ends steps where nothing better does, kept only as long as it is needed.

A global module hook costs a microsecond per module call. It is taken off when an optimizer or a loader ticks. When
those fall silent (an evaluation after training), somebody has to notice: Python's cyclic collector runs whenever a
program keeps making objects that stay, and a leaking loop does; its callback looks at the clock.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from time import monotonic
from typing import Any

from gradguard.runtime.clock import Clock
from gradguard.runtime.steps import module_hook

SILENCE_SECONDS = 1.0


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

    def install(self) -> None:
        """Listen."""
        self._listen()
        gc.callbacks.append(self._collected)

    def remove(self) -> None:
        """Listen no more."""
        self.rest()
        gc.callbacks.remove(self._collected)

    def stay_away(self) -> None:
        """Something is compiled: code that torch.compile made with the hook would be made again without it."""
        self.rest()
        self._is_wanted = False

    def rest(self) -> None:
        """A better source ticks: take the hook off."""
        if self._handle is not None:
            self._handle.remove()
            self._handle = None

    def _listen(self) -> None:
        if self._handle is None and self._is_wanted:
            self._handle = self._register(module_hook(self._clock, self._is_compiling))
            self.registered += 1

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        if phase == "stop" and self._handle is None and self._clock.source != "explicit":
            steps, now = self._steps(), monotonic()
            if steps != self._seen[0]:  # of a step that only passed it is not known when it ended
                self._seen = steps, now if self._clock.passed else self._clock.last
            if now - self._seen[1] > max(SILENCE_SECONDS, 20 * (self._seconds_per_step() or 0.0)):
                self._listen()
                self._clock.hand_over()
