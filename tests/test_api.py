"""``gradguard.watch``: what else happens on a leak, ``check()``, and a recording."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import gradguard  # noqa: E402
from gradguard.findings import Leak  # noqa: E402
from gradguard.record import load  # noqa: E402

pytestmark = pytest.mark.usefixtures("time_does_not_decide")


def train(steps: int, each: Callable[[Any], object] = lambda loss: None) -> int:
    model = torch.nn.Linear(40, 40)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    done = 0
    for _ in range(steps):
        loss = model(torch.randn(8, 40)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        each(loss)
        done += 1
    return done


def leak(steps: int = 90) -> None:
    history: list[Any] = []
    train(steps, lambda loss: history.append(loss))


def buffers(steps: int = 90) -> None:
    """Of a kind that only the end of the run confirms: buffers of tensors may be filling."""
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for step in range(steps):
        model(torch.randn(2, 4)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        shown.pictures[step] = torch.randn(2000)


class Shown:
    """Where pictures are kept for ever."""

    def __init__(self) -> None:
        self.pictures: dict[int, Any] = {}


shown = Shown()


def test_raise_ends_the_loop_in_the_step_that_confirms_it() -> None:
    guard = gradguard.watch(report=False, on_leak="raise")
    with (
        pytest.raises(gradguard.LeakError, match=r"confirmed: `leak\.history` keeps autograd graphs") as raised,
        guard,
    ):
        leak()
    assert guard.report is not None
    assert 30 <= guard.report.steps < 90
    assert raised.value.leak is not None
    assert raised.value.leak.kind == "graph"
    assert isinstance(raised.value, AssertionError)


def test_a_function_is_called_once_with_the_leak() -> None:
    told: list[Leak] = []
    with gradguard.watch(report=False, on_leak=told.append):
        leak()
    assert [each.holder.name for each in told if each.holder] == ["history"]


def test_what_the_function_raises_is_the_programs() -> None:
    def stop(found: Leak) -> None:
        raise KeyError(found.kind)

    with pytest.raises(KeyError, match="graph"), gradguard.watch(report=False, on_leak=stop):
        leak()


def test_warn_points_at_the_statement() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with gradguard.watch(report=False, on_leak="warn"):
            leak()
    (warning,) = [w for w in caught if w.category is gradguard.LeakWarning]
    assert Path(warning.filename) == Path(__file__)
    assert "history.append(loss)" in Path(__file__).read_text().splitlines()[warning.lineno - 1]


def test_what_only_the_end_confirms_is_told_at_the_end() -> None:
    with pytest.raises(gradguard.LeakError, match="pictures"), gradguard.watch(report=False, on_leak="raise") as guard:
        buffers()
    assert guard.report is not None
    assert guard.report.steps == 90


def test_an_error_of_the_program_is_not_replaced() -> None:
    def fail() -> None:
        buffers()
        print(1 / 0)

    with pytest.raises(ZeroDivisionError), gradguard.watch(report=False, on_leak="raise"):
        fail()


@pytest.mark.parametrize("how", ["warn", "raise", print])
def test_a_clean_loop_hears_nothing(how: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", gradguard.LeakWarning)
        with gradguard.watch(report=False, on_leak=how) as guard:
            assert train(60) == 60
    guard.check()
    assert capsys.readouterr().out == ""


def test_check_fails_with_the_report() -> None:
    with gradguard.watch(report=False) as guard:
        leak()
    with pytest.raises(gradguard.LeakError, match=r"(?s)Leak: `.*history`.*stored at .*test_api\.py.*help:"):
        guard.check()


def test_check_comes_after_the_block() -> None:
    guard = gradguard.watch(report=False)
    with pytest.raises(RuntimeError, match="after the `with` block"):
        guard.check()


@pytest.mark.parametrize("how", ["Raise", 3])
def test_a_wrong_on_leak_is_named_at_once(how: Any) -> None:
    with pytest.raises(ValueError, match=r'"warn", "raise" or a function'):
        gradguard.watch(on_leak=how)


def test_a_watch_records_where_it_is_told(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with gradguard.watch(report=False, record=path) as guard:
        leak()
    report, recorded = load(path)
    assert guard.report is not None
    assert (report.verdict, report.steps) == ("leak", guard.report.steps)
    assert report.leaks[0].holder == guard.report.leaks[0].holder
    assert len(recorded.timing) > 60
    with pytest.raises(FileExistsError):
        gradguard.watch(record=path)


def test_a_killed_run_is_read(tmp_path: Path) -> None:
    program = f"""
import os, sys
sys.path.insert(0, {str(Path(__file__).resolve().parent.parent)!r})
import gradguard
from tests.test_api import train
def main():
    history = []
    def keep(loss):
        history.append(loss)
        if len(history) == 80:
            os.kill(os.getpid(), 9)
    with gradguard.watch(report=False, record="run.jsonl"):
        train(90, keep)
main()
"""
    ended = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, check=False)
    assert ended.returncode == -9, ended.stderr.decode()
    report, _ = load(tmp_path / "run.jsonl")
    assert report.verdict == "leak"
    assert report.leaks[0].holder is not None
    assert report.leaks[0].holder.name == "history"
    assert report.steps >= 60
    assert "was not seen" in report.notes[0]
