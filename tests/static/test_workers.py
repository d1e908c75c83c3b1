from __future__ import annotations

import os
import subprocess
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


@pytest.mark.usefixtures("as_written")
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


@pytest.mark.parametrize("jobs", [1, 2, 3, 20])
def test_what_several_processes_make_is_in_order(jobs: int) -> None:
    assert workers.mapped(lambda number: number * number, range(10), jobs) == [n * n for n in range(10)]


@needs_fork
def test_a_share_is_worked_on_in_another_process_or_here_where_that_is_killed() -> None:
    parent = os.getpid()

    def where(number: int) -> int:
        if os.getpid() != parent and number == 4:
            os._exit(9)
        return os.getpid()

    first, second, *_ = workers.mapped(where, range(4), 2)
    assert first == parent != second
    assert workers.mapped(where, [1, 4], 2) == [parent, parent]


SLOW = """
import sys, time
from pathlib import Path
from gradguard import catalogue
from gradguard.config import Settings
from gradguard.static.discover import discover
from gradguard.static.engine import check
from gradguard.static.reader import Reader

part = Reader._part

def slowly(reader, path):
    print("reading", flush=True)
    time.sleep(0.2)
    return part(reader, path)

Reader._part = slowly
settings = Settings(Path(sys.argv[1]))
check(discover([Path(sys.argv[1])], settings).files, settings, catalogue.load(), jobs=2)
"""


@needs_fork
def test_a_process_ends_with_its_parent() -> None:
    parent = subprocess.Popen([sys.executable, "-c", SLOW, str(FIXTURES)], cwd=CHECKOUT, stdout=subprocess.PIPE)
    assert parent.stdout is not None
    for _ in range(3):  # the second process was started before the first one reads
        parent.stdout.readline()
    parent.kill()
    parent.wait()
    assert parent.stdout.read().count(b"reading") < 10  # the pipe is at its end: nobody has it open any more


@pytest.mark.usefixtures("as_written")
def test_a_small_tree_is_read_by_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_processors", lambda: 64)
    assert workers.jobs_for(10_000) == 1
    assert workers.jobs_for(50_000_000) == workers.MOST_JOBS
