"""One file's text: encoding, notebook cells, and the chunks that are read."""

from __future__ import annotations

import ast
import io
import re
import textwrap
import tokenize
from array import array
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, cast

from gradguard.editing import split_lines
from gradguard.findings import Edit, FileError, Related, Span
from gradguard.static.files.gate import SourceError, parsed, problem_of
from gradguard.static.files.notebooks import as_python, code_cells, has_magic
from gradguard.static.files.outline import Extent, Outline, extent_of, outline_of
from gradguard.static.files.prose import without_prose
from gradguard.static.memo import Remembers, cached_property, memo_of

if TYPE_CHECKING:
    from gradguard.static.build import Piece, Tree
    from gradguard.static.concrete import Concrete
    from gradguard.static.tree import Node, Stmt


class Source(Remembers):
    """One file as text.

    It is kept as UTF-8, which it mostly was: a text with one emoji in it would take four times as much.

    Args:
        path: as it is shown, with ``/``.
        text: the whole text, or that in UTF-8; a notebook's code cells one after another.
        cells: for a notebook, the first line (from 1) and the cell's number (code cells, from 1) of each.
        problems: the cells that cannot be read, and why; their lines are empty in ``text``.
    """

    def __init__(
        self,
        path: str,
        text: str | bytes,
        cells: tuple[tuple[int, int], ...] = (),
        problems: tuple[FileError, ...] = (),
    ) -> None:
        self.path, self.cells, self.problems = path, cells, problems
        self.data = text if isinstance(text, bytes) else text.encode(errors="surrogatepass")
        self._chunks: dict[Extent, Chunk] = {}
        self._parsed: dict[Extent, list[ast.stmt]] = {}
        self._shown: dict[re.Pattern[str], bool] = {}

    @property
    def text(self) -> str:
        return _decoded(self.data)

    def shows(self, pattern: re.Pattern[str]) -> bool:
        """Whether a pattern has a match in the text; what is asked with each function of a file is looked for once."""
        if pattern not in self._shown:
            self._shown[pattern] = pattern.search(self.text) is not None
        return self._shown[pattern]

    @cached_property
    def _starts(self) -> array[int]:
        """Where each line begins, and where the last one ends; split as Python's parser does (not at form feeds)."""
        return array("L", accumulate(map(len, self.data.splitlines(keepends=True)), initial=0))

    def line(self, number: int) -> str:
        """A line with its end.

        Args:
            number: from 1.
        """
        return self.excerpt(Extent(number, number))

    @cached_property
    def outline(self) -> Outline:
        """The top-level statements.

        Raises:
            SourceError: the text is not Python that this interpreter reads.
        """
        module = parsed(self.text)
        for statement in module.body:
            self._parsed.setdefault(extent_of(statement), []).append(statement)
        return outline_of(module)

    def forget(self) -> None:
        """Drop what was parsed for the outline: what is read of the file from now on is parsed by itself."""
        self._parsed.clear()

    @property
    def parts(self) -> list[tuple[int | None, str]]:
        """The text, or each notebook cell with its number."""
        if not self.cells:
            return [(None, self.text)]
        ends = [start - 1 for start, _ in self.cells[1:]] + [len(self._starts) - 1]
        return [(cell, self.excerpt(Extent(start, end))) for (start, cell), end in zip(self.cells, ends)]

    def locate(self, line: int) -> tuple[int | None, int]:
        """A line of ``text`` -> (cell or None, line within it)."""
        number, first = None, 1
        for start, cell in self.cells:
            if start > line:
                break
            number, first = cell, start
        return number, line - first + 1

    def excerpt(self, extent: Extent) -> str:
        """The text of some lines."""
        return self.data_of(extent).decode(errors="surrogatepass")

    def data_of(self, extent: Extent) -> bytes:
        """The same in UTF-8."""
        return self.data[self._starts[extent.start - 1] : self._starts[extent.end]]

    def problem(self, extent: Extent) -> str | None:
        """Why a statement is not read, if so."""
        return self._chunk(extent).problem

    def chunk(self, extent: Extent) -> Chunk | None:
        """The statement by itself (without the white space before all of it), unless it must not be read."""
        return None if self.problem(extent) else self._chunk(extent)

    def _chunk(self, extent: Extent) -> Chunk:
        if extent not in self._chunks:
            self._chunks[extent] = Chunk(self, extent, extent.start, self._parsed.get(extent))
        return self._chunks[extent]

    def script_chunk(self) -> Chunk | None:
        """The module's own statements in one chunk, if all may be read; definitions are blank lines in it."""
        extents = self.outline.script
        if not extents or any(map(self.problem, extents)):
            return None
        for extent in extents:
            self._chunks[extent].forget()  # they are read together
        first, last = extents[0].start, extents[-1].end
        kept = ["\n"] * (last - first + 1)
        for extent in extents:
            for number in range(extent.start, extent.end + 1):
                kept[number - first] = self.line(number)
        return Chunk(self, "".join(kept), first)


