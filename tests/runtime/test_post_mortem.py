"""Who held what when memory ended."""

from __future__ import annotations

import gc
import sys
import weakref
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import gradguard  # noqa: E402
from gradguard.runtime.out_of_memory import is_out_of_memory  # noqa: E402
from gradguard.runtime.reserve import Reserve  # noqa: E402
from gradguard.runtime.sensors.heap import Heap  # noqa: E402
from gradguard.runtime.sensors.process import Process  # noqa: E402
from tests.support import Shell, write  # noqa: E402

PROGRAM = """
import torch
from torch import nn

class Recorder:
    def __init__(self):
        self.batches = []

class Trainer:
    def __init__(self):
        self.net = nn.Sequential(nn.Linear(100, 100), nn.ReLU(), nn.Linear(100, 1))
        self.recorder = Recorder()
        self.losses = []

    def fit(self):
        for step in range(12):
            x = torch.randn(1000, 100)
            loss = self.net(x).mean()
            self.losses.append(loss)
            self.recorder.batches.append(torch.zeros(1000, 50))
            if step == 11:
                {error}

Trainer().fit()
"""


@pytest.mark.parametrize(
    "error",
    [
        "raise MemoryError",
        "raise torch.OutOfMemoryError('CUDA out of memory. Tried to allocate 2.00 GiB')",
        "torch.empty(1 << 60)",
    ],
)
def test_the_report_says_who_held_what_and_the_error_goes_on(shell: Shell, project: Path, error: str) -> None:
    write(project, {"train.py": PROGRAM.format(error=error)})
    plain = shell("train.py")
    ended = shell("-m", "gradguard", "run", "--no-record", "train.py")
    text = " ".join(ended.stderr.decode().split())
    assert ended.returncode == plain.returncode == 1
    assert plain.stderr.decode().splitlines()[-1] in ended.stderr.decode()
    held = [part for part in text.split("note: ") if part.startswith("when memory ended")]
    assert "`Trainer.losses` (list) held" in held[0]  # 12 times the input, the hidden layer, and the mask's source
    assert held[0].strip().endswith("of it in graphs")
    assert "`Recorder.batches` (list) held 2.4 MB" in held[1]
    assert "in graphs" not in held[1]


def test_the_saved_tensors_count(shell: Shell, project: Path) -> None:
    """Each loss is four bytes; what its graph saved is a megabyte."""
    write(project, {"train.py": PROGRAM.format(error="raise MemoryError")})
    text = " ".join(shell("-m", "gradguard", "run", "--no-record", "train.py").stderr.decode().split())
    size = float(text.split("`Trainer.losses` (list) held ")[1].split(" MB")[0])
    # Linear saves x (400 KB) and ReLU its result (400 KB), which the last Linear saves too: 12 steps of 0.8 MB.
    assert 9.0 < size < 10.0


def test_nothing_is_kept_alive() -> None:
    def run() -> weakref.ref[torch.Tensor]:
        kept = [torch.randn(1000, 100) for _ in range(3)]
        with pytest.raises(MemoryError), gradguard.watch(report=False) as guard:
            raise MemoryError("no room")
        assert guard.report is not None
        assert guard.report.out_of_memory is not None
        assert any("`test_nothing_is_kept_alive" in n or "`run.kept`" in n for n in guard.report.notes)
        return weakref.ref(kept[0])

    gone = run()
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("error", [None, ValueError("no memory"), RuntimeError("shape mismatch"), KeyboardInterrupt()])
def test_other_errors_are_none_of_it(error: BaseException | None) -> None:
    assert not is_out_of_memory(error)


CUDA = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 79.18 GiB of which 3 are free."


