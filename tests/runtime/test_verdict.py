"""What is said at the end, from generated samples alone: growth that no variable explains."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gradguard.findings import RunReport
from gradguard.runtime.series import Series
from gradguard.runtime.verdict import conclude, growing

BASE = 100_000_000


def judged(value: Callable[[int], float], steps: int, signal: str = "heap") -> RunReport:
    """The report on one signal, with no variable found."""
    series = {signal: Series()}
    for step in range(1, steps + 1):
        series[signal].add(step, value(step))
    return conclude(
        series=series,
        found=[],
        growing=growing(series),
        steps=steps,
        source="optimizer",
        seconds_per_step=0.01,
        room={},
        peaks={},
        error=None,
        exit_status=0,
        command=(),
        notes=[],
        microseconds=None,
        diagnosis_seconds=0.0,
    )


@pytest.mark.parametrize(
    ("rate", "steps", "verdict"),
    [
        (50_000, 60, "suspect"),
        (50_000, 200, "suspect"),
        (9_000, 60, "clean"),  # half a megabyte in all: a cache of a library, as like as not
        (9_000, 200, "suspect"),
        (3_000, 200, "clean"),
        (3_000, 5_000, "clean"),
        (50_000, 20, "too-short"),
    ],
)
def test_growth_that_no_variable_explains(rate: int, steps: int, verdict: str) -> None:
    report = judged(lambda s: BASE + rate * s, steps)
    assert (report.verdict, report.leaks) == (verdict, ())


@pytest.mark.parametrize("signal", ["heap", "cuda:0"])
@pytest.mark.parametrize("period", [30, 70, 200])
@pytest.mark.parametrize("at", [0.0, 0.5, 0.97])
def test_a_run_that_ends_within_a_saw_tooth_is_clean(signal: str, period: int, at: float) -> None:
    report = judged(lambda s: BASE + 100_000 * (s % period), int(period * (4 + at)), signal)
    assert report.verdict == "clean"


def test_graphs_that_stay_are_suspect_whatever_they_weigh() -> None:
    assert judged(lambda s: 2 + s, 60, "graphs").verdict == "suspect"
    assert judged(lambda s: 2 + s % 20, 70, "graphs").verdict == "clean"


def test_the_growth_of_a_clean_run_is_told() -> None:
    grown = judged(lambda s: BASE + 9_000 * s, 60).growth["heap"]
    assert grown is not None
    assert grown.bytes_per_step == pytest.approx(9_000, rel=0.01)
