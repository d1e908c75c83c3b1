"""Suppression comments: where they count, and when they are themselves reported."""

from __future__ import annotations

from textwrap import dedent

import pytest

from gradguard.catalogue import is_selected
from gradguard.editing import edited
from gradguard.findings import Confidence, Finding, Severity, Span
from gradguard.static.suppress import apply_parts, mentions

KNOWN = ("GG103", "GG104", "GG301")


def finding(line: int, code: str = "GG103", *, end_line: int | None = None, cell: int | None = None) -> Finding:
    span = Span(line, 5, end_line or line, 9)
    return Finding(code, "some-name", Severity.ERROR, Confidence.HIGH, "a.py", cell, span, "message")


def left(
    text: str, *findings: Finding, select: tuple[str, ...] = ("ALL",), ignore: tuple[str, ...] = ()
) -> list[Finding]:
    def selected(code: str) -> bool:
        return is_selected(code, select, ignore)

    return apply_parts(findings, [(None, dedent(text))], path="a.py", selected=selected, known=KNOWN)


def codes(found: list[Finding]) -> list[str]:
    return [f.code for f in found]


def repaired(text: str, found: Finding) -> str:
    assert found.fix is not None
    assert found.fix.safe
    return "\n".join(edited(text.split("\n"), found.fix.edits))


# --- what a comment silences --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "comment",
    [
        "# gradguard: ignore[GG103]",
        "# gradguard: ignore[GG104, GG103]",
        "# gradguard: ignore[gg103] two steps only",
        "#gradguard:ignore[GG103]",
        "# GradGuard: Ignore [GG103]",
        "# gradguard: ignore",
        "# gradguard: ignore because it is bounded",
        "# a reason  # gradguard: ignore[GG103]  # pragma: no cover",
        "# noqa",
        "# NOQA",
        "# noqa: GG103",
        "# noqa:E501,GG103",
        "# noqa: E501 gg103",
        "# type: ignore # noqa : GG103",
    ],
)
def test_a_comment_on_the_line_silences(comment: str) -> None:
    kept = left(f"total += loss  {comment}\n", finding(1), select=("GG103",))
    assert kept == []


@pytest.mark.parametrize(
    "comment",
    ["# noqa: E501", "# noqa: a sentence", "# noqa:", "# noqable", "# gradguard: see the docs", "# flake8: noqa"],
)
def test_another_comment_does_not(comment: str) -> None:
    assert left(f"total += loss  {comment}\n", finding(1)) == [finding(1)]


def test_only_the_codes_named_are_silenced() -> None:
    assert codes(left("x = 1  # gradguard: ignore[GG103]\n", finding(1), finding(1, "GG104"))) == ["GG104"]


def test_a_string_is_no_comment() -> None:
    text = '''
    total += "# gradguard: ignore"  # nothing
    text = """
    # gradguard: ignore-file
    """
    '''
    assert left(text, finding(2)) == [finding(2)]


CALL = """\
history.append({0}
    {{  {1}
        "loss": loss,  {2}
        "step": step,  {3}
    }}
)  {4}
"""


@pytest.mark.parametrize(("where", "silences"), [(0, True), (1, False), (2, True), (3, False), (4, True)])
def test_a_statement_of_several_lines_has_its_first_line_its_last_and_the_findings(where: int, silences: bool) -> None:
    comments = ["# gradguard: ignore[GG103]" if n == where else "" for n in range(5)]
    kept = left(CALL.format(*comments), finding(3), ignore=("GG001",))
    assert kept == ([] if silences else [finding(3)])


def test_every_line_of_the_span_counts() -> None:
    text = CALL.format("", "", "", "# gradguard: ignore[GG103]", "")
    assert left(text, finding(3, end_line=4)) == []


def test_a_blocks_header_is_a_statement_and_its_body_is_not_part_of_it() -> None:
    text = """\
    for x in zip(  # gradguard: ignore[GG103]
        loader,
    ):
        step()  # noqa
        step()
    """
    assert left(text, finding(2)) == []
    assert left(text, finding(5), ignore=("GG001",)) == [finding(5)]
    body = text.replace("  # gradguard: ignore[GG103]", "")
    assert left(body, finding(1, end_line=5)) == [finding(1, end_line=5)]


