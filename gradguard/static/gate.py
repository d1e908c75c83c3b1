"""What is read at all: ``ast`` refuses in milliseconds most of what would crash LibCST's native parser."""

from __future__ import annotations

import ast
import warnings

# Bounds of what LibCST and a recursive reading can take; ast accepts far more on some Python versions.
MAX_DEPTH = 200
MAX_WIDTH = 1000


class SourceError(Exception):
    """A file that cannot be analysed: ``line`` (or None) and the reason."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


def parsed(text: str) -> ast.Module:
    """The module that a text is.

    Raises:
        SourceError: this interpreter cannot read it.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except SyntaxError as error:
        raise SourceError(error.msg, error.lineno or 1) from None
    except (RecursionError, MemoryError):
        raise SourceError("nested too deeply to be parsed") from None
    except ValueError as error:  # null bytes
        raise SourceError(str(error)) from None


def problem_of(text: str) -> str | None:
    """Why this statement is not read, if so."""
    try:
        level: list[ast.AST] = [parsed(text)]
    except SourceError as error:
        return str(error)
    for _ in range(MAX_DEPTH):
        below: list[ast.AST] = []
        for node in level:
            if isinstance(node, ast.BoolOp) and len(node.values) > MAX_WIDTH:
                return f"a chain of {len(node.values)} and/or is too long to be analysed"
            for value in vars(node).values():
                if isinstance(value, list):
                    below += [item for item in value if isinstance(item, ast.AST)]
                elif isinstance(value, ast.AST) and not isinstance(value, _LEAVES):
                    below.append(value)
        if not below:
            return None
        level = below
    return "nested too deeply to be analysed"


_LEAVES = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.Constant, ast.Name)
