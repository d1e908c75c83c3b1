"""One global hook of torch's optimizers, for all the watches that are on, in whatever threads.

While an optimizer steps, torch goes over these hooks. It fails, in the user's program, when their number changes
meanwhile, as it does where a watch begins or ends in another thread; not so while it is at the last one. So there is
one of ours at most, and where there are others beside it, it stays as long as a thread may be going over them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from gradguard.runtime import training_threads

Listener = Callable[[Any, Any, Any], None]


class StepHook:
    """Hands each step of an optimizer on to those who listen."""

    def __init__(self) -> None:
        self._listeners: tuple[Listener, ...] = ()
        self._handle: Any = None
        self._lock = threading.RLock()  # a signal that ends a watch may come while one is being added

    def add(
        self, listener: Listener, register: Callable[..., Any], is_compiling: Callable[[], bool]
    ) -> Callable[[], None]:
        """Call ``listener`` after each step; returns what ends that.

        Args:
            listener: is called with what torch gives to such a hook.
            register: ``register_optimizer_step_post_hook``.
            is_compiling: whether torch.compile is tracing. It traces through hooks, and knows this to be true: what it
                compiles has nothing of ours.
        """
        with self._lock:
            self._listeners += (listener,)
            if self._handle is None:
                self._handle = register(self._hook(is_compiling))
        return lambda: self._end(listener)

    def _hook(self, is_compiling: Callable[[], bool]) -> Listener:
        def hand_on(optimizer: Any, args: Any, kwargs: Any) -> None:
            if is_compiling():
                return
            training_threads.note()
            for listener in self._listeners:
                listener(optimizer, args, kwargs)

        return hand_on

    def _end(self, listener: Listener) -> None:
        with self._lock:
            self._listeners = tuple(each for each in self._listeners if each is not listener)
            if self._handle is not None and not self._listeners and not self._may_be_gone_over():
                self._handle.remove()
                self._handle = None

    def _may_be_gone_over(self) -> bool:
        """Whether another thread may be at a hook of somebody else's, and would miss ours."""
        hooks = self._handle.hooks_dict_ref()
        return hooks is not None and len(hooks) > 1 and threading.active_count() > 1


step_hook = StepHook()
"""Of this process."""
