"""The outputs of a run."""

from __future__ import annotations

import io
import json
import os
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from rich.console import Console

from gradguard.findings import Forecast, Growth, Holder, Leak, OutOfMemory, Place, RunReport
from gradguard.report import run_json, run_line
from gradguard.report.live import sparkline
from gradguard.report.run_console import report as show
from gradguard.report.run_words import duration, headline, size
from tests.support import CHECKOUT

SCHEMA = CHECKOUT.parent / "shared" / "schema" / "run.schema.json"
SOURCE = ["for x, y in loader:", "    loss = criterion(model(x), y)", "    running += loss  # a comment", "    step()"]

LEAK = Leak(
    kind="graph",
    holder=Holder("running", "train.running", "torch.Tensor", "local"),
    bytes_per_step=10_725.0,
    per_step=1.0,
    explained=0.99,
    stored_at=Place("train.py", 3, "running += loss"),
    also_stored_at=(Place("train.py", 9, "running += penalty"),),
    made_at=Place("train.py", 2, "loss = criterion(model(x), y)"),
    form="sum",
    rule="GG103",
    operation="AddBackward0",
    devices=("cpu",),
    freed_by_gc=False,
    advice="add `loss.detach()`",
)


def a_report(**changes: object) -> RunReport:
    fields: dict[str, object] = {
        "verdict": "leak",
        "steps": 200,
        "step_source": "optimizer",
        "growth": {"graphs": Growth(None, 1.0, 10, 1.0), "heap": Growth(10_731.0, None, 40, 0.9), "process": None},
        "leaks": (LEAK,),
        "notes": ("no CUDA device was used",),
        "forecast": Forecast("cuda:0", 2_100, 6_000.0),
        "out_of_memory": OutOfMemory("cuda", 4_312, "CUDA out of memory"),
    }
    return RunReport(**{**fields, **changes})  # type: ignore[arg-type]


CLEAN = a_report(
    verdict="clean", leaks=(), growth={"heap": Growth(0.0, None, None, None)}, forecast=None, out_of_memory=None
)


def printed(report: RunReport, width: int = 100) -> str:
    out = io.StringIO()
    show(report, lambda path, cell: SOURCE, Console(file=out, width=width, markup=False, highlight=False, emoji=False))
    return out.getvalue()


def test_the_console_says_who_holds_what_since_when_and_how_to_end_it() -> None:
    text = printed(a_report(), width=120)
    assert (
        text.splitlines()[0] == "gradguard Leak: `train.running` keeps autograd graphs, +10.7 KB a step (train.py:3)."
    )
    for said in (
        "growth: graphs +1 a step, heap +10.7 KB a step since step 40",
        "GG103 `train.running` (torch.Tensor, +1 a step) keeps autograd graphs, +10.7 KB a step (99% of the growth)",
        "3 |     running += loss  # a comment\n    |     ^^^^^^^^^^^^^^^\n",
        "also stored at train.py:9: running += penalty",
        "made at: train.py:2: loss = criterion(model(x), y) (AddBackward0)",
        "help: add `loss.detach()`",
        "out of memory at step 4312 (cuda): CUDA out of memory",
        "At this rate out of memory (cuda:0) in about 2,100 steps (1 h 40 min).",
        "note: no CUDA device was used",
        "gradguard explain GG103",
    ):
        assert said in text


@pytest.mark.parametrize(("per_step", "said"), [(2.0, "+2 a step"), (0.97, "+0.97 a step"), (0.025, "+1 in 40 steps")])
def test_what_is_stored_rarely_is_told_by_how_rarely(per_step: float, said: str) -> None:
    assert f"(torch.Tensor, {said})" in printed(a_report(leaks=(replace(LEAK, per_step=per_step),)))


def test_growth_that_nothing_explains_is_said_with_its_size() -> None:
    said = "another +50.5 KB a step (82% of the growth) is held by no variable that was found"
    assert said in printed(a_report(unexplained_bytes_per_step=50_500.0))
    assert any(said in line for line in run_line.lines(a_report(unexplained_bytes_per_step=50_500.0)))


@pytest.mark.parametrize("rest", [None, 0.0, 900.0])
def test_a_slight_rest_is_not_worth_a_line(rest: float | None) -> None:
    assert "another" not in printed(a_report(unexplained_bytes_per_step=rest))


@pytest.mark.parametrize(
    ("steps", "said"), [(0, "0 steps seen, 30 more"), (1, "1 step seen, 29 more"), (29, "29 steps seen, 1 more")]
)
def test_too_short_says_how_many_more(steps: int, said: str) -> None:
    assert said in headline(a_report(verdict="too-short", steps=steps, leaks=()))


@pytest.mark.parametrize(("seconds", "said"), [(0.42, True), (0.01, False), (None, False)])
def test_what_it_took_to_look_closely_is_said(seconds: float | None, said: bool) -> None:
    assert ("looking closely took 0.4 s." in printed(a_report(diagnosis_seconds=seconds))) is said


def test_a_clean_run_is_short() -> None:
    assert len(printed(CLEAN).splitlines()) <= 4


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_a_narrow_terminal_is_not_overrun(width: int) -> None:
    lines = printed(a_report(), width).splitlines()
    long = [line for line in lines if len(line) > width and not line.startswith("  stored")]
    assert long == []


def test_what_a_terminal_would_obey_is_not_printed() -> None:
    evil = a_report(
        leaks=(Leak("graph", Holder("x", "x\x1b[31m", "T", "local"), 1.0, 1.0, 1.0, advice="\x1b]0;x\x07"),)
    )
    assert "\x1b" not in printed(evil)


