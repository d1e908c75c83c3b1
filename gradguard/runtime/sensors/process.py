"""Resident memory of the process: dear to read and noisy, so it supports a verdict and never makes one."""

from __future__ import annotations

import os

from gradguard.runtime.sensors import NOTHING

BUDGET_BESIDE_HEAP = 0.25
"""Microseconds in a step, amortised, where the heap says more for less."""


class Process:
    """Resident bytes of this process.

    Raises:
        OSError: the system has no ``/proc/self/statm``.
    """

    name = "process"
    beside = NOTHING

    def __init__(self) -> None:
        self._page = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 0
        self.read()

    def read(self) -> int:
        """Resident bytes."""
        with open("/proc/self/statm", "rb", buffering=0) as file:
            return int(file.read(128).split()[1]) * self._page
