"""The texts of files as a search sees them, and the names in their import statements; each read once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

_IMPORTS = re.compile(r"^[ \t]*(?:from|import)[ \t]+(?:[^\n(]*\([^)]*\)|[^\n]*)", re.M)
_WORD = re.compile(r"[A-Za-z_]\w*")


class Texts:
    """Texts of files.

    Args:
        data: the content of files, as far as it is known; the others are read when they are asked for.
    """

    def __init__(self, data: Mapping[Path, bytes] | None = None) -> None:
        self.data = data or {}
        self.imports: dict[Path, frozenset[str]] = {}
        self._texts: dict[Path, str] = {}

    def of(self, path: Path) -> str:
        """The whole file, whatever it holds; empty when it cannot be read."""
        if path not in self._texts:
            try:
                data = self.data[path] if path in self.data else path.read_bytes()
            except OSError:
                data = b""
            self._texts[path] = data.decode(errors="replace")
        return self._texts[path]

    def shared(self, path: Path, text: str) -> str:
        """``text``, or the same text that is kept here already: large programs are not kept twice."""
        kept = self.of(path)
        return kept if kept == text else text

    def imported(self, path: Path) -> frozenset[str]:
        """Every name in a file's import statements."""
        if path not in self.imports:
            self.imports[path] = imported_names(self.of(path))
        return self.imports[path]


def imported_names(text: str) -> frozenset[str]:
    """Every name in a file's import statements."""
    return frozenset(word for line in _IMPORTS.findall(text) for word in _WORD.findall(line))


def module_name(path: Path) -> str:
    """The name that a file is imported by: a package's is its folder's."""
    return path.parent.name if path.stem == "__init__" else path.stem
