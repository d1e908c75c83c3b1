"""Source text on a terminal: cut to its width, with the span still in sight and nothing the terminal would obey."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from gradguard.editing import edited
from gradguard.findings import Edit, Span
from gradguard.report.excerpt import Row, changes, excerpt, printable

LINES = ["def f():", "    total += loss", "    return total"]


def underlined(row: Row) -> str:
    """The text above the carets, by terminal columns."""
    start, end = row.mark.index("^"), len(row.mark)
    taken, column = "", 0
    for character in row.text:
        if start <= column < end:
            taken += character
        column += cell_len(character)
    return taken


def test_the_span_is_underlined_between_its_neighbours() -> None:
    assert excerpt(LINES, Span(2, 5, 2, 18), 80, "utf-8") == [
        Row(1, "def f():"),
        Row(2, "    total += loss", "    ^^^^^^^^^^^^^"),
        Row(3, "    return total"),
    ]


def test_blank_neighbours_and_the_ends_of_the_file_are_left_out() -> None:
    assert excerpt(["", "x = 1", "  "], Span(2, 1, 2, 2), 80, "utf-8") == [Row(2, "x = 1", "^")]


def test_an_empty_span_still_gets_a_caret() -> None:
    (row,) = excerpt(["x = 1"], Span(1, 6, 1, 6), 80, "utf-8")
    assert row.mark == "     ^"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("\ttotal += loss", "total += loss"),
        ("漢字 = foo(損失)", "foo(損失)"),
        ("e\u0301te\u0301 = total", "total"),
        ("x = '\x1b[31m' + loss", "loss"),
    ],
)
def test_the_underline_stands_under_the_span_whatever_the_width_of_the_characters(line: str, code: str) -> None:
    start = line.index(code)
    (row,) = excerpt([line], Span(1, start + 1, 1, start + 1 + len(code)), 80, "utf-8")
    assert underlined(row) == code


@pytest.mark.parametrize("width", [20, 30, 40, 79])
@pytest.mark.parametrize("before", [0, 7, 30, 200])
@pytest.mark.parametrize("filling", ["a", "漢"])
def test_a_long_line_is_cut_around_the_span(width: int, before: int, filling: str) -> None:
    line = f"{filling * before}loss{filling * 200}"
    (row,) = excerpt([line], Span(1, before + 1, 1, before + 5), width, "utf-8")
    assert cell_len(row.text) <= width
    assert underlined(row) == "loss"
    assert row.text.endswith("...")


def test_neighbours_are_cut_in_the_same_place_or_left_out() -> None:
    lines = ["b" * 120, "a" * 100 + "loss", "short"]
    rows = excerpt(lines, Span(2, 101, 2, 105), 40, "utf-8")
    assert [r.number for r in rows] == [1, 2]
    assert len(rows[0].text) <= 40


def test_a_span_of_several_lines_is_underlined_on_each() -> None:
    rows = excerpt(["f(", "    a,", ")", "x"], Span(1, 1, 3, 2), 80, "utf-8")
    assert [(r.number, r.mark) for r in rows] == [(1, "^^"), (2, "    ^^"), (3, "^"), (4, "")]


def test_a_long_span_is_shown_by_its_ends() -> None:
    lines = [f"line{n}" for n in range(1, 31)]
    rows = excerpt(lines, Span(5, 1, 25, 7), 80, "utf-8")
    assert [r.number for r in rows] == [4, 5, 6, 7, 8, None, 25, 26]
    assert [r.text for r in rows if r.number is None] == ["..."]


def test_a_span_that_is_not_in_the_file_gives_no_excerpt() -> None:
    assert excerpt(["x"], Span(5, 1, 5, 2), 80, "utf-8") == []
    assert excerpt([], Span(1, 1, 1, 2), 80, "utf-8") == []


def test_nothing_printable_is_obeyed_by_a_terminal() -> None:
    assert printable("a\x1b[31m\u202eb\x07\u200d", "utf-8") == "a?[31m?b??"
    assert printable("naïve 漢 x", "ascii") == "na?ve ? x"
    assert printable("é", "no-such-encoding") == "?"


# --- edits --------------------------------------------------------------------------------------------------------


def test_edits_are_applied_at_once() -> None:
    lines = ["a = f(b, c)", "x", "y"]
    edits = [Edit(Span(1, 10, 1, 11), "C"), Edit(Span(1, 7, 1, 8), "B.d()"), Edit(Span(2, 1, 3, 1), "")]
    assert edited(lines, edits) == ["a = f(B.d(), C)", "y"]
    assert lines == ["a = f(b, c)", "x", "y"]


def test_an_edit_can_insert_lines() -> None:
    assert edited(["    x()"], [Edit(Span(1, 5, 1, 5), "with a:\n        ")]) == ["    with a:", "        x()"]
    assert edited(["x"], [Edit(Span(2, 1, 2, 1), "y")]) == ["x", "y"]


def test_changes_show_only_the_lines_that_change() -> None:
    lines = ["a", "        total += loss", "b", "        x = y", "c"]
    edits = [Edit(Span(2, 18, 2, 22), "loss.detach()"), Edit(Span(4, 13, 4, 14), "z")]
    shown = [(c.sign, c.text) for c in changes(lines, edits, 80, "utf-8")]
    assert shown == [("-", "total += loss"), ("+", "total += loss.detach()"), ("-", "x = y"), ("+", "x = z")]


def test_a_change_far_to_the_right_stays_in_sight() -> None:
    line = "f(" + "a, " * 60 + "loss)"
    start = line.index("loss")
    shown = changes([line], [Edit(Span(1, start + 1, 1, start + 5), "loss.detach()")], 50, "utf-8")
    assert all(len(c.text) <= 50 for c in shown)
    assert "loss.detach()" in shown[1].text


def test_an_inserted_line_is_shown_with_the_one_that_follows() -> None:
    lines = ["class A:", "    def f(self):", "        pass"]
    shown = changes(lines, [Edit(Span(2, 1, 2, 1), "    @no_grad()\n")], 80, "utf-8")
    assert [(c.sign, c.text) for c in shown] == [("+", "@no_grad()"), (" ", "def f(self):")]
    at_the_end = changes(["x"], [Edit(Span(2, 1, 2, 1), "y")], 80, "utf-8")
    assert [(c.sign, c.text) for c in at_the_end] == [(" ", "x"), ("+", "y")]


def test_what_ends_a_block_is_shown_behind_the_line_before_it() -> None:
    lines = ["for x in y:", "    f(x)", "", "done()"]
    shown = changes(lines, [Edit(Span(3, 1, 3, 1), "    g(x)\n")], 80, "utf-8")
    assert [(c.sign, c.text) for c in shown] == [(" ", "f(x)"), ("+", "g(x)")]


def test_a_block_that_is_indented_is_shown_by_its_head() -> None:
    lines = ["  for x in y:", *["    f(x)"] * 30]
    edits = [Edit(Span(1, 3, 1, 3), "with a:\n    "), *(Edit(Span(n, 1, n, 1), "  ") for n in range(2, 32))]
    shown = changes(lines, edits, 80, "utf-8")
    assert [(c.sign, c.text) for c in shown] == [("+", "with a:"), ("+", "  for x in y:"), ("+", "  ...")]


def test_a_removed_line_is_shown_alone() -> None:
    shown = changes(["x", "  # gone", "y"], [Edit(Span(2, 1, 3, 1), "")], 80, "utf-8")
    assert [(c.sign, c.text) for c in shown] == [("-", "# gone")]


def test_no_change_is_shown_for_a_file_that_is_another_by_now() -> None:
    assert changes(["x"], [Edit(Span(7, 1, 7, 2), "y")], 80, "utf-8") == []
    assert changes(["x"], [], 80, "utf-8") == []
