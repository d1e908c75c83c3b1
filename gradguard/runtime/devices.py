"""Which devices have come into use, and what senses their memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from gradguard.runtime.sensors import Sensor
from gradguard.runtime.sensors.cuda import Cuda
from gradguard.runtime.sensors.pinned import Pinned

if TYPE_CHECKING:
    from gradguard.runtime.torch_internals import TorchInternals


def in_use(internals: TorchInternals) -> dict[str, Callable[[], Sensor]]:
    """What makes the sensor of each signal of a device; nothing before the program itself has initialised CUDA.

    Page-locked memory is the host's, and a device is what it is for.
    """
    found: dict[str, Callable[[], Sensor]] = {
        f"cuda:{device}": partial(Cuda, device, internals) for device in range(internals.cuda_devices())
    }
    if found and internals.pinned_stats():
        found["pinned"] = partial(Pinned, internals)
    return found


def next_look(step: int) -> int:
    """The step after ``step`` at which to see whether a device has come into use: early, and then now and then."""
    return next((look for look in (2, 16) if look > step), (step // 256 + 1) * 256)
