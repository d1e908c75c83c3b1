"""The in-process API: ``gradguard.watch``, ``steps``, ``snapshot`` and ``show_graph``."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TextIO

from gradguard import ending
from gradguard.findings import Leak, RunReport
from gradguard.runtime.recording import Recording
from gradguard.runtime.steps import steps
from gradguard.runtime.usercode import START
from gradguard.runtime.watch import Watch

if TYPE_CHECKING:
    from gradguard.alive import Snapshot, TensorGraph

__all__ = ["LeakError", "LeakWarning", "Watch", "show_graph", "snapshot", "steps", "watch"]

OnLeak = Literal["warn", "raise"] | Callable[[Leak], object]


class LeakWarning(UserWarning):
    """A leak was confirmed (``on_leak="warn"``)."""


class LeakError(AssertionError):
    """A leak was confirmed (``on_leak="raise"``, ``guard.check()``).

    An AssertionError: in a test it is a failure, not an error.

    Args:
        leak: the first one.
    """

    def __init__(self, message: str, leak: Leak | None = None) -> None:
        super().__init__(message)
        self.leak = leak


def watch(*, report: bool = True, on_leak: OnLeak | None = None, record: str | os.PathLike[str] | None = None) -> Guard:
    """Watch the training loop inside ``with``; no argument is needed.

    A step ends where an optimizer steps (in a cycle of several, the last one). Without an optimizer it ends where a
    DataLoader is asked for its next item, else where the top-level module is called, or a gradient is asked for;
    ``guard.step()`` or ``gradguard.steps(loader)`` say it explicitly, and then count alone.

    Args:
        report: say on stderr when a leak is confirmed, and give the report at the end. ``guard.report`` has it
            (:class:`gradguard.findings.RunReport`) either way.
        on_leak: what else to do with each confirmed leak, once: ``"warn"`` gives a :class:`LeakWarning`, ``"raise"``
            ends the loop with a :class:`LeakError`, and a function is called with the
            :class:`gradguard.findings.Leak`. It happens in the step in which the leak is confirmed; for kinds that
            only the end of the run tells from a buffer that fills, at the end.
        record: the file to record the run in; it must not exist. ``gradguard report`` and ``compare`` read it.

    Raises:
        ValueError: ``on_leak`` is none of these.
        OSError: the recording cannot be written.
        RuntimeError: from ``with``, when this watch is on already.

    Example:
        >>> with gradguard.watch() as guard:          # doctest: +SKIP
        ...     train(model, loader)
        >>> guard.report.verdict                      # doctest: +SKIP
        'leak'
    """
    if on_leak is not None and not callable(on_leak) and on_leak not in ("warn", "raise"):
        raise ValueError(f'on_leak={on_leak!r}: it is "warn", "raise" or a function that takes the leak')
    recording = None
    if record is not None:
        from gradguard.record import begin

        recording = begin(Path(record), tuple(sys.argv))
    return Guard(report, on_leak, recording)


class Guard(Watch):
    """A watch that a program puts around its own loop, and that says there what it finds; :func:`watch` makes it.

    Args:
        report: on stderr.
        on_leak: what else to do with a leak.
        recording: where the run is written down.
    """

    def __init__(self, report: bool, on_leak: OnLeak | None, recording: Recording | None) -> None:
        super().__init__(
            on_confirm=self._leak_confirmed,
            on_found=lambda leaks: ending.write_found(recording, leaks),
            on_end=self._ended,
            command=tuple(sys.argv),
            recording=recording,
        )
        self._says = report
        self._on_leak = on_leak
        self._told: set[str] = set()

    def check(self) -> None:
        """Fail if what was watched leaks; for tests, after the ``with`` block.

        Raises:
            LeakError: a leak is confirmed. The message is the report.
            RuntimeError: the watch is not over yet.
        """
        if self.report is None:
            raise RuntimeError("check() tells how it ended: call it after the `with` block")
        if self.report.verdict == "leak":
            from gradguard.report.run_line import lines

            raise LeakError("\n".join(lines(self.report)), self.report.leaks[0])

    def __enter__(self) -> Guard:
        super().__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        handled = super().__exit__(kind, error, traceback)
        if error is None or self._on_leak != "raise":  # an error that is on its way is not replaced by ours
            self._act_on_the_rest()
        return handled

    def _leak_confirmed(self, leak: Leak) -> None:
        """A leak is confirmed, and the run goes on."""
        if self._says:
            with suppress(Exception):  # the report says it again
                _say(leak)
        ending.write_down(self._recording, leak)
        self._act(leak)

    def _ended(self, found: RunReport) -> RunReport:
        """The watch is over; what is returned is its report."""
        report = ending.written_down(self._recording, ending.explained(found, reads_source=False))
        if self._says:
            try:
                _show(report)
            except Exception as fault:
                ending.say_plainly(report, fault, sys.stderr)
        return report

    def _act_on_the_rest(self) -> None:
        """Do with what only the end of the run has confirmed what was asked for."""
        if self.report is not None and self.report.verdict == "leak":
            for leak in self.report.leaks:
                if leak.kind != "collected":
                    self._act(leak)

    def _act(self, leak: Leak) -> None:
        path = leak.holder.path if leak.holder is not None else "?"
        if self._on_leak is None or path in self._told:
            return
        self._told.add(path)
        from gradguard.join import with_rule
        from gradguard.report.run_line import confirmed

        if callable(self._on_leak):
            self._on_leak(with_rule(leak))
        elif self._on_leak == "raise":
            raise LeakError(confirmed(leak), with_rule(leak))
        elif leak.stored_at is not None:  # as if the statement itself had warned
            file = os.path.join(START, leak.stored_at.path)
            warnings.warn_explicit(confirmed(leak), LeakWarning, file, leak.stored_at.line)
        else:
            warnings.warn(confirmed(leak), LeakWarning, stacklevel=2)


def snapshot() -> Snapshot:
    """What is alive now: bytes and storages by kind and device, and the variables that hold most of them.

    ``print(gradguard.snapshot())`` gives plain lines, ``gradguard.snapshot().show()`` tables on stderr. It takes some
    hundredths of a second, a second at most, changes nothing and keeps nothing alive.

    Example:
        >>> gradguard.snapshot().bytes("parameters")  # doctest: +SKIP
        44702464
    """
    from gradguard.runtime.snapshot import take

    return take(sys._getframe(1))


def show_graph(tensor: Any, *, file: TextIO | None = None) -> None:
    """Print the autograd graph of ``tensor``: what made it, from what, and what each node saved for backward.

    Along the chain from the tensor back to the leaves; what else goes into a node is indented below it, ``-> 3`` is
    the node with the number 3, and ``<-`` are leaves. A part that repeats is said once. Bytes count each storage once,
    without parameters and buffers. Neither the graph nor the hooks on it are touched, and nothing is kept alive.

    Args:
        tensor: any tensor; why there is no graph is said where there is none.
        file: where to; stderr when None.

    Raises:
        TypeError: if ``tensor`` is none.
    """
    from gradguard.runtime.graph import graph_of

    graph = graph_of(tensor, sys._getframe(1))
    _print_graph(graph, file or sys.stderr)


def _print_graph(graph: TensorGraph, file: TextIO) -> None:
    try:
        from gradguard.report.graph_tree import show
    except ImportError:
        from gradguard.report.graph_line import lines

        for line in lines(graph):
            print(line, file=file)
        return
    show(graph, file)


def _say(leak: Leak) -> None:
    from gradguard.report.run_line import confirmed

    print(confirmed(leak), file=sys.stderr, flush=True)


def _show(report: RunReport) -> None:
    """The report on stderr: with rich where it is installed, in plain lines where it is not."""
    try:
        from gradguard.report.run_console import to_stderr
    except ImportError:
        from gradguard.report.run_line import lines

        for line in lines(report):
            print(line, file=sys.stderr)
        return
    to_stderr(report)
