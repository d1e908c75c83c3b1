"""Who held what when memory ended: a last look through the frames of the error, before it goes on."""

from __future__ import annotations

from types import FrameType

from gradguard.alive import HeldBy
from gradguard.runtime.snapshot import take
from gradguard.runtime.usercode import is_user_code

MOST = 5
LEAST_SHARE = 0.05
"""Of all bytes that are alive: what holds less is not worth a line."""

LEAST_BYTES = 500_000
"""Nor is what holds less than this: memory has ended because of something else."""


def who_held_what(error: BaseException) -> list[str]:
    """The variables that held most, largest first, in sentences.

    Args:
        error: what was raised; the frames in its traceback are looked at.
    """
    alive = take(_innermost_frame(error))
    least = max(LEAST_SHARE * alive.bytes(), LEAST_BYTES)
    return [_said(each) for each in alive.holders[:MOST] if each.bytes >= least]


def _said(holder: HeldBy) -> str:
    behind = f", {_megabytes(holder.in_graphs)} of it in graphs" if holder.in_graphs else ""
    return f"when memory ended, `{holder.path}` ({holder.type}) held {_megabytes(holder.bytes)}{behind}"


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"


def _innermost_frame(error: BaseException) -> FrameType | None:
    """The innermost frame of the user's code in which an error was raised."""
    traceback, found = error.__traceback__, None
    while traceback is not None:
        if is_user_code(traceback.tb_frame.f_code):
            found = traceback.tb_frame
        traceback = traceback.tb_next
    return found
