"""Where a dotted name leads among the files of a project; nothing is imported."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from gradguard.static.memo import Remembers, cached_property

# Folders beside the scripts that these put on their path.
_SOURCES = ("src", "lib")
_ROOT_MARKERS = (".git", "pyproject.toml", "setup.py", "setup.cfg", "requirements.txt")


class Imports(Remembers):
    """The search for files by what import statements name.

    Args:
        files: the files being checked: the folder that they are in is looked in too.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = files
        self._roots: dict[Path, Path] = {}
        self._found: dict[tuple[str, Path], Path | None] = {}
        self._first: dict[tuple[str, Path], tuple[Path, list[str]] | None] = {}
        self.folders: dict[Path, frozenset[str]] = {}
        """What can be imported from each folder that was searched."""
        self.marked: dict[Path, bool] = {}
        """Whether a folder is the root of a project, for each that was asked about."""

    def place(self, dotted: str, importer: Path) -> tuple[Path, list[str]] | None:
        """The file that a dotted name (with leading dots when relative) leads to, and what remains of the name."""
        key = (dotted, importer.parent)
        if key not in self._first:  # it is the same for most files of a folder: a file does not import itself
            self._first[key] = next(self._places(dotted, importer), None)
        first = self._first[key]
        if first is None or first[0] != importer:
            return first
        return next((place for place in self._places(dotted, importer) if place[0] != importer), None)

    def _places(self, dotted: str, importer: Path) -> Iterator[tuple[Path, list[str]]]:
        """The files that it may lead to from the folder of a file, the first ones first."""
        level = len(dotted) - len(dotted.lstrip("."))
        names = [n for n in dotted.lstrip(".").split(".") if n]
        if not level and names[:1] == ["torch"]:
            return  # whatever folders of the program are called so
        for folder in self._search_path(importer, level):
            for length in range(len(names), 0, -1):
                path = self._file(folder, names[:length])
                if path is not None:
                    yield path, names[length:]
        if level and names:  # `from . import name` where name is in __init__.py
            init = self._init(_parent(importer, level))
            if init is not None:
                yield init, names

    def _search_path(self, path: Path, level: int) -> Iterator[Path]:
        if level:
            yield _parent(path, level)
            return
        root = self._root(path)
        folders = [path.parent]
        while folders[-1] not in (root, folders[-1].parent):
            folders.append(folders[-1].parent)
        yield from folders
        for folder in folders:
            yield from (folder / name for name in _SOURCES if name in self._entries(folder))

    def _root(self, path: Path) -> Path:
        """The outermost folder that imports of this file are looked up in."""
        folder = path.parent
        if folder not in self._roots:
            above = (folder, *list(folder.parents)[:10])
            marked = (p for p in above if self._is_marked(p))
            shared = self._common if self._common in above else self._above_package(folder)
            self._roots[folder] = next(marked, shared)
        return self._roots[folder]

    def _is_marked(self, folder: Path) -> bool:
        if folder not in self.marked:
            self.marked[folder] = is_marked(folder)
        return self.marked[folder]

    def _above_package(self, folder: Path) -> Path:
        """The folder from which a package is imported; ``folder`` itself where it is no package."""
        while self._init(folder) is not None and folder != folder.parent:
            folder = folder.parent
        return folder

    @cached_property
    def _common(self) -> Path | None:
        """The folder that all files being checked are in."""
        return common_folder(self._files)

    def _file(self, folder: Path, names: list[str]) -> Path | None:
        key = ("/".join(names), folder)
        if key not in self._found:
            self._found[key] = self._look_up(folder, names)
        return self._found[key]

    def _look_up(self, folder: Path, names: list[str]) -> Path | None:
        *packages, name = names
        for package in packages:
            if package not in self._entries(folder):
                return None
            folder = folder / package
        if f"{name}.py" in self._entries(folder):
            return folder / f"{name}.py"
        return self._init(folder / name) if name in self._entries(folder) else None

    def _init(self, folder: Path) -> Path | None:
        return folder / "__init__.py" if "__init__.py" in self._entries(folder) else None

    def _entries(self, folder: Path) -> frozenset[str]:
        if folder not in self.folders:
            self.folders[folder] = entries(folder)
        return self.folders[folder]


def common_folder(files: Collection[Path]) -> Path | None:
    """The folder that all files are in."""
    return Path(os.path.commonpath([path.parent for path in files])) if files else None


def is_marked(folder: Path) -> bool:
    """Whether something in a folder says that it is the root of a project."""
    return any(os.path.exists(os.path.join(folder, marker)) for marker in _ROOT_MARKERS)


def entries(folder: Path) -> frozenset[str]:
    """What stands in a folder that an import may lead to: Python files and folders."""
    try:
        with os.scandir(folder) as scan:
            return frozenset(entry.name for entry in scan if _may_be_imported(entry))
    except OSError:
        return frozenset()


def _may_be_imported(entry: os.DirEntry[str]) -> bool:
    if entry.name.endswith(".py"):
        return entry.is_file()
    return entry.name.isidentifier() and entry.is_dir()


@lru_cache(maxsize=4096)
def _parent(path: Path, level: int) -> Path:
    folder = path.parent
    for _ in range(level - 1):
        folder = folder.parent
    return folder
