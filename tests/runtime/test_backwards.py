"""Which backwards are heard."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from gradguard.runtime.backwards import DENSE_STEPS, Backwards  # noqa: E402
from gradguard.runtime.watch import Watch  # noqa: E402


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The steps whose backwards were heard."""
    found: list[int] = []
    original = Backwards.begins

    def note(self: Backwards, tensor: torch.Tensor) -> None:
        found.append(self._steps() + 1)
        original(self, tensor)

    monkeypatch.setattr(Backwards, "begins", note)
    return found


def train(steps: int, kept: list[torch.Tensor] | None = None) -> None:
    weights = torch.zeros(4, requires_grad=True)
    optimizer = torch.optim.SGD([weights], lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = weights.square().sum()
        loss.backward()
        optimizer.step()
        if kept is not None:
            kept.append(loss)


def test_of_a_steady_run_few_are_heard_and_of_the_first_steps_all(heard: list[int]) -> None:
    with Watch():
        train(3_000)
    assert heard[:DENSE_STEPS] == list(range(1, DENSE_STEPS + 1))
    assert len([step for step in heard if step > 1_000]) < 2_000 / 8


def test_where_something_grows_all_are_heard_again(heard: list[int]) -> None:
    kept: list[torch.Tensor] = []
    with Watch(stop_on_leak=True) as guard:
        train(800)
        quiet = len(heard)
        train(400, kept)
    assert guard.report is not None
    assert guard.report.verdict == "leak"
    last = heard[-20:]
    assert last == list(range(last[0], last[0] + 20))
    assert len(heard) > quiet


def test_after_the_end_a_listener_that_stays_looks_at_nothing(heard: list[int]) -> None:
    with Watch() as guard:
        train(10)
        backwards = guard._backwards
    assert backwards is not None
    alive = backwards.graphs.read() if backwards.graphs is not None else 0
    kept = torch.ones(2, requires_grad=True).sum()
    backwards.begins(kept)
    assert backwards.graphs is None or backwards.graphs.read() == alive
