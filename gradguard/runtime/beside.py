"""What other threads are at, while the lines of one are followed."""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass
from typing import Any

from gradguard.runtime.roots import is_function_frame, may_read, read_locals
from gradguard.runtime.usercode import user_frames


@dataclass(frozen=True, slots=True)
class Alias:
    """A local variable of another thread's function that is the holder.

    Args:
        filename: of the function.
        function: its name.
        variable: its name for the holder.
    """

    filename: str
    function: str
    variable: str


def are_others() -> bool:
    """Whether other threads may run code of Python, now or soon."""
    return threading.active_count() > 1 or len(sys._current_frames()) > 1


def aliases(holder: Any) -> tuple[Alias, ...]:
    """The variables of the functions that other threads are in that are this very object."""
    found = []
    for ident, top in sys._current_frames().items():
        for frame in user_frames(top) if ident != threading.get_ident() else ():
            if is_function_frame(frame) and may_read(frame):
                code = frame.f_code
                same = [name for name, value in read_locals(frame).items() if value is holder]
                found += [Alias(code.co_filename, code.co_name, name) for name in same]
    return tuple(found)
