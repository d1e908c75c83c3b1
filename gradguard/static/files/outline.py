"""What stands at the top level of a file, and where: which lines hold which definition.

Told from ``ast``, so that only the definitions that are needed are read.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from gradguard.static.files.gate import MAX_WIDTH

# The name of a module's own statements, as a function.
SCRIPT = "<module>"


@dataclass(frozen=True, slots=True)
class Extent:
    """The lines of a top-level statement, both inclusive, from 1; decorators are part of it."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Unit:
    """A function of the top level or a method: what the screen decides about.

    Args:
        name: its own; ``<module>`` for the module's own statements.
        owner: the name of its class, or "".
        extents: its lines without its docstring, and those of its class's header.
    """

    name: str
    owner: str
    extents: tuple[Extent, ...]


@dataclass(slots=True)
class Outline:
    """What stands at the top level of a module, by name; and every function of it that can be read by itself."""

    functions: dict[str, Extent] = field(default_factory=dict)
    classes: dict[str, Extent] = field(default_factory=dict)
    imports: dict[str, str] = field(default_factory=dict)
    star_imports: list[str] = field(default_factory=list)
    variables: dict[str, list[Extent]] = field(default_factory=dict)
    script: list[Extent] = field(default_factory=list)
    imported_roots: set[str] = field(default_factory=set)
    units: list[Unit] = field(default_factory=list)

    @property
    def renamed(self) -> dict[str, str]:
        """What was imported under another name: ``import torch.nn.functional as F``."""
        return {name: dotted for name, dotted in self.imports.items() if name != dotted.rsplit(".", 1)[-1]}


def outline_of(module: ast.Module) -> Outline:
    """The outline of a parsed file."""
    outline = Outline()
    for stmt in module.body:
        extent = extent_of(stmt)
        if isinstance(stmt, ast.FunctionDef | ast.AsyncFunctionDef):
            outline.functions[stmt.name] = extent
            outline.units.append(Unit(stmt.name, "", tuple(_code_of(stmt))))
        elif isinstance(stmt, ast.ClassDef):
            outline.classes[stmt.name] = extent
            outline.units += _methods(stmt, Extent(extent.start, max(extent.start, stmt.body[0].lineno - 1)))
        else:
            if not isinstance(stmt, ast.Import | ast.ImportFrom) and not _is_data(stmt):
                outline.script.append(extent)
            _variables(stmt, outline)
    outline.units.append(Unit(SCRIPT, "", tuple(outline.script)))
    outline.imported_roots = {root for node in _statements(module) for root in _imported_roots(node)}
    return outline


def _methods(cls: ast.ClassDef, header: Extent) -> Iterator[Unit]:
    """The methods of a class, those that are defined under a condition too."""
    waiting: list[ast.AST] = list(cls.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield Unit(node.name, cls.name, (header, *_code_of(node)))
        elif not isinstance(node, ast.ClassDef):
            for name in _BLOCKS:
                waiting.extend(getattr(node, name, ()))


def _code_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Extent]:
    """The lines of a function without its docstring, which tells of what others do."""
    extent, first = extent_of(function), function.body[0]
    end = first.end_lineno or first.lineno
    text = first.value if isinstance(first, ast.Expr) else None
    is_docstring = isinstance(text, ast.Constant) and isinstance(text.value, str)
    if not is_docstring or len(function.body) == 1 or first.lineno == function.lineno or function.body[1].lineno == end:
        yield extent
    else:
        yield Extent(extent.start, first.lineno - 1)
        yield Extent(end + 1, extent.end)


_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


def _statements(module: ast.Module) -> Iterator[ast.stmt]:
    """Every statement, those of functions and classes too; expressions, which are most of a tree, are not entered."""
    stack: list[ast.AST] = [module]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.stmt):
            yield node
        for name in _BLOCKS:
            stack.extend(getattr(node, name, ()))


def _imported_roots(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name.split(".")[0] for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield node.module.split(".")[0]


def _is_data(stmt: ast.stmt) -> bool:
    """A table written out: nothing happens in it."""
    value = getattr(stmt, "value", None)
    if isinstance(value, ast.Dict):
        return len(value.values) > MAX_WIDTH
    return isinstance(value, ast.List | ast.Tuple | ast.Set) and len(value.elts) > MAX_WIDTH


def imports_of(statements: Iterable[ast.stmt]) -> tuple[dict[str, str], list[str]]:
    """What import statements bind: each name with what it stands for, and the modules that all names are taken of."""
    outline = Outline()
    for stmt in statements:
        _variables(stmt, outline)
    return outline.imports, outline.star_imports


def _variables(stmt: ast.stmt, outline: Outline) -> None:
    """Names bound by a top-level statement, entering ``if``, ``try``, ``with`` and loops."""
    if isinstance(stmt, ast.Import):
        for alias in stmt.names:
            root = alias.name.split(".")[0]
            outline.imports[alias.asname or root] = alias.name if alias.asname else root
    elif isinstance(stmt, ast.ImportFrom):
        base = "." * stmt.level + (stmt.module or "")
        for alias in stmt.names:
            if alias.name == "*":
                outline.star_imports.append(base)
            else:
                joined = f"{base}{alias.name}" if base.endswith(".") else f"{base}.{alias.name}"
                outline.imports.setdefault(alias.asname or alias.name, joined)
    elif isinstance(stmt, ast.Assign | ast.AnnAssign | ast.AugAssign) and not _is_data(stmt):
        targets = stmt.targets if isinstance(stmt, ast.Assign) else [stmt.target]
        for target in targets:
            for node in ast.walk(target):
                if isinstance(node, ast.Name):
                    outline.variables.setdefault(node.id, []).append(extent_of(stmt))
    elif isinstance(stmt, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        pass  # bound inside a block: the script's own flow defines it
    else:
        for child in ast.iter_child_nodes(stmt):
            if isinstance(child, ast.stmt):
                _variables(child, outline)
            elif isinstance(child, ast.ExceptHandler):
                for inner in child.body:
                    _variables(inner, outline)


def extent_of(stmt: ast.stmt) -> Extent:
    """The lines of a statement, its decorators included."""
    decorators: list[ast.expr] = getattr(stmt, "decorator_list", [])
    start = min([stmt.lineno, *(decorator.lineno for decorator in decorators)])
    return Extent(start, stmt.end_lineno or stmt.lineno)
