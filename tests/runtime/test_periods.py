"""Stores that happen every so many steps: how often, and how much that is a step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from gradguard.findings import RunReport  # noqa: E402
from gradguard.runtime.watch import Watch  # noqa: E402

FLOATS = 100_000
Stored = Callable[[Any, int], object]


def train(steps: int, stored: Stored) -> RunReport:
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    with Watch() as guard:
        for step in range(steps):
            loss = model(torch.randn(32, 64)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            stored(loss, step)
    assert guard.report is not None
    return guard.report


def is_told(per_step: float | None, period: int) -> bool:
    """Whether the stores a step are right; what is stored rarely is seen a few times, in the time that a look has."""
    least, most = (0.75, 1.25) if period <= 20 else (0.5, 2.0)
    return per_step is not None and least <= per_step * period <= most


# A graph that was backpropagated weighs a few kilobytes: one every 150 steps is nobody's end of memory.
PERIODS = [
    *((period, steps, "graph") for period, steps in [(1, 100), (2, 200), (5, 300), (20, 600), (50, 1_000)]),
    *((period, steps, "tensor") for period, steps in [(1, 100), (5, 300), (20, 600), (50, 1_000), (150, 2_500)]),
]


@pytest.mark.parametrize(("period", "steps", "kind"), PERIODS)
def test_what_is_stored_every_so_many_steps_is_counted(period: int, steps: int, kind: str) -> None:
    history: list[Any] = []

    def stored(loss: Any, step: int) -> None:
        if step % period == 0:
            history.append(loss if kind == "graph" else torch.randn(FLOATS))

    report = train(steps, stored)
    (leak,) = report.leaks
    assert report.verdict == "leak"
    assert leak.holder is not None
    assert leak.holder.name == "history"
    assert leak.kind == kind
    assert leak.stored_at is not None
    assert "history.append" in (leak.stored_at.code or "")
    assert is_told(leak.per_step, period)
    assert leak.bytes_per_step is not None
    if kind == "tensor":
        assert is_told(leak.bytes_per_step / (4 * FLOATS), period)
    else:
        assert leak.bytes_per_step * period > 2_000  # what backward leaves of a graph of four nodes


def test_an_evaluation_every_forty_steps_that_keeps_its_graphs() -> None:
    history: list[Any] = []
    evaluated = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 1)).eval()

    def stored(loss: Any, step: int) -> None:
        if step % 40 == 0:
            history.append(sum(evaluated(torch.randn(64, 64)).square().mean() for _ in range(4)))

    report = train(600, stored)
    (leak,) = report.leaks
    assert (report.verdict, leak.kind) == ("leak", "graph")
    assert leak.holder is not None
    assert leak.holder.name == "history"
    assert is_told(leak.per_step, 40)


@pytest.mark.parametrize("period", [10, 50])
def test_what_is_emptied_every_so_often_is_clean(period: int) -> None:
    history: list[Any] = []

    def stored(loss: Any, step: int) -> None:
        if step % period == 0:
            history.append(torch.randn(FLOATS))
        if len(history) == 4:
            history.clear()

    assert train(1_000, stored).verdict == "clean"


def test_the_best_of_all_is_kept_once() -> None:
    best: dict[str, Any] = {}

    def stored(loss: Any, step: int) -> None:
        if step % 40 == 0:
            best["state"] = torch.randn(FLOATS)
            best["step"] = step

    assert train(600, stored).verdict == "clean"


def test_a_table_that_is_filled_now_and_then_and_then_is_full() -> None:
    table: dict[int, Any] = {}

    def stored(loss: Any, step: int) -> None:
        if step % 25 == 0 and (step // 25) % 12 not in table:
            table[(step // 25) % 12] = torch.randn(FLOATS)

    assert train(1_200, stored).verdict == "clean"


class Evaluated:
    """A model in training, and what is kept of each evaluation."""

    def __init__(self, keep: Callable[[list[Any], Any], list[Any]]) -> None:
        self.model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
        self.history: list[Any] = []
        self.keep = keep

    def evaluate(self) -> Any:
        return torch.stack([self.model(torch.randn(128, 64)).square().mean() for _ in range(4)]).mean()

    def fit(self, steps: int, every: int) -> RunReport:
        optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)
        with Watch() as guard:
            for step in range(1, steps + 1):
                loss = self.model(torch.randn(32, 64)).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if step % every == 0:
                    self.history = self.keep(self.history, self.evaluate())
        assert guard.report is not None
        return guard.report


FEW = [(60, 10), (60, 12), (100, 20), (200, 40), (200, 30)]


@pytest.mark.parametrize(("steps", "every"), FEW)
def test_a_few_evaluations_that_are_kept_are_a_leak(steps: int, every: int) -> None:
    def keep(history: list[Any], loss: Any) -> list[Any]:
        history.append(loss)
        return history

    report = Evaluated(keep).fit(steps, every)
    assert report.verdict == "leak"
    (leak,) = report.leaks
    assert leak.holder is not None
    assert leak.holder.path == "Evaluated.history"
    assert leak.stored_at is not None
    assert leak.stored_at.code == "history.append(loss)"


KEPT_FEW: dict[str, Callable[[list[Any], Any], list[Any]]] = {
    "numbers": lambda history, loss: [*history, loss.item()],
    "detached": lambda history, loss: [*history, loss.detach()],
    "the last one": lambda history, loss: [loss],
    "the last three": lambda history, loss: [*history, loss][-3:],
}


@pytest.mark.parametrize(("steps", "every"), FEW)
@pytest.mark.parametrize("name", KEPT_FEW)
def test_a_few_evaluations_that_are_let_go_are_clean(name: str, steps: int, every: int) -> None:
    report = Evaluated(KEPT_FEW[name]).fit(steps, every)
    assert report.verdict == "clean"
    heap = report.growth["heap"]
    assert heap is None or not heap.bytes_per_step
