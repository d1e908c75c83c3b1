"""How two runs side by side are shown."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from gradguard.compare import compare
from gradguard.report.compare_console import report
from tests.test_compare import A, B, a_leak, a_run


def printed(before: object, after: object, width: int = 100) -> str:
    out = io.StringIO()
    comparison = compare(before, after, (0.002, 0.0021))  # type: ignore[arg-type]
    report(comparison, Console(file=out, width=width, markup=False, highlight=False, emoji=False))
    return out.getvalue()


@pytest.mark.parametrize(
    ("before", "after", "headline"),
    [
        (a_run(A), a_run(), "Fixed"),
        (a_run(), a_run(), "No leak"),
        (a_run(A), a_run(A), "Still leaking"),
        (a_run(A), a_run(a_leak("train.new", 5_000.0)), "Still leaking"),
        (a_run(A), a_run(A, B), "Worse"),
    ],
)
def test_the_headline(before: object, after: object, headline: str) -> None:
    assert printed(before, after).startswith(f"gradguard {headline}")


def test_measures_and_leaks() -> None:
    text = printed(a_run(A), a_run(B))
    assert ["heap", "+10.0", "KB", "a", "step", "+20.0", "KB", "a", "step", "+100%"] in map(
        str.split, text.splitlines()
    )
    assert "2 ms" in text
    assert "gone `train.a` keeps autograd graphs, +10.0 KB a step" in text
    assert "new `train.b` keeps autograd graphs, +20.0 KB a step" in text


@pytest.mark.parametrize("width", [40, 60])
def test_a_narrow_terminal_is_not_overrun(width: int) -> None:
    assert max(map(len, printed(a_run(A), a_run(B), width).splitlines())) <= width


def test_what_the_first_run_could_not_name_is_not_new() -> None:
    before = a_run(verdict="suspect", heap=10_000.0)
    text = printed(before, a_run(A))
    assert text.startswith(
        "gradguard Still leaking: no more than before; what holds it was not named in the first run."
    )
    assert "named `train.a`" in text
    assert "new `train.a`" not in text


def test_another_leak_of_the_same_size_is_said() -> None:
    assert printed(a_run(B), a_run(A)).startswith("gradguard Still leaking: no more than before, but something else.")
