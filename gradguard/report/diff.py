"""A unified diff of what edits do to a file, as ``git apply`` and ``patch`` read it; of a notebook, cell by cell."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping

from rich.console import Console
from rich.text import Text

from gradguard.report.words import place

Parts = Mapping[int | None, str]
"""The text of a file under None, or of each code cell of a notebook under its number."""

_STYLE = {"@": "cyan", "-": "red", "+": "green"}


def show(path: str, before: Parts, after: Parts, console: Console) -> None:
    """Print the diff of a file as it is; a terminal that has colours gets them.

    Args:
        path: as it is shown.
        before: what the file holds.
        after: what it is to hold.
    """
    for line in lines(path, before, after):
        if console.is_terminal:
            style = "bold" if line.startswith(("---", "+++")) else _STYLE.get(line[0], "")
            console.print(Text(line.rstrip("\n"), style), soft_wrap=True)
        else:
            console.file.write(line)


def lines(path: str, before: Parts, after: Parts) -> Iterator[str]:
    """The lines of the diff, each with its end."""
    for cell, old in before.items():
        name = place(path, cell).lstrip("/") + ("\t" if " " in path else "")  # where it ends, for `patch`
        for line in difflib.unified_diff(_lines(old), _lines(after[cell]), f"a/{name}", f"b/{name}"):
            said = "\\ No newline at end of file\n" if cell is None else ""  # the last line of a cell never has one
            yield line if line.endswith("\n") else f"{line}\n{said}"


def _lines(text: str) -> list[str]:
    """Split at line feeds only: what else ends a line for Python does not for ``patch``."""
    *whole, last = text.split("\n")
    return [*(f"{line}\n" for line in whole), *([last] if last else [])]
