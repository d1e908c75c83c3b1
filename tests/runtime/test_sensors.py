"""The signals, one by one."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import pytest

from gradguard.runtime.sensors import LONGEST_PERIOD, NOTHING, WANTED_STEPS, Metered
from gradguard.runtime.sensors.cuda import Cuda
from gradguard.runtime.sensors.heap import Heap
from gradguard.runtime.sensors.pinned import Pinned
from gradguard.runtime.sensors.process import Process


class Allocator:
    """A caching allocator that never saw a GPU."""

    def __init__(self) -> None:
        self.current = self.peak = 0
        self.asked: list[int] = []

    def allocate(self, count: int) -> None:
        self.current += count
        self.peak = max(self.peak, self.current)

    def stats(self, device: int) -> dict[str, Any]:
        self.asked.append(device)
        return {"allocated_bytes": {"all": {"current": self.current, "peak": self.peak}}}


def test_cuda_reads_what_is_allocated_on_its_device() -> None:
    allocator = Allocator()
    sensor = Cuda(1, allocator)
    allocator.allocate(4096)
    allocator.allocate(-1024)
    assert (sensor.name, sensor.read(), sensor.peak()) == ("cuda:1", 3072, 4096)
    assert set(allocator.asked) == {1}


@pytest.mark.parametrize(
    "stats",
    [
        {"active_bytes": {"current": 99}, "allocated_bytes": {"current": 4096}},
        {"allocated_bytes": {"current": 99}, "reserved_bytes": {"current": 4096}},  # as torch 2.6 named them
    ],
)
def test_page_locked_memory_is_what_the_allocator_has(stats: dict[str, Any]) -> None:
    class Host:
        def pinned_stats(self) -> dict[str, Any]:
            return stats

    assert (Pinned(Host()).name, Pinned(Host()).read()) == ("pinned", 4096)


def test_a_torch_that_does_not_count_page_locked_memory() -> None:
    class Host:
        def pinned_stats(self) -> None:
            return None

    with pytest.raises(OSError, match="does not count"):
        Pinned(Host())


@pytest.mark.cuda
def test_cuda_reads_the_real_allocator() -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    from gradguard.runtime.torch_internals import TorchInternals

    torch.zeros(1, device="cuda")
    sensor = Cuda(0, TorchInternals(torch))
    before = sensor.read()
    kept = torch.zeros(1 << 20, device="cuda")
    assert sensor.read() - before == kept.numel() * 4


def test_the_heap_sees_what_c_allocates() -> None:
    sensor = Heap()
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.free.argtypes = (ctypes.c_void_p,)
    for size in (10_000, 50_000_000):  # from the arena, and mapped
        before = sensor.read()
        block = libc.malloc(size)
        gained = sensor.read() - before
        libc.free(block)
        assert size <= gained < size + 20_000
        assert abs(sensor.read() - before) < 2_000


def test_the_process_is_larger_than_its_heap_and_smaller_than_the_machine() -> None:
    assert 5_000_000 < Process().read() < 1 << 45


def test_a_dear_sensor_is_read_less_often() -> None:
    class Dear:
        name = "dear"
        in_bytes = True
        reads = 0

        def read(self) -> int:
            self.reads += 1
            total = 0
            for number in range(20_000):  # hundreds of microseconds
                total += number
            return total

    sensor = Dear()
    metered = Metered(sensor)
    for step in range(1, 2001):
        metered.read_if_due(step)
    assert 1 < metered.period <= LONGEST_PERIOD
    assert sensor.reads < 400


def test_the_first_steps_are_read_one_by_one() -> None:
    metered = Metered(Process())
    assert all(metered.read_if_due(step) is not None for step in range(1, 60))


def test_what_is_dear_by_nature_is_read_late_and_rarely() -> None:
    metered = Metered(Process(), budget=0.001, first_step=16, is_dear=True)
    read = [step for step in range(1, 5000) if metered.read_if_due(step) is not None]
    assert read[0] == 16
    assert len(read) < 8


@pytest.mark.parametrize(("is_dear", "reads"), [(False, range(WANTED_STEPS, WANTED_STEPS + 1)), (True, range(2))])
def test_what_is_wanted_is_read_at_each_step_unless_it_is_dear(is_dear: bool, reads: range) -> None:
    metered = Metered(Process(), budget=1e-6, is_dear=is_dear)
    for step in range(1, 1_000):
        metered.read_if_due(step)
    metered.want(999)
    read = [step for step in range(1_000, 1_000 + WANTED_STEPS) if metered.read_if_due(step) is not None]
    assert len(read) in reads
    later = [step for step in range(2_000, 2_100) if metered.read_if_due(step) is not None]
    assert len(later) < 10


class Told:
    """A sensor for nothing, whose values are given."""

    name = "told"
    beside = NOTHING

    def __init__(self, value: Callable[[int], float]) -> None:
        self.step = 0
        self._value = value

    def read(self) -> int:
        return int(self._value(self.step))


def readings(value: Callable[[int], float], steps: int) -> list[int]:
    """The steps at which a signal that must rise by one in a step is read."""
    sensor = Told(value)
    metered = Metered(sensor, budget=1e9, floor=1.0)
    read = []
    for step in range(1, steps + 1):
        sensor.step = step
        if metered.read_if_due(step) is not None:
            read.append(step)
    return read


def test_what_begins_to_rise_late_is_read_at_each_step_for_some_time() -> None:
    read = readings(lambda step: 100 + 2 * max(step - 2_000, 0), 4_000)
    before, rise, after = ([s for s in read if a <= s < a + 48] for a in (1_900, 2_049, 3_900))
    assert (len(before), len(rise), len(after)) == (1, 48, 1)


@pytest.mark.parametrize(
    "value",
    [
        lambda step: 100,
        lambda step: 100 + 3 * (step % 40),
        lambda step: 100 + step / 2,
        lambda step: 100 + (50 if step > 2_000 else 0),
        lambda step: 100 - 2 * max(step - 2_000, 0),
    ],
    ids=["flat", "saw-tooth", "below the floor", "one jump", "fall"],
)
def test_what_does_not_go_beyond_all_before_is_read_as_rarely_as_ever(value: Callable[[int], float]) -> None:
    assert len([step for step in readings(value, 4_000) if step >= 1_900]) <= 2_100 / 16 + 8


def test_the_tensors_count_each_storage_once() -> None:
    torch = pytest.importorskip("torch")
    from gradguard.runtime.sensors.tensors import Tensors
    from gradguard.runtime.torch_internals import TorchInternals

    sensor = Tensors(TorchInternals(torch))
    before = sensor.read()
    kept = [torch.zeros(1000), torch.nn.Parameter(torch.zeros(500))]
    views = [kept[0][:10], kept[0].view(10, 100)]
    assert sensor.read() - before == 6_000
    count, attached = sensor.beside["tensors.count"], sensor.beside["tensors.attached"]
    sums = [kept[1].sum() for _ in range(3)]
    assert sensor.read() > 0
    assert sensor.beside == {"tensors.count": count + 3, "tensors.attached": attached + 3}
    del kept, views, sums
    assert sensor.read() == before


@pytest.mark.parametrize("leaks", [True, False])
def test_where_the_heap_is_not_known_the_tensors_tell(monkeypatch: pytest.MonkeyPatch, leaks: bool) -> None:
    torch = pytest.importorskip("torch")
    from gradguard.runtime import watch
    from gradguard.runtime.sensors import Metered

    def unknown() -> None:
        raise OSError("only glibc tells the bytes in use")

    monkeypatch.setattr(watch, "Heap", unknown)
    monkeypatch.setattr(Metered, "read_if_due", lambda self, step: self.sensor.read())  # however slow it is here
    kept = []
    with watch.Watch() as guard:
        for _ in range(120):
            kept.append(torch.randn(2_000) if leaks else 0.0)
            guard.step()
    assert guard.report is not None
    found = guard.report
    grown = found.growth["tensors"]
    assert found.growth["heap"] is None
    assert grown is not None
    assert grown.bytes_per_step == pytest.approx(8_000 if leaks else 0, rel=0.05)
    assert (found.verdict == "clean") != leaks
