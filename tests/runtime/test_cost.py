"""What a step costs once the watch has found its pace: counted in calls, which no load on the machine changes."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import gradguard  # noqa: E402
from gradguard.runtime.watch import Watch  # noqa: E402

OURS = str(Path(gradguard.__file__).parent)
WARM_UP = 512
COUNTED = 256


def calls_of_ours() -> Counter[str]:
    """Calls of GradGuard's functions in so many steps of a clean loop; generators are resumed, not called."""
    weights = torch.zeros(4, requires_grad=True)
    optimizer = torch.optim.SGD([weights], lr=0.1)
    calls: Counter[str] = Counter()

    def train(steps: int) -> None:
        for _ in range(steps):
            optimizer.zero_grad()
            weights.square().sum().backward()
            optimizer.step()

    def count(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(OURS) and not code.co_name.startswith("<"):
            calls[code.co_name] += 1

    with Watch():
        train(WARM_UP)
        sys.setprofile(count)
        try:
            train(COUNTED)
        finally:
            sys.setprofile(None)
    return calls


def test_a_steady_step_is_a_handful_of_calls() -> None:
    in_each = {name: count for name, count in calls_of_ours().items() if count >= COUNTED}
    assert in_each["stepped"] == COUNTED
    assert sum(in_each.values()) <= 6 * COUNTED, in_each


def test_a_clean_run_never_loads_what_diagnoses() -> None:
    program = """
import sys, torch, gradguard
weights = torch.zeros(4, requires_grad=True)
optimizer = torch.optim.SGD([weights], lr=0.1)
with gradguard.watch(report=False) as guard:
    for _ in range(100):
        optimizer.zero_grad()
        weights.square().sum().backward()
        optimizer.step()
print(guard.report.verdict, *(name for name in sys.modules if name.startswith("gradguard.")))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    verdict, *modules = done.stdout.split()
    assert verdict == "clean"
    parts = {f"gradguard.runtime.{name}" for name in ("census", "cycles", "diagnosis", "explain", "holders", "tracer")}
    assert "gradguard.runtime.watch" in modules
    assert not parts.intersection(modules)


def test_most_steps_have_nothing_to_do() -> None:
    assert calls_of_ours()["_work"] <= COUNTED / 8
