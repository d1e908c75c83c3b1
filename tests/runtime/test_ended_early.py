"""Runs that are ended before their optimizer has stepped: what grows by then may be what that step is made from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from gradguard.findings import RunReport  # noqa: E402
from gradguard.report.run_words import headline  # noqa: E402
from gradguard.runtime.watch import Watch  # noqa: E402

CALLS = 100


def unrolled(end: Callable[[int], object]) -> None:
    """A recurrent cell over a long sequence, which is backpropagated at its end."""
    cell = nn.GRUCell(8, 32)
    optimizer = torch.optim.Adam(cell.parameters())
    for _ in range(3):
        state, loss = torch.zeros(16, 32), torch.zeros(())
        for step in range(400):
            state = cell(torch.randn(16, 8), state)
            loss = loss + state.square().mean()
            end(step)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def rollout(end: Callable[[int], object]) -> None:
    agent = nn.Linear(16, 256)
    optimizer = torch.optim.SGD(agent.parameters(), 0.01)
    kept = []
    for step in range(400):
        kept.append(agent(torch.randn(16, 16)).log_softmax(-1))
        end(step)
    torch.stack(kept).mean().backward()
    optimizer.step()


def rollout_without_grad(end: Callable[[int], object]) -> None:
    agent = nn.Linear(16, 256)
    optimizer = torch.optim.SGD(agent.parameters(), 0.01)
    kept = []
    for step in range(400):
        with torch.no_grad():
            kept.append(agent(torch.randn(16, 16)))
        end(step)
    agent(torch.randn(16, 16)).sub(torch.stack(kept)).mean().backward()
    optimizer.step()


def evaluation(end: Callable[[int], object]) -> None:
    """Nothing is kept: but no step of training was seen."""
    model = nn.Linear(16, 16)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for step in range(400):
        with torch.no_grad():
            model(torch.randn(16, 16))
        end(step)
    optimizer.step()


def accumulated(end: Callable[[int], object]) -> None:
    """What is kept was backpropagated: no step of the optimizer needs it."""
    model = nn.Linear(16, 16)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    losses = []
    for step in range(400):
        loss = model(torch.randn(16, 16)).square().mean()
        loss.backward()
        losses.append(loss)
        end(step)
    optimizer.step()


def without_optimizer(end: Callable[[int], object]) -> None:
    model = nn.Linear(16, 16)
    outputs = []
    for step in range(400):
        outputs.append(model(torch.randn(16, 16)))
        end(step)


def trained(end: Callable[[int], object]) -> None:
    model = nn.Linear(16, 16)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    losses = []
    for step in range(400):
        optimizer.zero_grad()
        loss = model(torch.randn(16, 16)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss)
        end(step)


def no_end(step: int) -> None:
    pass


def fails_with(error: BaseException) -> Callable[[int], None]:
    def end(step: int) -> None:
        if step == CALLS:
            raise error

    return end


def ended_by_steps(program: Callable[[Any], object]) -> RunReport:
    with Watch(max_steps=CALLS) as watch:
        program(no_end)
    assert watch.report is not None
    return watch.report


def ended_by(error: BaseException, program: Callable[[Any], object]) -> RunReport:
    watch = Watch()
    with pytest.raises(type(error)), watch:
        program(fails_with(error))
    assert watch.report is not None
    return watch.report


@pytest.mark.parametrize("program", [unrolled, rollout, rollout_without_grad, evaluation])
@pytest.mark.parametrize(
    "end",
    [
        ended_by_steps,
        lambda program: ended_by(KeyboardInterrupt(), program),
        lambda program: ended_by(ValueError("a shape"), program),
    ],
    ids=["steps", "interrupted", "failed"],
)
def test_before_the_first_step_nothing_is_told_of_leaks(program: Any, end: Callable[[Any], RunReport]) -> None:
    report = end(program)
    assert (report.verdict, report.leaks, report.forecast) == ("too-short", (), None)
    assert headline(report) == f"Too short: {report.steps} module calls; no optimizer had stepped yet."


def test_what_grew_by_then_is_named() -> None:
    said = "`rollout.kept` grew, and may be what the first step of an optimizer is made from"
    assert said in ended_by_steps(rollout).notes
    assert not any("may be what" in note for note in ended_by_steps(evaluation).notes)


@pytest.mark.parametrize("program", [accumulated, without_optimizer, trained])
@pytest.mark.parametrize("end", [ended_by_steps, lambda program: ended_by(KeyboardInterrupt(), program)])
def test_a_leak_is_one_however_the_run_ends(program: Any, end: Callable[[Any], RunReport]) -> None:
    assert end(program).verdict == "leak"


def test_where_memory_ends_before_the_first_step_what_holds_it_is_named() -> None:
    report = ended_by(MemoryError(), rollout)
    assert [leak.holder.name for leak in report.leaks if leak.holder] == ["kept"]


def test_a_run_that_comes_to_its_end_is_judged_by_all_of_it() -> None:
    with Watch() as watch:
        unrolled(no_end)
    assert watch.report is not None
    assert (watch.report.verdict, watch.report.leaks) == ("clean", ())
