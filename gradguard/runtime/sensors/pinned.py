"""Bytes of page-locked host memory: ``pin_memory()``, a loader's batches, what is offloaded.

The driver maps it, so the C heap does not show it (https://docs.pytorch.org/docs/stable/notes/cuda.html#use-pinned-memory-buffers).
"""

from __future__ import annotations

from typing import Any, Protocol

from gradguard.runtime.sensors import NOTHING


class HostAllocator(Protocol):
    """What is asked of the allocator of page-locked memory; a test brings its own."""

    def pinned_stats(self) -> dict[str, Any] | None:
        """Nested, as ``torch.cuda.host_memory_stats_as_nested_dict`` gives them; None where there are none."""
        ...


class Pinned:
    """The page-locked memory of this process, with what the allocator keeps for reuse; sizes are powers of two.

    Not what is in use: torch 2.11 never counts a buffer back that was in no copy, and each reuse of it once more, so
    ``active_bytes`` grows by a buffer a step where one is used again and again (measured on CUDA 13.0).

    Raises:
        OSError: this torch does not tell.
    """

    name = "pinned"
    beside = NOTHING

    def __init__(self, allocator: HostAllocator) -> None:
        self._allocator = allocator
        stats = allocator.pinned_stats() or {}
        # What newer versions call allocated had the name reserved up to torch 2.8, where allocated was what is in use.
        known = [name for name in ("reserved_bytes", "allocated_bytes") if name in stats]
        if not known:
            raise OSError("this torch does not count it")
        self._taken = known[0]

    def read(self) -> int:
        """Bytes that were taken from the driver."""
        stats = self._allocator.pinned_stats() or {self._taken: {"current": 0}}
        return int(stats[self._taken]["current"])
