"""Dicts that fill and then stand still, and dicts that go on."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from gradguard.runtime.entries import Entries  # noqa: E402


class Owner:
    """Has a dict."""

    def __init__(self) -> None:
        self.latest: dict[int, Any] = {}


def counted(key: Any, steps: int, first: int = 20, entry: Any = lambda before, step: step) -> Entries:
    """A dict that gets ``key(step)`` in each step, counted from step ``first`` on.

    Args:
        entry: what it gets, given what was there.
    """
    owner = Owner()
    found = None
    for step in range(1, steps + 1):
        owner.latest[key(step)] = entry(owner.latest.get(key(step), 0.0), step)
        if step == first:
            found = Entries(owner, "latest", step)
        elif found is not None:
            found.look(step)
    assert found is not None
    return found


@pytest.mark.parametrize("keys", [1, 10, 25])
def test_a_key_that_comes_again_fills_a_dict(keys: int) -> None:
    assert counted(lambda step: step % keys, 400).has_settled


@pytest.mark.parametrize("every", [1, 7])
def test_a_key_that_is_new_does_not(every: int) -> None:
    assert not counted(lambda step: step // every, 400).has_settled


def test_a_few_steps_tell_nothing() -> None:
    assert not counted(lambda step: step % 3, 30).has_settled


def test_the_owner_is_not_kept_and_what_is_gone_is_not_counted() -> None:
    owner = Owner()
    found = Entries(owner, "latest", 20)
    del owner
    found.look(400)
    assert not found.has_settled


@pytest.mark.parametrize(("made", "settled"), [(100, True), (4_000, False), (50_000, False)])
def test_a_table_of_numbers_fills_with_what_is_kept(made: int, settled: bool) -> None:
    owner = Owner()
    owner.latest = dict.fromkeys(range(made), 0.0)
    found = None
    for step in range(1, 241):
        owner.latest.update((key % made, torch.zeros(1)) for key in range(16 * step, 16 * step + 16))
        if step == 20:
            found = Entries(owner, "latest", step)
    assert found is not None
    found.look(240)
    assert found.has_settled is settled


def fresh(before: Any, step: int) -> Any:
    return torch.zeros((), requires_grad=True) * 2


MEANS = {
    "goes on": lambda before, step: 0.9 * before + fresh(before, step),
    "made anew": fresh,
    "cut": lambda before, step: (0.9 * before + fresh(before, step)).detach(),
    "goes on from numbers": lambda before, step: 0.9 * float(before) + fresh(before, step),
    "in a pair": lambda before, step: (step, fresh(before, step)),
    "a graph from some time on": lambda before, step: fresh(before, step) if step > 100 else torch.zeros(()),
}


@pytest.mark.parametrize("name", MEANS)
def test_entries_that_go_on_from_those_that_they_replace_are_never_settled(name: str) -> None:
    assert counted(lambda step: step % 5, 400, entry=MEANS[name]).has_settled is (name != "goes on")
