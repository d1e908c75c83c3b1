"""``gradguard run`` in a fork of a process that has imported torch.

The imports take longer than what most of our programs do. Needs ``os.fork``.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

IMPORTED = ("torch", "torch._dynamo", "libcst", "rich.console")  # not gradguard, which notes where it was started


class Warm:
    """One such process. It runs one program after the other; each has the fork to itself.

    Args:
        environment: of the process and of its forks.
    """

    def __init__(self, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, arguments: list[str], folder: Path, environment: dict[str, str], output: Path) -> int:
        """Run ``gradguard`` and wait for its end.

        Args:
            arguments: of the command line.
            folder: the working directory.
            environment: what is set for this run alone.
            output: the file for what it prints.

        Returns:
            The exit status; of a signal, its negative number.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        job = {"arguments": arguments, "folder": str(folder), "environment": environment, "output": str(output)}
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def end(self) -> None:
        """End the process, which runs nothing now."""
        self._process.communicate()


def serve() -> None:
    """Fork for each line that asks for a run, and answer with its status."""
    for name in IMPORTED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.freeze()  # a look of the watch goes over all that the collector tracks
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _become(**json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _become(arguments: list[str], folder: str, environment: dict[str, str], output: str) -> NoReturn:
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    printed = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(printed, 1)
    os.dup2(printed, 2)
    os.environ.update(environment)
    os.chdir(folder)
    from gradguard.cli import main

    main(arguments)


if __name__ == "__main__":
    serve()
