"""Where a dotted name leads among the files of a project; nothing is imported."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

_ROOT_MARKERS = (".git", "pyproject.toml", "setup.py", "setup.cfg", "requirements.txt")


class Imports:
    """The search for files by what import statements name.

    Args:
        files: the files being checked: the folder that they are in is looked in too.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = files
        self._roots: dict[Path, Path] = {}
        self._found: dict[tuple[str, Path], Path | None] = {}

    def place(self, dotted: str, importer: Path) -> tuple[Path, list[str]] | None:
        """The file that a dotted name (with leading dots when relative) leads to, and what remains of the name."""
        level = len(dotted) - len(dotted.lstrip("."))
        names = [n for n in dotted.lstrip(".").split(".") if n]
        for folder in self._search_path(importer, level):
            for length in range(len(names), 0, -1):
                path = self._file(folder, names[:length])
                if path is not None and path != importer:
                    return path, names[length:]
        if level and names:  # `from . import name` where name is in __init__.py
            init = _parent(importer, level) / "__init__.py"
            if init.is_file() and init != importer:
                return init, names
        return None

    def _search_path(self, path: Path, level: int) -> Iterator[Path]:
        if level:
            yield _parent(path, level)
            return
        root = self._root(path)
        folder = path.parent
        while True:
            yield folder
            if folder == root or folder == folder.parent:
                break
            folder = folder.parent
        yield root / "src"

    def _root(self, path: Path) -> Path:
        """The outermost folder that imports of this file are looked up in."""
        folder = path.parent
        if folder not in self._roots:
            above = (folder, *list(folder.parents)[:10])
            marked = (p for p in above if any((p / marker).exists() for marker in _ROOT_MARKERS))
            shared = self._common if self._common in above else _above_package(folder)
            self._roots[folder] = next(marked, shared)
        return self._roots[folder]

    @cached_property
    def _common(self) -> Path | None:
        """The folder that all files being checked are in."""
        return Path(os.path.commonpath([path.parent for path in self._files])) if self._files else None

    def _file(self, folder: Path, names: list[str]) -> Path | None:
        key = ("/".join(names), folder)
        if key not in self._found:
            base = folder.joinpath(*names)
            module, package = base.with_name(base.name + ".py"), base / "__init__.py"
            self._found[key] = module if module.is_file() else package if package.is_file() else None
        return self._found[key]


def _above_package(folder: Path) -> Path:
    """The folder from which a package is imported; ``folder`` itself where it is no package."""
    while (folder / "__init__.py").is_file() and folder != folder.parent:
        folder = folder.parent
    return folder


def _parent(path: Path, level: int) -> Path:
    folder = path.parent
    for _ in range(level - 1):
        folder = folder.parent
    return folder
