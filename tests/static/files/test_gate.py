from __future__ import annotations

import pytest

from gradguard.static.files.gate import SourceError
from gradguard.static.source import Source


@pytest.mark.parametrize(
    "text",
    [
        "(" * 5000 + ")" * 5000,
        "+".join(["1"] * 8000),
        "f()" + "()" * 5000,
        " or ".join(["a"] * 8000),
        "x" + "[0]" * 2500,
    ],
)
def test_what_would_crash_libcst_never_reaches_it(text: str) -> None:
    source = Source("x.py", f"import torch\nvalue = {text}\n")
    try:
        outline = source.outline
    except SourceError:
        return
    assert source.problem(outline.script[-1]) is not None
    assert source.script_chunk() is None


def test_many_adjacent_strings_never_crash() -> None:
    """LibCST refuses them, or their nesting is refused before."""
    source = Source("x.py", "value = (" + "'a' " * 5000 + ")\n")
    chunk = source.script_chunk()
    assert (chunk is None) == (source.problem(source.outline.script[-1]) is not None)
    if chunk is not None:
        with pytest.raises(SourceError):
            chunk.span(chunk.statements[0].origin)


@pytest.mark.parametrize("text", ["x = = 1\n", "print 'no brackets'\n", "if True:\nx = 1\n"])
def test_a_syntax_error_says_by_which_python_it_is_one(text: str) -> None:
    with pytest.raises(SourceError, match=r"\(read as Python 3\.\d+, which runs GradGuard\)$"):
        _ = Source("x.py", text).outline
