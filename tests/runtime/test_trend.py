"""What is growth and what only looks like it, on generated series."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from gradguard.runtime.series import Series
from gradguard.runtime.trend import Trend, goes_on, has_fallen, is_back, is_beyond, late, trend

FLOOR = 1024.0
SLOPE = 8_000.0


def judged(value: Callable[[int], float], steps: int) -> Trend | None:
    series = Series()
    for step in range(1, steps + 1):
        series.add(step, value(step))
    return trend(series.steps, series.values, FLOOR)


def noise(size: float, seed: int = 0) -> Callable[[int], float]:
    generator = random.Random(seed)
    drawn = [generator.uniform(0, size) for _ in range(4000)]
    return lambda step: drawn[step]


GROWING: dict[str, Callable[[int], float]] = {
    "linear": lambda s: SLOPE * s,
    "after a warm-up": lambda s: 5e6 * min(s, 10) + SLOPE * s,
    "with noise": lambda s: SLOPE * s + noise(20_000)(s),
    "every fourth step": lambda s: SLOPE * (s // 4 * 4),
    "beside a saw-tooth": lambda s: SLOPE * s + 30_000 * (s % 5),
    "with one jump": lambda s: SLOPE * s + (40_000 if s > 30 else 0),
}

FLAT: dict[str, Callable[[int], float]] = {
    "constant": lambda s: 1e8,
    "noise": lambda s: 1e8 + noise(1e6)(s),
    "a warm-up": lambda s: 1e6 * min(s, 20),
    "one jump": lambda s: 5e6 if s > 40 else 0.0,
    "two jumps": lambda s: 5e6 * ((s > 20) + (s > 45)),
    "a saw-tooth of 5": lambda s: 50_000 * (s % 5),
    "a saw-tooth of 13": lambda s: 50_000 * (s % 13),
    "a fall": lambda s: 1e8 - 50_000 * s,
    "a crawl below the floor": lambda s: 500 * s,
    "a buffer that was filled": lambda s: SLOPE * min(s, 25),
}


def ends_beyond(value: Callable[[int], float], steps: int) -> bool:
    """Whether growth is found that goes beyond what was there before it."""
    series = Series()
    for step in range(1, steps + 1):
        series.add(step, value(step))
    found = trend(series.steps, series.values, FLOOR)
    return found is not None and is_beyond(series.steps, series.values, found.since)


@pytest.mark.parametrize("period", [20, 25, 40, 70, 150])
@pytest.mark.parametrize("teeth", [2, 3, 4, 7])
@pytest.mark.parametrize("unseen", [1, 2, 3])
def test_a_rise_to_where_it_has_been_is_not_sure(period: int, teeth: int, unseen: int) -> None:
    small = noise(300.0, period)
    assert not ends_beyond(lambda s: SLOPE * (s % period) + small(s), period * teeth - unseen)


@pytest.mark.parametrize("steps", [60, 200, 1000])
@pytest.mark.parametrize("name", [n for n in GROWING if n not in ("with noise",)])
def test_growth_goes_beyond_what_was_there(name: str, steps: int) -> None:
    assert ends_beyond(GROWING[name], steps)


@pytest.mark.parametrize("share", [4, 8, 16, 64])
@pytest.mark.parametrize("every", [1, 4, 10])
@pytest.mark.parametrize("steps", [200, 1000, 5000])
def test_growth_is_seen_however_rarely_a_dear_signal_is_read(steps: int, every: int, share: int) -> None:
    """At every step first, and then at powers of two: each ``share``-th part of the steps so far."""
    series = Series()
    step = 1
    while step <= steps:
        series.add(step, SLOPE * (step // every * every))
        period = 1 << max(min(step // share, 512), 1).bit_length() - 1 if step >= 64 else 1
        step = (step // period + 1) * period
    found = trend(series.steps, series.values, FLOOR)
    assert found is not None
    assert found.slope == pytest.approx(SLOPE, rel=0.15)


@pytest.mark.parametrize("begins", [20, 60, 120])
def test_a_leak_that_begins_late_goes_beyond_what_was_there(begins: int) -> None:
    assert ends_beyond(
        lambda s: 5e6 * (s % 7 == 3) * (s < begins) + 6e6 * (s > begins) + SLOPE * max(s - begins, 0), 200
    )


@pytest.mark.parametrize("steps", [60, 200, 1000, 5000])
@pytest.mark.parametrize("name", [n for n in GROWING if n not in ("with noise",)])
def test_growth_is_seen_with_its_slope(name: str, steps: int) -> None:
    found = judged(GROWING[name], steps)
    assert found is not None
    assert found.slope == pytest.approx(SLOPE, rel=0.25)
    assert 0 < found.confidence <= 1


def rarer_and_rarer(steps: int) -> list[int]:
    """The steps at which a sensor is read in a long run: the first one by one, the later ever more rarely."""
    read = [1]
    while read[-1] < steps:
        read.append(read[-1] + max(read[-1] // 16, 1))
    return read


@pytest.mark.parametrize("steps", [60, 200, 1000, 20_000])
@pytest.mark.parametrize("name", ["linear", "after a warm-up", "with one jump"])
def test_the_slope_is_right_however_rarely_a_long_run_is_sampled(name: str, steps: int) -> None:
    read = rarer_and_rarer(steps)
    found = trend(read, [GROWING[name](step) for step in read], FLOOR)
    assert found is not None
    assert found.slope == pytest.approx(SLOPE, rel=0.05)


@pytest.mark.parametrize("jump", [20, 30, 40, 50])
def test_a_jump_in_the_midst_does_not_change_the_slope(jump: int) -> None:
    found = judged(lambda s: SLOPE * s + (60_000 if s > jump else 0), 60)
    assert found is not None
    assert found.slope == pytest.approx(SLOPE, rel=0.05)


@pytest.mark.parametrize("steps", [200, 1000])
def test_growth_is_seen_in_noise(steps: int) -> None:
    found = judged(GROWING["with noise"], steps)
    assert found is not None
    assert found.slope == pytest.approx(SLOPE, rel=0.25)


@pytest.mark.parametrize("steps", [60, 200, 1000, 3000])
@pytest.mark.parametrize("name", FLAT)
def test_what_is_flat_in_the_end_is_no_growth(name: str, steps: int) -> None:
    assert judged(FLAT[name], steps) is None


@pytest.mark.parametrize("seed", range(40))
def test_noise_has_no_direction(seed: int) -> None:
    assert judged(noise(1e6, seed), 200) is None


def test_a_leak_that_begins_late_is_seen_with_its_beginning() -> None:
    found = judged(lambda s: SLOPE * max(s - 400, 0), 700)
    assert found is not None
    assert 300 <= found.since <= 550


def test_a_few_steps_say_nothing() -> None:
    assert judged(GROWING["linear"], 14) is None


def test_what_was_emptied_has_come_back() -> None:
    def steps_and_values(value: Callable[[int], float]) -> tuple[range, list[float]]:
        return range(1, 201), [value(s) for s in range(1, 201)]

    assert is_back(*steps_and_values(lambda s: SLOPE * (s if s < 60 else 5)), since=40)
    assert is_back(*steps_and_values(lambda s: SLOPE * (s % 60)), since=40)
    assert not is_back(*steps_and_values(lambda s: SLOPE * s), since=40)
    assert has_fallen(*steps_and_values(lambda s: SLOPE * (s % 60)))
    assert not has_fallen(*steps_and_values(lambda s: SLOPE * s + noise(20_000)(s)))


def begun(value: Callable[[int], float], steps: int, every: int = 16) -> Trend | None:
    """The growth in the last samples of a run that is read each so many steps."""
    series = Series()
    for step in range(1, steps + 1, every):
        series.add(step, value(step))
    return late(series.steps, series.values, tuple(series.recent), FLOOR)


@pytest.mark.parametrize("begins", [1_000, 5_000, 40_000])
def test_what_begins_late_in_a_long_run_is_seen_soon(begins: int) -> None:
    found = begun(lambda s: 1e8 + SLOPE * max(s - begins, 0), begins + 400)
    assert found is not None
    assert found.is_hint
    assert found.slope == pytest.approx(SLOPE, rel=0.15)
    assert found.since >= begins - 16


@pytest.mark.parametrize(
    "value",
    [
        lambda s: 1e8,
        lambda s: 1e8 + noise(1e6)(s % 4000),
        lambda s: 1e8 + (5e6 if s > 7_800 else 0),
        lambda s: 1e8 + SLOPE * (s % 1_000),  # an epoch's list: it has been there before
        lambda s: 1e8 + 2e7 * (s < 300) + SLOPE * max(s - 7_000, 0) * (s > 7_000),  # what loading the data took
    ],
)
def test_what_was_there_before_does_not_begin(value: Callable[[int], float]) -> None:
    assert begun(value, 7_999) is None


@pytest.mark.parametrize(
    ("values", "fewest", "expected"),
    [
        ([10, 10, 10], 5, None),
        ([10, 10, 10], 2, False),
        ([10, 20, 30], 2, True),
        ([10], 2, None),
        ([30, 10, 31, 11, 32, 12], 5, True),
        ([30, 10, 31, 10, 32, 10], 5, False),
    ],
)
def test_whether_it_goes_on_after_a_step(values: list[float], fewest: int, expected: bool | None) -> None:
    steps, before = range(1, 20 + len(values)), [float(step * 100) for step in range(1, 20)]
    assert goes_on(steps, [*before, *values], 19, 0.5, fewest) is expected