def test_without_rich_there_are_plain_lines() -> None:
    text = "\n".join(run_line.lines(a_report()))
    assert "gradguard: Leak: `train.running`" in text
    assert "stored at train.py:3: running += loss" in text
    assert run_line.confirmed(LEAK) == (
        "gradguard: leak confirmed: `train.running` keeps autograd graphs, +10.7 KB a step; train.py:3: running += loss"
    )


@pytest.mark.parametrize("report", [a_report(), CLEAN, a_report(verdict="suspect", leaks=())])
def test_json_validates(report: RunReport) -> None:
    if not SCHEMA.is_file():
        pytest.fail("the schema is not there") if os.environ.get("CI") else pytest.skip("the schema is not there")
    document = json.loads(run_json.render(report))
    jsonschema.validate(document, json.loads(Path(SCHEMA).read_text(encoding="utf-8")))
    assert document["verdict"] == report.verdict


@pytest.mark.parametrize("report", [a_report(), CLEAN])
def test_a_report_comes_back_from_json(report: RunReport) -> None:
    """All of it but how the statement stores, which the form does not have."""
    back = run_json.parse(run_json.render(report), report.start)
    assert run_json.as_dict(back) == run_json.as_dict(report)
    assert printed(back) == printed(report)


def test_sizes_and_times_are_readable() -> None:
    assert [size(n) for n in (0, 999, 1_000, 8_540, 123_456, 5_600_000, 7.2e9)] == [
        "0 B", "999 B", "1.0 KB", "8.5 KB", "123 KB", "5.6 MB", "7.2 GB",
    ]  # fmt: skip
    assert size(None) == "?"
    assert [duration(s) for s in (12, 89, 600, 6_000, 360_000)] == [
        "12 s",
        "89 s",
        "10 min",
        "1 h 40 min",
        "4 days",
    ]


def test_no_run_that_memory_ended_is_called_clean() -> None:
    ended = replace(CLEAN, out_of_memory=OutOfMemory("cpu", CLEAN.steps, "cannot allocate"))
    assert headline(ended).startswith(f"Out of memory: it ended after {CLEAN.steps} steps")
    assert "gradguard Out of memory: it ended" in printed(ended)
    assert "Clean" not in printed(ended)


def test_a_clean_run_says_what_it_gained_all_the_same() -> None:
    assert headline(CLEAN) == f"Clean: nothing keeps growing over {CLEAN.steps} steps."
    gained = replace(CLEAN, growth={"heap": Growth(1_600.0, None, 12, 0.9)})
    assert (
        headline(gained) == f"Clean: no leak was found over {CLEAN.steps} steps, in which memory gained 1.6 KB a step."
    )


def test_no_run_whose_gradients_add_up_is_called_clean() -> None:
    noted = replace(CLEAN, notes=("`optimizer` (SGD) steps with gradients that nothing clears (GG201)",))
    said = f"Memory is clean, gradients are not: nothing keeps growing over {CLEAN.steps} steps; see the note."
    assert headline(noted) == said
    assert said.split(":")[0] in printed(noted)
    assert headline(replace(CLEAN, notes=("`rows` is a ring (GG104)",))).startswith("Clean:")


def test_growth_beside_all_tensors_is_told() -> None:
    growth = {"graphs": Growth(None, 0.0, None, None), "heap": Growth(300_000.0, None, 12, 1.0)}
    grows = a_report(
        verdict="suspect", leaks=(), growth=growth, peak={"tensors": 17_000}, unexplained_bytes_per_step=300_000.0
    )
    assert f"by 300 KB a step over {grows.steps} steps, but not through tensors, and no variable" in headline(grows)
    for other in (
        replace(grows, peak={}),  # they were not counted
        replace(grows, peak={"tensors": 300_000 * grows.steps}),
        replace(grows, growth={**growth, "graphs": Growth(None, 1.0, 9, 1.0)}),
    ):
        assert "memory grows over" in headline(other)


def test_a_sparkline_has_eight_heights_and_a_limit() -> None:
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7]) == "▁▂▃▄▅▆▇█"
    assert sparkline([5, 5, 5]) == "▁▁▁"
    assert sparkline([]) == ""
    assert len(sparkline(list(range(1000)))) == 32
    assert sparkline([0, 1], ascii_only=True).isascii()


def test_the_headline_of_a_suspect_names_its_holder() -> None:
    said = headline(a_report(verdict="suspect"))
    assert said.startswith("Suspect: `train.running` keeps autograd graphs")
    assert said.endswith("not yet confirmed.")
    assert "no variable was found" in headline(a_report(verdict="suspect", leaks=()))
    assert "not yet" not in headline(a_report())


def test_of_a_program_that_fails_at_once_one_line_tells() -> None:
    failed = a_report(
        verdict="too-short", leaks=(), steps=0, exit_status=1, growth={}, forecast=None, out_of_memory=None
    )
    said = "Too short: the program failed before any step was seen."
    assert headline(failed) == said
    assert list(run_line.lines(failed)) == [f"gradguard: {said}"]
    assert len(printed(failed).splitlines()) == 1
    for other in (replace(failed, exit_status=0), replace(failed, exit_status=None), replace(failed, steps=3)):
        assert headline(other) != said
        assert len(printed(other).splitlines()) > 1


def test_the_headline_wraps() -> None:
    assert max(len(line) for line in printed(a_report(), width=50).splitlines()[:3]) <= 50
