"""What several tests need."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import CHECKOUT, Outcome, Run, Shell


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which is the working directory, with nothing of the tester's environment in it."""
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "TERM", "PYTHONIOENCODING"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GRADGUARD_CACHE_DIR", str(tmp_path.parent / f"{tmp_path.name}-cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def gradguard(project: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command line in this process."""
    from gradguard.cli import main

    def run(*args: str) -> Outcome:
        with pytest.raises(SystemExit) as ended:
            main([str(a) for a in args])
        captured = capsys.readouterr()
        return Outcome(int(ended.value.code or 0), captured.out, captured.err)

    return run


@pytest.fixture
def as_written() -> None:
    """For tests that put something of their own into the static half: one that is compiled would not see it."""
    from gradguard.static import flow

    if not flow.__file__.endswith(".py"):
        pytest.skip("the static half is compiled")


@pytest.fixture
def shell(project: Path) -> Shell:
    """Run Python in a process of its own: ``shell("-m", "gradguard", "check")``."""

    def run(
        *args: str, env: dict[str, str] | None = None, input: bytes | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        environment = {**os.environ, "PYTHONPATH": str(CHECKOUT), **(env or {})}
        return subprocess.run(
            [sys.executable, *args], cwd=project, env=environment, input=input, capture_output=True, check=False
        )

    return run


@pytest.fixture
def time_does_not_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a look may cost is for a user's comfort; on a loaded machine it would decide what a test sees."""
    from gradguard.runtime import census, escalation, tracer

    for module in (census, escalation, tracer):
        monkeypatch.setattr(module, "MAX_SECONDS", 60.0)
