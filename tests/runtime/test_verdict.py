"""What is said at the end, from generated samples alone: growth that no variable explains."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gradguard.findings import Holder, Leak, RunReport
from gradguard.runtime.diagnosed import Diagnosed
from gradguard.runtime.series import Series
from gradguard.runtime.verdict import conclude, growing

BASE = 100_000_000


def judged(value: Callable[[int], float], steps: int, signal: str = "heap") -> RunReport:
    """The report on one signal, with no variable found."""
    return concluded({signal: value}, steps, [])


def concluded(values: dict[str, Callable[[int], float]], steps: int, found: list[Diagnosed]) -> RunReport:
    """The report on some signals, and what was found."""
    series = {signal: Series() for signal in values}
    for step in range(1, steps + 1):
        for signal, value in values.items():
            series[signal].add(step, value(step))
    return conclude(
        series=series,
        found=found,
        growing=growing(series),
        steps=steps,
        source="optimizer",
        seconds_per_step=0.01,
        room={"heap": 10_000_000_000},
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
    assert (report.forecast is not None) == (verdict == "suspect")


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


def kept_graphs(excuse: str | None = None) -> Diagnosed:
    """An attribute that was seen to gain a graph in each step."""
    leak = Leak(
        kind="graph",
        holder=Holder("losses", "Trainer.losses", "list", "attribute"),
        bytes_per_step=None,
        per_step=1.0,
        explained=None,
    )
    return Diagnosed(leak, 0.0, 10.0, False, excuse, None, 40, 9_000.0)


def collected_at(step: int) -> float:
    """A heap that grows, and of which the cyclic collector frees once what somebody else had left."""
    return BASE + 9_000 * step - (20_000_000 if step > 50 else 0)


@pytest.mark.parametrize("excuse", [None, "emptied"])
def test_a_heap_that_the_collector_has_cleaned_up_is_no_sign_that_a_list_was_emptied(excuse: str | None) -> None:
    report = concluded({"heap": collected_at, "graphs": float}, 120, [kept_graphs(excuse)])
    assert report.verdict == ("suspect" if excuse else "leak")


@pytest.mark.parametrize("excuse", [None, "emptied"])
@pytest.mark.parametrize("graphs", [lambda step: step % 50, lambda step: 1])
def test_a_list_that_was_emptied_is_no_leak(excuse: str | None, graphs: Callable[[int], float]) -> None:
    """Also where its graphs are not counted: those that no backward goes over."""
    report = concluded({"heap": lambda s: BASE + 9_000 * (s % 50), "graphs": graphs}, 120, [kept_graphs(excuse)])
    assert (report.verdict, report.leaks) == ("clean", ())
