"""An evaluation after training: the optimizer has stopped, and the model goes on being called."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from gradguard.findings import RunReport  # noqa: E402
from gradguard.runtime.clock import PATIENCE  # noqa: E402
from gradguard.runtime.module_steps import BETWEEN_LOOKS, MOST_CLASSES, Forwards  # noqa: E402
from gradguard.runtime.phases import evaluates, said_of_phases  # noqa: E402
from gradguard.runtime.steps import Attribute  # noqa: E402
from gradguard.runtime.watch import Watch  # noqa: E402


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.front = nn.Sequential(nn.Linear(8, 32), nn.ReLU())
        self.cell = nn.GRUCell(32, 32)
        self.state: torch.Tensor | None = None
        self.seen: list[torch.Tensor] = []

    def forward(self, chunk: torch.Tensor) -> torch.Tensor:
        self.state = self.cell(self.front(chunk), self.state)
        return self.state


class Held(nn.Module):
    """A model whose forward is not its class's, as where a library wraps it."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 4)
        self.forward = self.inner.forward  # type: ignore[method-assign]


def batches(count: int) -> Iterator[torch.Tensor]:
    for _ in range(count):
        yield torch.randn(16, 8)


def train(model: nn.Module, steps: int) -> None:
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for batch in batches(steps):
        if isinstance(model, Recurrent):
            model.state = None
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def watched(program: Callable[[Recurrent], object]) -> RunReport:
    with Watch() as guard:
        program(Recurrent())
    assert guard.report is not None
    assert not [note for note in guard.report.notes if "failed" in note]
    return guard.report


# --- programs that leak -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("evaluating", [True, False])
@pytest.mark.parametrize("steps", [40, 120])
def test_a_state_that_is_carried_through_an_evaluation(steps: int, evaluating: bool) -> None:
    def program(model: Recurrent) -> None:
        train(model, steps)
        if evaluating:
            model.eval()
        model.state = None
        for batch in batches(300):
            model(batch)

    report = watched(program)
    assert report.verdict == "leak"
    assert [(leak.kind, leak.holder.name) for leak in report.leaks if leak.holder] == [("graph", "state")]
    assert f"{steps} are those of an optimizer" in " ".join(report.notes)
    assert " are calls of a module" in " ".join(report.notes)


def test_a_loss_that_is_summed_up_over_an_evaluation() -> None:
    def evaluate(model: Recurrent) -> float:
        total = torch.zeros(())
        for batch in batches(300):
            model.state = None
            total = total + model(batch).square().mean()
        return total.item()

    report = watched(lambda model: (train(model, 60), evaluate(model)))
    assert report.verdict == "leak"
    assert [leak.holder.path for leak in report.leaks if leak.holder] == ["evaluate.total"]


def test_what_each_of_several_evaluations_adds_to() -> None:
    def program(model: Recurrent) -> None:
        for _ in range(4):
            train(model, 50)
            for batch in batches(200):
                model.state = None
                model.seen.append(model(batch))

    report = watched(program)
    assert report.verdict == "leak"
    assert [leak.holder.name for leak in report.leaks if leak.holder] == ["seen"]


# --- programs that do not -----------------------------------------------------------------------------------------


def detached(model: Recurrent) -> None:
    for batch in batches(300):
        model(batch)
        assert model.state is not None
        model.state = model.state.detach()


@torch.no_grad()
def predicted(model: Recurrent) -> torch.Tensor:
    predictions = []
    for batch in batches(300):
        model.state = None
        predictions.append(model(batch))
    return torch.cat(predictions)


def counted(model: Recurrent) -> float:
    scores = []
    for batch in batches(300):
        model.state = None
        scores.append(model(batch).square().mean().item())
    return sum(scores)


class Metric:
    def __init__(self) -> None:
        self.right: list[torch.Tensor] = []

    def update(self, output: torch.Tensor) -> None:
        self.right.append(output.argmax(-1) == 0)

    def compute(self) -> torch.Tensor:
        return torch.cat(self.right).float().mean()

    def reset(self) -> None:
        self.right = []


@torch.no_grad()
def measured(model: Recurrent) -> None:
    metric = Metric()
    for batch in batches(300):
        model.state = None
        metric.update(model(batch))
    metric.compute()
    metric.reset()


@pytest.mark.parametrize("evaluate", [detached, predicted, counted, measured])
@pytest.mark.parametrize("epochs", [1, 3])
def test_an_evaluation_that_keeps_nothing_in_the_end(evaluate: Callable[[Recurrent], object], epochs: int) -> None:
    def program(model: Recurrent) -> None:
        for _ in range(epochs):
            train(model, 60)
            model.state = None
            evaluate(model)

    report = watched(program)
    assert report.verdict != "leak"
    assert {leak.kind for leak in report.leaks} <= {"collected"}  # all results, on purpose: no more than a suspect
    assert report.verdict == "clean" or report.leaks
    assert f"{60 * epochs} are those of an optimizer" in " ".join(report.notes)


@pytest.mark.parametrize("steps", [40, 400])
def test_the_last_loss_of_the_training_is_still_there(steps: int) -> None:
    """One graph, in however many steps of an evaluation."""

    def program(model: Recurrent) -> None:
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        for batch in batches(steps):
            model.state = None
            loss = model(batch).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        counted(model)
        assert loss.grad_fn is not None

    report = watched(program)
    assert (report.verdict, report.leaks) == ("clean", ())


