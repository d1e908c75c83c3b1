"""What text edits do to text; pure, and without an opinion on which of them are right."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from gradguard.findings import Edit, Span

_END = re.compile(r"\r\n|\r|\n")


def edited(lines: Sequence[str], edits: Iterable[Edit]) -> list[str]:
    """``lines`` after ``edits``, which do not overlap."""
    return split_lines(edited_text("\n".join(lines), edits))


def edited_text(text: str, edits: Iterable[Edit]) -> str:
    """``text`` after ``edits``, which do not overlap; lines that come end as the first line of the text does."""
    ends = list(_END.finditer(text))
    newline = ends[0].group() if ends else "\n"
    starts = [0, *(end.end() for end in ends)]
    for edit in sorted(edits, reverse=True):
        span, new = edit.span, edit.text.replace("\n", newline)
        if span.line > len(starts):  # behind a last line that has no end
            text += newline + new
            continue
        begin = starts[span.line - 1] + span.column - 1
        stop = starts[span.end_line - 1] + span.end_column - 1 if span.end_line <= len(starts) else len(text)
        text = text[:begin] + new + text[stop:]
    return text


def split_lines(text: str) -> list[str]:
    """The lines without their ends, split where Python's parser splits them."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def clash(one: Edit, other: Edit) -> bool:
    """Whether two edits cannot be made at once: they change the same text, or such that nothing stands between."""
    a, b = _ends(one.span), _ends(other.span)
    return a[0] <= b[1] and b[0] <= a[1]


def line_after(line: int, column: int, edits: Iterable[Edit]) -> int:
    """The line that what stood at a place is in after ``edits``."""
    before = (edit for edit in edits if _ends(edit.span)[0] <= (line, column))
    return line + sum(edit.text.count("\n") - (edit.span.end_line - edit.span.line) for edit in before)


def _ends(span: Span) -> tuple[tuple[int, int], tuple[int, int]]:
    return (span.line, span.column), (span.end_line, span.end_column)
