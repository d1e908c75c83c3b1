"""CUDA memory in a watch: with an allocator that is not there, and with a real one."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import gradguard  # noqa: E402
from gradguard.runtime.torch_internals import DeviceRoom, TorchInternals  # noqa: E402


class Device:
    """A GPU whose memory the test fills."""

    allocated = peak = unused = 0

    def fill(self, count: int) -> None:
        self.allocated += count
        self.peak = max(self.peak, self.allocated)

    def stats(self, number: int) -> dict[str, Any]:
        return {
            "allocated_bytes": {"all": {"current": self.allocated, "peak": self.peak}},
            "active_bytes": {"all": {"current": self.allocated}},
            "reserved_bytes": {"all": {"current": self.allocated + self.unused}},
        }


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    fake = Device()
    monkeypatch.setattr(TorchInternals, "cuda_devices", lambda self: 1)
    monkeypatch.setattr(TorchInternals, "stats", lambda self, number: fake.stats(number))
    room = DeviceRoom(free=(1 << 30) - (100 << 20), reserved=100 << 20, allowed=1 << 40)
    monkeypatch.setattr(TorchInternals, "cuda_room", lambda self, number: room)
    return fake


def test_growth_on_a_device_has_its_rate_its_peak_and_its_end(device: Device) -> None:
    kept = []
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with gradguard.watch(report=False) as guard:
        for _ in range(100):
            loss = model(torch.randn(2, 4)).sum()
            loss.backward()
            optimizer.step()
            kept.append(model(torch.randn(2, 4)).exp().sum())  # what it has saved is not freed, and may be large
            device.fill(1 << 20)
        device.fill(1 << 30)
        device.fill(-(1 << 30))
    report = guard.report
    assert report is not None
    grown = report.growth["cuda:0"]
    assert grown is not None
    assert grown.bytes_per_step == pytest.approx(1 << 20, rel=0.01)
    assert report.peak["cuda:0"] == (100 << 20) + (1 << 30)  # as the allocator knows it: it came and went within a step
    assert report.forecast is not None
    assert (report.forecast.device, report.forecast.steps_left) == ("cuda:0", pytest.approx(924, abs=5))
    assert report.verdict == "leak"
    assert (report.leaks[0].bytes_per_step or 0) > 1 << 20
    assert not any("CUDA" in note for note in report.notes)


def test_a_cache_in_fragments_grows_and_is_no_leak(device: Device) -> None:
    """Reserved bytes are told, and no verdict rests on them."""
    with gradguard.watch(report=False) as guard:
        for _ in range(100):
            torch.zeros(1)
            device.unused += 1 << 20
            guard.step()
    report = guard.report
    assert report is not None
    assert report.verdict == "clean"
    reserved, active = report.growth["cuda:0.reserved"], report.growth["cuda:0.active"]
    assert reserved is not None
    assert reserved.bytes_per_step == pytest.approx(1 << 20, rel=0.01)
    assert active is not None
    assert active.bytes_per_step == 0.0
    assert report.forecast is None


def test_page_locked_memory_is_memory_of_the_host(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """The heap does not have it: without its own signal a kept buffer would weigh what its Python object does."""
    staged: list[torch.Tensor] = []

    def stats(self: TorchInternals) -> dict[str, Any]:
        return {"allocated_bytes": {"current": len(staged) << 20}}

    monkeypatch.setattr(TorchInternals, "pinned_stats", stats)
    with gradguard.watch(report=False) as guard:
        for _ in gradguard.steps(range(80)):
            staged.append(torch.empty(1 << 18))
    report = guard.report
    assert report is not None
    pinned = report.growth["pinned"]
    assert pinned is not None
    assert pinned.bytes_per_step == pytest.approx(1 << 20, rel=0.01)
    (leak,) = report.leaks
    assert leak.holder is not None
    assert (leak.holder.name, leak.bytes_per_step) == ("staged", pytest.approx(1 << 20, rel=0.05))
    assert report.forecast is not None
    assert report.forecast.device == "cpu"


def test_page_locked_buffers_that_are_used_again(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """As torch 2.11 counts them: a buffer that was in no copy is in use once more with each use."""
    used = itertools.count(1)

    def stats(self: TorchInternals) -> dict[str, Any]:
        return {"active_bytes": {"current": next(used) * 65537}, "allocated_bytes": {"current": 131072}}

    monkeypatch.setattr(TorchInternals, "pinned_stats", stats)
    with gradguard.watch(report=False) as guard:
        for _ in gradguard.steps(range(80)):
            torch.zeros(1)
    assert guard.report is not None
    assert guard.report.verdict == "clean"


class Replayed:
    """A CUDA graph that was captured, as far as a watch sees it."""

    def replay(self) -> None:
        """What was captured is launched."""


@pytest.mark.parametrize("again", [1, 3])
def test_a_replay_of_a_cuda_graph_is_a_step(monkeypatch: pytest.MonkeyPatch, again: int) -> None:
    """Nothing else is to be seen of a training that was captured; of several graphs the first one counts."""
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Replayed)
    graphs = [Replayed() for _ in range(again)]
    original = Replayed.replay
    outputs = []
    with gradguard.watch(report=False) as guard:
        for _ in range(100):
            for graph in graphs:
                graph.replay()
            outputs.append(torch.randn(4096))
    report = guard.report
    assert report is not None
    assert (report.step_source, report.steps) == ("module", 100)
    (leak,) = report.leaks
    assert leak.holder is not None
    assert leak.holder.name == "outputs"
    assert Replayed.__dict__["replay"] is original


def test_a_training_that_was_captured_after_its_first_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Replayed)
    graph = Replayed()
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    outputs = []
    with gradguard.watch(report=False) as guard:
        for step in range(200):
            if step < 4:
                model(torch.randn(2, 4)).sum().backward()
                optimizer.step()
            else:
                graph.replay()
            outputs.append(torch.randn(4096))
    assert guard.report is not None
    assert guard.report.verdict != "too-short"
    assert [leak.holder.name for leak in guard.report.leaks if leak.holder] == ["outputs"]


def test_a_pool_that_was_filled_is_no_growth(device: Device) -> None:
    with gradguard.watch(report=False) as guard:
        for step in range(100):
            if step < 8:
                device.fill(64 << 20)
            torch.zeros(1)
            guard.step()
    assert guard.report is not None
    assert guard.report.verdict == "clean"


def test_a_program_without_cuda_is_told_so_and_cuda_is_not_initialised() -> None:
    with gradguard.watch(report=False) as guard:
        for _ in range(40):
            guard.step()
    assert guard.report is not None
    assert "no CUDA device was used" in guard.report.notes
    assert not torch.cuda.is_initialized()


def test_a_leak_is_where_its_tensors_are() -> None:
    """The meta device stands for one that is not the host."""
    kept = []
    weight = torch.ones(64, device="meta", requires_grad=True)
    with gradguard.watch(report=False) as guard:
        for _ in gradguard.steps(range(80)):
            kept.append(weight * torch.empty(64, device="meta"))
    assert guard.report is not None
    (leak,) = guard.report.leaks
    assert leak.holder is not None
    assert (leak.holder.name, leak.devices) == ("kept", ("meta",))


@pytest.mark.cuda
def test_a_leak_on_a_real_device() -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    outputs = []
    model = torch.nn.Linear(256, 256).cuda()
    with gradguard.watch(report=False) as guard:
        for _ in range(80):
            outputs.append(model(torch.randn(64, 256, device="cuda")).relu())
    report = guard.report
    assert report is not None
    assert report.verdict == "leak"
    leak = report.leaks[0]
    assert leak.holder is not None
    assert (leak.holder.name, leak.devices) == ("outputs", ("cuda:0",))
    grown = report.growth["cuda:0"]
    assert grown is not None
    assert (grown.bytes_per_step or 0) > 64 * 256 * 4
    assert report.forecast is not None
