"""Bytes of page-locked host memory that tensors use: ``pin_memory()``, a loader's batches, what is offloaded.

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
    """The page-locked memory of this process, without what the allocator keeps for reuse; sizes are powers of two.

    Raises:
        OSError: this torch does not tell.
    """

    name = "pinned"
    beside = NOTHING

    def __init__(self, allocator: HostAllocator) -> None:
        self._allocator = allocator
        stats = allocator.pinned_stats() or {}
        # torch 2.8 calls what is in use allocated; where there is active, allocated has the allocator's reserve in it.
        known = [name for name in ("active_bytes", "allocated_bytes") if name in stats]
        if not known:
            raise OSError("this torch does not count it")
        self._in_use = known[0]

    def read(self) -> int:
        """Bytes in use."""
        stats = self._allocator.pinned_stats() or {self._in_use: {"current": 0}}
        return int(stats[self._in_use]["current"])
