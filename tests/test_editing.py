"""Text edits: where they land, whatever ends the lines."""

from __future__ import annotations

import pytest

from gradguard.editing import clash, edited, edited_text, line_after
from gradguard.findings import Edit, Span


def edit(line: int, column: int, end_line: int, end_column: int, text: str) -> Edit:
    return Edit(Span(line, column, end_line, end_column), text)


def test_several_edits_count_from_the_text_as_it_was() -> None:
    edits = [edit(1, 1, 1, 2, "first"), edit(1, 5, 1, 6, "second"), edit(2, 1, 2, 1, "# new\n")]
    assert edited_text("a = b\nc = d\n", edits) == "first = second\n# new\nc = d\n"


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_what_comes_ends_as_the_text_does(end: str) -> None:
    assert edited_text(f"x{end}y", [edit(2, 1, 2, 1, "new\n")]) == f"x{end}new{end}y"


def test_columns_are_code_points_and_a_form_feed_ends_no_line() -> None:
    assert edited_text("s = '😀'; x\f\ny\n", [edit(1, 10, 1, 11, "z"), edit(2, 1, 2, 2, "w")]) == "s = '😀'; z\f\nw\n"


def test_a_whole_line_goes_with_its_end() -> None:
    assert edited_text("a\nb\nc", [edit(2, 1, 3, 1, "")]) == "a\nc"
    assert edited_text("a\nb", [edit(2, 1, 3, 1, "")]) == "a\n"


def test_a_line_behind_the_last_one() -> None:
    assert edited_text("x", [edit(2, 1, 2, 1, "y")]) == "x\ny"
    assert edited(["x"], [edit(2, 1, 2, 1, "y")]) == ["x", "y"]


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (edit(1, 1, 1, 5, "a"), edit(1, 5, 1, 9, "b"), True),
        (edit(1, 1, 1, 5, "a"), edit(1, 6, 1, 9, "b"), False),
        (edit(1, 1, 1, 5, "a"), edit(1, 4, 1, 9, "b"), True),
        (edit(1, 1, 3, 1, "a"), edit(2, 1, 2, 1, "b"), True),
        (edit(2, 1, 2, 1, "a"), edit(2, 1, 2, 1, "b"), True),
        (edit(2, 1, 2, 1, "a"), edit(2, 2, 2, 2, "b"), False),
        (edit(1, 1, 1, 5, "a"), edit(2, 1, 2, 5, "b"), False),
    ],
)
def test_what_cannot_be_made_at_once(one: Edit, other: Edit, expected: bool) -> None:
    assert clash(one, other) is clash(other, one) is expected


def test_where_a_line_is_afterwards() -> None:
    edits = [edit(2, 1, 2, 1, "a\nb\n"), edit(5, 1, 7, 1, "")]
    assert [line_after(line, 3, edits) for line in (1, 2, 4, 9)] == [1, 4, 6, 9]
    assert line_after(2, 5, [edit(2, 8, 2, 8, "a\n")]) == 2  # it comes behind
