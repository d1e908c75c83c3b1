"""Work on many files in several processes: they are copies of this one, and send back what they found."""

from __future__ import annotations

import os
import signal
import struct
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from gradguard.static.last_run import Reading
    from gradguard.static.reader import Reader

_T = TypeVar("_T")
_R = TypeVar("_R")

MOST_JOBS = 4
"""What is used when nobody says how many: each process reads for itself what its files share with the others'."""

_BYTES_FOR_TWO = 1_000_000
_BATCHES_EACH = 32
_MOST_BATCHES = 500
_NUMBER = struct.Struct("i")


def jobs_for(size: int) -> int:
    """How many processes are worth starting.

    Args:
        size: of the files to read, in bytes.
    """
    return min(_processors(), MOST_JOBS) if size >= _BYTES_FOR_TWO else 1


def read(reader: Reader, paths: Sequence[Path], jobs: int) -> Reading:
    """What is found in some files: each process takes the next few files when it is done with the last.

    Args:
        reader: what reads them; each process has its own copy.
        paths: files that stand beside each other share the most, and are read by one process where possible.
        jobs: how many processes read, this one included.
    """
    jobs = min(jobs, len(paths))
    if jobs < 2 or not _can_fork():
        return reader.read(paths)
    reader.project.survey.prepare()
    size = max(1, len(paths) // min(jobs * _BATCHES_EACH, _MOST_BATCHES))
    batches = [paths[start : start + size] for start in range(0, len(paths), size)]
    bytes_of = reader.project.texts.bytes_of
    batches.sort(key=lambda batch: -sum(len(bytes_of(path)) for path in batch))  # else all wait for a long last one
    numbers = _pipe_of(range(len(batches)))
    parent = os.getpid()

    def next_batch() -> Sequence[Path]:
        if os.getpid() != parent and os.getppid() != parent:
            return ()  # nobody waits any more
        number = os.read(numbers, _NUMBER.size)
        return batches[_NUMBER.unpack(number)[0]] if number else ()

    children = [_Child(partial(reader.read_all, next_batch)) for _ in range(jobs - 1)]
    try:
        found = reader.read_all(next_batch)
        for child in children:
            reading = child.answer()
            if reading is not None:
                found.add(reading)
    finally:
        for child in children:
            child.end()
        os.close(numbers)
    missing = [path for path in paths if path not in found.parts]  # a process was killed: out of memory
    if missing:
        found.add(reader.read(missing))
    return found


def mapped(work: Callable[[_T], _R], items: Sequence[_T], jobs: int) -> list[_R]:
    """What a function makes of each of some things, in their order.

    Args:
        work: the function; what it makes of them is sent from one process to another.
        jobs: how many processes work, this one included.
    """
    jobs = min(jobs, len(items))
    if jobs < 2 or not _can_fork():
        return list(map(work, items))

    def share(number: int) -> list[_R]:
        return list(map(work, items[number::jobs]))

    children = [_Child(partial(share, number)) for number in range(1, jobs)]
    try:
        shares = [share(0)]
        for child in children:
            answer = child.answer()
            shares.append(share(len(shares)) if answer is None else answer)
    finally:
        for child in children:
            child.end()
    return [shares[place % jobs][place // jobs] for place in range(len(items))]


def _pipe_of(numbers: Iterable[int]) -> int:
    """The end of a pipe from which each number is read once, whoever reads it; then the pipe is at its end.

    No lock is held that a killed process could keep. All numbers fit into the least buffer of a pipe.
    """
    reading, writing = os.pipe()
    os.write(writing, b"".join(map(_NUMBER.pack, numbers)))
    os.close(writing)
    return reading


class _Child(Generic[_R]):
    """One more process.

    Args:
        work: what it does; its answer is sent to this process.
    """

    def __init__(self, work: Callable[[], _R]) -> None:
        import multiprocessing  # costs a check of one file more than it can win

        context: Any = multiprocessing.get_context("fork")
        self._answer, sender = context.Pipe(duplex=False)
        self._process = context.Process(target=_work, args=(work, self._answer, sender), daemon=True)
        self._process.start()
        sender.close()

    def answer(self) -> _R | None:
        """What it found; none when it died."""
        try:
            answer: _R = self._answer.recv()
        except EOFError:
            return None
        return answer

    def end(self) -> None:
        self._process.terminate()
        self._process.join()


def _work(work: Callable[[], object], answer: Connection, sender: Connection) -> None:
    answer.close()  # else this process would wait for itself when nobody else reads what it sends
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is this process's parent that is interrupted
    with suppress(BrokenPipeError):
        sender.send(work())
    sender.close()


def _can_fork() -> bool:
    """Whether a process can be copied: not on Windows, and not safely on macOS."""
    return sys.platform == "linux"


def _processors() -> int:
    """Those that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1
