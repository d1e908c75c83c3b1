"""``gradguard.watch``: what it says, and that it changes nothing and leaves nothing."""

from __future__ import annotations

import gc
import multiprocessing.process
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import gradguard  # noqa: E402
from gradguard.findings import Leak, RunReport  # noqa: E402
from gradguard.runtime import escalation, sensors  # noqa: E402
from gradguard.runtime import steps as steps_module  # noqa: E402
from gradguard.runtime.watch import Watch  # noqa: E402


class Net(nn.Module):
    """Small, with dropout: random state matters."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def train(steps: int, each: Callable[[torch.Tensor], object] = lambda loss: None) -> list[float]:
    """A training loop; returns the losses, to the bit."""
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(steps):
        loss = model(torch.randn(16, 8)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        each(loss)
        losses.append(loss.item())
    return losses


def watched(body: Callable[[Any], object]) -> RunReport:
    with gradguard.watch(report=False) as guard:
        body(guard)
    assert guard.report is not None
    assert not [note for note in guard.report.notes if "failed" in note]
    return guard.report


# --- what it says -------------------------------------------------------------------------------------------------


def test_a_clean_loop_is_clean() -> None:
    report = watched(lambda guard: train(60))
    assert (report.verdict, report.steps, report.step_source, report.leaks) == ("clean", 60, "optimizer", ())


def test_a_leak_has_its_holder_its_line_and_its_bytes() -> None:
    kept = []
    report = watched(lambda guard: train(60, lambda loss: kept.append(loss)))
    (leak,) = report.leaks
    assert report.verdict == "leak"
    assert leak.holder is not None
    assert leak.stored_at is not None
    assert (leak.kind, leak.holder.name, leak.rule, leak.per_step) == ("graph", "kept", "GG104", 1.0)
    assert "kept.append(loss)" in (leak.stored_at.code or "")
    assert leak.bytes_per_step is not None
    assert 1_000 < leak.bytes_per_step < 50_000


def test_a_short_run_says_so() -> None:
    assert watched(lambda guard: train(12)).verdict == "too-short"


def test_a_loop_without_steps_says_so() -> None:
    report = watched(lambda guard: None)
    assert (report.verdict, report.steps, report.step_source) == ("too-short", 0, None)


def test_explicit_steps_count_alone() -> None:
    def body(guard: Any) -> None:
        model = Net()
        for _ in range(40):
            model(torch.randn(4, 8))
            model(torch.randn(4, 8))
            guard.step()

    report = watched(body)
    assert (report.steps, report.step_source) == (40, "explicit")


def test_a_wrapped_iterable_steps_once_an_item() -> None:
    def body(guard: Any) -> None:
        assert list(gradguard.steps(range(35))) == list(range(35))

    report = watched(body)
    assert (report.steps, report.step_source) == (35, "explicit")


def test_a_wrapped_iterable_keeps_no_item() -> None:
    class Item:
        pass

    seen = []
    for item in gradguard.steps(Item() for _ in range(3)):
        assert all(ref() is None for ref in seen[:-1])
        seen.append(weakref.ref(item))
        del item


def test_items_of_a_loader_are_steps_where_there_is_no_optimizer() -> None:
    data = torch.utils.data.TensorDataset(torch.randn(80, 8))

    def body(guard: Any) -> None:
        model = Net()
        with torch.no_grad():
            for (x,) in torch.utils.data.DataLoader(data, batch_size=2):
                model(x)

    report = watched(body)
    assert (report.steps, report.step_source) == (40, "loader")


def test_calls_of_the_top_level_module_are_steps_where_there_is_nothing_else() -> None:
    def body(guard: Any) -> None:
        model = Net()
        with torch.no_grad():
            for _ in range(40):
                model(torch.randn(4, 8))

    report = watched(body)
    assert (report.steps, report.step_source) == (40, "module")


def test_a_step_that_calls_its_parents_step_is_one_step() -> None:
    class Mine(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            return super().step(closure)

    def body(guard: Any) -> None:
        parameter = nn.Parameter(torch.ones(2))
        torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1)  # now the parent's step has hooks too
        optimizer = Mine([parameter], lr=0.1)
        for _ in range(40):
            parameter.square().sum().backward()
            optimizer.step()

    assert watched(body).steps == 40


@pytest.mark.parametrize("lifetime", [1, 3, 10])
def test_each_step_counts_of_optimizers_that_are_made_anew(lifetime: int) -> None:
    def body(guard: Any) -> None:
        parameter = nn.Parameter(torch.ones(2))
        for step in range(60):
            if step % lifetime == 0:
                optimizer = torch.optim.SGD([parameter], lr=0.1)
            parameter.square().sum().backward()
            optimizer.step()

    assert watched(body).steps == 60


@pytest.mark.parametrize("critics", [1, 5])
def test_of_optimizers_that_take_turns_only_the_last_counts_from_the_first_cycle_on(critics: int) -> None:
    def body(guard: Any) -> None:
        model = Net()
        layers = list(model.layers)
        critic = torch.optim.SGD(layers[0].parameters(), lr=0.1)
        generator = torch.optim.SGD(layers[3].parameters(), lr=0.1)
        for _ in range(80):
            for optimizer in [critic] * critics + [generator]:
                model(torch.randn(4, 8)).sum().backward()
                optimizer.step()

    assert watched(body).steps == 80


def test_an_optimizer_made_anew_beside_one_that_stays_counts_each_time() -> None:
    def body(guard: Any) -> None:
        model = Net()
        stays = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(60):
            prompt = nn.Parameter(torch.zeros(8))
            anew = torch.optim.SGD([prompt], lr=0.1)
            model(torch.randn(4, 8) + prompt).sum().backward()
            stays.step()
            anew.step()

    assert watched(body).steps == 60


def test_two_watches_one_inside_the_other_both_count() -> None:
    with gradguard.watch(report=False) as outer, gradguard.watch(report=False) as inner:
        train(35)
    assert outer.report is not None
    assert inner.report is not None
    assert (outer.report.steps, inner.report.steps) == (35, 35)


def test_a_watch_cannot_be_entered_twice() -> None:
    guard = gradguard.watch(report=False)
    with guard, pytest.raises(RuntimeError, match="on already"):
        guard.__enter__()
    with pytest.raises(RuntimeError, match="is over"):
        guard.__enter__()


def test_a_patch_of_the_program_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    original = torch.Tensor.backward

    def mine(self: torch.Tensor) -> None:
        original(self)

    monkeypatch.setattr(torch.Tensor, "backward", original)  # puts it back when the test is over
    with gradguard.watch(report=False):
        torch.Tensor.backward = mine
    assert vars(torch.Tensor)["backward"] is mine


def test_an_error_of_the_program_passes_unchanged() -> None:
    error = ValueError("mine")
    with pytest.raises(ValueError, match="mine") as raised, gradguard.watch(report=False) as guard:
        raise error
    assert raised.value is error
    assert guard.report is not None


def test_out_of_memory_is_reported_and_raised() -> None:
    def body() -> None:
        train(3)
        raise MemoryError("no more")

    with pytest.raises(MemoryError), gradguard.watch(report=False) as guard:
        body()
    assert guard.report is not None
    assert guard.report.out_of_memory is not None
    assert (guard.report.out_of_memory.device, guard.report.out_of_memory.step) == ("cpu", 3)


def test_the_report_is_on_stderr_and_nothing_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    kept = []
    with gradguard.watch():
        train(60, lambda loss: kept.append(loss))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "leak confirmed" in captured.err
    assert "`test_the_report_is_on_stderr_and_nothing_on_stdout.kept`" in captured.err


# --- changes nothing ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("leaking", [False, True])
def test_losses_are_equal_to_the_bit(leaking: bool) -> None:
    """Also when the watch takes its dear looks: two censuses and a trace."""
    alone: list[Any] = []
    under: list[Any] = []
    expected = train(80, alone.append if leaking else lambda loss: None)
    found: list[list[float]] = []
    report = watched(lambda guard: found.append(train(80, under.append if leaking else lambda loss: None)))
    assert found == [expected]
    assert report.verdict == ("leak" if leaking else "clean")
    assert bool(report.diagnosis_seconds) == leaking


def test_the_traceback_of_backward_has_no_frame_of_ours() -> None:
    loss = torch.ones(2, requires_grad=True).square().sum()
    frames = []
    with gradguard.watch(report=False):
        loss.backward()
        try:
            loss.backward()
        except RuntimeError as error:
            where = error.__traceback__
            while where is not None:
                frames.append(where.tb_frame.f_code.co_filename)
                where = where.tb_next
    assert frames
    package = str(Path(gradguard.__file__).parent)
    assert not [name for name in frames if name.startswith(package)]


def test_a_fault_of_ours_never_reaches_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    from gradguard.runtime.sensors.heap import Heap

    expected = train(40)
    monkeypatch.setattr(Heap, "read", lambda self: 1 // 0)
    monkeypatch.setattr(Heap, "__init__", lambda self: None)
    with gradguard.watch(report=False) as guard:
        assert train(40) == expected
    assert guard.report is not None
    assert any("GradGuard failed and stopped watching" in note for note in guard.report.notes)


@pytest.mark.parametrize("nested", [False, True])
def test_a_fault_within_an_optimizers_step_disturbs_no_hook(monkeypatch: pytest.MonkeyPatch, nested: bool) -> None:
    """torch goes over its hooks then: none may go."""
    from torch.optim.optimizer import _global_optimizer_post_hooks, register_optimizer_step_post_hook

    from gradguard.runtime.sensors.heap import Heap

    ran = []
    before = list(_global_optimizer_post_hooks)
    with ExitStack() as stack:
        guards = [stack.enter_context(gradguard.watch(report=False)) for _ in range(1 + nested)]
        handle = register_optimizer_step_post_hook(lambda *_: ran.append(1))
        train(10)
        monkeypatch.setattr(Heap, "read", lambda self: 1 // 0)
        train(20)
        handle.remove()
    assert len(ran) == 30
    assert list(_global_optimizer_post_hooks) == before
    for guard in guards:
        assert guard.report is not None
        assert guard.report.steps < 30


def test_what_a_function_asked_locals_for_stays_as_it_was() -> None:
    kept = []

    def loop() -> dict[str, Any]:
        snapshot = locals()
        before = dict(snapshot)
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(60):
            loss = model(torch.randn(4, 8)).sum()
            loss.backward()
            optimizer.step()
            kept.append(loss)
        assert snapshot == before
        return snapshot

    watched(lambda guard: loop())


# --- leaves nothing -----------------------------------------------------------------------------------------------


def touched() -> dict[str, Any]:
    """Everything that a watch installs somewhere."""
    module = sys.modules["torch.nn.modules.module"]
    optimizer = sys.modules["torch.optim.optimizer"]
    loader = sys.modules["torch.utils.data.dataloader"]
    return {
        "backward": vars(torch.Tensor)["backward"],
        "next": vars(loader._BaseDataLoaderIter)["__next__"],
        "start": vars(multiprocessing.process.BaseProcess)["start"],
        "forward hooks": dict(module._global_forward_pre_hooks),
        "step hooks": dict(optimizer._global_optimizer_post_hooks),
        "gc": list(gc.callbacks),
        "finders": list(sys.meta_path),
        "threads": set(threading.enumerate()),
        "trace": sys.gettrace(),
        "active": list(steps_module.active),
    }


@pytest.mark.parametrize("how", ["clean", "leaking", "while tracing", "failing"])
def test_nothing_is_left_behind(how: str) -> None:
    kept: list[Any] = []
    count = {"while tracing": 33}.get(how, 70)
    expected = touched()
    try:
        with gradguard.watch(report=False) as guard:
            assert touched() != expected
            train(count, kept.append if how != "clean" else lambda loss: None)
            if how == "failing":
                raise KeyError
    except KeyError:
        pass
    assert touched() == expected
    alive = weakref.ref(guard)
    del guard
    gc.collect()
    assert alive() is None


def test_no_graph_and_no_tensor_is_kept_alive() -> None:
    """While the watch is on: what the program drops is gone at once, without the collector."""
    dropped: list[weakref.ref[torch.Tensor]] = []
    kept = []

    def each(loss: torch.Tensor) -> None:
        kept.append(loss)
        output = loss * 2
        dropped.append(weakref.ref(output))

    gc.collect()
    gc.disable()
    try:
        watched(lambda guard: train(70, each))
        assert [ref for ref in dropped if ref() is not None] == []
    finally:
        gc.enable()


# --- phases and second thoughts -----------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [40, 300])
def test_a_phase_without_optimizer_and_loader_is_seen_after_training(steps: int) -> None:
    """The forward hook is taken off while training; the collector notices that nothing ticks any more.

    When the last of many steps ended is not known, and silence counts from when the collector ran after it.
    """
    import time

    kept = []

    def body(guard: Any) -> None:
        train(steps)
        model = Net()
        if steps > sensors.DENSE_STEPS:
            gc.collect()
        time.sleep(1.2)
        gc.collect()
        for _ in range(600):
            kept.append(model(torch.randn(16, 8)))

    report = watched(body)
    assert report.verdict == "leak"
    assert report.steps > steps + 500
    assert [leak.holder.name for leak in report.leaks if leak.holder] == ["kept"]


def test_a_pause_between_two_steps_is_no_phase() -> None:
    """A checkpoint is written, or a diagnosis of ours takes its time: the forward after it ends no step."""
    import time

    def pause(loss: torch.Tensor) -> None:
        if next(done) == 50:
            time.sleep(1.2)
            gc.collect()

    done = iter(range(90))
    assert watched(lambda guard: train(90, pause)).steps == 90


@pytest.mark.parametrize("stepping", [False, True])
def test_a_state_that_is_part_of_every_backward_is_a_leak_though_it_goes_in_the_end(stepping: bool) -> None:
    def body(guard: Any) -> None:
        cell, read = nn.Linear(8, 8), nn.Linear(8, 1)
        optimizer = torch.optim.SGD([*cell.parameters(), *read.parameters()], lr=0.0)

        def epoch() -> None:
            state = torch.zeros(4, 8)
            for _ in range(70):
                with torch.autocast("cpu", dtype=torch.bfloat16):  # casts of the weights: they may change in place
                    state = torch.tanh(cell(state))
                    loss = read(state).float().square().mean()
                loss.backward(retain_graph=True)
                if stepping:
                    optimizer.step()
                guard.step()

        epoch()
        for _ in range(40):
            guard.step()

    report = watched(body)
    assert report.verdict == "leak"
    (leak,) = report.leaks
    assert leak.holder is not None
    assert leak.holder.name == "state"


@pytest.mark.parametrize("window", [25, 70])
def test_a_sum_over_many_steps_that_goes_with_its_backward_is_no_leak(window: int) -> None:
    def body(guard: Any) -> None:
        model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
        total: Any = 0
        for step in range(1, 4 * window + 1):
            total = total + model(torch.randn(16, 8)).square().mean()
            if step % window == 0:
                total.backward()
                total = 0
            guard.step()

    report = watched(body)
    assert (report.verdict, report.leaks) == ("clean", ())


@pytest.mark.parametrize(("begins", "steps"), [(150, 210), (850, 940)])
def test_a_leak_that_begins_late_is_found_in_some_dozens_of_steps(begins: int, steps: int) -> None:
    kept: list[torch.Tensor] = []

    def late(guard: Watch) -> None:
        train(steps, lambda loss: kept.append(loss) if guard.steps >= begins else None)

    report = watched(late)
    assert report.verdict == "leak"
    assert [leak.holder.name for leak in report.leaks if leak.holder] == ["kept"]


def test_what_is_backpropagated_in_the_end_is_no_leak() -> None:
    def objective(model: Net) -> torch.Tensor:
        total = torch.zeros(())
        for _ in range(50):
            total = total + model(torch.randn(4, 8)).square().mean()
        return total

    def body(guard: Any) -> None:
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        for _ in range(40):
            optimizer.zero_grad()
            objective(model).backward()
            optimizer.step()

    assert watched(body).verdict == "clean"


def test_a_sum_that_starts_anew_with_each_epoch_is_a_leak_all_the_same() -> None:
    def body(guard: Any) -> None:
        for _ in range(2):
            running = torch.zeros(())

            def add(loss: torch.Tensor) -> None:
                nonlocal running
                running += loss

            train(60, add)

    report = watched(body)
    assert report.verdict == "leak"
    assert report.leaks[0].holder is not None
    assert report.leaks[0].holder.name == "running"
    assert (report.leaks[0].bytes_per_step or 0) > 1_000


class Sums:
    """Running sums by name."""

    def __init__(self) -> None:
        self.by_name: dict[str, Any] = {}

    def note(self, **values: torch.Tensor) -> None:
        for key, value in values.items():
            self.by_name[key] = self.by_name.get(key, 0.0) + value

    def add(self, **values: torch.Tensor) -> None:
        for key, value in values.items():
            self.by_name.setdefault(key, 0.0)
            self.by_name[key] += value


@pytest.mark.parametrize("method", ["note", "add"])
def test_sums_by_name_in_an_object_of_each_epoch_are_a_leak_too(method: str) -> None:
    def epochs(guard: Any) -> None:
        for _ in range(3):
            sums = Sums()
            train(60, lambda loss: getattr(sums, method)(main=loss, double=2 * loss))  # noqa: B023

    report = watched(epochs)
    assert report.verdict == "leak"
    (leak,) = report.leaks
    assert leak.holder is not None
    assert (leak.holder.path, leak.form, leak.rule) == ("Sums.by_name", "sum", "GG103")
    assert "`value" in (leak.advice or "")


def test_sums_of_numbers_by_name_are_none() -> None:
    def epochs(guard: Any) -> None:
        for _ in range(3):
            sums = Sums()
            train(60, lambda loss: sums.note(main=loss.detach(), double=2 * loss.detach()))  # noqa: B023

    assert watched(epochs).verdict == "clean"


def test_a_cache_that_was_filled_has_levelled_off() -> None:
    cache: list[torch.Tensor] = []
    count = iter(range(160))

    def each(loss: torch.Tensor) -> None:
        if next(count) < 50:
            cache.append(torch.randn(4096))

    report = watched(lambda guard: train(160, each))
    assert report.verdict == "clean"
    assert any("levelled off" in note for note in report.notes)


class Latest:
    """Keeps the last loss of each of some keys."""

    def __init__(self) -> None:
        self.kept: dict[int, torch.Tensor] = {}


def losses_by_key(key: Callable[[int], int], steps: int = 300) -> RunReport:
    latest, count = Latest(), iter(range(steps))

    def each(loss: torch.Tensor) -> None:
        latest.kept[key(next(count))] = loss

    return watched(lambda guard: train(steps, each))


def test_the_last_graph_of_each_client_is_no_leak_once_all_have_come() -> None:
    report = losses_by_key(lambda step: step // 4 % 12)
    assert report.verdict == "clean"


def test_a_graph_for_each_new_key_is_one_however_rarely_one_comes() -> None:
    for every in (1, 6):
        report = losses_by_key(lambda step, every=every: step // every)  # type: ignore[misc]
        assert report.verdict == "leak"
        assert report.leaks[0].holder is not None
        assert report.leaks[0].holder.path.startswith("Latest.kept")


def test_looking_closely_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(escalation, "MAX_SECONDS", -1.0)
    kept: list[torch.Tensor] = []
    report = watched(lambda guard: train(60, kept.append))
    assert (report.verdict, report.leaks, report.diagnosis_seconds) == ("suspect", (), 0.0)
    assert any(note.startswith("looking closely took") for note in report.notes)


def test_a_diagnosis_that_found_only_what_is_excused_comes_late_again(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []
    diagnose = escalation.Escalation._diagnose

    def noted(self: Any, step: int, frame: Any) -> None:
        begun.append(step)
        diagnose(self, step, frame)

    monkeypatch.setattr(escalation.Escalation, "_diagnose", noted)
    window: deque[torch.Tensor] = deque(maxlen=10_000)
    assert watched(lambda guard: train(200, lambda loss: window.append(torch.randn(4096)))).verdict == "clean"
    assert len(begun) >= 2
    assert begun[1] >= escalation.LATE * begun[0]


def _rollouts(updates: int, after: Callable[[list[Any]], object], *, learns: bool = True) -> None:
    agent = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 4))
    optimizer = torch.optim.SGD(agent.parameters(), 0.01) if learns else None
    kept: list[torch.Tensor] = []
    for _ in range(updates):
        total = torch.zeros(())
        for _ in range(70):
            output = agent(torch.randn(4, 16))
            kept.append(output.log_softmax(-1)[:, 0])
            total = total + output.mean()
        if optimizer is not None:
            optimizer.zero_grad()
            total.backward()
            optimizer.step()
        after(kept)


@pytest.mark.parametrize("slowness", [1, 30])
@pytest.mark.parametrize("updates", [8, 20, 60])
def test_what_the_first_step_is_made_from_is_not_announced(
    updates: int, slowness: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sensors, "perf_counter_ns", lambda: slowness * perf_counter_ns())  # reads them less often
    announced: list[str] = []
    with Watch(on_confirm=lambda leak: announced.append(str(leak.holder)), stop_on_leak=True) as guard:
        _rollouts(updates, list.clear)
    assert announced == []
    assert guard.report is not None
    assert (guard.report.verdict, guard.report.leaks) == ("clean", ())


@pytest.mark.parametrize("updates", [30, 80])
def test_what_is_kept_beside_what_is_emptied_after_each_update(updates: int) -> None:
    forever: list[torch.Tensor] = []

    def hand_over(kept: list[torch.Tensor]) -> None:
        forever.extend(kept)
        kept.clear()

    report = watched(lambda guard: _rollouts(updates, hand_over))
    assert report.verdict == "leak"
    assert [leak.holder.name for leak in report.leaks] == ["forever"]


@pytest.mark.parametrize("updates", [30, 80])
def test_numbers_are_kept_beside_what_is_emptied_after_each_update(updates: int) -> None:
    forever: list[float] = []

    def hand_over(kept: list[torch.Tensor]) -> None:
        forever.append(sum(each.mean().item() for each in kept))
        kept.clear()

    report = watched(lambda guard: _rollouts(updates, hand_over))
    assert (report.verdict, report.leaks) == ("clean", ())


def test_what_goes_on_growing_after_the_first_step_is_announced() -> None:
    announced: list[str] = []
    with Watch(on_confirm=lambda leak: announced.append(leak.holder.path if leak.holder else "?")) as guard:
        _rollouts(60, len)
    assert guard.report is not None
    assert guard.report.verdict == "leak"
    assert announced
    assert announced[0].endswith("kept")


def _episodes(lengths: list[int], keep: Callable[[list[Any]], object]) -> RunReport:
    """A policy that acts, in a function of its own, for so long before each step of its optimizer."""
    policy = nn.Sequential(nn.Embedding(8, 32), nn.Linear(32, 2))

    def rollout(length: int) -> list[Any]:
        episode = []
        for number in range(length):
            episode.append(policy(torch.tensor(number % 8)).log_softmax(-1)[0])
        return episode

    optimizer = torch.optim.SGD(policy.parameters(), 0.01)
    with Watch() as guard:
        for length in lengths:
            episode = rollout(length)
            optimizer.zero_grad()
            torch.stack(episode).sum().backward()
            optimizer.step()
            keep(episode)
    assert guard.report is not None
    return guard.report


FIRST_EPISODES = [[40], [90], [30, 35]]


@pytest.mark.parametrize("first", FIRST_EPISODES)
def test_a_first_long_episode_is_no_leak(first: list[int]) -> None:
    report = _episodes([*first, *(5 + number % 9 for number in range(110))], lambda episode: None)
    assert (report.verdict, report.leaks) == ("clean", ())


@pytest.mark.parametrize("first", FIRST_EPISODES)
def test_episodes_are_kept_where_they_are_kept_not_where_they_are_made(first: list[int]) -> None:
    kept: list[Any] = []
    report = _episodes([*first, *(5 + number % 9 for number in range(110))], kept.append)
    assert report.verdict == "leak"
    assert [leak.holder.name for leak in report.leaks if leak.holder] == ["kept"]


def test_where_there_is_no_optimizer_a_leak_is_announced_at_once() -> None:
    announced: list[str] = []
    with Watch(on_confirm=lambda leak: announced.append(leak.holder.path if leak.holder else "?"), stop_on_leak=True):
        _rollouts(40, len, learns=False)
    assert announced == ["_rollouts.kept"]


class Window:
    """The last values, so many as one asks for."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.rows: list[torch.Tensor] = []

    def put(self, row: torch.Tensor) -> None:
        if len(self.rows) == self.most:
            self.rows.pop(0)
        self.rows.append(row)


