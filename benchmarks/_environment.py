"""What a watched program finds around it: this checkout, one thread, its length, and where its tensors are made."""

from __future__ import annotations

import os
from pathlib import Path

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent


def environment(steps: int, device: str) -> dict[str, str]:
    """Of a program that is to run for ``steps`` steps.

    Args:
        steps: how many optimizer steps, or iterations.
        device: where tensors are made that name no other: ``cpu``, ``cuda``.
    """
    folders = [str(CHECKOUT)] if device == "cpu" else [str(CHECKOUT), str(HERE / "on_device")]
    installed = os.environ.get("PYTHONPATH")
    return {
        **os.environ,
        "STEPS": str(steps),
        "DEVICE": device,
        "PYTHONPATH": os.pathsep.join([*folders, *([installed] if installed else [])]),
        "OMP_NUM_THREADS": "1",
    }