@pytest.mark.parametrize(
    ("error", "device"),
    [
        (torch.OutOfMemoryError(CUDA), "cuda:1"),
        (torch.OutOfMemoryError("Allocation on device would exceed the allowed memory"), "cuda"),
        (torch.OutOfMemoryError("XPU out of memory. Tried to allocate 2 GiB"), "xpu"),
        (RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported"), "cuda"),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), "cuda"),
        (RuntimeError("MPS backend out of memory (MPS allocated: 5 GB, other allocations: 1 GB)"), "mps"),
        (RuntimeError("HIP out of memory. Tried to allocate 1 GiB. GPU 0 has a total capacity of 16 GiB"), "cuda:0"),
        (RuntimeError("[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory"), "cpu"),
        (MemoryError(), "cpu"),
    ],
)
def test_where_memory_has_ended(error: BaseException, device: str) -> None:
    with pytest.raises(type(error)), gradguard.watch(report=False) as guard:
        raise error
    assert guard.report is not None
    assert guard.report.out_of_memory is not None
    assert guard.report.out_of_memory.device == device


@pytest.mark.parametrize(
    "error", [RuntimeError("CUDA error: device-side assert triggered"), ValueError("CUDA out of memory is what I say")]
)
def test_other_errors_of_a_device(error: BaseException) -> None:
    assert not is_out_of_memory(error)


def test_a_hook_that_unpacks_is_not_run(shell: Shell, project: Path) -> None:
    unpacking = """
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: print("unpacked")):
        kept = [torch.randn(9, requires_grad=True).exp() for _ in range(3)]
    raise MemoryError
    """
    write(project, {"train.py": "import torch\ndef main():" + unpacking + "\nmain()\n"})
    assert shell("-m", "gradguard", "run", "--no-record", "train.py").stdout == b""


ENDING = """
import resource
import torch

def limit(more):
    with open("/proc/self/statm") as file:
        size = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + more, size + more))

def train():
    kept = []
    net = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for step in range(5_000):
        net(torch.randn(4, 8)).mean().backward()
        optimizer.step()
        kept.append({what})
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the limit is one of Linux")
@pytest.mark.parametrize("what", ["torch.randn(250_000)", "[float(step + k) for k in range(40_000)]"])
def test_memory_that_is_really_gone(shell: Shell, project: Path, what: str) -> None:
    """Every import and every allocation of ours could fail too."""
    write(project, {"train.py": ENDING.format(what=what) + "limit(240_000_000)\ntrain()\n"})
    ended = shell("-m", "gradguard", "run", "--no-record", "train.py")
    text = ended.stderr.decode()
    assert ended.returncode == 1
    assert "gradguard/" not in text, text
    assert "`train.kept` (list" in text
    assert "out of memory at step" in text
    assert "At this rate" not in text  # it has happened


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the limit is one of Linux")
def test_memory_that_is_gone_within_a_watch(shell: Shell, project: Path) -> None:
    caller = """
import traceback
import gradguard
try:
    with gradguard.watch() as guard:
        limit(120_000_000)
        train()
except RuntimeError as error:
    print(traceback.extract_tb(error.__traceback__)[-1].name, guard.report.out_of_memory is not None)
"""
    write(project, {"train.py": ENDING.format(what="torch.randn(250_000)") + caller})
    ended = shell("train.py")
    assert ended.stdout.split() == [b"train", b"True"], ended.stderr.decode()
    assert b"when memory ended, `train.kept` (list) held" in b" ".join(ended.stderr.split())


@pytest.mark.parametrize("broken", ["gradguard.join.with_rules", "gradguard.report.run_console.to_stderr"])
def test_what_fails_at_the_end_does_not_replace_the_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], broken: str
) -> None:
    def fail(*args: object) -> None:
        raise MemoryError("of ours")

    monkeypatch.setattr(broken, fail)
    with pytest.raises(MemoryError, match="of the program"), gradguard.watch() as guard:
        raise MemoryError("of the program")
    assert guard.report is not None
    assert guard.report.out_of_memory is not None
    assert "out of memory at step 0 (cpu): of the program" in capsys.readouterr().err


def test_a_failing_judgement_leaves_a_report(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**known: object) -> None:
        raise MemoryError

    monkeypatch.setattr("gradguard.runtime.verdict.conclude", fail)
    with pytest.raises(MemoryError, match="of the program"), gradguard.watch(report=False) as guard:
        raise MemoryError("of the program")
    assert guard.report is not None
    assert any("failed to judge" in note for note in guard.report.notes)


def test_what_holds_next_to_nothing_is_not_named() -> None:
    small = torch.zeros(10)
    with pytest.raises(MemoryError), gradguard.watch(report=False) as guard:
        raise MemoryError(f"beside {small}")
    assert guard.report is not None
    assert not any("held 0.0" in note for note in guard.report.notes)


def test_the_reserve_takes_no_memory() -> None:
    heap, process = Heap(), Process()
    before = heap.read(), process.read()
    reserve = Reserve()
    reserve.take()
    after = heap.read(), process.read()
    reserve.give_up()
    assert after[0] - before[0] < 10_000
    assert after[1] - before[1] < 1_000_000
