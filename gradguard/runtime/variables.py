"""The user's variables by name, for what is told of one thing without a census."""

from __future__ import annotations

from collections.abc import Iterator
from types import FrameType
from typing import Any

from gradguard.runtime.roots import is_function_frame, may_read, read_locals
from gradguard.runtime.usercode import is_user_type, shown, user_frames

MOST_ITEMS = 1_000
"""Items of one collection that are gone through."""


def variables(frame: FrameType) -> Iterator[tuple[str, Any]]:
    """Name and value of the variables in the user's frames, the innermost first.

    After each come its items, or the attributes of an object of one of the user's classes, and theirs.

    Args:
        frame: the innermost one.
    """
    for each in reversed(user_frames(frame)):
        if is_function_frame(each) and may_read(each):
            prefix, found = f"{each.f_code.co_name}.", read_locals(each)
        else:
            prefix, found = "", dict(each.f_globals)
        for name, value in found.items():
            yield from _with_items(prefix + name, value)
            if is_user_type(type(value)):
                for attribute, part in list(getattr(value, "__dict__", {}).items()):
                    yield from _with_items(f"{type(value).__name__}.{attribute}", part)


def optimizer_in_words(optimizer: Any, frame: FrameType) -> tuple[str, str]:
    """Who an optimizer is, by the variable that the user has it in, and where it steps: "`opt` (Adam)", " (a.py:3)".

    Args:
        optimizer: that has stepped.
        frame: in which its step has ended.
    """
    name = next((name for name, value in variables(frame) if value is optimizer), None)
    kind, frames = type(optimizer).__name__, user_frames(frame)
    at = f" ({shown(frames[-1].f_code.co_filename)}:{frames[-1].f_lineno})" if frames else ""
    return (f"`{name}` ({kind})" if name else f"an optimizer ({kind})"), at


def _with_items(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    yield name, value
    if type(value) is dict:
        yield from ((f'{name}["{key}"]', item) for key, item in list(value.items())[:MOST_ITEMS])
    elif type(value) in (list, tuple):
        yield from ((f"{name}[{index}]", item) for index, item in enumerate(value[:MOST_ITEMS]))
