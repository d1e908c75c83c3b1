"""Leaves that no optimizer has: what they are at one backward, and what has become of them at a later one."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any

from gradguard.runtime.graph_size import leaves_below
from gradguard.runtime.variables import variables

if TYPE_CHECKING:
    from gradguard.runtime.torch_internals import TorchInternals

MOST = 1_000
"""Leaves that are noted."""

SAMPLED = 3
"""Leaves whose gradients are read before each backward."""

MOST_NAMES = 3
"""Leaves that are named."""


@dataclass(frozen=True, slots=True)
class Noted:
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

    def has_moved(self, leaf: Any) -> bool:
        """Whether the leaf has other values now."""
        return self.was_written(leaf) or _total(leaf) != self.total

    def was_written(self, leaf: Any) -> bool:
        """Whether the leaf was written to since, as optimizers do."""
        return bool(leaf._version != self.version)

    def has_added_up(self, leaf: Any, backwards: int) -> bool:
        """Whether each backward since has added to the same gradient, and nothing else wrote to it.

        Args:
            leaf: the leaf, which still lives.
            backwards: how many there were; half of them may not have reached the leaf.
        """
        if leaf.grad is None or id(leaf.grad) != self.gradient:
            return False
        return bool(backwards // 2 <= leaf.grad._version - self.gradient_version <= backwards)


def noted(tensor: Any, internals: TorchInternals) -> list[Noted]:
    """The leaves that a backward from a tensor adds a gradient to, and that no optimizer has."""
    if tensor.grad_fn is None:
        return []
    has = optimized(internals)
    leaves = [leaf for leaf in leaves_below(tensor.grad_fn) if id(leaf) not in has and leaf.grad is not None]
    return [_noted(leaf, _total(leaf)) for leaf in leaves[:MOST]]


def with_gradients(tensor: Any) -> list[Noted]:
    """The leaves that a backward from a tensor adds to the gradient of, whoever has them; without their sums."""
    leaves = leaves_below(tensor.grad_fn) if tensor.grad_fn is not None else ()
    return [_noted(leaf, 0.0) for leaf in leaves if leaf.grad is not None]


def _noted(leaf: Any, total: float) -> Noted:
    return Noted(weakref.ref(leaf), id(leaf.grad), leaf.grad._version, leaf._version, total)


def are_left_alone(before: list[Noted], backwards: int) -> bool:
    """Whether some leaf only gets gradients, as far as is told without asking who has it: nothing wrote to it.

    An optimizer writes to what it has in each step. To find all optimizers is a walk over all objects; this is not.
    """
    living = ((each, leaf) for each in before if (leaf := each.leaf()) is not None)
    return any(each.has_added_up(leaf, backwards) and not each.was_written(leaf) for each, leaf in living)


def is_cleared(before: Noted) -> bool:
    """Whether the gradient of a leaf is none, or zero: a clearing through ``.data`` is not counted as a write."""
    leaf = before.leaf()
    return leaf is None or leaf.grad is None or not bool(leaf.grad.detach().any())


def added_up(before: list[Noted], internals: TorchInternals, backwards: int, *, moved: bool) -> list[Any]:
    """The leaves that no optimizer has, and to whose gradients each backward since has added.

    Args:
        before: what they were.
        backwards: how many backwards ago.
        moved: those that have other values now, or those that have not.
    """
    has = optimized(internals)
    living = [(each, leaf) for each in before if (leaf := each.leaf()) is not None and id(leaf) not in has]
    return [leaf for each, leaf in living if each.has_added_up(leaf, backwards) and each.has_moved(leaf) is moved]


def optimized(internals: TorchInternals) -> set[int]:
    """The parameters that an optimizer has."""
    groups = (group for optimizer in internals.optimizers() for group in optimizer.param_groups)
    return {id(parameter) for group in groups for parameter in group["params"]}


def listed(leaves: list[Any], frame: FrameType) -> str:
    """Leaves in words: the first ones by the names that the user's variables in a frame give them."""
    named = [f"`{name}`" for name in _names(leaves, frame)[:MOST_NAMES]]
    if len(leaves) == 1:
        return named[0] if named else "a leaf tensor"
    others = len(leaves) - len(named)
    rest = [f"{others} more" if named else f"{others} leaf tensors"] if others else []
    *first, last = [*named, *rest]
    return f"{', '.join(first)} and {last}" if first else last


def _total(leaf: Any) -> float:
    return float(leaf.detach().sum())


def _names(leaves: list[Any], frame: FrameType) -> list[str]:
    """The user's names of leaves, in their order; those that have one."""
    found: dict[int, str] = {}
    for name, value in variables(frame):
        found.setdefault(id(value), name)
        if hasattr(type(value), "named_parameters"):
            for path, parameter in value.named_parameters():
                found.setdefault(id(parameter), f"{name}.{path}")
    return [found[id(leaf)] for leaf in leaves if id(leaf) in found]