@dataclass(eq=False, repr=False)
class Chunk(Remembers):
    """Some whole top-level statements of a file. LibCST parses it only when something in it is reported.

    Args:
        written: its text, or the lines that it is.
        parsed_before: what the file's own parse made of them, as long as that is kept.
    """

    source: Source
    written: str | Extent
    first_line: int
    parsed_before: list[ast.stmt] | None = None
    _concretes: dict[int, Concrete] = field(default_factory=dict)
    _shown: dict[re.Pattern[str], bool] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return self.written if isinstance(self.written, str) else _statement(self.source, self.written)

    @cached_property
    def program(self) -> str:
        """Its text without its comments and docstrings, for searches: what these show of code runs nowhere."""
        return without_prose(self.text.encode(errors="surrogatepass")).decode(errors="surrogatepass")

    def shows(self, pattern: re.Pattern[str]) -> bool:
        """Whether a pattern has a match in that; the same few are asked for with each function of a class."""
        if pattern not in self._shown:
            self._shown[pattern] = pattern.search(self.program) is not None
        return self._shown[pattern]

    @cached_property
    def problem(self) -> str | None:
        """Why it is not read, if so."""
        try:
            return problem_of(self._parsed)
        except SourceError as error:
            return str(error)

    @cached_property
    def _parsed(self) -> ast.Module:
        return parsed(self.text) if self.parsed_before is None else ast.Module(self.parsed_before, [])

    def forget(self) -> None:
        """Drop what was parsed."""
        memo_of(self).pop("_parsed", None)
        self.parsed_before = None

    @cached_property
    def statements(self) -> list[Stmt]:
        """The chunk's statements as a tree.

        Raises:
            SourceError: it is nested too deeply.
        """
        return self._read[0].statements

    @cached_property
    def _read(self) -> tuple[Tree, list[Piece], int]:
        """What the flow reads, the pieces of it that LibCST may be asked about, and the line before the chunk."""
        from gradguard.static.build import build, pieces

        try:
            before = 0 if self.parsed_before is None else self.first_line - 1
            tree = build(self._parsed)
            return tree, pieces(self._parsed, tree.statements, self.text, before), before
        except RecursionError:
            raise self._error("nested too deeply to be analysed") from None
        finally:
            self.forget()

    def _error(self, message: str, line: int = 1) -> SourceError:
        return SourceError(message, self.source.locate(self.first_line + line - 1)[1])

    def _concrete(self, number: object) -> Concrete:
        """What LibCST knows of the statements that a node is in.

        Raises:
            SourceError: LibCST cannot read them, or not as Python does.
        """
        from gradguard.static.concrete import Concrete

        _, all_pieces, _ = self._read
        piece = all_pieces[bisect_right(all_pieces, cast(int, number), key=lambda piece: piece.number) - 1]
        if piece.number not in self._concretes:
            try:
                self._concretes[piece.number] = Concrete(self.text, piece)
            except SourceError as error:
                raise self._error(str(error), error.line or 1) from None
        return self._concretes[piece.number]

    def span(self, number: object) -> Span:
        """Where a node of this chunk stands, in the file (or its notebook cell).

        Args:
            number: the node's ``origin``.
        """
        span = self._concrete(number).span(number)
        _, line = self.source.locate(span.line + self.first_line - 1)
        return Span(line, span.column, line + span.end_line - span.line, span.end_column)

    def line(self, number: object) -> int:
        """The line that a node begins in, in the file (or its notebook cell)."""
        return self.source.locate(self._line(number))[1]

    def cell(self, number: object) -> int | None:
        return self.source.locate(self._line(number))[0]

    def source_line(self, number: object) -> str:
        """The text of the line that a node begins in."""
        return self.source.line(self._line(number))

    def _line(self, number: object) -> int:
        """The line of the source's text that a node begins in, as Python's own parser tells: LibCST is not asked."""
        tree, _, before = self._read
        return tree.lines[cast(int, number) - tree.number - 1] - before + self.first_line - 1

    def lines(self, number: object) -> list[str]:
        """The whole lines that a node stands in, without their ends."""
        first, span = self._line(number), self.span(number)
        return split_lines(self.source.excerpt(Extent(first, first + span.end_line - span.line)).rstrip("\r\n"))

    def code(self, number: object) -> str:
        """The text of a node."""
        return self._concrete(number).code(number)


