"""The console that every output for people is printed on."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console


def console(color: str = "auto", file: TextIO | None = None) -> Console:
    """A console for ``--color`` auto, always or never; auto heeds NO_COLOR, FORCE_COLOR, pipes, dumb terminals."""
    from rich.console import Console

    return Console(
        file=file or sys.stdout,
        force_terminal={"always": True, "never": False}.get(color),
        no_color=True if color == "never" else None,
        markup=False,
        emoji=False,
        highlight=False,
        legacy_windows=None,
    )