@pytest.mark.parametrize("most", [150, 300, 600, 5_000, 1_000_000])
def test_a_bound_that_lets_in_more_graphs_than_anybody_can_want_is_none(most: int) -> None:
    window = Window(most)
    report = watched(lambda guard: train(200, window.put))
    assert (report.verdict == "leak") == (most > 1_000)


@pytest.mark.parametrize("begins", [700, 3_000])
def test_a_leak_that_begins_late_is_named(begins: int) -> None:
    kept: list[torch.Tensor] = []

    def body(guard: Any) -> None:
        train(begins, lambda loss: None)
        train(800, kept.append)

    report = watched(body)
    assert report.verdict == "leak"
    assert [leak.holder.name for leak in report.leaks if leak.holder] == ["kept"]


@pytest.mark.parametrize("no_grad", [False, True])
def test_an_evaluation_after_a_training_keeps_its_graphs(no_grad: bool) -> None:
    model, loader = Net(), torch.utils.data.DataLoader(range(600))

    def validate() -> float:
        losses = []
        with torch.set_grad_enabled(not no_grad):
            for _ in loader:
                losses.append(model(torch.randn(64, 8)).square().mean())
        return sum(losses).item()  # type: ignore[union-attr]

    def body(guard: Any) -> None:
        for _ in range(2):
            train(150)
            validate()

    report = watched(body)
    named = [leak.holder.path for leak in report.leaks if leak.holder]
    assert (report.verdict, named) == (("leak", ["validate.losses"]) if not no_grad else ("clean", []))