def test_the_def_line_speaks_for_its_decorators() -> None:
    text = """\
    @first
    @second(
        1,
    )
    def f():  # gradguard: ignore[GG301]
        pass
    """
    assert left(text, finding(1, "GG301"), finding(3, "GG301"), finding(5, "GG301")) == []
    assert codes(left(text, finding(6, "GG301"), ignore=("GG001",))) == ["GG301"]


def test_a_comment_on_its_own_line_does_not_reach_the_next() -> None:
    text = "# gradguard: ignore[GG103]\ntotal += loss\n"
    assert codes(left(text, finding(2))) == ["GG001", "GG103"]


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_lines_are_counted_as_python_counts_them(line_end: str) -> None:
    text = line_end.join(["x = 1", "y = '\x0c\u2028'", "total += loss  # gradguard: ignore[GG103]", ""])
    assert left(text, finding(3)) == []


@pytest.mark.parametrize("comment", ["# gradguard: ignore-file[GG103]", "# gradguard: ignore-file"])
def test_a_file_can_be_silenced_from_any_line(comment: str) -> None:
    assert left(f"a = 1\nb = 2\n{comment}\n", finding(1), finding(2)) == []


def test_a_file_comment_with_codes_leaves_the_others() -> None:
    kept = left("# gradguard: ignore-file[GG103]\na = 1\n", finding(2), finding(2, "GG104"))
    assert codes(kept) == ["GG104"]


def test_a_notebook_is_one_file_with_lines_of_each_cell() -> None:
    cells = [(1, "x = 1  # gradguard: ignore[GG103]\n"), (2, "# gradguard: ignore-file[GG104]\n"), (3, "x = 1\n")]
    findings = [finding(1, cell=1), finding(1, cell=3), finding(1, "GG104", cell=3)]
    kept = apply_parts(findings, cells, path="a.ipynb", selected=lambda code: True, known=KNOWN)
    assert kept == [finding(1, cell=3)]


@pytest.mark.parametrize(
    "text",
    [
        "!ls \"it's\n%time x\nfor x in y:\n    if x:\n        total += loss  # gradguard: ignore[GG103]\n    z = 1\n",
        "x = '''\nnever closed\ny = 2\nz = 3\ntotal += loss  # gradguard: ignore[GG103]\n",
        "if x:\n        a\n    b\n  c\ntotal += loss  # gradguard: ignore[GG103]\n",
        "$ ?\n\x00\n`\n)\ntotal += loss  # gradguard: ignore[GG103]\n",
    ],
)
def test_what_cannot_be_tokenized_costs_its_line_only(text: str) -> None:
    assert left(text, finding(5)) == []


@pytest.mark.parametrize(
    ("data", "expected"), [(b"x  # GradGuard : ignore", True), (b"import gradguard", False), (b"x  # noqa", False)]
)
def test_a_file_is_looked_at_for_its_comments_only_when_it_mentions_us(data: bytes, expected: bool) -> None:
    assert mentions(data) is expected


# --- comments that are of no use ----------------------------------------------------------------------------------


def test_an_unused_comment_is_reported_where_it_is_and_removed_by_its_fix() -> None:
    text = "x = 1\ntotal += 1  # gradguard: ignore[GG103]\n"
    (report,) = left(text)
    assert (report.code, report.name, report.severity) == ("GG001", "unused-suppression", Severity.WARNING)
    assert report.span == Span(2, 13, 2, 39)
    assert report.message == "this comment suppresses nothing: `GG103` is not found here"
    assert repaired(text, report) == "x = 1\ntotal += 1\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("    # gradguard: ignore[GG103]\ny = 2\n", "y = 2\n"),
        ("y = 2\n# gradguard: ignore[GG103]", "y = 2\n"),
        ("y = 2  # why  # gradguard: ignore[GG103] so\n", "y = 2  # why\n"),
        ("y = 2  # gradguard: ignore[GG103]  # noqa: E501\n", "y = 2  # noqa: E501\n"),
        ("y = 'π'\t# gradguard: ignore-file\n", "y = 'π'\n"),
        ("# gradguard: ignore[GG103]  # gradguard: ignore[GG104]\nz\n", "# gradguard: ignore[GG104]\nz\n"),
    ],
)
def test_the_fix_leaves_everything_else(before: str, after: str) -> None:
    report = left(before)[0]
    assert report.code == "GG001"
    assert repaired(before, report) == after


