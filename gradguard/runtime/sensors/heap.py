"""Bytes in use on the C heap: where tensors of the CPU and all autograd nodes live.

glibc 2.33 and later tell it in microseconds through ``mallinfo2()``; other allocators and systems do not.
"""

from __future__ import annotations

import ctypes
import sys

from gradguard.runtime.sensors import NOTHING

CALIBRATION_BYTES = 1 << 20


class _Mallinfo2(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
    )


class Heap:
    """The C heap of this process.

    Raises:
        OSError: the C library does not tell, or another allocator serves the process (a preloaded jemalloc).
    """

    name = "heap"
    beside = NOTHING

    def __init__(self) -> None:
        if sys.platform != "linux":
            raise OSError("only glibc tells the bytes in use")
        libc = ctypes.CDLL(None)
        try:
            self._mallinfo2 = libc.mallinfo2
        except AttributeError:
            raise OSError("this C library has no mallinfo2 (glibc 2.33 or later has)") from None
        self._mallinfo2.restype = _Mallinfo2
        self._mallinfo2.argtypes = ()
        self._calibrate(libc)

    def read(self) -> int:
        """Bytes in use, small blocks and mapped ones."""
        info = self._mallinfo2()
        return int(info.uordblks + info.hblkhd)

    def _calibrate(self, libc: ctypes.CDLL) -> None:
        libc.malloc.restype = ctypes.c_void_p
        libc.malloc.argtypes = (ctypes.c_size_t,)
        libc.free.argtypes = (ctypes.c_void_p,)
        before = self.read()
        block = libc.malloc(CALIBRATION_BYTES)
        gained = self.read() - before
        libc.free(block)
        if not CALIBRATION_BYTES / 2 < gained < 2 * CALIBRATION_BYTES:
            raise OSError("another allocator serves this process")