def keep_by_pop() -> Callable[[torch.Tensor], None]:
    kept: list[torch.Tensor] = []

    def keep(loss: torch.Tensor) -> None:
        kept.append(loss)
        if len(kept) > 150:
            kept.pop(0)

    return keep


def keep_by_slice() -> Callable[[torch.Tensor], None]:
    kept: list[torch.Tensor] = []

    def keep(loss: torch.Tensor) -> None:
        nonlocal kept
        kept.append(torch.zeros(3_000))
        kept = kept[-150:]

    return keep


def keep_in_a_ring() -> Callable[[torch.Tensor], None]:
    kept: list[torch.Tensor | None] = [None] * 150
    steps = iter(range(1_000))

    def keep(loss: torch.Tensor) -> None:
        kept[next(steps) % 150] = loss

    return keep


def keep_them_all() -> Callable[[torch.Tensor], None]:
    kept: list[torch.Tensor] = []

    def keep(loss: torch.Tensor) -> None:
        kept.append(loss)
        if len(kept) > 150:
            print(len(kept), file=sys.stderr)

    return keep


@pytest.mark.parametrize("steps", [100, 200])
@pytest.mark.parametrize(
    ("keep", "verdict"),
    [(keep_by_pop, "clean"), (keep_by_slice, "clean"), (keep_in_a_ring, "clean"), (keep_them_all, "leak")],
)
def test_what_is_kept_short_is_bounded(keep: Callable[[], Any], verdict: str, steps: int) -> None:
    note = keep()
    assert watched(lambda guard: train(steps, note)).verdict == verdict


