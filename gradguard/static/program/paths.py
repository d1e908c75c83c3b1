"""Paths as they are written: ``self.stats["loss"]`` is a part of ``self.stats``, and of ``self``."""

from __future__ import annotations

from collections.abc import Iterator


def is_part(path: str, whole: str) -> bool:
    """Whether a path is another one, or leads to something in it."""
    return path == whole or is_within(path, whole)


def is_within(path: str, whole: str) -> bool:
    """Whether a path leads to something in what is at another one."""
    return path.startswith((f"{whole}.", f"{whole}["))


def collections_around(path: str) -> Iterator[str]:
    """A path, and the collections that it is an entry of, from within."""
    yield path
    while path.endswith("]"):
        path = path[: path.rfind("[")]
        yield path
