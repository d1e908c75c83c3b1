"""The samples of a signal, however long the run."""

from __future__ import annotations

from gradguard.runtime.series import LIMIT, Series


def filled(values: list[float]) -> Series:
    series = Series()
    for step, value in enumerate(values, 1):
        series.add(step, value)
    return series


def test_a_short_run_is_kept_as_it_is() -> None:
    series = filled([3.0, 1.0, 2.0])
    assert (series.steps, series.values, series.stride) == ([1, 2, 3], [3.0, 1.0, 2.0], 1)
    assert (series.peak, series.last) == (3.0, 2.0)


def test_a_long_run_is_kept_in_bounded_memory() -> None:
    series = filled([float(i) for i in range(100_000)])
    assert len(series.values) <= LIMIT + 1
    assert series.steps == sorted(series.steps)
    assert series.steps[-1] > 99_000
    assert (series.peak, series.last) == (99_999.0, 99_999.0)


def test_neighbours_are_merged_to_the_least() -> None:
    series = filled([float(i % 2) for i in range(10 * LIMIT)])
    assert set(series.values[:-1]) == {0.0}
    assert series.peak == 1.0


def test_no_value_is_lost_when_points_are_merged() -> None:
    values = [10.0] * (4 * LIMIT)
    for position in (0, 1, LIMIT - 1, LIMIT, LIMIT + 1, 2 * LIMIT + 3, 4 * LIMIT - 1):
        marked = values.copy()
        marked[position] = 1.0
        assert min(filled(marked).values) == 1.0, position
