"""What other threads are at, while the lines of one are followed."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

from gradguard.runtime.roots import is_function_frame, may_read, other_threads, read_locals
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
    return threading.active_count() > 1 or bool(other_threads())


def aliases(holder: Any) -> tuple[Alias, ...]:
    """The variables of the functions that other threads are in that are this very object."""
    return tuple(
        Alias(frame.f_code.co_filename, frame.f_code.co_name, name)
        for top in other_threads()
        for frame in user_frames(top)
        if is_function_frame(frame) and may_read(frame)
        for name, value in read_locals(frame).items()
        if value is holder
    )
