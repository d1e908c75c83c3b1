"""Every leak fixture is detected with its holder and its line, every clean twin is clean: at 60 and at 200 steps."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import jsonschema
import pytest

from tests.runtime.warm import Warm
from tests.support import CHECKOUT
from tests.test_fixtures import LEAKS, MARK, TRAPS

pytest.importorskip("torch")

SCHEMA = CHECKOUT.parent / "shared" / "schema" / "run.schema.json"
STEPS = (60, 200)
KEPT_ON_PURPOSE = {"eval_logits_kept", "predict_returns_all"}
"""Results without a graph that the program uses at the end: growth, but at most suspect."""

OTHER_BYTES = {
    "hook_per_step": "hooks weigh next to nothing",
    "growing_bank": "a bank that grows by cat grows ever faster",
    "function_context": "what waits for the collector",
    "trial_model_cycle": "what waits for the collector",
    "sharpness_candidates": "measured with another number of steps for each candidate",
}
"""Where the measured bytes are not those of the table, and why."""

WITHOUT_RULE = {"eval_logits_kept"}

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(CHECKOUT), "OMP_NUM_THREADS": "1"}

CAN_FORK = hasattr(os, "fork")

Job = tuple[Path, int]


def run(script: Path, steps: int, output: Path) -> dict[str, Any]:
    """The report of one program, in the JSON form; in a process of its own from its first import."""
    command = [sys.executable, "-m", "gradguard", *_arguments(script, output)]
    environment = ENVIRONMENT | {"STEPS": str(steps)}
    done = subprocess.run(command, cwd=script.parent, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return _read(output)


def _arguments(script: Path, output: Path) -> list[str]:
    return ["run", "--no-record", "--format", "json", "--output", str(output), script.name]


def _read(output: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(output.read_text(encoding="utf-8"))
    return report


class _Runs:
    """Runs of programs, each in a fork of a process that has imported torch; one such process for each core.

    Args:
        folder: for what the programs print, and their reports.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._warm: SimpleQueue[Warm] = SimpleQueue()
        for _ in range((os.cpu_count() or 1) if CAN_FORK else 0):
            self._warm.put(Warm(ENVIRONMENT))

    def report(self, script: Path, steps: int) -> dict[str, Any]:
        """The report of one program, in the JSON form."""
        output = self._folder / f"{script.parent.name}-{script.stem}-{steps}.json"
        if not CAN_FORK:
            return run(script, steps, output)
        warm = self._warm.get()
        printed = output.with_suffix(".txt")
        try:
            status = warm.run(_arguments(script, output), script.parent, {"STEPS": str(steps)}, printed)
        finally:
            self._warm.put(warm)  # or the others wait for it
        assert status == 0, printed.read_text(encoding="utf-8")
        return _read(output)

    def end(self) -> None:
        while not self._warm.empty():
            self._warm.get().end()


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[Job, Future[dict[str, Any]]]]:
    """All runs, begun at once and spread over the cores."""
    runs = _Runs(tmp_path_factory.mktemp("runs"))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield {job: pool.submit(runs.report, *job) for job in _jobs()}
        pool.shutdown(cancel_futures=True)
    runs.end()


def _jobs() -> Iterator[Job]:
    """Leaks at every length, what is clean at the longest; `benchmarks/fixtures.py` runs all of them at all."""
    for leak in LEAKS:
        yield from ((leak / "leak.py", steps) for steps in STEPS)
        yield leak / "clean.py", STEPS[-1]
    yield from ((trap, STEPS[-1]) for trap in TRAPS)


def mark(folder: Path) -> tuple[str, int, str]:
    """File, line and holder of the leak of a fixture."""
    (found,) = (
        (file.name, number, match["holder"])
        for file in folder.glob("*.py")
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if (match := MARK.search(line))
    )
    return found


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("folder", LEAKS, ids=lambda p: p.name)
def test_leak_is_diagnosed(folder: Path, steps: int, reports: dict[Job, Future[dict[str, Any]]]) -> None:
    report = reports[folder / "leak.py", steps].result()
    assert report["verdict"] == ("suspect" if folder.name in KEPT_ON_PURPOSE else "leak"), report
    leak = report["leaks"][0]
    named = (leak["stored_at"]["path"], leak["stored_at"]["line"], leak["holder"]["path"])
    assert named == mark(folder)
    assert (leak["rule"] is not None) == (folder.name not in WITHOUT_RULE)
    assert leak["advice"]


@pytest.mark.parametrize("folder", LEAKS, ids=lambda p: p.name)
def test_clean_twin_is_clean(folder: Path, reports: dict[Job, Future[dict[str, Any]]]) -> None:
    report = reports[folder / "clean.py", STEPS[-1]].result()
    assert (report["verdict"], report["leaks"]) == ("clean", [])


@pytest.mark.parametrize("program", TRAPS, ids=lambda p: p.stem)
def test_trap_is_clean(program: Path, reports: dict[Job, Future[dict[str, Any]]]) -> None:
    report = reports[program, STEPS[-1]].result()
    if program.stem in KEPT_ON_PURPOSE:
        assert (report["verdict"], report["leaks"][0]["kind"]) == ("suspect", "collected")
    else:
        assert (report["verdict"], report["leaks"]) == ("clean", [])


def test_every_report_validates(reports: dict[Job, Future[dict[str, Any]]]) -> None:
    if not SCHEMA.is_file():
        pytest.fail("the schema is not there") if os.environ.get("CI") else pytest.skip("the schema is not there")
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    for report in reports.values():
        jsonschema.validate(report.result(), schema)


def test_the_measured_bytes_are_those_of_the_table(reports: dict[Job, Future[dict[str, Any]]]) -> None:
    """fixtures/README.md has figures that were measured with another program."""
    table = (CHECKOUT / "fixtures" / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| A\d\d \| (\w+) \| .*? \| .*? \| ([\d.]+) \|", table, re.M)
    assert len(rows) == len(LEAKS)
    for name, kilobytes in rows:
        leak = reports[CHECKOUT / "fixtures" / "leaks" / name / "leak.py", 200].result()["leaks"][0]
        if name not in OTHER_BYTES:
            assert leak["bytes_per_step"] == pytest.approx(1_000 * float(kilobytes), rel=0.3), name
