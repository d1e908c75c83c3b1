"""What several commands need."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from gradguard import catalogue
from gradguard.catalogue import Rule
from gradguard.editing import split_lines
from gradguard.report.terminal import console
from gradguard.static import suppress

__all__ = ["all_rules", "cell_texts", "console", "known_codes", "source_reader"]

if TYPE_CHECKING:
    from gradguard.report.console import SourceLines


def all_rules() -> tuple[Rule, ...]:
    """Every rule, with the one that looks at suppressions."""
    return (suppress.rule, *catalogue.load())


def known_codes() -> dict[str, str]:
    """Every code, with the name of its rule."""
    return {rule.code: rule.name for rule in all_rules()}


def source_reader(content: Callable[[Path], bytes] = Path.read_bytes) -> SourceLines:
    """Reads the lines of files and of notebook cells; each file once.

    Args:
        content: of a file, by its path as it is shown.
    """

    @cache
    def read(path: str) -> dict[int | None, list[str]]:
        try:
            return split_cells(content(Path(path)), path)
        except OSError:
            return {}

    return lambda path, cell: read(path).get(cell, [])


def split_cells(data: bytes, path: str) -> dict[int | None, list[str]]:
    """The lines of a file (its cell is None) or of each code cell of a notebook; nothing when it cannot be read."""
    return {cell: split_lines(text) for cell, text in cell_texts(data, path).items()}


def cell_texts(data: bytes, path: str) -> dict[int | None, str]:
    """The text of a file (its cell is None) or of each code cell of a notebook; nothing when it cannot be read."""
    from gradguard.static.files.gate import SourceError
    from gradguard.static.files.notebooks import code_cells
    from gradguard.static.source import from_bytes

    try:
        if path.endswith(".ipynb"):
            return dict(enumerate(code_cells(data), start=1))
        return {None: from_bytes(data, path).text}
    except SourceError:
        return {}
