"""Both readers of Python make one tree: what `build` reads from ast, `concrete` finds again in LibCST's nodes."""

from __future__ import annotations

import ast
from itertools import zip_longest
from pathlib import Path
from types import ModuleType

import click
import libcst as cst
import pytest
import rich

import gradguard
from gradguard.findings import Span
from gradguard.static import build, concrete
from gradguard.static import tree as t
from gradguard.static.source import Chunk, Source

ROOT = Path(__file__).parents[2]
FOLDERS = ("rules", "fixtures", "tests", "benchmarks")
FIELDS = ("id", "name", "operator", "kind", "names", "narrows", "dimensions", "is_generator", "is_async")

SNIPPETS = """
f(a, *b, k=1, *c, **d)
f(x for x in y if x if not x for z in x)
x[1:2, ..., None], x[::2], x[a], x[a, b], x[(a, b)], x[a,], x[-1], x[:3], x[not 1]
x = y = {**a, 'b': 1, c: {1, *d}, 'e' 'f': b'g'}
a, (b, *c), d.e, f[0] = value
'a' f'{b}' 'c' f'{d!r:>{width}}', f'{a=}', b'a' b'b', 'a' 'b', -1, 1.5, 2j, 1_000, ...
a and b and (c and d) or not e or f
1 < a <= b not in c, a is not b
del a, (b, [c.d, e[0]])
a if b else c, lambda x, /, y=1, *args, z, w=2, **kw: (yield), (n := 10)
[a async for a in b], {k: v for k, v in c}, {a for a in b}
for a, *b in c: pass
else: d()
while a: break
else:
    if b: pass
if a: pass
elif b: pass
else: c()
with a as b, c(), d as (e, f): pass
with (a as b, c): pass
try: a()
except (B, C) as d: e()
except: raise
else: f()
finally: g()
try: a()
except B as e: raise D from e
async def f(a: int, /, b: 'str' = 1, *, c, **d: list[int]) -> None:
    global x, y
    async with a as b: await c
    async for d in e: yield d
    x: int
    y: int = 3
    assert z, w
    return
@a.b(c)
@d
class E(F[int], *G, metaclass=H):
    def m(self): yield from self
    x @= y; z: (list) ; w //= 2
import a, b.c, d.e as f
from . import g
from ..h.i import j as k, l
from m import *
match a:
    case [b, *c] if d: pass
    case {'e': E(f, g=h), **rest}: pass
    case 1 | None | i.j as k: pass
    case _: pass
"""


def assert_same(text: str) -> int:
    ours, theirs = t.walk(build.build(ast.parse(text)).statements), t.walk(concrete.build(cst.parse_module(text)))
    count = 0
    for one, other in zip_longest(ours, theirs):
        assert type(one) is type(other)
        for name in FIELDS:
            assert getattr(one, name, None) == getattr(other, name, None)
        if isinstance(one, t.Constant) and not isinstance(one.value, str):
            assert one.value == other.value
        if isinstance(one, t.Call):
            assert [(a.keyword, a.star) for a in one.args] == [(a.keyword, a.star) for a in other.args]
        count += 1
    return count


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_file_of_ours(folder: str) -> None:
    counts = [assert_same(path.read_text()) for path in (ROOT / folder).rglob("*.py")]
    assert sum(counts) > 1_000


@pytest.mark.parametrize("package", [click, gradguard, rich])
def test_every_file_of_a_package(package: ModuleType) -> None:
    folder = Path(package.__file__ or "").parent
    assert sum(assert_same(path.read_text("utf-8")) for path in folder.rglob("*.py")) > 1_000


def test_every_kind_of_syntax() -> None:
    assert assert_same(SNIPPETS) > 250


def test_a_place_is_that_of_the_node() -> None:
    text = "def f():\n    return (a + g('é', *b)), x[\n        i, 1:2]\n"
    source = Source("x.py", text)
    chunk = source.chunk(source.outline.functions["f"])
    assert isinstance(chunk, Chunk)
    codes = {type(node).__name__: chunk.code(node.origin) for node in t.walk(chunk.statements)}
    assert codes["Call"] == "g('é', *b)"
    assert codes["Operation"] == "(a + g('é', *b))"
    spans = {type(node).__name__: chunk.span(node.origin) for node in t.walk(chunk.statements)}
    assert spans["Call"] == Span(2, 17, 2, 27)
    assert spans["Subscript"] == Span(2, 30, 3, 16)


def lines_of(path: str, text: str) -> list[int]:
    """The line of each node, as Python's parser and LibCST both say."""
    source = Source(path, text)
    outline = source.outline
    extents = (*outline.functions.values(), *outline.classes.values(), *outline.script)
    chunks = [chunk for extent in extents if isinstance(chunk := source.chunk(extent), Chunk)]
    found = []
    for chunk in chunks:
        numbers = [node.origin for node in t.walk(chunk.statements)]
        lines = [chunk.line(number) for number in numbers]
        assert lines == [chunk.span(number).line for number in numbers], path
        found += lines
    return found


@pytest.mark.parametrize(
    "text",
    [
        "x = (\n    1,\n    2,\n)\n",
        "rows.append((\n    loss,\n    x,\n))\n",
        "x = (\n    (1, 2),\n    3,\n)\n",
        "x = ((\n    1, 2),\n    3,\n)\n",
        "for a, b in (\n    c,\n    d,\n):\n    pass\n",
        "x = (\n    a + b\n)\n",
        "(\n    a,\n    b,\n) = c\n",
        "x = any(\n    y\n    for y in z\n)\n",
        "x = (\n    y\n    for y in z\n)\n",
        "x = any((\n    y for y in z\n))\n",
    ],
)
def test_a_tuple_or_a_generator_begins_with_its_first_element(text: str) -> None:
    assert lines_of("x.py", text)


def test_every_line_is_the_one_that_libcst_tells() -> None:
    assert len(lines_of("snippets.py", SNIPPETS)) > 250
    assert sum(len(lines_of(str(path), path.read_text())) for path in (ROOT / "rules").rglob("*.py")) > 1_000


CLASSES = """\
import torch

class A(B):
    x = f(1); y = 2  # c

    @g(2)
    def m(self):
        return '''
text''', h(3)

    z = i(4)

    class C: w = j(5)


class D: v = k(6)
class E(
    F
): u = m(7)
"""


def test_each_node_is_found_in_its_piece() -> None:
    """LibCST reads a statement, or a statement of a class, at a time."""
    source = Source("x.py", CLASSES)
    found = {}
    for extent in source.outline.classes.values():
        chunk = source.chunk(extent)
        assert isinstance(chunk, Chunk)
        calls = [node for node in t.walk(chunk.statements) if isinstance(node, t.Call)]
        found.update({chunk.code(call.origin): chunk.span(call.origin) for call in calls})
    assert set(found) == {"f(1)", "g(2)", "h(3)", "i(4)", "j(5)", "k(6)", "m(7)"}
    lines = CLASSES.splitlines()
    assert all(lines[s.line - 1][s.column - 1 : s.end_column - 1] == code for code, s in found.items())


def test_statements_on_one_line() -> None:
    chunk = Source("x.py", "a = f(1); b = g(2)\nif c: d = h(3)\n").script_chunk()
    assert isinstance(chunk, Chunk)
    calls = [node for node in t.walk(chunk.statements) if isinstance(node, t.Call)]
    assert {chunk.code(n.origin): chunk.span(n.origin).column for n in calls} == {"f(1)": 5, "g(2)": 15, "h(3)": 11}