@lru_cache(maxsize=64)
def _statement(source: Source, extent: Extent) -> str:
    """Some lines without the white space before all of them."""
    text = source.excerpt(extent)
    return textwrap.dedent(text) if text[:1] in " \t" else text


class Site:
    """A node at its place in a file: what a finding points at."""

    __slots__ = ("chunk", "node")

    def __init__(self, chunk: Chunk, node: Node) -> None:
        self.chunk, self.node = chunk, node

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Site) and (self.chunk, self.node) == (other.chunk, other.node)

    def __hash__(self) -> int:
        return hash((self.chunk, self.node))

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
        return self.chunk.line(self.node.origin)

    @property
    def code(self) -> str:
        return self.chunk.code(self.node.origin)

    @property
    def lines(self) -> list[str]:
        """The whole lines that it stands in, without their ends."""
        return self.chunk.lines(self.node.origin)

    @property
    def text(self) -> str:
        """What stands in its span, as the file has it: without parentheses of its own, with all white space."""
        span, lines = self.span, self.lines
        end = span.end_column - 1 if span.end_line > span.line else span.end_column - span.column
        lines[0] = lines[0][span.column - 1 :]
        lines[-1] = lines[-1][:end]
        return "\n".join(lines)

    @property
    def indent(self) -> str:
        """The white space before the first character of the site's line."""
        line = self.chunk.source_line(self.node.origin)
        return line[: min(len(line) - len(line.lstrip()), self.span.column - 1)]

    def related(self, message: str) -> Related:
        """This place, as one that a finding mentions."""
        return Related(self.path, self.cell, self.line, message)

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
        encoding = encoding_of(data)
        text = data.decode(encoding)
        return Source(shown, data if encoding == "utf-8" else text)
    except (SyntaxError, LookupError, UnicodeDecodeError) as error:
        raise SourceError(f"cannot be decoded: {error}") from None


@lru_cache(maxsize=8)
def _decoded(data: bytes) -> str:
    """The text that is kept in UTF-8; the last ones are likely to be asked for again."""
    return data.decode(errors="surrogatepass")


def encoding_of(data: bytes) -> str:
    """The encoding of a file; UTF-8 where it declares one that only a package brings: ``future_fstrings``."""
    try:
        return tokenize.detect_encoding(io.BytesIO(data).readline)[0]
    except SyntaxError as error:
        if "unknown encoding" not in str(error):
            raise
        return "utf-8"


def _notebook(data: bytes, shown: str) -> Source:
    cells: list[tuple[int, int]] = []
    texts: list[str] = []
    problems: list[FileError] = []
    line = 1
    for number, text in enumerate(code_cells(data), start=1):
        cells.append((line, number))
        clean = as_python(text)
        try:
            parsed(clean)
        except SourceError as error:
            if not has_magic(text):
                problems.append(FileError(shown, error.line, f"cell {number}: {error}"))
            clean = "\n" * clean.count("\n")
        texts.append(clean + "\n")
        line += clean.count("\n") + 1
    return Source(shown, "".join(texts), tuple(cells), tuple(problems))


def problem_error(source: Source, extent: Extent) -> FileError | None:
    """The error to report for a statement that is not read."""
    problem = source.problem(extent)
    return None if problem is None else FileError(source.path, source.locate(extent.start)[1], problem)
