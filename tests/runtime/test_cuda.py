"""A watch on a real CUDA device: what it finds there, and that the program does not notice it."""

from __future__ import annotations

import json
import textwrap
import warnings
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import gradguard  # noqa: E402
from gradguard.findings import RunReport  # noqa: E402
from tests.support import Shell, write  # noqa: E402

pytestmark = [pytest.mark.cuda, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]


def small() -> torch.nn.Module:
    """A model on the device."""
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 1)).cuda()


def trained(
    steps: int, keep: list[torch.Tensor] | None = None, model: torch.nn.Module | None = None
) -> list[torch.Tensor]:
    """The losses of a small training on the device, without their graphs; with them they go into ``keep``."""
    model = model or small()
    optimizer = torch.optim.AdamW(model.parameters())
    losses = []
    for _ in range(steps):
        loss = model(torch.randn(128, 64, device="cuda")).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        if keep is not None:
            keep.append(loss)
    return losses


def only(report: RunReport | None) -> str | None:
    """The holder of the one leak that a report has."""
    assert report is not None
    assert report.verdict == "leak"
    (leak,) = report.leaks
    return leak.holder.path if leak.holder else None


def test_no_step_waits_for_the_device() -> None:
    """Also not while a leak is looked at: to read a value would hold up everything that was launched."""
    kept: list[torch.Tensor] = []
    model = small()  # to bring it there is what a program waits for
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as said, gradguard.watch(report=False) as guard:
            warnings.simplefilter("always")
            trained(200, kept, model)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert (only(guard.report) or "").endswith("kept")
    assert [str(each.message) for each in said if "synchroniz" in str(each.message)] == []


def test_the_losses_are_the_same_to_the_bit() -> None:
    plain = trained(150)
    with gradguard.watch(report=False):
        watched = trained(150)
    with gradguard.watch(report=False):
        leaking = trained(150, [])
    assert torch.equal(torch.stack(plain), torch.stack(watched))
    assert torch.equal(torch.stack(plain), torch.stack(leaking))


def test_nothing_of_ours_is_on_the_device() -> None:
    trained(40)  # what cuBLAS keeps
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    with gradguard.watch(report=False) as guard:
        trained(150)
        assert torch.cuda.memory_allocated() == before
    assert guard.report is not None
    assert guard.report.verdict == "clean"
    assert guard.report.growth["cuda:0"] is not None


