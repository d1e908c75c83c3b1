"""What a step costs once the watch has found its pace: counted in calls, which no load on the machine changes."""

from __future__ import annotations

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


def calls_in_a_step() -> tuple[float, Counter[str]]:
    """Calls of GradGuard's functions in a step of a clean loop, on average, and each one's."""
    weights = torch.zeros(4, requires_grad=True)
    optimizer = torch.optim.SGD([weights], lr=0.1)
    calls: Counter[str] = Counter()

    def train(steps: int) -> None:
        for _ in range(steps):
            optimizer.zero_grad()
            weights.square().sum().backward()
            optimizer.step()

    def count(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(OURS):
            calls[frame.f_code.co_name] += 1

    with Watch():
        train(WARM_UP)
        sys.setprofile(count)
        try:
            train(COUNTED)
        finally:
            sys.setprofile(None)
    return sum(calls.values()) / COUNTED, calls


def test_a_steady_step_is_a_handful_of_calls() -> None:
    average, calls = calls_in_a_step()
    assert calls["_step_ended"] == COUNTED
    assert average <= 18, calls.most_common(12)


def test_most_steps_have_nothing_to_do() -> None:
    _, calls = calls_in_a_step()
    assert calls["_work"] <= COUNTED / 8
