"""What two classes of the project have in common."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable


@runtime_checkable
class Derived(Protocol):
    """A class that may have bases."""

    def lineage(self) -> Iterator[Derived]:
        """The class and its bases, nearest first."""


def nearest_base(one: object, other: object) -> Derived | None:
    """The nearest class that two classes both are, or are derived from; None where there is none in the project."""
    if not isinstance(one, Derived) or not isinstance(other, Derived):
        return None
    others = list(other.lineage())
    return next((base for base in one.lineage() if any(base is each for each in others)), None)
