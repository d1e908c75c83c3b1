"""What of a text is no code: lines that are comments, and long strings, in which docstrings tell of what others do."""

from __future__ import annotations

import re

_COMMENT = re.compile(rb"^[ \t]*#[^\n]*\n?", re.M)
_LONG = re.compile(rb'"""|\'\'\'')
# What can stand before a long string on its line: no comment, and no short string that is still open.
_BEFORE = re.compile(rb"""(?:[^#"'\\]|\\.|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')*\Z""")


def without_prose(text: bytes) -> bytes:
    """A text without its long strings, and without the lines that are comments.

    What looks like code in either runs nowhere. Where it is not clear that a string begins, it stays.
    """
    kept: list[bytes] = []
    start = searched = 0
    while (found := _LONG.search(text, searched)) is not None:
        line = max(text.rfind(b"\n", 0, found.start()) + 1, start)
        if _BEFORE.match(text, line, found.start()) is None:
            searched = found.end()
            continue
        end = _end(text, found[0], found.end())
        kept.append(text[start : found.start()])
        start = searched = end
    kept.append(text[start:])
    return _COMMENT.sub(b"", b'""'.join(kept))


def _end(text: bytes, quotes: bytes, start: int) -> int:
    """Where a long string ends whose text begins at ``start``; the end of the text where it does not."""
    end = text.find(quotes, start)
    while end > start and text[end - 1 : end] == b"\\" and _is_escaped(text, end):
        end = text.find(quotes, end + 1)
    return end + len(quotes) if end >= 0 else len(text)


def _is_escaped(text: bytes, position: int) -> bool:
    before = text[max(0, position - 50) : position]
    return (len(before) - len(before.rstrip(b"\\"))) % 2 == 1
