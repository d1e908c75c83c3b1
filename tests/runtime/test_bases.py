"""What grows beneath the saw-tooth of the cyclic collector."""

from __future__ import annotations

import pytest

from gradguard.runtime.bases import Bases


def slopes(*points: tuple[int, float]) -> dict[str, float]:
    bases = Bases()
    for step, size in points:
        bases.add(step, {"heap": size})
    return bases.slopes()


def test_even_growth() -> None:
    assert slopes((36, 1e6), (52, 1.16e6), (84, 1.48e6)) == {"heap": pytest.approx(1e4)}


@pytest.mark.parametrize(
    "points",
    [
        [],
        [(36, 1e6), (52, 2e6)],
        [(36, 1e6), (52, 1e6), (84, 1e6)],
        [(36, 1e6), (52, 1e6), (84, 9e6)],
        [(36, 1e6), (52, 9e6), (84, 9e6)],
        [(36, 9e6), (52, 8e6), (84, 7e6)],
        [(36, 1e6), (52, 9e6), (84, 2e6)],
    ],
)
def test_a_jump_a_fall_and_too_few_looks_are_no_growth(points: list[tuple[int, float]]) -> None:
    assert slopes(*points) == {}


def test_the_last_looks_count() -> None:
    assert slopes((36, 0), (52, 5e6), (84, 5e6), (168, 5e6), (336, 5e6)) == {}
    bases = Bases()
    for step in (36, 52, 84, 168, 336, 672):
        bases.add(step, {"heap": max(0.0, 1e4 * (step - 150))})
    assert bases.slopes() == {"heap": pytest.approx(1e4, rel=0.1)}
    assert bases.since == 168


def test_of_a_device_that_came_later_nothing_is_known_yet() -> None:
    bases = Bases()
    bases.add(36, {"heap": 0.0})
    for step in (52, 84):
        bases.add(step, {"heap": 0.0, "cuda:0": 1e6 * step})
    assert bases.slopes() == {}
    bases.add(132, {"heap": 0.0, "cuda:0": 132e6})
    assert bases.slopes() == {"cuda:0": pytest.approx(1e6)}
