"""``torch.autograd.grad`` ends the steps of a program that updates its parameters by hand, where nothing better ticks.

The place that asks again first is where a step ends: a step may ask in several places, and what is set up before the
loop asks once. A function of a module cannot be looked up without a frame of ours, as a method can: so this listens
only until an optimizer, a loader, a module or a backward is seen to end steps.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradguard.runtime.clock import Clock

ENGINE = "_engine_run_backward"
"""What ``backward`` and ``grad`` of ``torch.autograd`` call, whoever has imported them by whatever name."""


class GradCalls:
    """Listens to the calls of ``torch.autograd.grad``.

    Args:
        clock: what to tick.
        autograd: ``torch.autograd``.
        is_compiling: whether torch.compile is tracing.
    """

    def __init__(self, clock: Clock, autograd: ModuleType, is_compiling: Callable[[], bool]) -> None:
        self._clock = clock
        self._autograd = autograd
        self._is_compiling = is_compiling
        self._original: Callable[..., Any] | None = None
        self._listener: Callable[..., Any] | None = None
        self._is_on = False

    def install(self) -> None:
        """Listen, if this torch has what is listened to."""
        self._original = getattr(self._autograd, ENGINE, None)
        code = getattr(self._autograd.grad, "__code__", None)
        if self._original is not None and code is not None:
            self._listener = self._listening(self._original, code)
            self._listener.calls = self  # type: ignore[attr-defined]
            self._is_on = True
            setattr(self._autograd, ENGINE, self._listener)

    def rest(self) -> None:
        """Something better ends steps: put torch's own function back, or what another watch has put in its place."""
        self._is_on = False
        listener, self._listener = self._listener, None
        if listener is not None and getattr(self._autograd, ENGINE, None) is listener:
            original = self._original
            while (other := getattr(original, "calls", None)) is not None and not other._is_on:
                original = other._original  # of a watch that began before this one, and listens no more
            setattr(self._autograd, ENGINE, original)

    def _listening(self, original: Callable[..., Any], code: object) -> Callable[..., Any]:
        clock, is_compiling = self._clock, self._is_compiling
        places: set[int] = set()

        def run_backward(*args: Any, **kwargs: Any) -> Any:
            if self._is_on and not is_compiling():
                asking = sys._getframe(1)
                if asking.f_code is code and (caller := asking.f_back) is not None:
                    place = hash((id(caller.f_code), caller.f_lasti))
                    if place in places:
                        clock.tick("backward", place, caller)
                    places.add(place)
            return original(*args, **kwargs)

        return run_backward
