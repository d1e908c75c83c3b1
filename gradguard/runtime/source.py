"""The user's files, parsed when a diagnosis asks, with the standard library's ``ast``."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from dataclasses import dataclass

from gradguard.findings import Place
from gradguard.runtime.stores import stores
from gradguard.runtime.usercode import shown, user_modules

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
LoopNode = ast.For | ast.While | ast.AsyncFor


@dataclass(frozen=True, slots=True)
class Source:
    """A parsed file.

    Args:
        filename: as code objects have it.
        tree: its module.
        parents: the syntax node around each one.
    """

    filename: str
    tree: ast.Module
    parents: dict[ast.AST, ast.AST]

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around ``node``, the nearest first."""
        while (parent := self.parents.get(node)) is not None:
            yield parent
            node = parent

    def function_of(self, node: ast.AST) -> ast.AST:
        """The function that ``node`` is in, or the module."""
        return next((n for n in self.around(node) if isinstance(n, FunctionNode)), self.tree)

    def loop_of(self, node: ast.AST) -> ast.AST | None:
        """The innermost loop around ``node`` in its function."""
        for each in self.around(node):
            if isinstance(each, LoopNode):
                return each
            if isinstance(each, FunctionNode | ast.Lambda):
                return None
        return None


class Sources:
    """The user's files, each parsed once."""

    def __init__(self) -> None:
        self._known: dict[str, Source | None] = {}

    def get(self, filename: str) -> Source | None:
        """A file, or None when it cannot be read or parsed."""
        if filename not in self._known:
            self._known[filename] = _parsed(filename)
        return self._known[filename]

    def all(self) -> Iterator[Source]:
        """Every loaded file of the user."""
        for module in user_modules():
            filename = getattr(module, "__file__", None)
            if isinstance(filename, str) and (source := self.get(filename)) is not None:
                yield source

    def statement(self, filename: str, line: int, name: str | None = None) -> ast.stmt | None:
        """The innermost statement that covers ``line``; of several on it, the one that stores into ``name``."""
        source = self.get(filename)
        covering = [
            node
            for node in (ast.walk(source.tree) if source else ())
            if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno)
        ]
        innermost = [node for node in covering if node.lineno == max(n.lineno for n in covering)]
        storing = [node for node in innermost if name is not None and stores(node, name)]
        found = storing or innermost
        return found[-1] if found else None

    def place(self, filename: str, line: int, name: str | None = None) -> Place:
        """The statement at ``line``, for the report."""
        statement = self.statement(filename, line, name)
        if statement is not None:
            return place_of(filename, statement)
        text = linecache.getline(filename, line).strip()
        return Place(shown(filename), line, text or None)


def place_of(filename: str, statement: ast.stmt) -> Place:
    """A statement, for the report."""
    return Place(shown(filename), statement.lineno, code_of(statement))


def code_of(statement: ast.stmt) -> str:
    """A statement on one line: a compound one without its body."""
    if isinstance(statement, LoopNode | ast.If | ast.With | ast.AsyncWith | FunctionNode | ast.ClassDef | ast.Try):
        return ast.unparse(statement).split("\n", 1)[0]
    return ast.unparse(statement)


def _parsed(filename: str) -> Source | None:
    lines = linecache.getlines(filename)
    try:
        tree = ast.parse("".join(lines), filename)
    except (SyntaxError, ValueError, RecursionError):
        return None
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    return Source(filename, tree, parents) if lines else None


def own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function, or of a module, without those of the functions in it."""
    waiting = list(ast.iter_child_nodes(function))
    while waiting:
        node = waiting.pop(0)
        yield node
        if not isinstance(node, FunctionNode | ast.ClassDef):
            waiting[:0] = ast.iter_child_nodes(node)
