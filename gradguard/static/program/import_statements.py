"""Where a file's imports lead, told from its text: to learn that, hundreds of files would be parsed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gradguard.static.files.outline import imports_of
from gradguard.static.files.prose import without_prose

# A definition at the left edge, any other statement there, or an import, over several lines where it has parentheses.
_STATEMENTS = re.compile(
    rb"^(?:(?P<define>@|(?:async[ \t]+)?def\b|class\b)|"
    rb"[ \t]*(?P<imports>(?:from|import)\b[ \t]*(?:[^\n(]*\([^)]*\)|(?:[^\n\\]|\\\n)*))|(?![)\]}])\S)",
    re.M,
)


def imported_from(data: bytes) -> tuple[str, ...] | None:
    """The dotted names that the imports of a file lead to, those in functions and classes apart.

    Args:
        data: the text of the file, in UTF-8.

    Returns:
        also the modules of ``from module import *``; None where a statement is not understood by itself.
    """
    try:
        statements = [ast.parse(text).body for text in _imports(without_prose(data))]
    except (SyntaxError, ValueError):
        return None
    names, stars = imports_of(statement for body in statements for statement in body)
    return (*names.values(), *stars)


def _imports(code: bytes) -> Iterator[bytes]:
    """The import statements that are not part of a definition at the left edge."""
    defining = False
    for match in _STATEMENTS.finditer(code):
        if match["imports"] is None:
            defining = match["define"] is not None
        elif not defining or match.start("imports") == match.start():
            defining = False
            yield match["imports"]