def test_gradients_that_a_scaler_scales() -> None:
    """Steps that the scaler skips are steps, and the sum keeps its graphs in half precision too."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 4)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cuda", init_scale=2.0**40)
    total = torch.zeros((), device="cuda")
    with gradguard.watch(report=False) as guard:
        for _ in range(150):
            with torch.autocast("cuda", dtype=torch.float16):
                loss = model(torch.randn(32, 64, device="cuda")).square().mean()
            optimizer.zero_grad(set_to_none=True)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            total = total + loss
    assert (only(guard.report) or "").endswith("total")


def test_what_another_stream_has_computed() -> None:
    features = []
    stream = torch.cuda.Stream()
    model = torch.nn.Linear(256, 256).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    with gradguard.watch(report=False) as guard:
        for _ in range(120):
            x = torch.randn(32, 256, device="cuda")
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                features.append(x.exp())
            torch.cuda.current_stream().wait_stream(stream)
            model(x).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    assert guard.report is not None
    (leak,) = guard.report.leaks
    assert leak.holder is not None
    assert (leak.holder.path.endswith("features"), leak.devices) == (True, ("cuda:0",))
    assert leak.bytes_per_step == pytest.approx(32 * 256 * 4, rel=0.1)


@pytest.mark.parametrize("kept", [False, True])
def test_a_graph_that_is_captured_within_a_watch(kept: bool) -> None:
    outputs = []
    model = torch.nn.Linear(64, 64).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    x = torch.randn(32, 64, device="cuda")
    with gradguard.watch(report=False) as guard:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                optimizer.zero_grad(set_to_none=True)
                model(x).square().mean().backward()
                optimizer.step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            out = model(x)
            out.square().mean().backward()
            optimizer.step()
        for _ in range(200):  # the optimizer steps no more: each replay is a step
            x.copy_(torch.randn(32, 64, device="cuda"))
            graph.replay()
            if kept:
                outputs.append(out.detach().clone())
    report = guard.report
    assert report is not None
    assert (report.verdict == "clean") is not kept
    assert [leak.holder.name for leak in report.leaks if leak.holder] == (["outputs"] if kept else [])


def test_page_locked_memory_that_is_kept() -> None:
    staged = []
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    with gradguard.watch(report=False) as guard:
        for _ in range(120):
            x = torch.randn(256, 64, device="cuda")
            model(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            buffer = torch.empty(256, 256, pin_memory=True)
            buffer[:, :64].copy_(x, non_blocking=True)
            staged.append(buffer)
    report = guard.report
    assert report is not None
    pinned = report.growth["pinned"]
    assert pinned is not None
    assert pinned.bytes_per_step == pytest.approx(256 * 256 * 4, rel=0.1)
    (leak,) = report.leaks
    assert leak.holder is not None
    assert (leak.holder.name, leak.devices) == ("staged", ("cpu",))
    assert leak.bytes_per_step == pytest.approx(256 * 256 * 4, rel=0.1)


def test_page_locked_buffers_that_are_used_again() -> None:
    x = torch.randn(256, 64, device="cuda")
    with gradguard.watch(report=False) as guard:
        for _ in gradguard.steps(range(120)):
            x = torch.empty(256, 64, pin_memory=True).normal_().to("cuda", non_blocking=True)
    assert guard.report is not None
    assert guard.report.verdict == "clean"
    assert x.is_cuda


ENDING = """
import torch

torch.cuda.set_per_process_memory_fraction(2e9 / torch.cuda.get_device_properties(0).total_memory)

class Trainer:
    def __init__(self):
        self.net = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 1)).cuda()
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=1e-3)
        self.seen = []

    def fit(self):
        for _ in range(5_000):
            x = torch.randn(512, 512, device="cuda")
            predicted = self.net(x)
            predicted.square().mean().backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            self.seen.append(self.net(x))

Trainer().fit()
"""


def test_memory_of_the_device_ends(shell: Shell, project: Path) -> None:
    """The report says who held it, and a shorter run has foretold when."""
    write(project, {"train.py": ENDING})
    run = "-m", "gradguard", "run", "--no-record", "--format", "json", "--output"
    short = shell(*run, "r.json", "--steps", "60", "train.py")
    assert short.returncode == 0, short.stderr.decode()
    forecast = json.loads((project / "r.json").read_text())["forecast"]
    ended = shell(*run, "e.json", "train.py")
    assert ended.returncode == 1
    assert b"OutOfMemoryError" in ended.stderr
    report = json.loads((project / "e.json").read_text())
    assert report["out_of_memory"]["device"].startswith("cuda")
    assert report["leaks"][0]["holder"]["path"] == "Trainer.seen"
    assert any("when memory ended, `Trainer.seen` (list) held" in note for note in report["notes"]), report["notes"]
    assert forecast["device"] == "cuda:0"
    assert 60 + forecast["steps_left"] == pytest.approx(report["out_of_memory"]["step"], rel=0.1)


def test_a_watch_starts_nothing_on_the_device(shell: Shell) -> None:
    """Or a program that forks its workers before it uses CUDA would fail."""
    code = """
    import gradguard, torch
    with gradguard.watch(report=False) as guard:
        net = torch.nn.Linear(4, 4)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        kept = []
        for _ in range(60):
            kept.append(net(torch.randn(2, 4)).sum())
            kept[-1].backward()
            optimizer.step()
    print(guard.report.verdict, torch.cuda.is_initialized())
    """
    assert shell("-c", textwrap.dedent(code)).stdout.split() == [b"leak", b"False"]
