"""One file's text: encoding, notebook cells, outline, and the chunks that LibCST parses.

``ast`` is the gate: it refuses in milliseconds most of what would crash LibCST's native parser, and its outline says
which lines hold which top-level definition, so that only those that are needed are ever parsed by LibCST.
"""

from __future__ import annotations

import ast
import io
import json
import re
import textwrap
import tokenize
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, cast

from gradguard.findings import Edit, FileError, Span

if TYPE_CHECKING:
    import libcst as cst
    from libcst.metadata import CodeRange

    from gradguard.static.tree import Node, Stmt

# Bounds of what LibCST and a recursive reading can take; ast accepts far more on some Python versions.
MAX_DEPTH = 200
MAX_WIDTH = 1000

# The name of a module's own statements, as a function.
SCRIPT = "<module>"

_MAGIC = re.compile(r"^(\s*)(?:[%!?]|[\w.]+\?+\s*$)")
_PYTHON_CELL_MAGICS = ("%%time", "%%timeit", "%%capture", "%%prun")


class SourceError(Exception):
    """A file that cannot be analysed: ``line`` (or None) and the reason."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


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
        extents: its lines, and those of its class's header.
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


@dataclass(eq=False, repr=False)
class Source:
    """One file as text.

    Args:
        path: as it is shown, with ``/``.
        text: the whole text; a notebook's code cells one after another.
        cells: for a notebook, the first line (from 1) and the cell's number (code cells, from 1) of each.
        problems: the cells that cannot be read, and why; their lines are empty in ``text``.
    """

    path: str
    text: str
    cells: tuple[tuple[int, int], ...] = ()
    problems: tuple[FileError, ...] = ()
    _problems: dict[Extent, str | None] = field(default_factory=dict)

    @cached_property
    def lines(self) -> list[str]:
        """The lines with their ends, split as Python's parser does (not at form feeds)."""
        return re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+$", self.text)

    @cached_property
    def outline(self) -> Outline:
        """The top-level statements.

        Raises:
            SourceError: the text is not Python that this interpreter reads.
        """
        return _outline(_parsed(self.text))

    @property
    def parts(self) -> list[tuple[int | None, str]]:
        """The text, or each notebook cell with its number."""
        if not self.cells:
            return [(None, self.text)]
        starts = [start - 1 for start, _ in self.cells] + [len(self.lines)]
        return [(cell, "".join(self.lines[starts[i] : starts[i + 1]])) for i, (_, cell) in enumerate(self.cells)]

    def locate(self, line: int) -> tuple[int | None, int]:
        """A line of ``text`` -> (cell or None, line within it)."""
        number, first = None, 1
        for start, cell in self.cells:
            if start > line:
                break
            number, first = cell, start
        return number, line - first + 1

    def excerpt(self, extent: Extent) -> str:
        return "".join(self.lines[extent.start - 1 : extent.end])

    def problem(self, extent: Extent) -> str | None:
        """Why LibCST must not see a statement, if so."""
        if extent not in self._problems:
            self._problems[extent] = _problem(textwrap.dedent(self.excerpt(extent)))
        return self._problems[extent]

    def chunk(self, extent: Extent) -> Chunk | None:
        """The statement by itself, unless LibCST must not see it."""
        return None if self.problem(extent) else Chunk(self, self.excerpt(extent), extent.start)

    def script_chunk(self) -> Chunk | None:
        """The module's own statements in one chunk, if LibCST may see them all; definitions are blank lines in it."""
        extents = self.outline.script
        if not extents or any(map(self.problem, extents)):
            return None
        first, last = extents[0].start, extents[-1].end
        kept = ["\n"] * (last - first + 1)
        for extent in extents:
            kept[extent.start - first : extent.end - first + 1] = self.lines[extent.start - 1 : extent.end]
        return Chunk(self, "".join(kept), first)


