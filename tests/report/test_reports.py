"""The console, concise and JSON forms of a result."""

from __future__ import annotations

import io
import json as stdlib_json
import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from rich.cells import cell_len
from rich.console import Console

from gradguard import __version__
from gradguard.findings import (
    CheckResult,
    Confidence,
    Edit,
    Evidence,
    FileError,
    Finding,
    Fix,
    Related,
    Severity,
    Span,
)
from gradguard.report import concise, console, json
from gradguard.report.words import summary

SCHEMA = Path(__file__).resolve().parents[3] / "shared" / "schema" / "check.schema.json"

LINES = ["for x in loader:", "    loss = f(x)", "    total += loss", "    loss.backward()"]

LEAK = Finding(
    code="GG103",
    name="loss-accumulation",
    severity=Severity.ERROR,
    confidence=Confidence.HIGH,
    path="train.py",
    cell=None,
    span=Span(3, 5, 3, 18),
    message="`total` keeps the graph of every `loss` added to it",
    help="add `loss.detach()`",
    fix=Fix("detach the value", (Edit(Span(3, 14, 3, 18), "loss.detach()"),), safe=True),
    related=(Related("train.py", None, 2, "`loss` carries a graph from here"),),
)
CELL = Finding("GG301", "eval", Severity.WARNING, Confidence.LOW, "nb.ipynb", 3, Span(1, 1, 1, 4), "no `no_grad`")
RESULT = CheckResult(12, (LEAK, CELL), (FileError("broken.py", 3, "invalid syntax"), FileError("x", None, "denied")))


def printed(result: CheckResult, *, width: int = 80, encoding: str = "utf-8", color: bool = False) -> str:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding, newline="")
    out = Console(file=file, width=width, force_terminal=color, color_system="standard" if color else None)
    console.report(result, lambda path, cell: LINES if path == "train.py" else [], out)
    file.flush()
    return raw.getvalue().decode(encoding)


# --- console ------------------------------------------------------------------------------------------------------


def test_the_console_says_what_where_why_and_what_to_do() -> None:
    assert printed(RESULT).splitlines() == [
        "train.py:3:5 GG103 loss-accumulation [error]",
        "  `total` keeps the graph of every `loss` added to it",
        "    |",
        "  2 |     loss = f(x)",
        "  3 |     total += loss",
        "    |     ^^^^^^^^^^^^^",
        "  4 |     loss.backward()",
        "  note: train.py:2: `loss` carries a graph from here",
        "  help: add `loss.detach()`",
        "    - total += loss",
        "    + total += loss.detach()",
        "",
        "nb.ipynb:cell 3:1:1 GG301 eval [warning, low confidence]",
        "  no `no_grad`",
        "",
        "error: broken.py:3: invalid syntax",
        "error: x: denied",
        "",
        "Found 2 problems (1 error, 1 warning) in 12 files. 2 paths not fully checked.",
        "`gradguard fix` has an edit for 1.",
        "For the whole story: gradguard explain GG103",
    ]


def test_a_fix_that_is_not_safe_says_so() -> None:
    fix = Fix("detach it", LEAK.fix.edits if LEAK.fix else (), safe=False)
    text = printed(CheckResult(1, (Finding(**{**fields(LEAK), "fix": fix, "help": None}),), ()))
    assert "help: detach it" in text
    assert "this edit can change what the program computes" in text


def fields(finding: Finding) -> dict[str, Any]:
    return {name: getattr(finding, name) for name in Finding.__dataclass_fields__}


@pytest.mark.parametrize("width", [1, 40, 60, 200])
def test_only_the_header_may_be_wider_than_the_terminal(width: int) -> None:
    long = Finding(
        **{**fields(LEAK), "message": "the graph is kept " * 20, "path": "d/" * 50 + "train.py", "related": ()}
    )
    lines = printed(CheckResult(1, (long,), ()), width=width).splitlines()
    assert lines[0].startswith(long.path)
    assert max(cell_len(line) for line in lines[1:]) <= max(width, console.MIN_WIDTH)
    assert not any(line.endswith(" ") for line in lines)


