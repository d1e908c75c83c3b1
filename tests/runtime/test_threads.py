"""Several watches at once, in one thread or in several: the program goes on, and nothing of them stays."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import gradguard  # noqa: E402
from gradguard.runtime import training_threads  # noqa: E402
from gradguard.runtime.grad_calls import ENGINE, GradCalls  # noqa: E402
from gradguard.runtime.step_hook import StepHook  # noqa: E402
from gradguard.runtime.steps import Attribute  # noqa: E402
from gradguard.runtime.watch import Watch  # noqa: E402

optimizers = import_module("torch.optim.optimizer")


def train(steps: int, each: Callable[[int], object] = lambda step: None, kept: list[Any] | None = None) -> None:
    model = torch.nn.Linear(16, 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for step in range(steps):
        loss = model(torch.randn(8, 16)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if kept is not None:
            kept.append(loss)
        each(step)


@pytest.fixture(autouse=True)
def leaves_nothing() -> Iterator[None]:
    def touched() -> list[object]:
        return [
            dict(optimizers._global_optimizer_post_hooks),
            vars(torch.Tensor)["backward"],
            getattr(torch.autograd, ENGINE),
        ]

    before = touched()
    yield
    assert touched() == before


def in_thread(body: Callable[[], object]) -> None:
    """Run it in another thread, to its end."""
    thread = threading.Thread(target=body)
    thread.start()
    thread.join()


def begin_and_end() -> None:
    with gradguard.watch(report=False):
        pass


# --- while torch goes over its hooks ------------------------------------------------------------------------------


@pytest.mark.parametrize("elsewhere", [True, False])
def test_a_watch_may_begin_and_end_within_a_step(elsewhere: bool) -> None:
    """Another one is on, and torch is at a hook of the program's."""
    once = [lambda: in_thread(begin_and_end) if elsewhere else begin_and_end()]
    handle = optimizers.register_optimizer_step_post_hook(lambda *_: once and once.pop()())
    with gradguard.watch(report=False) as guard:
        train(40)
    handle.remove()
    assert guard.report is not None
    assert (guard.report.verdict, guard.report.steps) == ("clean", 40)


def test_a_watch_may_end_where_it_is_told_of_a_step() -> None:
    """The hook that torch is at is the one that goes."""
    watches = [Watch(max_steps=None), Watch(max_steps=None)]
    watches[0]._on_confirm = lambda leak: watches[0].end() and None  # type: ignore[func-returns-value]
    with watches[0], watches[1]:
        train(80, kept=[])
    for watch in watches:
        assert watch.report is not None
        assert watch.report.verdict == "leak"


def test_it_stays_beside_others_while_a_thread_may_be_at_them() -> None:
    hook, ran = StepHook(), []
    handle = optimizers.register_optimizer_step_post_hook(lambda *_: None)
    register = optimizers.register_optimizer_step_post_hook
    remove = hook.add(lambda *_: ran.append(1), register, lambda: False)
    in_thread(lambda: None)
    train(1)
    goes_on = threading.Event()
    thread = threading.Thread(target=goes_on.wait)
    thread.start()
    remove()
    train(1)
    assert len(optimizers._global_optimizer_post_hooks) == 2
    goes_on.set()
    thread.join()
    hook.add(lambda *_: ran.append(1), register, lambda: False)()
    handle.remove()
    assert len(ran) == 1


def test_loops_in_threads_go_on_when_the_watch_of_one_ends() -> None:
    done = []

    def loop(steps: int) -> None:
        with gradguard.watch(report=False):
            train(steps)
        done.append(steps)

    threads = [threading.Thread(target=loop, args=(steps,)) for steps in (30, 60, 90, 120)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == [30, 60, 90, 120]


def test_a_loop_in_a_thread_goes_on_when_watches_come_and_go() -> None:
    done = []
    thread = threading.Thread(target=lambda: done.append(train(400)))
    thread.start()
    while thread.is_alive():
        with gradguard.watch(report=False):
            train(5)
    thread.join()
    assert done


@pytest.mark.parametrize(("kept", "verdict"), [([], "leak"), (None, "clean")])
def test_a_watch_sees_the_loop_of_another_thread(kept: list[Any] | None, verdict: str) -> None:
    with gradguard.watch(report=False) as guard:
        in_thread(lambda: train(100, kept=kept))
    assert guard.report is not None
    assert (guard.report.verdict, guard.report.steps) == (verdict, 100)


# --- watches that do not end in the order in which they began -------------------------------------------------------


def test_the_first_may_end_first() -> None:
    first, second = Watch(), Watch()
    first.__enter__()
    second.__enter__()
    train(40)
    first.end()
    train(40)
    second.end()
    assert first.report is not None
    assert second.report is not None
    assert (first.report.verdict, first.report.steps) == ("clean", 40)
    assert second.report.verdict == "clean"
    assert second.report.steps >= 40  # optimizers that come one after the other are counted anew


def test_what_has_ended_counts_nothing() -> None:
    """Though its listeners stay in the chain of those of another one."""
    first, second = Watch(max_steps=50), Watch()
    first.__enter__()
    second.__enter__()
    train(40)
    first.end()
    train(60)
    second.end()
    assert first.steps == 40


class Owner:
    def act(self) -> str:
        return "acted"


class Heir(Owner):
    pass


@pytest.mark.parametrize("owner", [Owner, Heir])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (0, 2, 1), (1, 2, 0), (2, 0, 1)])
def test_a_method_is_put_back_in_whatever_order(owner: type[Owner], order: tuple[int, ...]) -> None:
    before, heard = dict(vars(owner)), []
    notes: list[Attribute] = []
    for number in range(3):
        notes.append(Attribute(owner, "act", lambda instance, number=number: heard.append(number)))
        notes[-1].install()
    on = {0, 1, 2}
    for number in order:
        notes[number].remove()
        on.discard(number)
        heard.clear()
        assert owner().act() == "acted"
        assert set(heard) == on
    assert dict(vars(owner)) == before


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_function_is_put_back_in_whatever_order(order: tuple[int, int]) -> None:
    class Ticks:
        def tick(self, source: str, key: int, frame: object) -> None:
            raise AssertionError("it listens no more")

    calls = [GradCalls(Ticks(), torch.autograd, lambda: False) for _ in range(2)]  # type: ignore[arg-type]
    for each in calls:
        each.install()
    for number in order:
        calls[number].rest()
    x = torch.ones(1, requires_grad=True)
    for _ in range(3):
        torch.autograd.grad(x.square(), x)


# --- whose gradients may be read ----------------------------------------------------------------------------------


def test_a_thread_that_trains_is_known_while_it_lives_and_its_gradients_are_not_read() -> None:
    """Torch writes them without Python's lock: to read one meanwhile may end the process."""
    trained, goes_on = threading.Event(), threading.Event()

    def loop() -> None:
        train(2)
        trained.set()
        goes_on.wait()

    own = torch.nn.Linear(4, 4)
    with gradguard.watch(report=False) as guard:
        own(torch.randn(2, 4)).sum().backward()
        alone = guard.snapshot()
        thread = threading.Thread(target=loop)
        thread.start()
        trained.wait()
        assert training_threads.are_others()
        beside = guard.snapshot()
        goes_on.set()
        thread.join()
        assert not training_threads.are_others()
    assert "gradients" in {each.kind for each in alone.amounts}
    assert "gradients" not in {each.kind for each in beside.amounts}
