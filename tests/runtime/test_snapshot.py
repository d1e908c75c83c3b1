"""What is alive, by kind and by holder."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import gradguard  # noqa: E402
from gradguard.alive import HeldBy, Kind, Snapshot  # noqa: E402
from gradguard.runtime.snapshot import take  # noqa: E402
from gradguard.runtime.torch_internals import TorchInternals  # noqa: E402
from tests.support import Shell  # noqa: E402


def gained(before: Snapshot, after: Snapshot) -> dict[Kind, tuple[int, int]]:
    """Storages and bytes of each kind that there are more of."""
    kinds = {amount.kind for amount in (*before.amounts, *after.amounts)}
    found = {kind: (after.count(kind) - before.count(kind), after.bytes(kind) - before.bytes(kind)) for kind in kinds}
    return {kind: gain for kind, gain in found.items() if any(gain)}


def holder(snapshot: Snapshot, path: str) -> HeldBy:
    (found,) = (each for each in snapshot.holders if each.path == path)
    return found


@pytest.fixture(autouse=True)
def _nothing_of_other_tests() -> None:
    gc.collect()


def test_each_storage_has_one_kind() -> None:
    before = gradguard.snapshot()
    model = torch.nn.Sequential(torch.nn.Linear(100, 50), torch.nn.BatchNorm1d(50), torch.nn.Linear(50, 10))
    parameters = 4 * (100 * 50 + 50 + 50 + 50 + 50 * 10 + 10)
    assert gained(before, gradguard.snapshot()) == {
        "parameters": (6, parameters),
        "buffers": (3, 4 * (50 + 50) + 8),
    }
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(torch.randn(20, 100)).sum().backward()
    optimizer.step()
    after = gained(before, gradguard.snapshot())
    assert after["gradients"] == (6, parameters)
    assert after["optimizer state"] == (6, parameters)
    assert after["parameters"] == (6, parameters)


def test_what_graphs_hold_is_what_no_variable_reaches() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(100, 50), torch.nn.ReLU(), torch.nn.Linear(50, 10))
    before = gradguard.snapshot()
    x = torch.randn(20, 100)
    out = model(x)
    after = gradguard.snapshot()
    # relu's result is saved and nobody's variable; x is saved too, and a variable
    assert gained(before, after) == {"held by graphs": (1, 4 * 20 * 50), "other tensors": (2, 4 * 20 * (100 + 10))}
    out.sum().backward()
    assert gradguard.snapshot().bytes("held by graphs") == before.bytes("held by graphs")


def test_views_and_tied_weights_count_once() -> None:
    before = gradguard.snapshot()
    first, second = torch.nn.Linear(30, 30, bias=False), torch.nn.Linear(30, 30, bias=False)
    second.weight = first.weight
    gc.collect()
    views = [first.weight.detach().view(-1), first.weight.data.T]
    assert gained(before, gradguard.snapshot()) == {"parameters": (1, 3600)}
    assert views


def test_the_holder_has_the_name_that_the_user_gave() -> None:
    class Trainer:
        def __init__(self) -> None:
            self.model = torch.nn.Linear(1000, 100)
            self.optimizer = torch.optim.Adam(self.model.parameters())
            self.history: list[Any] = []

    trainer = Trainer()
    for _ in range(3):
        loss = trainer.model(torch.randn(64, 1000)).exp().sum()
        loss.backward(retain_graph=True)
        trainer.optimizer.step()
        trainer.history.append(loss)
    snapshot = gradguard.snapshot()
    history = holder(snapshot, "Trainer.history")
    assert history.type == "list"
    assert history.in_graphs == 3 * 4 * 64 * (1000 + 100)
    model = holder(snapshot, "Trainer.model")
    assert (model.bytes, model.in_graphs) == (2 * 4 * (1000 * 100 + 100), 0)
    assert holder(snapshot, "Trainer.optimizer").bytes == pytest.approx(model.bytes, abs=16)
    assert [each.bytes for each in snapshot.holders] == sorted((each.bytes for each in snapshot.holders), reverse=True)


def test_a_list_on_a_model_stands_for_itself() -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Sequential(torch.nn.Linear(10, 10))
            self.outputs = [torch.zeros(1000)]

    net = Net()
    snapshot = gradguard.snapshot()
    assert holder(snapshot, "Net.outputs").bytes == 4000
    path = f"{test_a_list_on_a_model_stands_for_itself.__name__}.net"
    assert holder(snapshot, path).bytes == 440
    assert net


def test_there_are_ten_holders_at_most() -> None:
    many = {f"key{at}": torch.zeros(100 + at) for at in range(12)}
    assert len(gradguard.snapshot().holders) == 10
    assert many


def test_what_no_variable_leads_to_is_said() -> None:
    before = gradguard.snapshot()

    class Node:
        def __init__(self) -> None:
            self.me = self
            self.big = torch.zeros(5000)

    gc.disable()
    try:
        Node()
        after = gradguard.snapshot()
    finally:
        gc.enable()
    assert after.unnamed - before.unnamed == 20_000
    assert "no variable leads to" in str(after)


def test_sparse_gradients_count() -> None:
    embedding = torch.nn.Embedding(1000, 16, sparse=True)
    before = gradguard.snapshot()
    embedding(torch.tensor([1, 2, 3])).sum().backward()
    assert gained(before, gradguard.snapshot())["gradients"] == (2, 3 * 8 + 3 * 16 * 4)


def test_tensors_without_memory_do_not_count() -> None:
    before = gradguard.snapshot()
    empty = [torch.zeros(0), torch.zeros(1000, device="meta")]
    assert gained(before, gradguard.snapshot()) == {}
    assert empty


def test_a_watch_says_its_step() -> None:
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with gradguard.watch(report=False) as guard:
        for _ in range(5):
            model(torch.randn(2, 4)).sum().backward()
            optimizer.step()
        snapshot = guard.snapshot()
    assert snapshot.step == guard.steps > 0
    assert f"after step {guard.steps}" in str(snapshot)


def test_nothing_is_kept_alive_and_nothing_is_changed() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    x = torch.randn(5, 8)
    out = model(x)
    kept = [weakref.ref(model), weakref.ref(x), weakref.ref(out)]
    gc.collect()
    gc.disable()
    try:
        with torch.no_grad():
            snapshot = gradguard.snapshot()
            assert not torch.is_grad_enabled()
        again = gradguard.snapshot()
        assert gained(snapshot, again) == {}
        del model, x, out
        assert [ref() for ref in kept] == [None] * 3
    finally:
        gc.enable()


def test_random_state_and_results_stay() -> None:
    def losses(look: bool) -> list[float]:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        found = []
        for _ in range(5):
            loss = model(torch.randn(4, 8)).pow(2).mean()
            if look:
                gradguard.snapshot()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            found.append(loss.item())
        return found

    assert losses(look=True) == losses(look=False)


def test_the_allocator_of_a_device_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    stats = {"allocated_bytes": {"all": {"current": 5}}, "reserved_bytes": {"all": {"current": 7}}}
    monkeypatch.setattr(TorchInternals, "cuda_devices", lambda self: 2)
    monkeypatch.setattr(TorchInternals, "stats", lambda self, device: stats)
    snapshot = gradguard.snapshot()
    assert [(a.device, a.allocated, a.reserved) for a in snapshot.allocators] == [("cuda:0", 5, 7), ("cuda:1", 5, 7)]
    assert "cuda:1: 5 B allocated, 7 B reserved" in str(snapshot)


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_device_of_its_own() -> None:
    kept = torch.zeros(1 << 20, device="cuda")
    snapshot = gradguard.snapshot()
    assert snapshot.bytes("other tensors", "cuda:0") >= 4 << 20
    assert snapshot.allocators[0].allocated >= 4 << 20
    assert kept.is_cuda


def test_without_torch_there_is_nothing(shell: Shell) -> None:
    code = "import gradguard, sys; print(gradguard.snapshot()); assert 'torch' not in sys.modules"
    done = shell("-c", code)
    assert done.stdout.decode().strip() == "gradguard: no tensor is alive"


def test_without_a_frame_the_globals_are_looked_at() -> None:
    assert take(None).step is None
