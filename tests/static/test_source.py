from __future__ import annotations

import json

import pytest

from gradguard.static.files.gate import SourceError
from gradguard.static.source import Site, Source, from_bytes
from gradguard.static.tree import Assign


def notebook(*cells: str) -> bytes:
    return json.dumps(
        {"cells": [{"cell_type": "code", "source": c.splitlines(keepends=True)} for c in cells], "nbformat": 4}
    ).encode()


def test_script_chunk_keeps_the_lines() -> None:
    source = Source("x.py", "a = 1\n\ndef f():\n    return 2\n\nb = f()\n")
    chunk = source.script_chunk()
    assert chunk is not None
    (first, second) = chunk.statements
    assert (chunk.line(first.origin), chunk.line(second.origin)) == (1, 6)


def test_columns_count_code_points() -> None:
    source = Source("x.py", "s = 'é𝔘'; t = loss\n")
    chunk = source.script_chunk()
    assert chunk is not None
    _, second = chunk.statements
    assert isinstance(second, Assign)
    span = Site(chunk, second.value).span
    assert (span.line, span.column, span.end_column) == (1, 15, 19)


def test_statements_on_one_line_are_all_of_a_chunk() -> None:
    source = Source("x.py", "a = f(1); b = g(2)\n")
    for name in "ab":
        chunk = source.chunk(source.outline.variables[name][0])
        assert chunk is not None
        assert len(chunk.statements) == 2


def test_form_feeds_do_not_end_lines() -> None:
    source = Source("x.py", "a = 1\n\x0c\ndef f():\n    return a\n")
    assert source.outline.functions["f"].start == 3
    assert source.chunk(source.outline.functions["f"]).text.startswith("def f()")


def test_an_encoding_that_a_package_brings_is_utf_8() -> None:
    text = "# -*- coding: future_fstrings -*-\nname = 'Ω'\n"
    assert from_bytes(text.encode(), "a.py").text == text
    with pytest.raises(SourceError, match="cannot be decoded"):
        from_bytes(text.encode("cp1253"), "a.py")


def test_encodings() -> None:
    assert from_bytes("x = 'ü'\n".encode("utf-8-sig"), "x.py").text == "x = 'ü'\n"
    assert "ü" in from_bytes("# -*- coding: latin-1 -*-\nx = 'ü'\n".encode("latin-1"), "x.py").text
    with pytest.raises(SourceError, match="cannot be decoded"):
        from_bytes(b"x = '\xff'\n", "x.py")


def test_notebook_lines_are_within_the_cell() -> None:
    source = from_bytes(
        notebook("%matplotlib inline\nimport torch", "!pip install x\nx = 1\ny = 2"), "n.ipynb", notebook=True
    )
    assert source.cells == ((1, 1), (3, 2))
    assert source.locate(5) == (2, 3)
    assert [cell for cell, _ in source.parts] == [1, 2]
    assert source.problems == ()
    chunk = source.script_chunk()
    assert chunk is not None
    last = chunk.statements[-1]
    assert (chunk.cell(last.origin), chunk.span(last.origin).line) == (2, 3)


def test_a_broken_cell_is_reported_and_the_others_are_read() -> None:
    source = from_bytes(notebook("import torch", "def broken(:\n    pass", "x = 1"), "n.ipynb", notebook=True)
    (problem,) = source.problems
    assert problem.message.startswith("cell 2: ")
    assert "x" in source.outline.variables


def test_cells_that_are_not_python_are_passed_over() -> None:
    source = from_bytes(
        notebook("%%bash\nls -l", "%%time\nx = 1", "files = !ls\nprint(files)"), "n.ipynb", notebook=True
    )
    assert set(source.outline.variables) == {"x"}
    assert source.problems == ()


def test_a_line_of_a_cell_may_begin_with_an_operator() -> None:
    text = 'print("%s"\n  % (1))\nx = 2'
    assert from_bytes(notebook(text), "n.ipynb", notebook=True).text.startswith(text)


def test_not_a_notebook() -> None:
    for data in (b"{", b"[]", b'{"cells": 3}'):
        with pytest.raises(SourceError, match="not a notebook"):
            from_bytes(data, "n.ipynb", notebook=True)
