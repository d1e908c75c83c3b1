"""The texts of files as a search sees them, and the names in their import statements; each read once."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

_IMPORTS = re.compile(r"^[ \t]*(?:from|import)[ \t]+(?:[^\n(#]*\([^)]*\)|[^\n#]*)", re.M)
_WORD = re.compile(r"[A-Za-z_]\w*")


class Texts:
    """Texts of files. Only their bytes are kept: a text with one emoji in it takes four times as much.

    Args:
        data: the content of files, as far as it is known; the others are read when they are asked for.
    """

    def __init__(self, data: Mapping[Path, bytes] | None = None) -> None:
        self.data = data or {}
        self.imports: dict[Path, frozenset[str]] = {}
        self._others: dict[Path, bytes] = {}

    def bytes_of(self, path: Path) -> bytes:
        """What the file holds; nothing when it cannot be read."""
        known = self.data.get(path)
        if known is not None:
            return known
        if path not in self._others:
            try:
                self._others[path] = path.read_bytes()
            except OSError:
                self._others[path] = b""
        return self._others[path]

    def of(self, path: Path) -> str:
        """The whole file, whatever it holds; empty when it cannot be read."""
        return self.bytes_of(path).decode(errors="replace")

    def holds(self, word: str, path: Path) -> bool:
        """Whether a word, or any other text, stands in a file."""
        return word.encode() in self.bytes_of(path)

    def imported(self, path: Path) -> frozenset[str]:
        """Every name in a file's import statements."""
        if path not in self.imports:
            self.imports[path] = imported_names(self.of(path))
        return self.imports[path]


def imported_names(text: str) -> frozenset[str]:
    """Every name in a file's import statements."""
    return frozenset(sys.intern(word) for line in _IMPORTS.findall(text) for word in _WORD.findall(line))


def module_name(path: Path) -> str:
    """The name that a file is imported by: a package's is its folder's."""
    return path.parent.name if path.stem == "__init__" else path.stem
