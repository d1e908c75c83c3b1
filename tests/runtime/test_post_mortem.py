"""Who held what when memory ended."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import gradguard  # noqa: E402
from gradguard.runtime.verdict import is_out_of_memory  # noqa: E402
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


def test_a_hook_that_unpacks_is_not_run(shell: Shell, project: Path) -> None:
    unpacking = """
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: print("unpacked")):
        kept = [torch.randn(9, requires_grad=True).exp() for _ in range(3)]
    raise MemoryError
    """
    write(project, {"train.py": "import torch\ndef main():" + unpacking + "\nmain()\n"})
    assert shell("-m", "gradguard", "run", "--no-record", "train.py").stdout == b""
