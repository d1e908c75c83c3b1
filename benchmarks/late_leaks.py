"""How many steps after its beginning a leak is named, and how exactly it is sized beside garbage.

    python benchmarks/late_leaks.py

A list of losses, and one of tensors without a graph, that begin to fill at some step of a run; each run ends when the
leak is found, or 1,000 steps later. Then a leak beneath the saw-tooth of the cyclic collector. Prints Markdown.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator

import torch
from torch import nn

from gradguard.runtime.watch import Watch

BEGINNINGS = (100, 300, 600, 1_000, 2_000, 5_000)
PATIENCE = 1_000
KEPT, GARBAGE = 100_000, 1_500_000
"""Numbers of four bytes that are kept, or left in a cycle, in each step."""


def training() -> Iterator[torch.Tensor]:
    """A small training, without end."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    while True:
        loss = model(torch.randn(32, 64)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss


def steps_until_found(begins: int, kept: Callable[[torch.Tensor], torch.Tensor]) -> int | None:
    """Steps between the first store and the step at which its holder is found."""
    history: list[torch.Tensor] = []
    with Watch() as guard:
        for step, loss in enumerate(training(), 1):
            if step >= begins:
                history.append(kept(loss))
            if guard.found or step >= begins + PATIENCE:
                break
        found = [each.path for each in guard.found]
    return step - begins if any(path.endswith("history") for path in found) else None


class Batch:
    """Refers to itself: only the cyclic collector frees it."""

    def __init__(self) -> None:
        self.itself = self
        self.values = torch.ones(GARBAGE)
        self.parts: list[list[int]] = [[] for _ in range(60)]


def sized_beside_garbage(steps: int = 250) -> float | None:
    """Bytes a step that a list is said to gain, beside fifteen times as much garbage."""
    history: list[torch.Tensor] = []
    gc.enable()
    with Watch() as guard:
        for _, _ in zip(range(steps), training()):
            Batch()
            history.append(torch.ones(KEPT))
    assert guard.report is not None
    sizes = (leak.bytes_per_step for leak in guard.report.leaks if leak.holder and leak.holder.name == "history")
    return next(sizes, None)


def main() -> None:
    print("| begins at step | steps until a list of losses is found | of tensors without a graph |")
    print("| ---: | ---: | ---: |")
    for begins in BEGINNINGS:
        graphs = steps_until_found(begins, lambda loss: loss)
        tensors = steps_until_found(begins, lambda loss: torch.ones(5_000))
        print(f"| {begins:,} | {graphs} | {tensors} |", flush=True)
    print(f"\n{4 * KEPT} bytes a step beside {4 * GARBAGE} of garbage: told as {sized_beside_garbage()}")


if __name__ == "__main__":
    main()
