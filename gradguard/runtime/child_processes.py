"""Processes that the program starts: the watch does not go with them, and the report says so."""

from __future__ import annotations

import multiprocessing.process
from collections.abc import Callable
from typing import Any

from gradguard.runtime.steps import Attribute


class ChildProcesses:
    """Counts the processes started through multiprocessing, other than a DataLoader's workers."""

    def __init__(self) -> None:
        self.started = 0

    def install(self) -> Callable[[], None]:
        """Listen; returns what ends it."""
        note = Attribute(multiprocessing.process.BaseProcess, "start", self._starting)
        note.install()
        return note.remove

    def _starting(self, process: Any) -> None:
        target = getattr(process, "_target", None)
        if getattr(target, "__name__", "") not in ("_worker_loop", "_pin_memory_loop"):
            self.started += 1