@dataclass(eq=False, repr=False)
class Chunk:
    """Some whole top-level statements of a file, parsed by LibCST when needed."""

    source: Source
    text: str
    first_line: int

    @cached_property
    def statements(self) -> list[Stmt]:
        """The chunk's statements as a tree.

        LibCST's own tree is ten times as large. It is dropped, and made again for the few chunks with findings: each
        node keeps only its number in the order of :func:`gradguard.static.tree.walk`.

        Raises:
            SourceError: LibCST cannot read it.
        """
        from gradguard.static.tree import walk

        statements, _ = self._read()
        for number, node in enumerate(walk(statements)):
            node.origin = number
        return statements

    def _read(self) -> tuple[list[Stmt], cst.Module]:
        import libcst as cst

        from gradguard.static.build import build

        try:
            module = cst.parse_module(self.text)
            return build(module), module
        except cst.ParserSyntaxError as error:
            _, line = self.source.locate(self.first_line + error.raw_line - 1)
            raise SourceError(f"LibCST cannot parse this: {error.message}", line) from None
        except RecursionError:
            _, line = self.source.locate(self.first_line)
            raise SourceError("nested too deeply to be analysed", line) from None

    @cached_property
    def _concrete(self) -> tuple[list[cst.CSTNode], Mapping[object, CodeRange], cst.Module]:
        """LibCST's nodes in the order of the tree's, and where they stand."""
        from libcst.metadata import MetadataWrapper, PositionProvider

        from gradguard.static.tree import walk

        statements, module = self._read()
        nodes = [cast("cst.CSTNode", node.origin) for node in walk(statements)]
        positions = MetadataWrapper(module, unsafe_skip_copy=True).resolve(PositionProvider)
        return nodes, cast("Mapping[object, CodeRange]", positions), module

    def _position(self, number: object) -> CodeRange:
        nodes, positions, _ = self._concrete
        return positions[nodes[cast(int, number)]]

    def span(self, number: object) -> Span:
        """Where a node of this chunk stands, in the file (or its notebook cell).

        Args:
            number: the node's ``origin``.
        """
        start, end = self._position(number).start, self._position(number).end
        _, line = self.source.locate(start.line + self.first_line - 1)
        return Span(line, start.column + 1, line + end.line - start.line, end.column + 1)

    def line(self, number: object) -> int:
        return self.span(number).line

    def cell(self, number: object) -> int | None:
        return self.source.locate(self._position(number).start.line + self.first_line - 1)[0]

    def source_line(self, number: object) -> str:
        """The text of the line that a node begins in."""
        return self.source.lines[self._position(number).start.line + self.first_line - 2]

    def code(self, number: object) -> str:
        """The text of a node."""
        nodes, _, module = self._concrete
        return module.code_for_node(nodes[cast(int, number)]).strip()


@dataclass(frozen=True, slots=True)
class Site:
    """A node at its place in a file: what a finding points at."""

    chunk: Chunk
    node: Node

    @property
    def path(self) -> str:
        return self.chunk.source.path

    @property
    def cell(self) -> int | None:
        return self.chunk.cell(self.node.origin)

    @property
    def span(self) -> Span:
        return self.chunk.span(self.node.origin)

    @property
    def line(self) -> int:
        return self.span.line

    @property
    def code(self) -> str:
        return self.chunk.code(self.node.origin)

    @property
    def indent(self) -> str:
        """The white space before the first character of the site's line."""
        line = self.chunk.source_line(self.node.origin)
        return line[: min(len(line) - len(line.lstrip()), self.span.column - 1)]

    def replace(self, text: str) -> Edit:
        """An edit that puts ``text`` in this place."""
        return Edit(self.span, text)

    def insert_before(self, text: str) -> Edit:
        """An edit that puts ``text`` right before this place."""
        span = self.span
        return Edit(Span(span.line, span.column, span.line, span.column), text)


# --- reading ----------------------------------------------------------------------------------------------------


