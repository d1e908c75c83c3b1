"""Parameters that backward gives a gradient each time, and that no optimizer steps.

A weight of a loss, a temperature, a module that was added later and not to the optimizer: it never learns. Or a part
that was meant to stay as it is: then its gradients cost memory and time for nothing. Either way they add up, since it
is an optimizer that clears them. No memory grows. Two backwards early in a run are looked at, once.

Silent where anything else tells of an intention: a gradient that is replaced, dropped or written to besides, a value
that changes, an optimizer that has not stepped yet.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any

from gradguard.runtime.graph_size import leaves_below
from gradguard.runtime.variables import variables

if TYPE_CHECKING:
    from gradguard.runtime.torch_internals import TorchInternals

FIRST = 16
"""The backward at which the leaves are noted."""

LAST = 48
"""The backward at which they are judged."""

MOST = 1_000
"""Leaves that are noted."""

MOST_NAMES = 3
"""Leaves that are named."""


@dataclass(frozen=True, slots=True)
class _Noted:
    """A leaf that no optimizer has, when it was noted.

    Args:
        leaf: not kept alive.
        gradient: which object its gradient is.
        gradient_version: how often that was written to.
        version: how often the leaf itself was written to.
        total: the sum over its elements: a write through ``.data`` is not counted.
    """

    leaf: weakref.ref[Any]
    gradient: int
    gradient_version: int
    version: int
    total: float


class Unstepped:
    """Looks once at what backward gives gradients to.

    Args:
        internals: of torch.
        has_stepped: whether an optimizer has stepped yet.
        note: called with what the reader of the report should know.
    """

    def __init__(self, internals: TorchInternals, has_stepped: Callable[[], bool], note: Callable[[str], None]) -> None:
        self._torch = internals
        self._has_stepped = has_stepped
        self._note = note
        self._backwards = 0
        self._noted: list[_Noted] = []
        self.is_on = True

    def before_backward(self, tensor: Any, frame: FrameType) -> None:
        """A backward begins.

        Args:
            tensor: whose ``backward`` it is.
            frame: that calls it.
        """
        if not self._has_stepped():
            return
        self._backwards += 1
        if self._backwards in (FIRST, LAST):
            self._look(tensor, frame)

    def _look(self, tensor: Any, frame: FrameType) -> None:
        try:
            if self._torch.is_capturing() or self._torch.has_compiled():
                self.is_on = False
            elif self._backwards == FIRST:
                with self._torch.without_overrides():
                    self._noted = self._not_optimized(tensor)
                self.is_on = bool(self._noted)
            else:
                self.is_on = False
                with self._torch.without_overrides():
                    found = self._still_unstepped()
                if found:
                    self._note(_said(found, frame))
        except Exception:  # leaves without values, or of somebody's own making: nothing can be told
            self.is_on = False

    def _not_optimized(self, tensor: Any) -> list[_Noted]:
        if tensor.grad_fn is None:
            return []
        optimized = self._optimized()
        leaves = [leaf for leaf in leaves_below(tensor.grad_fn) if id(leaf) not in optimized and leaf.grad is not None]
        return [
            _Noted(weakref.ref(leaf), id(leaf.grad), leaf.grad._version, leaf._version, _total(leaf))
            for leaf in leaves[:MOST]
        ]

    def _still_unstepped(self) -> list[Any]:
        """Those that are as they were, while each backward since has added to the same gradient."""
        optimized, most = self._optimized(), LAST - FIRST
        found = []
        for each in self._noted:
            leaf = each.leaf()
            if leaf is None or id(leaf) in optimized or id(leaf.grad) != each.gradient:
                continue
            added = leaf.grad._version - each.gradient_version
            if most // 2 <= added <= most and leaf._version == each.version and _total(leaf) == each.total:
                found.append(leaf)
        return found

    def _optimized(self) -> set[int]:
        groups = (group for optimizer in self._torch.optimizers() for group in optimizer.param_groups)
        return {id(parameter) for group in groups for parameter in group["params"]}


def _total(leaf: Any) -> float:
    return float(leaf.detach().sum())


def _said(leaves: list[Any], frame: FrameType) -> str:
    named = [f"`{name}`" for name in _names(leaves, frame)[:MOST_NAMES]]
    if len(leaves) == 1:
        return (
            f"{named[0] if named else 'a leaf tensor'} gets a gradient from each backward and is in no optimizer: it"
            " never changes, and its gradient only adds up. Give it to an optimizer; if it is to stay as it is,"
            " `requires_grad_(False)`"
        )
    others = len(leaves) - len(named)
    rest = [f"{others} more" if named else f"{others} leaf tensors"] if others else []
    *first, last = [*named, *rest]
    who = f"{', '.join(first)} and {last}" if first else last
    size = sum(leaf.grad.nbytes for leaf in leaves)
    return (
        f"{who} get gradients from each backward and are in no optimizer: they never change, and their gradients"
        f" ({size:,} bytes) only add up. Give them to an optimizer; if they are to stay as they are,"
        " `requires_grad_(False)`"
    )


def _names(leaves: list[Any], frame: FrameType) -> list[str]:
    """The user's names of leaves, in their order; those that have one."""
    found: dict[int, str] = {}
    for name, value in variables(frame):
        found.setdefault(id(value), name)
        if hasattr(type(value), "named_parameters"):
            for path, parameter in value.named_parameters():
                found.setdefault(id(parameter), f"{name}.{path}")
    return [found[id(leaf)] for leaf in leaves if id(leaf) in found]
