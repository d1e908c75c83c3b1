"""What is taken for a comment or a long string."""

from __future__ import annotations

import io
import tokenize
from pathlib import Path

import pytest

from gradguard.static.files.prose import without_prose
from tests.support import CHECKOUT


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("a = 1\n# loss.backward()\nb = 2\n", "a = 1\nb = 2\n"),
        ('def f():\n    """loss.backward()"""\n    g()\n', 'def f():\n    ""\n    g()\n'),
        ('x = """\nloss.backward()\n"""\ny = 1\n', 'x = ""\ny = 1\n'),
        ("x = r'''\nloss.backward()\n'''\n", 'x = r""\n'),
        ('x = """a \\""" b\n"""\ny = 1\n', 'x = ""\ny = 1\n'),
        ('x = """a \\\\"""\ny = 1\n', 'x = ""\ny = 1\n'),
        ("x = \"\"\"it's\n'''\n\"\"\"\ny = '''b'''\n", 'x = ""\ny = ""\n'),
        ('x = """never closed\n', 'x = ""'),
    ],
)
def test_prose_goes(text: str, left: str) -> None:
    assert without_prose(text.encode()).decode() == left


@pytest.mark.parametrize(
    "text",
    [
        'x = "#"; loss.backward()\n',
        "x = 1  # it's here\nloss.backward()\n",
        'x = 1  # a """ in a comment\nloss.backward()\ny = 1  # and """ again\n',
        'quotes = \'"""\'\nloss.backward()\nmore = \'"""\'\n',
        "quotes = \"'''\"\nloss.backward()\nmore = \"'''\"\n",
        "quotes = \"a \\\" '''\"\nloss.backward()\nmore = \"'''\"\n",
        "getattr(loss, 'backward')()\n",
    ],
)
def test_code_stays(text: str) -> None:
    assert without_prose(text.encode()).decode() == text


@pytest.mark.parametrize("path", sorted((CHECKOUT / "gradguard").rglob("*.py")), ids=lambda path: path.name)
def test_names_are_those_of_the_tokenizer(path: Path) -> None:
    """No name of a real file is lost, and none that only a docstring or a comment has is left."""

    def names(text: str) -> list[str]:
        return [t.string for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type == tokenize.NAME]

    text = path.read_text()
    assert names(without_prose(text.encode()).decode()) == names(text)