def test_a_policy_acts_before_each_update() -> None:
    """What a rollout keeps is emptied after the update; the first rollout is taken for a phase, and no other."""

    def program(model: Recurrent) -> None:
        policy = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 4))
        optimizer = torch.optim.SGD(policy.parameters(), 0.01)
        rollout: list[torch.Tensor] = []
        for _ in range(8):
            with torch.no_grad():
                for batch in batches(150):
                    rollout.append(policy(batch))
            for _ in range(40):
                loss = policy(torch.cat(rollout)[:32, :1].expand(32, 8)).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            rollout.clear()

    report = watched(program)
    assert (report.verdict, report.leaks) == ("clean", ())


# --- what is said of it -------------------------------------------------------------------------------------------


def test_a_short_evaluation_is_said_not_to_have_been_watched() -> None:
    def program(model: Recurrent) -> None:
        train(model, 60)
        for batch in batches(50):
            model.state = None
            model(batch)

    (said,) = (note for note in watched(program).notes if "not watched" in note)
    called = int(said.partition("at least ")[2].partition(" ")[0])
    assert 50 - BETWEEN_LOOKS <= called <= 50


def test_of_training_alone_nothing_is_said() -> None:
    assert not [note for note in watched(lambda model: train(model, 80)).notes if "step" in note]


def test_whose_forward_is_not_of_its_class_is_left_alone() -> None:
    with Watch() as guard:
        train(Held(), 60)
    assert guard.report is not None
    assert guard.report.steps == 60


def test_no_class_is_changed_when_the_watch_is_over() -> None:
    before = Recurrent.__dict__["forward"]

    class Inherits(Recurrent):
        pass

    with Watch():
        train(Recurrent(), 40)
        train(Inherits(), 40)
        assert Recurrent.forward is before
        assert Recurrent.__dict__["forward"] is not before
    assert Recurrent.__dict__["forward"] is before
    assert "forward" not in Inherits.__dict__


@pytest.mark.parametrize(
    ("sources", "unwatched", "said"),
    [
        ({"optimizer": 120}, 0, []),
        ({"optimizer": 120}, 29, []),
        ({"module": 0, "optimizer": 120}, 0, []),
        ({}, 500, []),
        (
            {"optimizer": 1_200, "module": 300},
            0,
            ["not all steps are of one kind: 1,200 are those of an optimizer, 300 are calls of a module"],
        ),
        ({"loader": 9}, 64, ["after the last step the model was called at least 64 times more, which was not watched"]),
    ],
)
def test_what_is_said_of_phases(sources: dict[str, int], unwatched: int, said: list[str]) -> None:
    assert said_of_phases(sources, unwatched) == said


@pytest.mark.parametrize(
    ("sources", "does"),
    [
        ({"optimizer": 120, "module": 300}, True),
        ({"optimizer": 120, "loader": 20}, True),
        ({"module": 40, "optimizer": 120, "loader": 30}, True),
        ({"module": 40, "optimizer": 120}, False),  # a rollout before the first step
        ({"optimizer": 120, "module": 5}, False),
        ({"module": 300}, False),
        ({}, False),
    ],
)
def test_what_comes_after_an_optimizers_steps_evaluates(sources: dict[str, int], does: bool) -> None:
    assert evaluates(sources) is does


# --- counting forwards --------------------------------------------------------------------------------------------


class Program:
    """Calls a model and ends steps; notes after how many forwards in all it was said that no step ends any more."""

    def __init__(self) -> None:
        self.steps = self.calls = 0
        self.told: list[int] = []
        self.forwards = Forwards(lambda: self.steps, lambda: self.told.append(self.calls))
        self.model = type("Model", (nn.Module,), {"forward": lambda self: None})()
        self.forwards.of(self.model)

    def call(self, count: int) -> None:
        for _ in range(count):
            self.calls += 1
            self.model.forward()

    def step(self, count: int, forwards: int = 1) -> None:
        for _ in range(count):
            self.call(forwards)
            self.steps += 1


@pytest.mark.parametrize("forwards", [1, 5, 40])
def test_while_steps_end_nothing_is_said(forwards: int) -> None:
    program = Program()
    program.step(100, forwards)
    assert program.told == []
    assert program.forwards.after_last_step <= BETWEEN_LOOKS


@pytest.mark.parametrize("forwards", [20, 60])
def test_a_few_times_as_many_forwards_as_usual_are_no_silence(forwards: int) -> None:
    program = Program()
    program.forwards.steps_again()
    for factor in (1, 2, 3, 4):
        program.step(3, forwards * factor)
    assert program.told == []


@pytest.mark.parametrize("steps", [40, 41, 47])
def test_when_no_step_ends_for_long_it_is_said(steps: int) -> None:
    program = Program()
    program.step(steps)
    program.call(200)
    assert steps + PATIENCE <= program.told[0] <= steps + PATIENCE + 2 * BETWEEN_LOOKS
    assert 200 - 2 * BETWEEN_LOOKS <= program.forwards.after_last_step <= 200


def test_a_silence_that_ended_is_usual() -> None:
    program = Program()
    program.forwards.steps_again()
    program.step(40)
    program.call(100)
    program.forwards.heard()
    program.step(50)  # calls of the model, for want of better steps
    program.forwards.steps_again()
    program.told.clear()
    program.step(40)
    program.call(8 * 100)
    assert program.told == []
    program.call(8 * 100)
    assert program.told


def test_classes_that_are_made_as_the_program_runs_are_not_all_listened_to() -> None:
    forwards = Forwards(lambda: 0, lambda: None)
    models = [type("Model", (nn.Module,), {"forward": lambda self: None})() for _ in range(50)]
    for model in models:
        forwards.of(model)
    assert sum(isinstance(vars(type(model))["forward"], Attribute) for model in models) == MOST_CLASSES
    forwards.remove()
    assert not any(isinstance(vars(type(model))["forward"], Attribute) for model in models)
