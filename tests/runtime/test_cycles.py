"""What only the cyclic collector frees: named where it matters, nothing said of what is small or lives on."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from gradguard.findings import Holder, RunReport  # noqa: E402
from gradguard.runtime.collector import Collector  # noqa: E402
from gradguard.runtime.cycles import Cycles  # noqa: E402
from gradguard.runtime.evidence import Traced  # noqa: E402
from gradguard.runtime.explain import explain  # noqa: E402
from gradguard.runtime.holders import SAVED, Gain, Suspect  # noqa: E402
from gradguard.runtime.source import Sources  # noqa: E402
from gradguard.runtime.torch_internals import TorchInternals  # noqa: E402
from gradguard.runtime.tracer import Line  # noqa: E402
from gradguard.runtime.watch import Watch  # noqa: E402

TRIALS = 40


@pytest.fixture(autouse=True)
def _no_collections() -> Iterator[None]:
    """How often the collector runs depends on all that is alive: in a process with many tests it tells nothing."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


WIDTH = 64


class Looped(nn.Module):
    """Refers to itself by a function over it."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(WIDTH, WIDTH)
        self.scaled = lambda x: self.body(x) * 2

    def forward(self, x: object) -> object:
        return self.scaled(x)


class Plain(nn.Module):
    """Does the same, without a cycle."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: object) -> object:
        return self.body(x) * 2


class KeepsOutput(torch.autograd.Function):
    """Keeps its output on the context."""

    @staticmethod
    def forward(ctx, x):  # type: ignore[no-untyped-def]
        result = x.exp()
        ctx.result = result
        return result

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        return grad * ctx.result


class KeepsOutputInDict(torch.autograd.Function):
    """Keeps it in a dict that is made by a call, with the input."""

    @staticmethod
    def forward(ctx, x):  # type: ignore[no-untyped-def]
        result = x.exp()
        ctx.cache = dict(x=x, of=[result])  # noqa: C408 - as people write it
        return result

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        return grad * ctx.cache["of"][0]


class KeepsInput(torch.autograd.Function):
    """Keeps what it is given, which is no circle."""

    @staticmethod
    def forward(ctx, x):  # type: ignore[no-untyped-def]
        ctx.cache = dict(x=x, of=[x.shape])  # noqa: C408 - as people write it
        return x.exp()

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        return grad * ctx.cache["x"].exp()


def trials(architecture: type[nn.Module], steps: int = 4, collect_every: int = TRIALS + 1) -> RunReport:
    """A new model for each trial."""
    with Watch() as guard:
        for trial in range(TRIALS):
            if trial % collect_every == collect_every - 1:
                gc.collect()
            model = architecture()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            for _ in range(steps):
                optimizer.zero_grad()
                model(torch.randn(8, WIDTH)).square().mean().backward()
                optimizer.step()
    assert guard.report is not None
    return guard.report


def test_a_model_per_trial_that_refers_to_itself() -> None:
    report = trials(Looped)
    assert report.verdict == "leak"
    (leak,) = report.leaks
    assert leak.holder is not None
    assert (leak.kind, leak.holder.path, leak.freed_by_gc) == ("cycle", "Looped.scaled", True)
    assert leak.stored_at is not None
    assert leak.stored_at.code == "self.scaled = lambda x: self.body(x) * 2"


def test_a_program_that_collects_by_hand_means_its_cycles_to_wait() -> None:
    assert trials(Looped, collect_every=10).verdict == "clean"


def test_a_model_per_trial_that_does_not() -> None:
    assert trials(Plain).verdict == "clean"


def test_one_model_that_refers_to_itself_and_lives_on() -> None:
    model = Looped()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with Watch() as guard:
        for _ in range(120):
            optimizer.zero_grad()
            model(torch.randn(8, WIDTH)).square().mean().backward()
            optimizer.step()
    assert guard.report is not None
    assert guard.report.verdict == "clean"


def steps_with(function: type[torch.autograd.Function]) -> RunReport:
    model = nn.Linear(WIDTH, WIDTH)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with Watch() as guard:
        for _ in range(120):
            optimizer.zero_grad()
            function.apply(model(torch.randn(32, WIDTH))).mean().backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    assert guard.report is not None
    return guard.report


