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
from typing import Any

import jsonschema
import pytest

from tests.support import CHECKOUT
from tests.test_fixtures import LEAKS, MARK

pytest.importorskip("torch")

SCHEMA = CHECKOUT.parent / "shared" / "schema" / "run.schema.json"
STEPS = (60, 200)

Job = tuple[Path, int]


def run(script: Path, steps: int, output: Path) -> dict[str, Any]:
    """The report of one program, in the JSON form."""
    environment = {**os.environ, "STEPS": str(steps), "PYTHONPATH": str(CHECKOUT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "gradguard", "run", "--format", "json", "--output", str(output), script.name]
    done = subprocess.run(command, cwd=script.parent, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(output.read_text(encoding="utf-8"))
    return report


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[Job, Future[dict[str, Any]]]]:
    """All runs, begun at once and spread over the cores: each is a process of its own."""
    folder = tmp_path_factory.mktemp("runs")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield {
            (script, steps): pool.submit(run, script, steps, folder / f"{leak.name}-{script.stem}-{steps}.json")
            for leak in LEAKS
            for script in (leak / "leak.py", leak / "clean.py")
            for steps in STEPS
        }
        pool.shutdown(cancel_futures=True)


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
    assert report["verdict"] == "leak", report
    leak = report["leaks"][0]
    named = (leak["stored_at"]["path"], leak["stored_at"]["line"], leak["holder"]["path"])
    assert named == mark(folder)
    assert leak["rule"] is not None
    assert leak["advice"]


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("folder", LEAKS, ids=lambda p: p.name)
def test_clean_twin_is_clean(folder: Path, steps: int, reports: dict[Job, Future[dict[str, Any]]]) -> None:
    report = reports[folder / "clean.py", steps].result()
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
        if leak["kind"] != "hook" and name != "growing_bank":  # a bank that grows by cat grows ever faster
            assert leak["bytes_per_step"] == pytest.approx(1_000 * float(kilobytes), rel=0.3), name
