"""Which ticks end a step."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from gradguard.runtime.clock import FEW, PATIENCE, Clock
from gradguard.runtime.steps import Numbers

Tick = tuple[str, int]


def ended(ticks: Iterable[Tick]) -> list[str]:
    """The source of each step that ``ticks`` end."""
    found: list[str] = []
    clock = Clock(lambda source, frame: found.append(source))
    for source, key in ticks:
        clock.tick(source, key, None)
    return found


def test_the_optimizer_is_better_than_the_loader_the_module_and_backward() -> None:
    cycle = [("loader", 1), ("module", 2), ("backward", 0), ("optimizer", 3)]
    assert ended(cycle * 50)[-49:] == ["optimizer"] * 49
    assert len(ended(cycle * 50)) == 50 + 1  # the loader ended one before there was an optimizer


def test_of_two_optimizers_the_one_that_steps_last_ends_the_cycle() -> None:
    assert len(ended([("optimizer", 1), ("optimizer", 2)] * 40)) == 41


def test_a_critic_that_steps_five_times_does_not_count() -> None:
    assert len(ended(([("optimizer", 1)] * 5 + [("optimizer", 2)]) * 40)) == 41 + 4


def test_an_optimizer_that_is_made_anew_each_time_counts_each_time() -> None:
    assert len(ended([("optimizer", key) for key in range(1, 41)])) == 40


def test_what_comes_at_the_address_of_what_is_gone_has_a_number_of_its_own() -> None:
    class Thing:
        __hash__ = None  # type: ignore[assignment]

    numbers, found = Numbers(), []
    for _ in range(20):
        thing = Thing()
        found += [numbers.of(thing), numbers.of(thing)]
    assert found == [number for number in range(1, 21) for _ in range(2)]


def test_an_explicit_step_silences_everything_else() -> None:
    ticks = [("optimizer", 1)] * 3 + [("explicit", 0), ("optimizer", 1), ("loader", 2)] * 200
    assert ended(ticks)[3:] == ["explicit"] * 200


def test_a_second_phase_without_the_optimizer_is_counted_after_a_while() -> None:
    found = ended([("optimizer", 1), ("loader", 2)] * 100 + [("loader", 2)] * 300)
    assert found.count("loader") == 300 - PATIENCE + 1


def test_after_a_pause_an_evaluation_is_counted_at_once_and_a_step_is_not() -> None:
    found: list[str] = []
    clock = Clock(lambda source, frame: found.append(source))
    for turn in range(40):
        if turn == 20:
            clock.hand_over()
        clock.tick("module", 2, None)
        clock.tick("optimizer", 1, None)
    assert found == ["module"] + ["optimizer"] * 40
    clock.hand_over()
    for _ in range(10):
        clock.tick("module", 2, None)
    assert found[41:] == ["module"] * (10 - FEW - 1)  # one of them is usual


def test_what_the_first_of_two_optimizers_counted_is_known_once_it_steps_again() -> None:
    clock = Clock(lambda source, frame: counted.append(clock.counted))
    counted: list[int] = []
    for key in [1, 1, 2] * 3:
        clock.tick("optimizer", key, None)
    assert counted == [1, 2, 3, 2, 3]


def test_one_that_is_made_anew_beside_one_that_stays_ends_the_cycle_each_time() -> None:
    counted: list[int] = []
    clock = Clock(lambda source, frame: counted.append(clock.counted))
    for step in range(200):
        clock.tick("optimizer", 1, None)
        clock.tick("optimizer", 2 + step, None)
    assert counted == [1, 2, *range(2, 201)]


def test_micro_batches_are_no_steps_however_many() -> None:
    found = ended(([("loader", 2)] * 50 + [("optimizer", 1)]) * 20)
    assert found[50:] == ["optimizer"] * 20


@pytest.mark.parametrize("source", ["loader", "module", "backward"])
def test_every_source_will_do_alone(source: str) -> None:
    assert ended([(source, 1)] * 10) == [source] * 10


def passing(ticks: Iterable[Tick], steps: int, *, optimizer: int = 0) -> tuple[list[str], Clock]:
    """The steps that do not pass, where after each of those so many may; and the clock."""
    found: list[str] = []

    def on_step(source: str, frame: object) -> None:
        found.append(source)
        clock.take_passed()
        clock.let_pass(steps)

    clock = Clock(on_step)
    clock.deciding = optimizer
    for source, key in ticks:
        clock.tick(source, key, None)
    return found, clock


def test_steps_with_nothing_at_their_end_pass_and_are_counted() -> None:
    found, clock = passing([("backward", 0), ("loader", 1), ("backward", 0)] * 100, 9)
    assert len(found) == 1 + 10  # the first was one of backward
    assert (clock.counted + clock.passed, clock.passed) == (100, 9)


def test_of_an_optimizer_that_is_not_known_none_passes() -> None:
    ticks = [("loader", 1), ("optimizer", 7)] * 50
    assert len(passing(ticks, 9)[0]) == 1 + 50
    assert len(passing(ticks, 9, optimizer=1)[0]) == 1 + 5


def test_whoever_is_better_is_heard_though_steps_may_pass() -> None:
    found, _ = passing([("loader", 1)] * 40 + [("explicit", 0)] * 3, 1_000)
    assert found == ["loader", "explicit"]
    found, _ = passing([("optimizer", 1)] * 40 + [("explicit", 0)] * 3, 1_000, optimizer=1)
    assert found == ["optimizer", "explicit"]


def test_who_ends_the_steps_and_falls_silent_hands_over_though_steps_may_pass() -> None:
    ticks = [("loader", 2), ("optimizer", 1)] * 40 + [("loader", 2)] * 300
    found, clock = passing(ticks, 1_000, optimizer=1)
    assert clock.source == "loader"
    assert "loader" in found[2:]


def test_after_a_pause_no_step_passes() -> None:
    found, clock = passing([("optimizer", 1)] * 40, 1_000, optimizer=1)
    clock.hand_over()
    assert (clock.left, clock.passed) == (0, 39)
    for _ in range(FEW + 1):
        clock.tick("module", 2, None)
    assert found == ["optimizer", "module"]
