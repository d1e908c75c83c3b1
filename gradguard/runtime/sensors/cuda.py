"""Bytes that PyTorch's caching allocator has given out, on one CUDA device."""

from __future__ import annotations

from typing import Any, Protocol


class Allocator(Protocol):
    """What is asked of the caching allocator; a test brings its own."""

    def stats(self, device: int) -> dict[str, Any]:
        """Nested statistics, as ``torch.cuda.memory_stats_as_nested_dict`` gives them."""
        ...


class Cuda:
    """Allocated bytes of one device.

    Allocated is what the program holds. Reserved also counts what the allocator keeps for reuse, and would hide a leak
    until the cache is used up.
    """

    def __init__(self, device: int, allocator: Allocator) -> None:
        self.name = f"cuda:{device}"
        self._device = device
        self._allocator = allocator

    def read(self) -> int:
        """Bytes in use by tensors."""
        return int(self._allocator.stats(self._device)["allocated_bytes"]["all"]["current"])

    def peak(self) -> int:
        """The most bytes in use so far."""
        return int(self._allocator.stats(self._device)["allocated_bytes"]["all"]["peak"])
