"""Patterns in the syntax of .gitignore: its own, and those of ``exclude`` and ``per-file-ignores``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

from gradguard.config import Settings
from gradguard.static.memo import Remembers, cached_property


@dataclass(frozen=True)
class Patterns(Remembers):
    """Lines of .gitignore syntax, relative to ``base``."""

    base: Path
    lines: tuple[str, ...]

    @cached_property
    def _compiled(self) -> list[tuple[re.Pattern[str], bool]]:
        """Each line's expression, and whether it leaves out or keeps; the last one that matches decides."""
        patterns = GitIgnoreSpec.from_lines(line for line in self.lines if _is_pattern(line)).patterns
        return [(p.regex, p.include) for p in reversed(patterns) if p.regex is not None and p.include is not None]

    def verdict(self, path: Path, is_folder: bool) -> bool | None:
        """True: leave it out; False: a ``!`` line keeps it; None: no line matches."""
        if not self.lines or not path.is_relative_to(self.base):
            return None
        name = path.relative_to(self.base).as_posix() + "/" * is_folder
        return next((leaves_out for regex, leaves_out in self._compiled if _is_about(regex, name)), None)

    def covers(self, path: Path) -> bool:
        """Whether the file at ``path`` or a folder that it is in is meant."""
        return bool(self.verdict(path, False)) or any(
            self.verdict(folder, True) for folder in path.parents if folder != self.base
        )


def _is_about(regex: re.Pattern[str], name: str) -> bool:
    """Whether ``regex`` matches the entry itself.

    pathspec's expressions match also all that is below a folder, and mark that folder's slash as "ps_d". Git asks
    about one entry at a time: with the lines ``out/`` and ``!/src/``, the folder ``src/out/`` is left out.
    """
    if "ps_d" not in regex.groupindex:
        return regex.search(name.rstrip("/")) is not None  # `out/**` is about what is in it
    return any(match.start("ps_d") in (-1, len(name) - 1) for match in regex.finditer(name))


def _is_pattern(line: str) -> bool:
    """Whether pathspec can read the line; git skips what it cannot."""
    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True


def ignored_codes(path: Path, settings: Settings) -> tuple[str, ...]:
    """The selectors that ``per-file-ignores`` switches off in the file at ``path`` (absolute)."""
    return tuple(
        code
        for glob, codes in settings.per_file_ignores
        if Patterns(settings.root, (glob,)).covers(path)
        for code in codes
    )