def test_an_ascii_terminal_gets_question_marks_and_no_crash() -> None:
    odd = Finding(**{**fields(LEAK), "message": "`perte_été` ▲", "path": "où.py"})
    assert "`perte_?t?` ?" in printed(CheckResult(1, (odd,), ()), encoding="ascii")


def test_source_text_is_never_markup_and_never_obeyed() -> None:
    odd = Finding(**{**fields(LEAK), "message": "[bold]x[/bold] \x1b[31m :smile:", "help": "[/]"})
    text = printed(CheckResult(1, (odd,), ()))
    assert "[bold]x[/bold] ?[31m :smile:" in text
    assert "help: [/]" in text


def test_colour_is_for_terminals() -> None:
    assert "\x1b[" in printed(RESULT, color=True)
    assert "\x1b[" not in printed(RESULT)


@pytest.mark.parametrize(
    ("result", "says"),
    [
        (CheckResult(0, (), ()), "Nothing found in 0 files."),
        (CheckResult(1, (), ()), "Nothing found in 1 file."),
        (CheckResult(2, (LEAK,), ()), "Found 1 problem (1 error) in 2 files."),
        (CheckResult(2, (CELL, CELL), ()), "Found 2 problems (2 warnings) in 2 files."),
        (
            CheckResult(2, (), (FileError("a", 1, "x"), FileError("a", 2, "y"))),
            "Nothing found in 2 files. 1 path not fully checked.",
        ),
    ],
)
def test_the_summary_counts(result: CheckResult, says: str) -> None:
    assert summary(result) == says


# --- concise ------------------------------------------------------------------------------------------------------


def test_the_concise_form_is_one_line_each_and_never_wrapped() -> None:
    long = Finding(**{**fields(LEAK), "message": "two\nlines " + "x" * 300})
    assert concise.render(CheckResult(1, (long, CELL), RESULT.errors)).splitlines() == [
        f"train.py:3:5: GG103 two lines {'x' * 300}",
        "nb.ipynb:cell 3:1:1: GG301 no `no_grad`",
        "error: broken.py:3: invalid syntax",
        "error: x: denied",
    ]


# --- JSON ---------------------------------------------------------------------------------------------------------


def schema() -> dict[str, Any]:
    if not SCHEMA.exists() and not os.environ.get("CI"):
        pytest.skip("the schema lies beside the checkout in CI only")
    loaded: dict[str, Any] = stdlib_json.loads(SCHEMA.read_text(encoding="utf-8"))
    return loaded


def test_every_form_of_a_result_is_valid() -> None:
    judged = Finding(**{**fields(LEAK), "evidence": Evidence("confirmed", 12.5, "run.jsonl")})
    for result in (RESULT, CheckResult(0, (), ()), CheckResult(1, (judged,), ())):
        jsonschema.validate(stdlib_json.loads(json.render(result)), schema())


def test_the_schema_would_notice() -> None:
    broken = json.as_dict(RESULT)
    del broken["findings"][0]["help"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, schema())


def test_json_has_every_key_and_null_for_what_is_unknown() -> None:
    document = json.as_dict(RESULT)
    assert document["tool"] == {"name": "gradguard", "version": __version__}
    assert document["findings"][0]["fix"] == {
        "safe": True,
        "description": "detach the value",
        "edits": [{"line": 3, "column": 14, "end_line": 3, "end_column": 18, "text": "loss.detach()"}],
    }
    cell = document["findings"][1]
    assert (cell["cell"], cell["help"], cell["fix"], cell["related"], cell["evidence"]) == (3, None, None, [], None)
    assert document["errors"][1] == {"path": "x", "line": None, "message": "denied"}


def test_json_is_ascii_so_that_no_pipe_can_spoil_it() -> None:
    odd = Finding(**{**fields(LEAK), "message": "été", "path": "\udcff.py"})
    text = json.render(CheckResult(1, (odd,), ()))
    assert text.isascii()
    assert stdlib_json.loads(text)["findings"][0]["message"] == "été"
