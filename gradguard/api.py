"""The in-process API: ``gradguard.watch``, ``steps``, ``snapshot`` and ``show_graph``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TextIO

from gradguard.findings import Leak, RunReport
from gradguard.runtime.steps import steps
from gradguard.runtime.watch import Watch

if TYPE_CHECKING:
    from gradguard.runtime.graph import TensorGraph
    from gradguard.runtime.snapshot import Snapshot

__all__ = ["Watch", "show_graph", "snapshot", "steps", "watch"]


def watch(*, report: bool = True) -> Watch:
    """Watch the training loop inside ``with``; no argument is needed.

    A step ends where an optimizer steps (in a cycle of several, the last one). Without an optimizer it ends where a
    DataLoader is asked for its next item, else where the top-level module is called; ``guard.step()`` or
    ``gradguard.steps(loader)`` say it explicitly, and then count alone.

    Args:
        report: say on stderr when a leak is confirmed, and give the report at the end. ``guard.report`` has it
            (:class:`gradguard.findings.RunReport`) either way.

    Raises:
        RuntimeError: from ``with``, when this watch is on already.

    Example:
        >>> with gradguard.watch() as guard:          # doctest: +SKIP
        ...     train(model, loader)
        >>> guard.report.verdict                      # doctest: +SKIP
        'leak'
    """

    def ended(found: RunReport) -> RunReport:
        from gradguard.join import with_rules

        joined = with_rules(found)
        if report:
            _show(joined)
        return joined

    return Watch(on_confirm=_say if report else None, on_end=ended)


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
