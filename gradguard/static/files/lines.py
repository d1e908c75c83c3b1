"""The lines of a text that hold a word, each with the function that it stands in, as far as the layout tells."""

from __future__ import annotations

import re
import sys
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple, TypeVar

_T = TypeVar("_T")
_DEFINITION = re.compile(r"[ \t]*(?:async[ \t]+)?def[ \t]+(\w+)")
# A function in one line: ``def reset(self): self.rows.clear()``.
_GOES_ON = re.compile(r"\)[^:()]*:[ \t]*[^\s#]")
# A definition, or a statement at the left edge, which ends the function before it.
_EDGE = re.compile(rf"^(?:{_DEFINITION.pattern}|(?!@|class|[)\]}}#])\S)", re.M)
_CLASS = re.compile(r"^class\b", re.M)


class Line(NamedTuple):
    """One line, without its comment.

    Args:
        function: the name of the function that it stands in; ``<module>`` for none.
        start: where it begins in the whole text.
    """

    function: str
    text: str
    start: int


def lines_with(word: str, text: str) -> Iterator[Line]:
    """Each line that has ``word`` in it; the first lines of functions only where more than a header stands there."""
    found = text.find(word)
    starts, functions = _layout(text) if found >= 0 else ((), ())
    while found >= 0:
        start = text.rfind("\n", 0, found) + 1
        end = text.find("\n", found)
        line = text[start : end if end >= 0 else len(text)]
        header = _DEFINITION.match(line)
        if header is None or line.count(":", header.end()) > 1 or _GOES_ON.search(line, header.end()) is not None:
            edge = bisect_right(starts, start) - 1
            yield Line(functions[edge] if edge >= 0 else "<module>", _without_comment(line), start)
        found = text.find(word, end) if end >= 0 else -1


def class_around(line: Line, text: str) -> str:
    """The class of the top level that a line stands in; what is before or between classes for none."""
    edges = [0, *(match.start() for match in _CLASS.finditer(text)), len(text)]
    return next(text[a:b] for a, b in pairwise(edges) if a <= line.start < b)


def told_once(tell: Callable[[str], _T]) -> Callable[[str], _T]:
    """Keeps what a function tells of each text; not the texts, as ``functools.cache`` would."""
    told: dict[tuple[int, int], _T] = {}

    def from_text(text: str) -> _T:
        key = hash(text), len(text)
        if key not in told:
            told[key] = tell(text)
        return told[key]

    return from_text


@told_once
def _layout(text: str) -> tuple[array[int], list[str]]:
    """Where functions begin and end in a text, and the name of what is there from then on."""
    edges = [(match.start(), sys.intern(match[1] or "<module>")) for match in _EDGE.finditer(text)]
    return array("L", (start for start, _ in edges)), [name for _, name in edges]


def _without_comment(line: str) -> str:
    """A line without its comment, as far as the quotes before it tell."""
    start = line.find("#")
    while start >= 0:
        if line.count('"', 0, start) % 2 == 0 and line.count("'", 0, start) % 2 == 0:
            return line[:start]
        start = line.find("#", start + 1)
    return line


def mentioning(name: str, text: str) -> frozenset[str]:
    """The functions of a file that mention another one."""
    pattern = re.compile(rf"\b{re.escape(name)}\b")
    return frozenset(line.function for line in lines_with(name, text) if pattern.search(line.text))
