"""The user's files as the run has them: a run may last for days, and its files be edited meanwhile.

A file is read as early as it is known to be loaded. Where it was edited before that, its text is not what runs; that
is seen by compiling it, and then nothing is said to be its text.
"""

from __future__ import annotations

import io
import linecache
import os
import sys
import tokenize
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from importlib.util import decode_source
from time import time
from types import CodeType, FunctionType, ModuleType

from gradguard.runtime.usercode import user_modules

_EDITED_LATELY = time() - 600.0
"""A file that is older than this was not edited while the program was loading."""

_lines: dict[str, list[str]] = {}
_unknown: set[str] = set()


def keep(filename: str, data: bytes) -> None:
    """Note the text of a file that is compiled now."""
    try:
        _lines[_key(filename)] = list(io.StringIO(decode_source(data)))
    except (SyntaxError, UnicodeDecodeError):
        return


def lines_of(filename: str) -> list[str]:
    """A file's lines with their ends, as they were when they were first asked for.

    None when it cannot be read, and when it was edited after it was loaded and before that.
    """
    key = _key(filename)
    if key not in _lines:
        lines = linecache.getlines(key)
        if lines and _was_edited_since_it_was_loaded(key, lines):
            _unknown.add(key)
            lines = []
        _lines[key] = lines
    return _lines[key]


def remember() -> None:
    """Read the user's files that are loaded by now."""
    for module in user_modules():
        filename = getattr(module, "__file__", None)
        if isinstance(filename, str):
            lines_of(filename)


def is_unknown(filename: str) -> bool:
    """Whether what was loaded from a file is not its text."""
    return _key(filename) in _unknown


def is_changed(filename: str) -> bool:
    """Whether a file is not on disk any more as the run read it."""
    try:
        with tokenize.open(filename) as file:
            now = file.read()
    except (OSError, SyntaxError, UnicodeDecodeError):
        return True
    return now.splitlines() != "".join(lines_of(filename)).splitlines()


def _key(filename: str) -> str:
    return filename if filename.startswith("<") else os.path.realpath(filename)


def _was_edited_since_it_was_loaded(key: str, lines: list[str]) -> bool:
    """Whether the code that was loaded from a file is not the code of its text."""
    try:
        if key.startswith("<") or os.stat(key).st_mtime < _EDITED_LATELY:
            return False
        loaded = [code for module in user_modules() for code in _loaded_from(key, module)]
        if not loaded:
            return False
        known = set(_with_all_in(compile("".join(lines), key, "exec", dont_inherit=True)))
    except (OSError, SyntaxError, ValueError, RecursionError):
        return True
    return not known.issuperset(loaded)


def _loaded_from(key: str, module: ModuleType) -> Iterator[CodeType]:
    """The code of a module: of its functions, and of itself while it runs.

    Only as Python itself loads it: others (pytest) rewrite what they load.
    """
    filename = getattr(module, "__file__", None)
    if type(getattr(module, "__loader__", None)) is not SourceFileLoader or not isinstance(filename, str):
        return
    if _key(filename) != key:
        return
    values = list(vars(module).values())
    values += [value for cls in values if isinstance(cls, type) for value in vars(cls).values()]
    found = [value.__code__ for value in values if isinstance(value, FunctionType)]
    frame = sys._getframe()
    while (back := frame.f_back) is not None:
        found.append(back.f_code)
        frame = back
    yield from (code for code in found if not code.co_filename.startswith("<") and _key(code.co_filename) == key)


def _with_all_in(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _with_all_in(each)
