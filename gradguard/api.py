"""The in-process API: ``gradguard.watch`` and ``gradguard.steps``."""

from __future__ import annotations

import sys

from gradguard.findings import Leak, RunReport
from gradguard.runtime.steps import steps
from gradguard.runtime.watch import Watch

__all__ = ["Watch", "steps", "watch"]


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
