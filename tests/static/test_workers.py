from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from gradguard import catalogue
from gradguard.config import Settings
from gradguard.static import workers
from gradguard.static.discover import discover
from gradguard.static.engine import check
from gradguard.static.last_run import Part
from gradguard.static.reader import Reader
from tests.support import CHECKOUT

FIXTURES = CHECKOUT / "fixtures" / "leaks"
needs_fork = pytest.mark.skipif(sys.platform != "linux", reason="processes are only copied on Linux")


@needs_fork
def test_several_processes_find_what_one_finds() -> None:
    settings = Settings(FIXTURES)
    files = discover([FIXTURES], settings).files
    one, three = (check(files, settings, catalogue.load(), jobs=jobs) for jobs in (1, 3))
    assert one == three
    assert one.findings


@needs_fork
def test_what_a_killed_process_had_taken_is_read_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    settings, parent, part = Settings(FIXTURES), os.getpid(), Reader._part
    files = discover([FIXTURES], settings).files
    expected = check(files, settings, catalogue.load(), jobs=1)

    def dies(reader: Reader, path: Path) -> Part:
        if os.getpid() != parent:
            os._exit(9)
        return part(reader, path)

    monkeypatch.setattr(Reader, "_part", dies)
    assert check(files, settings, catalogue.load(), jobs=2) == expected


def test_a_small_tree_is_read_by_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_processors", lambda: 64)
    assert workers.jobs_for(10_000) == 1
    assert workers.jobs_for(50_000_000) == workers.MOST_JOBS
