"""Source text on a terminal: what is safe to print, how wide it is, and the part of it that fits.

Everything here is pure: lines and a width in, rows out.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from rich.cells import get_character_cell_size

from gradguard.editing import edited
from gradguard.findings import Edit, Span

TAB = "    "
ELLIPSIS = "..."
MAX_ROWS = 6
"""A longer span is shown by its first lines and its last one."""


@dataclass(frozen=True, slots=True)
class Row:
    """One printed line of source; ``mark`` is the underline that belongs under it.

    Args:
        number: the line's number; None stands for lines that are left out.
    """

    number: int | None
    text: str
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """One printed line of a diff: ``sign`` is ``-``, ``+``, or a blank for a line that stays."""

    sign: str
    text: str


def printable(text: str, encoding: str) -> str:
    """``text`` without what a terminal would obey (escape sequences, direction marks) or cannot encode."""
    return "".join(_shown(character, encoding) for character in text)


def excerpt(lines: Sequence[str], span: Span, width: int, encoding: str) -> list[Row]:
    """The lines of ``span`` and one around it, cut to ``width`` columns so that the span's start stays visible."""
    last = min(span.end_line, len(lines))
    if not 1 <= span.line <= last:
        return []
    shown = {n: _cells(lines[n - 1], encoding) for n in _numbers(lines, span.line, last)}
    marks = {n: _extent(lines[n - 1], shown[n], n, span) for n in shown if span.line <= n <= last}
    window = _window(*marks[span.line], max(sum(w for _, w in cells) for cells in shown.values()), width)
    rows: list[Row] = []
    previous = min(shown)
    for number, cells in shown.items():
        if number > previous + 1:
            rows.append(Row(None, ELLIPSIS))
        previous = number
        text = _cut(cells, window)
        if number in marks:
            rows.append(Row(number, text, _underline(*marks[number], window)))
        elif text != ELLIPSIS:
            rows.append(Row(number, text))
    return rows


def changes(lines: Sequence[str], edits: Sequence[Edit], width: int, encoding: str) -> list[Change]:
    """What ``edits`` do to ``lines``, as the lines that go and the lines that come."""
    if not edits or max(e.span.end_line for e in edits) > len(lines) + 1:
        return []  # the file is not the one that was checked
    after = edited(lines, edits)
    if len(edits) > 2 and all(map(_only_indents, edits[1:])):
        return _block(after, edits[0].span.line - 1, width, encoding)
    first = min(e.span.line for e in edits) - 1
    tail = len(lines) - max(e.span.end_line for e in edits)
    old, new = list(lines[first : len(lines) - tail]), after[first : len(after) - tail]
    found: list[Change] = []
    for tag, i, i_end, j, j_end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            before, behind = _beside(lines, first + i) if i == i_end else ([], [])
            found += _fit(old[i:i_end], new[j:j_end], before, behind, width, encoding)
    return found


def _beside(lines: Sequence[str], place: int) -> tuple[Sequence[str], Sequence[str]]:
    """What is only inserted is shown with a line beside it, else nobody sees where it goes: rather the one behind."""
    behind = lines[place : place + 1]
    return ([], behind) if place == 0 or (behind and behind[0].strip()) else (lines[place - 1 : place], [])


def _block(after: Sequence[str], place: int, width: int, encoding: str) -> list[Change]:
    """Lines that are put into a block: its head and the first of them."""
    head, line = after[place : place + 2]
    more = line[: len(line) - len(line.lstrip())] + ELLIPSIS
    return _fit([], [head, line, more], [], [], width, encoding)


def _only_indents(edit: Edit) -> bool:
    """Whether it only indents a line."""
    return edit.span.column == edit.span.end_column == 1 and bool(edit.text) and not edit.text.strip(" \t")


def _numbers(lines: Sequence[str], first: int, last: int) -> list[int]:
    """The lines to show: those of the span, and one on each side unless it is blank."""
    numbers = list(range(first, last + 1))
    if len(numbers) > MAX_ROWS:
        numbers = [*numbers[: MAX_ROWS - 2], last]
    if first > 1 and lines[first - 2].strip():
        numbers.insert(0, first - 1)
    if last < len(lines) and lines[last].strip():
        numbers.append(last + 1)
    return numbers


def _fit(
    old: Sequence[str],
    new: Sequence[str],
    before: Sequence[str],
    behind: Sequence[str],
    width: int,
    encoding: str,
) -> list[Change]:
    """A hunk without the indentation that its lines share, each line cut around the first difference."""
    together = [*before, *old, *new, *behind]
    indent = min((len(line) - len(line.lstrip()) for line in together if line.strip()), default=0)
    texts = [line[indent:] for line in together]
    cells = [_cells(text, encoding) for text in texts]
    start = _common_prefix(texts[len(before) : len(texts) - len(behind)]) if old and new else 0
    begin = sum(w for _, w in cells[len(before)][:start])
    window = _window(begin, begin + 1, max(sum(w for _, w in c) for c in cells), width)
    signs = " " * len(before) + "-" * len(old) + "+" * len(new) + " " * len(behind)
    return [Change(sign, _cut(c, window)) for sign, c in zip(signs, cells)]


def _common_prefix(texts: Sequence[str]) -> int:
    length = 0
    for characters in zip(*texts):
        if any(a != b for a, b in pairwise(characters)):
            break
        length += 1
    return length


# --- columns ------------------------------------------------------------------------------------------------------

_Cells = list[tuple[str, int]]
"""What is printed for each code point of a line, and how many columns that takes."""


def _shown(character: str, encoding: str) -> str:
    if character == "\t":
        return TAB
    if not character.isprintable():
        return "?"
    try:
        character.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return "?"
    return character


def _cells(line: str, encoding: str) -> _Cells:
    shown = (_shown(character, encoding) for character in line)
    return [(text, len(text) if text == TAB else get_character_cell_size(text)) for text in shown]


def _extent(line: str, cells: _Cells, number: int, span: Span) -> tuple[int, int]:
    """The columns, from 0, that the span covers on line ``number``."""
    first = span.column - 1 if number == span.line else len(line) - len(line.lstrip())
    end = span.end_column - 1 if number == span.end_line else len(line.rstrip())
    start_column = sum(w for _, w in cells[:first])
    return start_column, max(start_column + 1, sum(w for _, w in cells[:end]))


def _window(start: int, end: int, longest: int, width: int) -> tuple[int, int]:
    """The columns to show: all if they fit, else a stretch around ``start`` to ``end``."""
    if longest <= width:
        return 0, longest
    room = max(width - 2 * len(ELLIPSIS), 1)
    if end <= room or start <= room // 2:
        return 0, width - len(ELLIPSIS)
    left = max(start - max((room - (end - start)) // 2, 0), 0)
    return left, left + room


def _cut(cells: _Cells, window: tuple[int, int]) -> str:
    low, high = window
    column, kept = 0, [ELLIPSIS if low else ""]
    for text, width in cells:
        if low <= column and column + width <= high:
            kept.append(text)
        elif column < low < column + width:  # a wide character across the edge
            kept.append(" " * (column + width - low))
        column += width
    if column <= low:
        return ELLIPSIS if cells and low else ""
    return "".join(kept).rstrip() + (ELLIPSIS if column > high else "")


def _underline(start: int, end: int, window: tuple[int, int]) -> str:
    low, high = window
    begin = max(start, low)
    shift = len(ELLIPSIS) if low else 0
    return " " * (begin - low + shift) + "^" * max(min(end, high) - begin, 1)
