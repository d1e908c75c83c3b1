"""What is read at all: ``ast`` refuses in milliseconds most of what would crash LibCST's native parser."""

from __future__ import annotations

import ast
import sys
import warnings
from functools import lru_cache

# Bounds of what LibCST and a recursive reading can take; ast accepts far more on some Python versions.
MAX_DEPTH = 200
MAX_WIDTH = 1000
_READ_AS = f"read as Python {sys.version_info.major}.{sys.version_info.minor}, which runs GradGuard"
"""What is written for a later Python is an error to an earlier one, and nothing in the message tells."""
_SHORT = 64
"""An expression of so many bytes is not looked into; one that is too deep is found this much deeper."""


class SourceError(Exception):
    """A file that cannot be analysed: ``line`` (or None) and the reason."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


@lru_cache(maxsize=4)
def parsed(text: str) -> ast.Module:
    """The module that a text is. The last ones are kept: a text is asked about by several, one right after another.

    Raises:
        SourceError: this interpreter cannot read it.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except SyntaxError as error:
        raise SourceError(f"{error.msg} ({_READ_AS})", error.lineno or 1) from None
    except (RecursionError, MemoryError):
        raise SourceError("nested too deeply to be parsed") from None
    except ValueError as error:  # null bytes
        raise SourceError(str(error)) from None


def problem_of(module: ast.Module) -> str | None:
    """Why these statements are not read, if so."""
    level: list[ast.AST] = [module]
    for _ in range(MAX_DEPTH):
        below: list[ast.AST] = []
        for node in level:
            if type(node) is ast.BoolOp and len(node.values) > MAX_WIDTH:
                return f"a chain of {len(node.values)} and/or is too long to be analysed"
            below += [each for each in inner(node) if not _is_short(each)]
        if not below:
            return None
        level = below
    return "nested too deeply to be analysed"


def _is_short(node: ast.AST) -> bool:
    """Whether an expression is written in so little room that nothing in it is deep or wide: a level takes a byte."""
    return (
        isinstance(node, ast.expr)
        and node.lineno == node.end_lineno
        and (node.end_col_offset or MAX_DEPTH) - node.col_offset < _SHORT
    )


def inner(node: ast.AST) -> list[ast.AST]:
    """What is directly below a node and may have more below it."""
    found: list[ast.AST] = []
    for value in vars(node).values():
        cls = type(value)
        if cls is list:
            found += [item for item in value if type(item) not in _FLAT]
        elif cls not in _FLAT:
            found.append(value)
    return found


_FLAT = frozenset((
    *(str, int, float, complex, bool, bytes, type(None), type(...), ast.Name, ast.Constant, ast.alias, ast.Pass),
    *(ast.Load, ast.Store, ast.Del, *ast.operator.__subclasses__(), *ast.unaryop.__subclasses__()),
    *(*ast.boolop.__subclasses__(), *ast.cmpop.__subclasses__()),
))  # fmt: skip
