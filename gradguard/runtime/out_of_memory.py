"""Whether an error says that memory has ended, and of which device."""

from __future__ import annotations

import re

from gradguard.findings import OutOfMemory

_OF_A_DEVICE = re.compile(
    r"(CUDA|HIP|XPU|MPS)(?: error:| backend)? out of memory|CU(?:BLAS|DNN)_STATUS_ALLOC_FAILED", re.IGNORECASE
)
"""What torch says with a plain RuntimeError, too: not all memory of a device is asked of its allocator."""

_OF_THE_HOST = re.compile("DefaultCPUAllocator: (?:can't allocate memory|not enough memory)")

_WHICH_ONE = re.compile(r"GPU (\d+) has a total capacity")


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether an error says that memory has ended: of the host, or of a device."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    said = str(error)
    return isinstance(error, RuntimeError) and bool(_OF_THE_HOST.search(said) or _OF_A_DEVICE.search(said))


def out_of_memory(error: BaseException | None, steps: int) -> OutOfMemory | None:
    """Where memory has ended, and what was said then; None where it has not.

    Args:
        error: what ended the program.
        steps: how many there were.
    """
    if error is None or not is_out_of_memory(error):
        return None
    text = str(error).split("\n", 1)[0]
    return OutOfMemory(_device_of(error), steps, text or type(error).__name__)


def _device_of(error: BaseException) -> str:
    """Where memory has ended: ``cpu``, ``mps``, ``cuda``, or ``cuda:1`` where torch says which."""
    said = _OF_A_DEVICE.search(str(error))
    if said is None:
        return "cuda" if type(error).__name__ == "OutOfMemoryError" else "cpu"
    kind = (said[1] or "CUDA").lower().replace("hip", "cuda")  # as torch calls the devices of ROCm
    number = _WHICH_ONE.search(str(error)) if kind == "cuda" else None
    return f"{kind}:{number[1]}" if number else kind