def read(path: Path, shown: str) -> Source:
    """Read a ``.py`` file or a notebook.

    Raises:
        SourceError: it cannot be opened, decoded, or is not a notebook.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SourceError((error.strerror or str(error)).lower()) from None
    return from_bytes(data, shown, notebook=path.suffix == ".ipynb")


def from_bytes(data: bytes, shown: str, *, notebook: bool = False) -> Source:
    """A source from its bytes; see :func:`read`."""
    if notebook:
        return _notebook(data, shown)
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return Source(shown, data.decode(encoding))
    except (SyntaxError, LookupError, UnicodeDecodeError) as error:
        raise SourceError(f"cannot be decoded: {error}") from None


def _notebook(data: bytes, shown: str) -> Source:
    cells: list[tuple[int, int]] = []
    texts: list[str] = []
    problems: list[FileError] = []
    line = 1
    for number, text in enumerate(code_cells(data), start=1):
        cells.append((line, number))
        clean = _without_magics(text)
        try:
            _parsed(clean)
        except SourceError as error:
            if not _has_magic(text):
                problems.append(FileError(shown, error.line, f"cell {number}: {error}"))
            clean = "\n" * clean.count("\n")
        texts.append(clean + "\n")
        line += clean.count("\n") + 1
    return Source(shown, "".join(texts), tuple(cells), tuple(problems))


def code_cells(data: bytes) -> Iterator[str]:
    """The code cells of a notebook (``nbformat`` 3 and 4), as they are.

    Raises:
        SourceError: the bytes are not a notebook.
    """
    try:
        notebook = json.loads(data)
        sheets = notebook.get("worksheets")
        cells = [c for sheet in sheets for c in sheet["cells"]] if sheets else notebook["cells"]
        sources = [c.get("source", c.get("input", "")) for c in cells if c["cell_type"] == "code"]
    except ValueError as error:
        raise SourceError(f"not a notebook: {error}") from None
    except (KeyError, TypeError, AttributeError):
        raise SourceError("not a notebook: it has no list of cells") from None
    for source in sources:
        yield ("".join(source) if isinstance(source, list) else str(source)).replace("\r\n", "\n").replace("\r", "\n")


def _without_magics(text: str) -> str:
    """The cell with IPython's own syntax turned into statements of the same lines."""
    stripped = text.lstrip()
    lines = text.split("\n")
    if stripped.startswith("%%") and not stripped.startswith(_PYTHON_CELL_MAGICS):
        return "\n" * (len(lines) - 1)
    return "\n".join(_MAGIC.sub(r"\1pass  # \g<0>", line) if _MAGIC.match(line) else line for line in lines)


def _has_magic(text: str) -> bool:
    """Whether a cell may hold more of IPython's own syntax than was replaced: ``files = !ls``."""
    return re.search(r"=\s*[%!]|^\s*[%!?]|\?\s*$", text, re.M) is not None


def _parsed(text: str) -> ast.Module:
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


# --- the outline ------------------------------------------------------------------------------------------------


def _outline(module: ast.Module) -> Outline:
    outline = Outline()
    for stmt in module.body:
        extent = _extent(stmt)
        if isinstance(stmt, ast.FunctionDef | ast.AsyncFunctionDef):
            outline.functions[stmt.name] = extent
            outline.units.append(Unit(stmt.name, "", (extent,)))
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
            yield Unit(node.name, cls.name, (header, _extent(node)))
        elif not isinstance(node, ast.ClassDef):
            for name in _BLOCKS:
                waiting.extend(getattr(node, name, ()))


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
                    outline.variables.setdefault(node.id, []).append(_extent(stmt))
    elif isinstance(stmt, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        pass  # bound inside a block: the script's own flow defines it
    else:
        for child in ast.iter_child_nodes(stmt):
            if isinstance(child, ast.stmt):
                _variables(child, outline)
            elif isinstance(child, ast.ExceptHandler):
                for inner in child.body:
                    _variables(inner, outline)


def _extent(stmt: ast.stmt) -> Extent:
    decorators = getattr(stmt, "decorator_list", ())
    start = min([stmt.lineno, *(d.lineno for d in decorators)])
    return Extent(start, stmt.end_lineno or stmt.lineno)


def _problem(text: str) -> str | None:
    """Why LibCST must not see this statement, if so."""
    try:
        level: list[ast.AST] = [_parsed(text)]
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


def problem_error(source: Source, extent: Extent) -> FileError | None:
    """The error to report for a statement that LibCST must not see."""
    problem = source.problem(extent)
    return None if problem is None else FileError(source.path, source.locate(extent.start)[1], problem)
