"""Which files of a project lead to which by their imports: its programs, and what is used where a file is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from gradguard.static.files.texts import module_name
from gradguard.static.memo import Remembers, cached_property
from gradguard.static.program.import_statements import imported_from
from gradguard.static.program.programs import Programs

if TYPE_CHECKING:
    from gradguard.static.project import Module, Project


class File(Protocol):
    """One of the files, parsed or not; without a path where its text came from elsewhere."""

    @property
    def path(self) -> Path | None: ...


class FileLinks(Remembers):
    """The imports of all files.

    Args:
        project: the files; what is asked here is noted with the file that asks (see ``asked``).
    """

    def __init__(self, project: Project) -> None:
        self._project = project
        self._texts = project.texts
        self._named: dict[Path, set[Path]] = {}
        self._leads_to: dict[Path, frozenset[Path]] = {}
        self._reached: dict[Path | None, list[Path]] = {}

    def prepare(self) -> None:
        """Answer now what every process would have to answer for itself."""
        _ = self._importers, self._programs

    @cached_property
    def about_torch(self) -> dict[Path, None]:
        """The relevant files, and those that these lead to by imports: what they import, and what imports them.

        A script may import no more than its own program, and what registers a handler no more than what calls it.
        """
        found = dict.fromkeys(self._project.relevant)
        rest = set(self._project.files) - set(found)
        waiting = list(found)
        while waiting and rest:
            path = waiting.pop()
            near = self._imported_files(path) | self._importing_files(path)
            new = sorted(rest & near)
            rest.difference_update(new)
            found.update(dict.fromkeys(new))
            waiting += new
        return found

    def importers(self, path: Path) -> set[Path]:
        """The files whose import statements may name a file."""
        return self._importing_files(path) - {path}

    def related(self, near: File) -> Collection[Path]:
        """The files that share a program with ``near``: what imports it, and all that those import."""
        if near.path is None:
            return ()
        self._project.questions.of(near.path).program = True
        if near.path in self._programs:
            return self._programs.of(near.path)
        return self._programs.of_another(self._importing_files(near.path), self._imported_files(near.path))

    @cached_property
    def _programs(self) -> Programs:
        return Programs(self._project.files, self._imported_files)

    def used(self, near: Module) -> list[Path]:
        """The files that are used where a file is: by itself, and by those that import it in any number of steps."""
        if near.path is None or near.path in self._reached:
            return self._reached.get(near.path, [])
        importing = self._closure((near.path,), self._importing)
        found = list(self._closure(importing, self._imports_of))
        self._reached[near.path] = found
        self._project.questions.of(near.path).files.update(found)
        return self._reached[near.path]

    def _closure(self, start: Iterable[Path], others: Callable[[Path], Iterable[Path]]) -> Iterator[Path]:
        waiting = list(start)
        seen = set(waiting)
        while waiting:
            yield (path := waiting.pop())
            new = [other for other in others(path) if other not in seen]
            seen.update(new)
            waiting += new

    def _importing(self, path: Path) -> Iterator[Path]:
        likely = sorted(self._importers.get(module_name(path), ()))
        return (other for other in likely if other != path and path in self._imports_of(other))

    def _imports_of(self, path: Path) -> frozenset[Path]:
        """The files that a file imports, each looked up as it would be."""
        if path not in self._leads_to:
            places = (self._project.origins(name, path) for name in self._names_imported(path))
            self._leads_to[path] = frozenset(place for found in places for place in found)
        return self._leads_to[path]

    def _names_imported(self, path: Path) -> tuple[str, ...]:
        names = imported_from(self._texts.bytes_of(path)) if path.suffix != ".ipynb" else None
        if names is None:
            module = self._project.module(path)
            names = (*module.outline.imports.values(), *module.outline.star_imports) if module is not None else ()
        return names

    def _imported_files(self, path: Path) -> set[Path]:
        """The files that a file's import statements may name.

        Of several of one name that in its own folder, and those of whose folder it speaks, too: each folder of a
        collection of programs has a ``models.py``.
        """
        if path not in self._named:
            named, words = self._files_named, self._texts.imported(path)
            found: set[Path] = set()
            for word in named.keys() & words:
                own = {other for other in named[word] if _folder_of(other) == path.parent}
                found |= own | {other for other in named[word] if not own or _folder_of(other).name in words}
            self._named[path] = found
        return self._named[path]

    def _importing_files(self, path: Path) -> set[Path]:
        """The files whose import statements may name a file."""
        likely = self._importers.get(module_name(path), set())
        return {other for other in likely if path in self._imported_files(other) or path not in self._files}

    @cached_property
    def _files(self) -> frozenset[Path]:
        return frozenset(self._project.files)

    @cached_property
    def _files_named(self) -> dict[str, set[Path]]:
        found: defaultdict[str, set[Path]] = defaultdict(set)
        for path in self._project.files:
            found[module_name(path)].add(path)
        return found

    @cached_property
    def _importers(self) -> dict[str, set[Path]]:
        found: defaultdict[str, set[Path]] = defaultdict(set)
        for path in self._project.files:
            for word in self._texts.imported(path):
                found[word].add(path)
        return found


def _folder_of(path: Path) -> Path:
    """The folder that a module is imported from; a package's is the one that it is in."""
    return path.parent.parent if path.stem == "__init__" else path.parent
