"""Address space for the report of a run whose memory ends.

Mapped and never touched, it takes none of the machine's memory and is not on the heap. It counts where a limit on
address space (``ulimit -v``, ``RLIMIT_AS``) or strict overcommitting ends a program with an error of its own: given
up then, it leaves room to see who holds what, and to load what a report is made with.
"""

from __future__ import annotations

import mmap

SIZE = 32 << 20
"""Bytes. Reading the source and rendering take some twenty megabytes, a census beside many objects more."""


class Reserve:
    """Holds the room from :meth:`take` to :meth:`give_up`."""

    def __init__(self) -> None:
        self._held: mmap.mmap | None = None

    def take(self) -> None:
        """Set the room aside; where there is none, the watch goes on without."""
        if self._held is None and hasattr(mmap, "MAP_PRIVATE"):
            try:
                self._held = mmap.mmap(-1, SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            except (OSError, MemoryError):
                self._held = None

    def give_up(self) -> None:
        """Let the room be used."""
        held, self._held = self._held, None
        if held is not None:
            held.close()