@pytest.mark.parametrize(
    ("function", "path", "code"),
    [
        (KeepsOutput, "ctx.result of KeepsOutput", "ctx.result = result"),
        (KeepsOutputInDict, "ctx.cache of KeepsOutputInDict", "ctx.cache = dict(x=x, of=[result])"),
    ],
)
def test_an_output_on_the_context(function: type[torch.autograd.Function], path: str, code: str) -> None:
    (leak,) = steps_with(function).leaks
    assert leak.holder is not None
    assert (leak.holder.path, leak.freed_by_gc) == (path, True)
    assert leak.stored_at is not None
    assert leak.stored_at.code == code


def test_an_input_on_the_context() -> None:
    assert steps_with(KeepsInput).verdict == "clean"


def test_nothing_of_ours_is_left_with_the_collector() -> None:
    before = list(gc.callbacks)
    assert trials(Plain).steps
    assert gc.callbacks == before


def test_it_looks_only_where_the_collector_has_work() -> None:
    collector = Collector(lambda: 0)
    assert not any(collector.is_busy(step) for step in range(1, 200))
    collector.collected += 10_000
    assert collector.is_busy(200)


def test_tensors_that_no_variable_reaches_are_a_pack_hooks_only_where_there_is_one() -> None:
    """A line that registers hooks, or stores, was followed by the way: it is not what keeps them."""
    suspect = Suspect("cycle", Gain(tensors=2, nodes=2), 8, 0, Holder("hooks", SAVED, "cycle", "internal"))
    traced = Traced(Counter({Line(__file__, 1): 5}), 0, 8, frozenset())
    assert explain(suspect, traced, Sources(), 20, 0.0).leak.stored_at is None
    other = replace(suspect, holder=Holder("hooks", "tensor hook", "cycle", "internal"))
    assert explain(other, traced, Sources(), 20, 0.0).leak.stored_at is not None


def steps_of(body: Callable[[nn.Module], object], steps: int = 200, *, collector: bool) -> RunReport:
    """A small training whose every step makes some garbage."""
    model = nn.Linear(WIDTH, WIDTH)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    (gc.enable if collector else gc.disable)()
    with Watch() as guard:
        for _ in range(steps):
            optimizer.zero_grad()
            model(torch.randn(8, WIDTH)).square().mean().backward()
            body(model)
            optimizer.step()
    gc.disable()
    assert guard.report is not None
    return guard.report


class Part:
    """Of a tree: knows its parent."""

    def __init__(self, parent: Part | None, size: int) -> None:
        self.parent = parent
        self.parts: list[Part] = []
        self.value = torch.randn(size)


def large_tree(model: nn.Module) -> None:
    root = Part(None, 50_000)
    root.parts = [Part(root, 10) for _ in range(20)]


def small_tree(model: nn.Module) -> None:
    root = Part(None, 1_000)
    root.parts = [Part(root, 10) for _ in range(20)]


def penalty(model: nn.Module) -> float:
    scale = torch.randn(50_000)

    def total(module: nn.Module) -> float:
        return float(scale[0]) + sum(total(each) for each in module.children())

    return total(model)


def test_what_the_collector_frees_has_no_end_of_memory_and_says_what_it_costs_at_its_peak() -> None:
    report = steps_of(large_tree, collector=True)
    assert report.verdict == "suspect"  # nodes that know their parents: the collector is there for them
    (leak,) = report.leaks
    assert leak.holder is not None
    assert (leak.kind, leak.freed_by_gc, leak.explained) == ("cycle", True, None)
    assert leak.holder.path in ("Part.parts", "Part.parent")
    assert report.forecast is None
    assert not report.unexplained_bytes_per_step
    assert any("waited behind" in note and "MB" in note for note in report.notes)


class Trial:
    """A plain object that refers to itself, and has a model."""

    def __init__(self) -> None:
        self.model = nn.Linear(500, 500)
        self.on_end = self.end

    def end(self) -> None:
        return None


def a_trial_of_its_own(model: nn.Module) -> None:
    Trial()


def test_a_model_behind_a_plain_object_is_a_leak_though_the_collector_frees_it() -> None:
    report = steps_of(a_trial_of_its_own, collector=True)
    assert report.verdict == "leak"
    assert [leak.holder.path for leak in report.leaks if leak.holder] == ["Trial.on_end"]


