"""The threads that train.

Torch writes a gradient without holding Python's lock while another thread's backward runs, so reading ``.grad`` of that
thread's parameters meanwhile may read what is being freed, and end the process.
"""

from __future__ import annotations

import sys
from threading import get_ident

_seen: set[int] = set()


def note() -> None:
    """The thread that runs now trains: it begins a backward, or an optimizer has stepped in it."""
    _seen.add(get_ident())


def are_others() -> bool:
    """Whether another thread that is alive trains, too: then no gradient may be read but one's own."""
    others = _seen - {get_ident()}
    if not others:
        return False
    alive = sys._current_frames().keys()
    _seen.intersection_update(alive)  # the number of one that has ended is given to another thread
    return not others.isdisjoint(alive)