def test_what_graphs_take_is_not_guessed_before_memory_is_seen_to_grow() -> None:
    """The line of a late leak: graphs are counted exactly, the heap needs some more steps."""
    kept: list[torch.Tensor] = []
    announced: list[Leak] = []
    with gradguard.watch(report=False, on_leak=announced.append):
        train(1_000)
        train(400, kept.append)
    assert [leak.per_step for leak in announced] == [pytest.approx(1.0, abs=0.1)]
    assert announced[0].bytes_per_step is None or announced[0].bytes_per_step > 1_000


# --- growth that is spread over several places ----------------------------------------------------------------------


class Pool:
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.rows: list[torch.Tensor] = []

    def put(self, row: torch.Tensor) -> None:
        self.rows.append(row)


class Last:
    """Keeps so many of the last."""

    def __init__(self, size: int | None) -> None:
        self.size = size
        self.rows: list[torch.Tensor] = []

    def put(self, row: torch.Tensor) -> None:
        self.rows.append(row)
        if self.size is not None:
            del self.rows[: -self.size]


class Statistics:
    """Several pools, each of which gains too little to be told by itself."""

    def __init__(self, pool: Callable[[], Pool | Last]) -> None:
        self.pools = {name: pool() for name in "abc"}

    def note(self, rows: torch.Tensor) -> None:
        for pool, row in zip(self.pools.values(), rows):
            pool.put(row.clone())


