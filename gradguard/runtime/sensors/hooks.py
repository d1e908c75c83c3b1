"""How many hooks were ever registered: PyTorch numbers its handles, so this costs one attribute access.

It does not know which were removed. A steady count per step is a reason to look, not a verdict.
"""

from __future__ import annotations

from collections.abc import Callable

from gradguard.runtime.sensors import NOTHING


class Hooks:
    """Hooks registered so far, less those that GradGuard registered."""

    name = "hooks"
    beside = NOTHING

    def __init__(self, handles: Callable[[], int]) -> None:
        self._handles = handles

    def read(self) -> int:
        """Handles given out."""
        return self._handles()
