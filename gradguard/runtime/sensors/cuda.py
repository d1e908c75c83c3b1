"""Bytes that PyTorch's caching allocator has given out, on one CUDA device."""

from __future__ import annotations

from typing import Any, Protocol


class Allocator(Protocol):
    """What is asked of the caching allocator; a test brings its own."""

    def stats(self, device: int) -> dict[str, Any]:
        """Nested statistics, as ``torch.cuda.memory_stats_as_nested_dict`` gives them."""
        ...


class Cuda:
    """Allocated bytes of one device; beside them those reserved and those active.

    Allocated is what the program holds. Reserved also counts what the allocator keeps for reuse, and would hide a leak
    until the cache is used up; where it grows and allocated does not, the cache is in fragments. Active is what is in
    use or waits for a stream that uses it (https://docs.pytorch.org/docs/stable/generated/torch.cuda.memory.memory_stats.html).
    """

    def __init__(self, device: int, allocator: Allocator) -> None:
        self.name = f"cuda:{device}"
        self._device = device
        self._allocator = allocator
        self.beside: dict[str, int] = {}

    def read(self) -> int:
        """Bytes in use by tensors."""
        stats = self._allocator.stats(self._device)
        for kind in ("reserved", "active"):
            if f"{kind}_bytes" in stats:
                self.beside[f"{self.name}.{kind}"] = int(stats[f"{kind}_bytes"]["all"]["current"])
        return int(stats["allocated_bytes"]["all"]["current"])

    def peak(self) -> int:
        """The most bytes in use so far."""
        return int(self._allocator.stats(self._device)["allocated_bytes"]["all"]["peak"])