def statistics_of(pool: Callable[[], Pool | Last]) -> RunReport:
    statistics = Statistics(pool)
    return watched(lambda guard: train(150, lambda loss: statistics.note(torch.randn(3, 300))))


def test_what_grows_in_several_places_of_one_object() -> None:
    report = statistics_of(Pool)
    assert report.verdict == "leak"
    assert {leak.holder.name for leak in report.leaks if leak.holder} == {"rows"}
    assert {leak.stored_at.code for leak in report.leaks if leak.stored_at} == {"self.rows.append(row)"}


def test_several_places_that_are_kept_short() -> None:
    assert statistics_of(lambda: Last(4)).verdict == "clean"


def test_a_bound_that_is_none_is_not_called_one() -> None:
    report = statistics_of(lambda: Last(None))
    assert report.verdict == "leak"
    assert not [note for note in report.notes if "is bounded" in note]


@pytest.mark.parametrize("keeps_graphs", [True, False])
def test_where_lines_are_not_followed_a_branch_that_stores_numbers_is_not_named(keeps_graphs: bool) -> None:
    losses: list[Any] = []

    def each(loss: torch.Tensor) -> None:
        if not keeps_graphs:
            losses.append(loss.item())
        else:
            losses.append(loss)

    before = sys.gettrace()
    sys.settrace(lambda *event: None)  # a debugger's
    try:
        report = watched(lambda guard: train(60, each))
    finally:
        sys.settrace(before)
    stored = [leak.stored_at.code for leak in report.leaks if leak.stored_at is not None]
    assert stored == (["losses.append(loss)"] if keeps_graphs else [])