def test_one_unused_code_of_several_is_taken_out() -> None:
    text = "total += loss  # gradguard: ignore[GG104, GG103,GG301] why\n"
    (report,) = left(text, finding(1))
    assert report.message == "this comment suppresses more than it needs to: `GG104`, `GG301` are not found here"
    assert repaired(text, report) == "total += loss  # gradguard: ignore[GG103] why\n"


def test_a_code_that_was_not_looked_for_is_not_called_unused() -> None:
    text = "total += loss  # gradguard: ignore[GG104]\nx = 1  # gradguard: ignore\n"
    assert left(text, select=("GG103", "GG001")) == []
    assert codes(left(text)) == ["GG001", "GG001"]


def test_nothing_is_reported_when_gg001_is_off() -> None:
    assert left("x = 1  # gradguard: ignore[GG103]\n", ignore=("GG001",)) == []


def test_an_unused_noqa_is_never_reported() -> None:
    assert left("x = 1  # noqa: GG103\ny = 1  # noqa\n") == []


@pytest.mark.parametrize(
    ("comment", "says"),
    [
        ("ignor[GG103]", "`gradguard: ignor` is not a directive; did you mean `ignore`?"),
        ("ignore_file[GG103]", "did you mean `ignore-file`?"),
        ("noqa", "`gradguard: noqa` is not a directive; write `gradguard: ignore[GG103]`"),
        ("disable=GG103", "`gradguard: disable` is not a directive"),
        ("ignore GG103", "the codes belong in brackets: `gradguard: ignore[GG103]`"),
        ("ignore: GG103", "the codes belong in brackets"),
        ("ignore[GG103", "the codes belong in brackets"),
        ("ignore[]", "it names no code"),
    ],
)
def test_a_directive_that_is_misspelled_has_no_effect_and_says_so(comment: str, says: str) -> None:
    kept = left(f"total += loss  # gradguard: {comment}\n", finding(1))
    assert codes(kept) == ["GG103", "GG001"]
    assert kept[1].message.startswith("this comment has no effect: ")
    assert says in kept[1].message


def test_a_code_that_does_not_exist_is_named_with_the_nearest() -> None:
    text = "total += loss  # gradguard: ignore[GG103, GG113]\n"
    (report,) = left(text, finding(1))
    assert "`GG113` is not a code; did you mean `GG103`?" in report.message
    assert repaired(text, report) == "total += loss  # gradguard: ignore[GG103]\n"


@pytest.mark.parametrize(
    "comment",
    [
        "# gradguard: ignore[GG103, GG001]",
        "# gradguard: ignore[GG103]  # noqa: GG001",
        "# gradguard: ignore[GG103]  # gradguard: ignore[GG001]",
    ],
)
def test_the_report_itself_can_be_silenced(comment: str) -> None:
    assert left(f"x = 1  {comment}\n") == []


def test_reports_stand_among_the_findings_in_order() -> None:
    text = "a = 1\nb = 2  # gradguard: ignore[GG103]\nc = 3\n"
    assert codes(left(text, finding(1), finding(3))) == ["GG103", "GG001", "GG103"]


def test_without_a_list_of_codes_those_of_the_catalogue_are_known() -> None:
    kept = apply_parts([], [(None, "x  # gradguard: ignore[GG999]\n")], path="a.py", selected=lambda code: True)
    assert "`GG999` is not a code" in kept[0].message
