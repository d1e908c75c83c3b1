"""The user's files, as the run read them, parsed when a diagnosis asks, with the standard library's ``ast``."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from gradguard.findings import Leak, Place
from gradguard.runtime.stores import stores
from gradguard.runtime.texts import is_changed, is_unknown, lines_of
from gradguard.runtime.usercode import START, shown, user_modules

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
LoopNode = ast.For | ast.While | ast.AsyncFor

AROUND = 2
"""Lines above and below a statement that are kept for the report."""


def lines_around(leaks: Iterable[Leak]) -> dict[str, dict[int, str]]:
    """The lines around the statements of ``leaks``, without their ends, by path and number.

    Of a file whose text is not known, none.
    """
    found: dict[str, dict[int, str]] = {}
    for leak in leaks:
        for place in _places(leak):
            lines = lines_of(_filename(place.path))
            if is_unknown(_filename(place.path)):
                found[place.path] = {}
            elif place.line <= len(lines):
                numbers = range(max(place.line - AROUND, 1), min(place.line + AROUND, len(lines)) + 1)
                kept = found.setdefault(place.path, {})
                kept.update((number, lines[number - 1].rstrip("\r\n")) for number in numbers)
    return found


def changed_files(paths: Iterable[str]) -> list[str]:
    """Those of the reported files that are not on disk any more as the run read them."""
    return [path for path in paths if not path.startswith("<") and is_changed(_filename(path))]


def unknown_files(leaks: Iterable[Leak]) -> list[str]:
    """Those of the reported files whose text, as it runs, is not known."""
    places = [place for leak in leaks for place in _places(leak)]
    return sorted({place.path for place in places if is_unknown(_filename(place.path))})


def said_of_files(leaks: Iterable[Leak]) -> list[str]:
    """What the reader should know of the reported files that were edited meanwhile."""
    leaks = list(leaks)
    unknown = unknown_files(leaks)
    changed = changed_files(path for path in lines_around(leaks) if path not in unknown)
    return [
        *(f"{path} has changed on disk since the run read it: the lines shown are the run's" for path in changed),
        *(f"{path} was edited while the program was loading: its lines are not shown" for path in unknown),
    ]


def _places(leak: Leak) -> list[Place]:
    return [place for place in (leak.stored_at, *leak.also_stored_at, leak.made_at) if place is not None]


def _filename(path: str) -> str:
    return path if path.startswith("<") else os.path.join(START, path)


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


IsOff = Callable[[Source, ast.AST], bool]
"""Whether a statement or a call is known never to be run."""


def may_run(source: Source, node: ast.AST) -> bool:
    """What is said where nothing is known: that it is not off."""
    return False


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
        """The innermost statement that covers ``line``; of several on it, the one that stores into ``name``.

        None for the line of a decorator, which stands before what it decorates, and is no part of the class around.
        """
        source = self.get(filename)
        nodes = list(ast.walk(source.tree)) if source else []
        if any(_covers(decorator, line) for node in nodes for decorator in getattr(node, "decorator_list", ())):
            return None
        covering = [node for node in nodes if isinstance(node, ast.stmt) and _covers(node, line)]
        innermost = [node for node in covering if node.lineno == max(n.lineno for n in covering)]
        storing = [node for node in innermost if name is not None and stores(node, name)]
        found = storing or innermost
        return found[-1] if found else None

    def place(self, filename: str, line: int, name: str | None = None) -> Place:
        """The statement at ``line``, for the report."""
        statement = self.statement(filename, line, name)
        if statement is not None:
            return place_of(filename, statement)
        lines = lines_of(filename)
        text = lines[line - 1].strip() if line <= len(lines) else ""
        return Place(shown(filename), line, text or None)


def _covers(node: ast.stmt | ast.expr, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def place_of(filename: str, statement: ast.stmt) -> Place:
    """A statement, for the report."""
    return Place(shown(filename), statement.lineno, code_of(statement))


def code_of(statement: ast.stmt) -> str:
    """A statement on one line: a compound one without its body."""
    if isinstance(statement, LoopNode | ast.If | ast.With | ast.AsyncWith | FunctionNode | ast.ClassDef | ast.Try):
        return ast.unparse(statement).split("\n", 1)[0]
    return ast.unparse(statement)


def _parsed(filename: str) -> Source | None:
    lines = lines_of(filename)
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
