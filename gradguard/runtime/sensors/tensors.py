"""Bytes of the tensors that Python sees: exact on any system, and dear, since each of them is looked at.

What only C++ holds (saved tensors of a graph) is not among them. Where the heap is known it says more for less, and
this is read every few thousand steps; elsewhere it is what a verdict rests on.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gradguard.runtime.torch_internals import TorchInternals

FIRST_STEP = 16
BUDGET_WITHOUT_HEAP = 500.0
"""Microseconds in a step, amortised, where nothing better is known: about a hundredth of a step of training."""


class Tensors:
    """All tensors of this process, on all devices; each storage counts once.

    Args:
        internals: of torch.
    """

    name = "tensors"

    def __init__(self, internals: TorchInternals) -> None:
        self._torch = internals
        self.beside: dict[str, int] = {}

    def read(self) -> int:
        """Bytes of their storages; beside them how many tensors there are, and how many of them hold a graph."""
        types = (self._torch.tensor_type, self._torch.parameter_type)
        with self._torch.without_overrides():
            # Each object refers to its type: this finds them in C, without a walk over all objects.
            found = [thing for thing in gc.get_referrers(*types) if issubclass(type(thing), types[0])]
            attached = sum(not thing.is_leaf for thing in found)
            self.beside = {"tensors.count": len(found), "tensors.attached": attached}
            return sum(dict(map(self._torch.storage_of, found)).values())
