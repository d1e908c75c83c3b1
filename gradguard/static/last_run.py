"""What a run found and what it asked, so that the next one reads only what may have another answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from gradguard.findings import CheckResult, FileError, Finding
from gradguard.static.asked import Asked, Change, affected
from gradguard.static.files.texts import Texts, imported_names
from gradguard.static.files.traits import UNREADABLE, Traits, look
from gradguard.static.program.imports import common_folder, entries, is_marked


@dataclass(frozen=True, slots=True)
class Part:
    """What was found when one file was read; the findings may lie in another that it uses."""

    findings: tuple[Finding, ...] = ()
    errors: tuple[FileError, ...] = ()


@dataclass
class Reading:
    """What reading some files found and asked.

    Args:
        parts: of each file that was read for its own findings.
        asked: of each file that asked something, the others too.
        folders: what was in the folders that were searched for modules.
        marked: whether those above are roots of projects.
        others: files that are not checked, and were read because a name led there.
        imports: every name in a file's import statements, where that was asked.
    """

    parts: dict[Path, Part] = field(default_factory=dict)
    asked: dict[Path, Asked] = field(default_factory=dict)
    folders: dict[Path, frozenset[str]] = field(default_factory=dict)
    marked: dict[Path, bool] = field(default_factory=dict)
    others: set[Path] = field(default_factory=set)
    imports: dict[Path, frozenset[str]] = field(default_factory=dict)

    def add(self, other: Reading) -> None:
        """Join what another reading of the same files found and asked."""
        self.parts.update(other.parts)
        for path, asked in other.asked.items():
            self.asked.setdefault(path, Asked()).add(asked)
        self.folders.update(other.folders)
        self.marked.update(other.marked)
        self.others |= other.others
        self.imports.update(other.imports)

    def without(self, gone: set[Path]) -> Reading:
        """What is left of it when some files are no longer what they were."""
        return Reading(
            {path: part for path, part in self.parts.items() if path not in gone},
            {path: asked for path, asked in self.asked.items() if path not in gone},
            dict(self.folders),
            dict(self.marked),
            set(self.others),
            {path: names for path, names in self.imports.items() if path not in gone},
        )

    def only(self, kept: Iterable[Path]) -> Reading:
        """The same, without what was found in other files."""
        return replace(self, parts={path: self.parts[path] for path in kept if path in self.parts})


@dataclass
class LastRun:
    """A whole run.

    Args:
        time: when it began, in nanoseconds since 1970.
        traits: of the files that it checked.
        others: of those that it read besides, or tried to.
        relevant: those that it took for being about torch.
        reading: what it found and asked.
        result: what it reported.
    """

    time: int
    traits: Mapping[Path, Traits]
    others: Mapping[Path, Traits]
    relevant: frozenset[Path]
    reading: Reading
    result: CheckResult


class Store(Protocol):
    """Where a last run is kept."""

    def load(self) -> LastRun | None:
        """The last run, if there is one."""

    def save(self, run: LastRun) -> None:
        """Keep a run."""


@dataclass
class InMemory:
    """A store for as long as the process lives."""

    run: LastRun | None

    def load(self) -> LastRun | None:
        return self.run

    def save(self, run: LastRun) -> None:
        self.run = run


@dataclass
class Difference:
    """What is not as it was in the last run.

    Args:
        changed: the files, those that came or went too.
        modules: names that can be imported from a folder now, or no longer.
        moved: imports are looked up from another folder: one has become the root of a project, or is none any more, or
            the files have another folder in common.
    """

    changed: set[Path]
    modules: set[str]
    moved: bool

    def __bool__(self) -> bool:
        return bool(self.changed or self.modules or self.moved)


def difference(last: LastRun, seen: Mapping[Path, Traits], relevant: frozenset[Path]) -> Difference:
    """What is not as it was.

    Args:
        seen: the files to check.
        relevant: those of them that are about torch.
    """
    was = {**last.traits, **last.others}
    now = {**seen, **others(last.others, last.others, last.time)}
    changed = {path for path in was.keys() | now.keys() if not _is_same(was.get(path), now.get(path))}
    modules: set[str] = set()
    for folder, names in last.reading.folders.items():
        moved = names ^ entries(folder)
        modules |= {folder.name if name == "__init__.py" else name.removesuffix(".py") for name in moved}
    roots = common_folder(last.traits) != common_folder(seen)
    roots = roots or any(is_marked(folder) != marked for folder, marked in last.reading.marked.items())
    return Difference(changed | (last.relevant ^ relevant), modules, roots)


def others(paths: Iterable[Path], known: Mapping[Path, Traits], until: int) -> dict[Path, Traits]:
    """What is known of files that are read besides those that are checked; also of one that cannot be read."""
    seen = look(paths, None, known, until).traits
    return {path: seen.get(path, UNREADABLE) for path in paths}


def _is_same(before: Traits | None, now: Traits | None) -> bool:
    return before is not None and now is not None and before.digest == now.digest


def outdated(last: LastRun, different: Difference, texts: Texts) -> set[Path]:
    """The files whose findings may be others now."""
    if different.moved:
        return {*last.traits, *last.others, *different.changed}
    changes = [Change(path, texts.of(path)) for path in sorted(different.changed)]
    imports = last.reading.imports
    program = any(imports.get(change.path) != imported_names(change.text) for change in changes)
    return affected(last.reading.asked, changes, different.modules, program)
