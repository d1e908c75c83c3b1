"""What tests import from each other."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Outcome:
    """How a run of the command line ended."""

    status: int
    out: str
    err: str


Run = Callable[..., Outcome]
"""The fixture ``gradguard``: the command line in this process."""

Shell = Callable[..., "subprocess.CompletedProcess[bytes]"]
"""The fixture ``shell``: Python in a process of its own."""


def write(folder: Path, files: dict[str, str]) -> None:
    """Create files by their path below ``folder``."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
