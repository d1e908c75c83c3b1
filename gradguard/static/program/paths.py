"""Paths as they are written: ``self.stats["loss"]`` is a part of ``self.stats``, and of ``self``."""

from __future__ import annotations

from collections.abc import Iterator


def is_part(path: str, whole: str) -> bool:
    """Whether a path is another one, or leads to something in it."""
    return path == whole or is_within(path, whole)


def is_within(path: str, whole: str) -> bool:
    """Whether a path leads to something in what is at another one."""
    return path.startswith((f"{whole}.", f"{whole}["))


def is_or_is_in(path: str, whole: str) -> bool:
    """Whether a path is another one, or leads to an attribute of it, or is one of the elements of ``models[*]``."""
    return f"{path}.".startswith(f"{whole}.") or (whole.endswith("[*]") and path.startswith(whole[:-2]))


def last(path: str) -> str:
    """The last name of a path: ``model`` may be ``self.model``, or what is wrapped around it."""
    return path.rsplit(".", 1)[-1]


def collections_around(path: str) -> Iterator[str]:
    """A path, and the collections that it is an entry of, from within."""
    yield path
    while path.endswith("]"):
        path = path[: path.rfind("[")]
        yield path
