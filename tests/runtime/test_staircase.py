"""Even stairs, far apart, and what only looks like them, on generated series."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from gradguard.runtime.series import Series
from gradguard.runtime.staircase import staircase
from gradguard.runtime.trend import Trend

LEAST = 16_384.0
HEIGHT = 250_000.0


def judged(value: Callable[[int], float], steps: int) -> Trend | None:
    series = Series()
    for step in range(1, steps + 1):
        series.add(step, 1e8 + value(step))
    return staircase(series.steps, series.values, LEAST)


def noise(size: float) -> Callable[[int], float]:
    generator = random.Random(0)
    drawn = [generator.uniform(0, size) for _ in range(4000)]
    return lambda step: drawn[step]


STAIRS: dict[str, tuple[Callable[[int], float], int, float]] = {
    "every tenth of 60": (lambda s: HEIGHT * (s // 10), 60, 10),
    "every fortieth of 200": (lambda s: HEIGHT * (s // 40), 200, 40),
    "every fortieth, after the first evaluation": (lambda s: HEIGHT * (s // 40) + 2e6 * (s > 39), 200, 40),
    "in noise": (lambda s: HEIGHT * (s // 40) + noise(20_000)(s), 200, 40),
    "after a warm-up": (lambda s: HEIGHT * (s // 30) + 1e5 * min(s, 4), 150, 30),
    "not quite as often": (lambda s: HEIGHT * ((s > 40) + (s > 77) + (s > 120) + (s > 161)), 190, 40),
}

NONE: dict[str, tuple[Callable[[int], float], int]] = {
    "two stairs": (lambda s: HEIGHT * (s // 40), 110),
    "constant": (lambda s: 0, 200),
    "noise": (lambda s: noise(1e6)(s), 200),
    "noise and low stairs": (lambda s: noise(1e6)(s) + 20_000 * (s // 40), 200),
    "low stairs": (lambda s: 4_000 * (s // 40), 200),
    "a saw-tooth": (lambda s: HEIGHT * (s // 10 % 5), 200),
    "they have ended": (lambda s: HEIGHT * min(s // 20, 3), 200),
    "of all heights": (lambda s: HEIGHT * ((s > 40) + 3 * (s > 80) + 0.5 * (s > 120)), 150),
    "at any time": (lambda s: HEIGHT * ((s > 20) + (s > 31) + (s > 90) + (s > 180)), 200),
    "a slope": (lambda s: 8_000 * s, 200),
    "a fall": (lambda s: -HEIGHT * (s // 40), 200),
}


@pytest.mark.parametrize("name", STAIRS)
def test_stairs(name: str) -> None:
    value, steps, length = STAIRS[name]
    found = judged(value, steps)
    assert found is not None
    assert found.is_hint
    assert 0.8 * HEIGHT / length < found.slope < 1.25 * HEIGHT / length


@pytest.mark.parametrize("name", NONE)
def test_no_stairs(name: str) -> None:
    value, steps = NONE[name]
    assert judged(value, steps) is None
