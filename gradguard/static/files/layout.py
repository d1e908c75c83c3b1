"""The functions of a file as far as its layout tells, with the text of each: what is looked at before it is parsed.

The text of a function never lacks what :mod:`gradguard.static.files.outline` counts to it; it may have more, such as
the functions that stand between it and the next one of its class.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache

from gradguard.static.files.outline import SCRIPT

Key = tuple[str, str]
"""The name of a function's class, or "", and its own."""

# Where another part of a file begins, at the left edge.
_EDGE = re.compile(rb"^(?=@|def\b|async\b|class\b|(?<=\n)(?!el(?:se|if)\b|except\b|finally\b)[^\s@#)\]}])", re.M)
_DEFINITION = re.compile(rb"[ \t]*(?:async[ \t]+)?(def|class)[ \t]+(\w+)")
_MEMBER = re.compile(rb"^([ \t]+)(?:@|(?:async[ \t]+)?def\b)", re.M)
_HEADER = re.compile(rb"(?s:.*?):[ \t]*(?:#[^\n]*)?(?:\n|\Z)")


def functions(code: bytes) -> dict[Key, bytes]:
    """The functions of a file, and its other statements; in a notebook nothing is told apart.

    Args:
        code: the text without its long strings.
    """
    found: dict[Key, bytes] = {}
    for key, text in ((("", SCRIPT), code),) if code.lstrip()[:1] == b"{" else _functions(code):
        found[key] = found.get(key, b"") + text
    return found


def _functions(code: bytes) -> Iterator[tuple[Key, bytes]]:
    for definition, decorators, text in _definitions(_EDGE.split(code)):
        if definition is None:
            yield ("", SCRIPT), text
        elif definition[1] == b"def":
            yield ("", definition[2].decode(errors="replace")), decorators + text
        else:
            header = _HEADER.match(text)
            head = decorators + (header[0] if header is not None else text)
            for name, method in _methods(text):
                yield (definition[2].decode(errors="replace"), name), head + method


def _methods(text: bytes) -> Iterator[tuple[str, bytes]]:
    """The functions of a class that stand furthest to the left."""
    indents = dict.fromkeys(_MEMBER.findall(text))
    if indents:
        parts = _edge_at(min(indents, key=len)).split(text)
        for definition, decorators, method in _definitions(parts):
            if definition is not None and definition[1] == b"def":
                yield definition[2].decode(errors="replace"), decorators + method


@cache
def _edge_at(indent: bytes) -> re.Pattern[bytes]:
    return re.compile(rb"^(?=" + indent + rb"(?:@|(?:async[ \t]+)?def\b))", re.M)


def _definitions(parts: Iterable[bytes]) -> Iterator[tuple[re.Match[bytes] | None, bytes, bytes]]:
    """What each part defines, if anything, with the decorators before it."""
    decorators = b""
    for part in parts:
        if part.lstrip(b" \t")[:1] == b"@":
            decorators += part
        else:
            yield _DEFINITION.match(part), decorators, part
            decorators = b""


def statements(code: bytes) -> list[bytes]:
    """The statements of the top level, a class in parts: a class of its name around each method, the last one first.

    Args:
        code: the text without its long strings.
    """
    found: list[bytes] = []
    for definition, decorators, part in _definitions(_EDGE.split(code)):
        is_class = definition is not None and definition[1] == b"class"
        found += _parts_of_class(decorators + part) if is_class else [decorators + part]
    return found


def _parts_of_class(text: bytes) -> list[bytes]:
    indents = dict.fromkeys(_MEMBER.findall(text))
    if not indents:
        return [text]
    indent = min(indents, key=len)
    first, *members = _edge_at(indent).split(text)
    name = next(match[2] for match in _DEFINITION.finditer(first) if match[1] == b"class")
    methods = [decorators + method for _, decorators, method in _definitions(members)]
    return [*(b"class " + name + b":\n" + method for method in reversed(methods)), first + indent + b"pass\n"]
