"""What a file's bytes say of it before anything is parsed, and whether it is as the last run saw it."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gradguard.findings import FileError
from gradguard.signs import TRAINS_HERE
from gradguard.static.discover import shown
from gradguard.static.files.notebooks import only_code
from gradguard.static.screen import Screen
from gradguard.static.workers import jobs_for, mapped

_TRAINS = re.compile(TRAINS_HERE.encode())
_ABOUT_TORCH = re.compile(rb"torch|lightning|accelerat|deepspeed|import\s*\*")


@dataclass(frozen=True, slots=True)
class Traits:
    """What is known of a file's content.

    Args:
        modified: when it was written, in nanoseconds since 1970.
        changed: when it was put there, or its time was set.
        size: of the file, in bytes.
        digest: of its content; of the code of a notebook.
        about_torch: it may use torch.
        applies: it has the signs of some rule.
        applies_where_trained: it has them if what it calls in another file trains; None where that was not asked.
        trains: it calls backward.
        mentions_us: it may hold a comment of ours, which is reported when it is of no use.
    """

    modified: int
    changed: int
    size: int
    digest: str
    about_torch: bool
    applies: bool
    applies_where_trained: bool | None
    trains: bool
    mentions_us: bool

    def is_as(self, stat: os.stat_result, until: int) -> bool:
        """Whether a file that looks like this has not been written since.

        Args:
            until: what was written at that time, in nanoseconds since 1970, may have been written again.
        """
        same = (stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size) == (self.modified, self.changed, self.size)
        return same and max(self.modified, self.changed) < until


UNREADABLE = Traits(0, 0, 0, "", False, False, False, False, False)
"""Of a file that cannot be read."""


@dataclass
class Look:
    """What was seen of some files.

    Args:
        data: the content of those that had to be read; of a notebook, its code.
        errors: those that cannot be.
    """

    traits: dict[Path, Traits]
    data: dict[Path, bytes]
    errors: list[FileError]


def look(
    paths: Iterable[Path],
    screen: Screen | None,
    known: Mapping[Path, Traits],
    until: int,
    jobs: int | None = 1,
    instead: Mapping[Path, bytes] | None = None,
) -> Look:
    """Look at files, and into those that are not as they were.

    Args:
        screen: what a rule needs to see in a file; none when all rules are to see all.
        known: what they were.
        until: when that was, in nanoseconds since 1970.
        jobs: how many processes look into files; None for as many as are worth it.
        instead: what is taken for the content of some files.
    """
    instead = instead or {}
    seen = Look({}, {}, [])
    stats: dict[Path, os.stat_result] = {}
    for path in paths:
        before = known.get(path)
        try:
            if path in instead:
                seen.data[path] = instead[path]
            elif before is not None and before.is_as(path.stat(), until):
                seen.traits[path] = before
                continue
            else:
                stats[path], data = path.stat(), path.read_bytes()
                seen.data[path] = only_code(data) if path.suffix == ".ipynb" else data
        except OSError as error:
            seen.errors.append(FileError(shown(path), None, (error.strerror or str(error)).lower()))
            continue
        seen.traits[path] = UNREADABLE  # as long as nobody has looked into it
    jobs = jobs or jobs_for(sum(map(len, seen.data.values())))
    found = mapped(lambda path: of(seen.data[path], screen, stats.get(path)), tuple(seen.data), jobs)
    seen.traits.update(zip(seen.data, found))
    return seen


def of(data: bytes, screen: Screen | None, stat: os.stat_result | None = None) -> Traits:
    """What a file's content says."""
    modified, changed, size = (stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size) if stat is not None else (0, 0, 0)
    about_torch = _ABOUT_TORCH.search(data) is not None
    applies = screen is None or screen.passes(data)
    trains = b".backward(" in data and _TRAINS.search(data) is not None
    mentions_us = b"gradguard" in data.lower()
    digest = hashlib.blake2b(data, digest_size=12).hexdigest()
    return Traits(modified, changed, size, digest, about_torch, applies, applies or None, trains, mentions_us)