def test_what_nothing_frees_has_one() -> None:
    report = steps_of(large_tree, collector=False)
    assert report.verdict == "leak"
    assert report.forecast is not None
    assert report.leaks[0].bytes_per_step == pytest.approx(200_000, rel=0.2)
    assert any("the cyclic collector is off" in note for note in report.notes)


def test_little_garbage_is_clean_and_is_no_growth() -> None:
    report = steps_of(small_tree, collector=True)
    assert (report.verdict, report.leaks) == ("clean", ())


def test_a_nested_function_that_calls_itself_is_suspect_at_most_where_the_collector_runs() -> None:
    report = steps_of(penalty, collector=True)
    assert report.verdict in ("suspect", "clean")  # clean where the collector runs so often that little waits
    assert all(leak.holder is not None and leak.holder.path == "penalty.total" for leak in report.leaks)
    assert steps_of(penalty, collector=False).verdict == "leak"


def test_what_is_thrown_away_once_is_not_worth_a_word() -> None:
    notes: list[str] = []
    cycles = Cycles(Collector(lambda: 0), notes.append)
    internals = TorchInternals(torch)
    large_tree(nn.Linear(1, 1))
    cycles.look(20, internals)
    assert cycles.has_suspects
    gc.collect()
    cycles.look(60, internals)
    assert (cycles.found(100), notes) == ([], [])


def test_what_was_used_all_the_time_and_is_garbage_at_the_end_is_no_second_one() -> None:
    notes: list[str] = []
    cycles = Cycles(Collector(lambda: 0), notes.append)
    internals = TorchInternals(torch)
    Looped()
    cycles.look(20, internals)
    gc.collect()
    cycles.look(36, internals)
    Looped()
    cycles.look(400, internals, is_last=True)
    assert (cycles.found(400), notes) == ([], [])


def test_what_waits_at_the_end_counts_as_well() -> None:
    report = steps_of(large_tree, steps=60, collector=True)
    assert not report.unexplained_bytes_per_step


def kept_beside(store: Callable[[list[object], int], object], steps: int = 250) -> RunReport:
    """Much garbage in every step, which the collector frees now and then, and something that is stored."""
    stored: list[object] = []
    model = nn.Linear(WIDTH, WIDTH)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    gc.enable()
    with Watch() as guard:
        for step in range(steps):
            optimizer.zero_grad()
            model(torch.randn(8, WIDTH)).square().mean().backward()
            optimizer.step()
            Part(None, 1_000_000).parts = [Part(None, 10)]
            large_tree(model)
            store(stored, step)
            if step % 13 == 12:
                gc.collect()
    gc.disable()
    assert guard.report is not None
    return guard.report


def test_a_leak_beneath_the_saw_tooth_is_found_and_sized() -> None:
    report = kept_beside(lambda stored, step: stored.append(torch.ones(50_000)))
    assert report.verdict == "leak"
    lost, *garbage = report.leaks
    assert lost.holder is not None
    assert lost.holder.path.endswith("stored")
    assert lost.bytes_per_step == pytest.approx(200_000, rel=0.1)
    assert [leak.kind for leak in garbage] == ["cycle"]
    assert report.growth["heap"] is not None
    assert report.growth["heap"].bytes_per_step == pytest.approx(200_000, rel=0.2)
    assert report.forecast is not None


def filled(stored: list[object], step: int) -> None:
    if step < 60:
        stored.append(torch.ones(50_000))


def replaced(stored: list[object], step: int) -> None:
    stored[:] = [torch.ones(50_000)]


@pytest.mark.parametrize("store", [filled, replaced])
def test_what_is_bounded_beneath_the_saw_tooth_is_no_leak(store: Callable[[list[object], int], object]) -> None:
    report = kept_beside(store)
    assert all(leak.kind == "cycle" for leak in report.leaks)
    assert report.forecast is None


def test_watches_in_each_other_do_not_take_their_looks_for_the_programs() -> None:
    inner, outer = Collector(lambda: 0), Collector(lambda: 0)
    removers = [inner.install(), outer.install()]
    with inner.own():
        gc.collect()
    for remove in removers:
        remove()
    assert (inner.by_hand, outer.by_hand) == (0, 0)
