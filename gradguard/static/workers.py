"""Reading many files in several processes: each takes the next few files when it is done with the last."""

from __future__ import annotations

import os
import signal
import struct
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradguard.static.last_run import Reading

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from gradguard.static.reader import Reader

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
    """What is found in some files.

    Args:
        reader: what reads them; each process has its own copy.
        paths: files that stand beside each other share the most, and are read by one process where possible.
        jobs: how many processes read, this one included.
    """
    jobs = min(jobs, len(paths))
    if jobs < 2 or not _can_fork():
        return reader.read(paths)
    import multiprocessing  # costs a check of one file more than it can win

    reader.project.survey.prepare()
    size = max(1, len(paths) // min(jobs * _BATCHES_EACH, _MOST_BATCHES))
    batches = [paths[start : start + size] for start in range(0, len(paths), size)]
    numbers = _pipe_of(range(len(batches)))
    parent, context = os.getpid(), multiprocessing.get_context("fork")

    def next_batch() -> Sequence[Path]:
        if os.getpid() != parent and os.getppid() != parent:
            return ()  # nobody waits any more
        number = os.read(numbers, _NUMBER.size)
        return batches[_NUMBER.unpack(number)[0]] if number else ()

    children = [_Child(context, reader, next_batch) for _ in range(jobs - 1)]
    try:
        found = reader.read_all(next_batch)
        for child in children:
            reading = child.reading()
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


def _pipe_of(numbers: Iterable[int]) -> int:
    """The end of a pipe from which each number is read once, whoever reads it; then the pipe is at its end.

    No lock is held that a killed process could keep. All numbers fit into the least buffer of a pipe.
    """
    reading, writing = os.pipe()
    os.write(writing, b"".join(map(_NUMBER.pack, numbers)))
    os.close(writing)
    return reading


class _Child:
    """One more process."""

    def __init__(self, context: Any, reader: Reader, next_batch: Callable[[], Sequence[Path]]) -> None:
        self._answer, sender = context.Pipe(duplex=False)
        self._process = context.Process(target=_work, args=(reader, next_batch, self._answer, sender), daemon=True)
        self._process.start()
        sender.close()

    def reading(self) -> Reading | None:
        """What it found; none when it died."""
        try:
            reading: Reading = self._answer.recv()
        except EOFError:
            return None
        return reading

    def end(self) -> None:
        self._process.terminate()
        self._process.join()


def _work(reader: Reader, next_batch: Callable[[], Sequence[Path]], answer: Connection, sender: Connection) -> None:
    answer.close()  # else this process would wait for itself when nobody else reads what it sends
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is this process's parent that is interrupted
    with suppress(BrokenPipeError):
        sender.send(reader.read_all(next_batch))
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
