"""How long a step takes."""

from __future__ import annotations

import time

import pytest

torch = pytest.importorskip("torch")

import gradguard  # noqa: E402
from gradguard.runtime.pace import Pace  # noqa: E402


def test_it_is_the_mean_from_the_end_of_the_first_step() -> None:
    pace = Pace()
    for step in range(1, 11):
        pace.step_ended(step, 100.0 + step * 0.5)
    assert pace.seconds_per_step == pytest.approx(0.5)


def test_quiet_steps_may_be_left_out() -> None:
    pace = Pace()
    pace.step_ended(1, 100.0)
    pace.step_ended(1_001, 200.0)
    assert pace.seconds_per_step == pytest.approx(0.1)


def test_disturbed_steps_do_not_count() -> None:
    pace = Pace()
    pace.step_ended(1, 10.0)
    pace.step_ended(10, 19.0)
    pace.step_ended(11, 60.0, was_disturbed=True)
    pace.step_ended(12, 61.0)
    assert pace.seconds_per_step == pytest.approx(1.0)


def test_where_nearly_all_are_disturbed_they_count() -> None:
    pace = Pace()
    pace.step_ended(1, 10.0)
    pace.step_ended(2, 14.0, was_disturbed=True)
    assert pace.seconds_per_step == pytest.approx(4.0)


@pytest.mark.parametrize("steps", [0, 1])
def test_one_step_tells_nothing(steps: int) -> None:
    pace = Pace()
    for step in range(1, steps + 1):
        pace.step_ended(step, 1.0)
    assert pace.seconds_per_step is None


def test_the_forecast_counts_neither_the_start_nor_our_own_work() -> None:
    kept = []
    net = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    with gradguard.watch(report=False) as guard:
        time.sleep(1.0)  # the data are read
        began = time.monotonic()
        for _ in range(120):
            kept.append(net(torch.randn(100, 8)).mean())
            kept[-1].backward()
            optimizer.step()
            time.sleep(0.002)
        each = (time.monotonic() - began) / 120
    assert guard.report is not None
    forecast = guard.report.forecast
    assert forecast is not None
    assert forecast.seconds_left is not None
    assert forecast.seconds_left / forecast.steps_left < 1.2 * each
