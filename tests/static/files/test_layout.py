"""The functions of a file, told from its layout."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from gradguard.static.files.layout import functions, statements
from gradguard.static.files.outline import SCRIPT
from gradguard.static.files.prose import without_prose
from gradguard.static.source import Source

FIXTURES = Path(__file__).parents[3] / "fixtures"


def found(text: str) -> dict[tuple[str, str], str]:
    return {key: code.decode() for key, code in functions(textwrap.dedent(text).encode()).items()}


def test_functions_methods_and_the_rest() -> None:
    text = """\
        import torch
        def run(x):
            return x

        class Net(Base):
            width = 3
            def forward(self, x):
                def inner(y): return y
                return inner(x)

            async def go(self): ...
        seen = []
    """
    units = found(text)
    assert set(units) == {("", "run"), ("Net", "forward"), ("Net", "go"), ("", SCRIPT)}
    assert "inner" in units["Net", "forward"]
    assert "class Net(Base):" in units["Net", "forward"]
    assert "width" not in units["Net", "forward"]
    assert "go" not in units["Net", "forward"]
    assert "seen" in units["", SCRIPT]
    assert "import torch" in units["", SCRIPT]


def test_decorators_belong_to_what_they_decorate() -> None:
    units = found("""\
        @torch.no_grad()
        def run(x): ...

        @dataclass
        class A:
            @cache
            @other(
                1,
            )
            def f(self): ...
            def g(self): ...
    """)
    assert "no_grad" in units["", "run"]
    assert "dataclass" in units["A", "f"]
    assert "cache" in units["A", "f"]
    assert "other" in units["A", "f"]
    assert "cache" not in units["A", "g"]
    assert "dataclass" in units["A", "g"]


def test_two_of_one_name_are_one() -> None:
    units = found("class A:\n    @property\n    def f(self): return 1\n    @f.setter\n    def f(self, x): self.x = x\n")
    assert "return 1" in units["A", "f"]
    assert "self.x" in units["A", "f"]


def test_a_method_under_a_condition_is_part_of_the_one_before_it() -> None:
    text = "class A:\n    def f(self): ...\n    if NEW:\n        def g(self): self.kept.append(1)\n"
    assert "kept" in found(text)["A", "f"]


def test_a_notebook_is_one() -> None:
    assert set(found('{"cells": [\n"def run(x): ..."]}')) == {("", SCRIPT)}


def test_statements_go_on_after_else() -> None:
    text = "if A:\n    x = 1\nelif B:\n    x = 2\nelse:\n    x = 3\ntry:\n    y(\n1\n)\nexcept E:\n    pass\nz = 1\n"
    parts = [part.decode() for part in statements(text.encode())]
    assert "".join(parts) == text
    assert parts[0].endswith("x = 3\n")
    assert parts[-1] == "z = 1\n"


def test_a_class_is_told_apart_into_its_methods() -> None:
    text = "@register\nclass A(B):\n  x = 1\n  @cached\n  def f(self):\n    run(self.x)\n  def g(self): ...\nA()\n"
    assert [part.decode() for part in statements(text.encode()) if part] == [
        "class A:\n  def g(self): ...\n",
        "class A:\n  @cached\n  def f(self):\n    run(self.x)\n",
        "@register\nclass A(B):\n  x = 1\n  pass\n",
        "A()\n",
    ]


@pytest.mark.parametrize("path", sorted(FIXTURES.rglob("*.py")), ids=lambda path: path.relative_to(FIXTURES).as_posix())
def test_no_function_is_missing(path: Path) -> None:
    units = functions(without_prose(path.read_bytes()))
    source = Source(path.name, path.read_text())
    for unit in source.outline.units:
        for extent in unit.extents:
            lines = without_prose(source.excerpt(extent).encode()).decode().split("\n")
            text = units.get((unit.owner, unit.name), b"").decode()
            assert all(line in text for line in lines if line.strip(' ")')), (unit, lines)
