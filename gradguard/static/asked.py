"""What reading one file asked about the others: which files have to be read again when one changed.

Every question is noted with the file that asks it, also where its answer was known already. What a file depends on is
then what it asked, and what the files that it uses asked in turn.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property  # this file is not compiled, and a compiled class has no heirs that are not
from pathlib import Path
from typing import TypeVar

# Of a text that is read from its end: "(" is found at once, while nearly every word may begin a call.
_CALL = re.compile(r"\((\w*[A-Za-z_])\b(?! fed)")
_METHOD = re.compile(r"\((\w+)[ \t]+fed(?:[ \t]+cnysa)?[ \t]+$", re.M)
_WORD = re.compile(r"[A-Za-z_]\w*")


def called_in(text: str) -> frozenset[str]:
    """The names that are called in a text."""
    return _found_backwards(_CALL, text)


def methods_in(text: str) -> frozenset[str]:
    """The names of the functions in it that do not stand at the left edge."""
    return _found_backwards(_METHOD, text)


def _found_backwards(pattern: re.Pattern[str], text: str) -> frozenset[str]:
    return frozenset(sys.intern(name[::-1]) for name in set(pattern.findall(text[::-1])))


@dataclass
class Asked:
    """What one file asked.

    Args:
        files: whose code it uses: it depends on what they asked in turn.
        texts: those in whose text it found what it looked for.
        names: the modules that it looked for.
        calls: the functions whose calls it looked for in all files.
        methods: those whose definitions it looked for in all files.
        words: what else it looked for in all files.
        patterns: the same for regular expressions, with their flags.
        program: it asked which files share a program with it, told by their imports.
    """

    files: set[Path] = field(default_factory=set)
    texts: set[Path] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    calls: set[str] = field(default_factory=set)
    methods: set[str] = field(default_factory=set)
    words: set[str] = field(default_factory=set)
    patterns: set[tuple[str, int]] = field(default_factory=set)
    program: bool = False

    def add(self, other: Asked) -> None:
        """Join what was asked elsewhere."""
        self.files |= other.files
        self.texts |= other.texts
        self.names |= other.names
        self.calls |= other.calls
        self.methods |= other.methods
        self.words |= other.words
        self.patterns |= other.patterns
        self.program |= other.program


@dataclass(frozen=True)
class Change:
    """A file that is not what it was.

    Args:
        text: as it is now; empty when it is gone.
    """

    path: Path
    text: str

    @cached_property
    def _calls(self) -> frozenset[str]:
        return called_in(self.text)

    @cached_property
    def _methods(self) -> frozenset[str]:
        return methods_in(self.text)

    @cached_property
    def _words(self) -> frozenset[str]:
        return frozenset(_WORD.findall(self.text))

    def answers(self, asked: Asked) -> bool:
        """Whether something that was asked may have another answer now."""
        return (
            self.path in asked.texts
            or not self._calls.isdisjoint(asked.calls)
            or not self._methods.isdisjoint(asked.methods)
            or any(self._has(word) for word in asked.words)
            or any(re.search(pattern, self.text, flags) for pattern, flags in asked.patterns)
        )

    def _has(self, word: str) -> bool:
        return word in (self._words if word.isidentifier() else self.text)


_T = TypeVar("_T")


class _Unnoted(set[_T]):
    """A set that takes nothing in."""

    def add(self, element: _T) -> None:
        """Leave it."""

    def update(self, *others: Iterable[_T]) -> None:
        """Leave them; nothing is taken from what only makes them when it is asked."""


class Questions:
    """What each file asked.

    Args:
        noted: another run will want to know; else nothing is kept of it.
    """

    def __init__(self, noted: bool = True) -> None:
        self._of: defaultdict[Path | None, Asked] = defaultdict(Asked)
        self._nobody = None if noted else _nobody()

    def of(self, path: Path | None) -> Asked:
        """What a file asked, to add to it."""
        return self._of[path] if self._nobody is None else self._nobody

    def all(self) -> dict[Path, Asked]:
        return {path: asked for path, asked in self._of.items() if path is not None}


def _nobody() -> Asked:
    """What is asked where nobody will want to know."""
    files, names, calls = _Unnoted[Path](), _Unnoted[str](), _Unnoted[str]()
    return Asked(files, _Unnoted[Path](), names, calls, _Unnoted[str](), _Unnoted[str](), _Unnoted[tuple[str, int]]())


def affected(asked: Mapping[Path, Asked], changes: Iterable[Change], names: Iterable[str], program: bool) -> set[Path]:
    """The files whose findings may be others now: those that changed, and all that asked something of them.

    Args:
        asked: what each file asked when it was last read.
        changes: the files that changed, came or went.
        names: modules that came or went, in folders that were searched.
        program: what some file imports changed.
    """
    changes, names = tuple(changes), frozenset(names)
    users: defaultdict[Path, set[Path]] = defaultdict(set)
    found = {change.path for change in changes}
    for path, questions in asked.items():
        for other in questions.files:
            users[other].add(path)
        if (
            (program and questions.program)
            or not names.isdisjoint(questions.names)
            or any(change.answers(questions) for change in changes)
        ):
            found.add(path)
    waiting = list(found)
    while waiting:
        for user in users[waiting.pop()] - found:
            found.add(user)
            waiting.append(user)
    return found
