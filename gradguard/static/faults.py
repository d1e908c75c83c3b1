"""A fault of ours is told as an error of the file that was read; what else was found stays, and the others are read."""

from __future__ import annotations

import os

from gradguard.findings import FileError


def fault(path: str, wrong: Exception, where: str = "") -> FileError:
    """The error to report. With ``GRADGUARD_DEBUG`` in the environment, what went wrong is raised instead.

    Args:
        path: the file.
        where: what was read there, as the words that follow "internal error".
    """
    if os.environ.get("GRADGUARD_DEBUG"):
        raise wrong
    return FileError(path, None, f"internal error{where}, please report it: {type(wrong).__name__}: {wrong}")
