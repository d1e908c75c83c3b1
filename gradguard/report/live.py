"""The live view of a run: the step, each signal as a sparkline, and what is known so far."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from gradguard.findings import is_beside
from gradguard.report.run_words import size

if TYPE_CHECKING:
    from gradguard.runtime.watch import Watch

BARS = "▁▂▃▄▅▆▇█"
ASCII_BARS = "_.-=+*%#"
POINTS = 32
REFRESHES_PER_SECOND = 4


class LiveView:
    """Redraws itself on stderr from a thread of its own, until it is stopped.

    Args:
        watch: what to show.
        console: where to; it should be a terminal.
    """

    def __init__(self, watch: Watch, console: Console) -> None:
        self._watch = watch
        self._console = console
        self._live = Live(console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._draw, name="gradguard live view", daemon=True)

    def start(self) -> None:
        """Begin to draw."""
        self._live.start()
        self._thread.start()

    def stop(self) -> None:
        """Draw no more; the last picture stays. The thread has ended when this returns."""
        self._stopped.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()
        self._live.update(self.picture(), refresh=True)
        self._live.stop()

    def say(self, line: str) -> None:
        """Print a line above the view."""
        self._live.console.print(line, soft_wrap=True, highlight=False, markup=False)

    def picture(self) -> Table:
        """What is known now."""
        table = Table.grid(padding=(0, 2))
        ascii_only = not (self._console.encoding or "").lower().startswith("utf")
        table.add_row(Text(f"step {self._watch.steps}", "bold"), Text(self._state()))
        for name, series in list(self._watch.series.items()):
            if name == "hooks" or is_beside(name) or series.last is None:
                continue
            last = f"{series.last:.0f}" if name == "graphs" else size(series.last)
            table.add_row(name, Text(sparkline(list(series.values), ascii_only), "cyan"), last)
        return table

    def _state(self) -> str:
        found = [d.leak for d in self._watch.found if d.excuse is None]
        if found:
            names = ", ".join(f"`{leak.holder.path}`" for leak in found if leak.holder)
            return f"leak: {names}"
        return "looking closely" if self._watch.is_diagnosing else "watching"

    def _draw(self) -> None:
        while not self._stopped.wait(1 / REFRESHES_PER_SECOND):
            self._live.update(self.picture(), refresh=True)


def sparkline(values: Sequence[float], ascii_only: bool = False) -> str:
    """``values`` as bars of eight heights, the latest at the right; at most ``POINTS`` of them."""
    bars = ASCII_BARS if ascii_only else BARS
    if len(values) > POINTS:
        values = [values[i * (len(values) - 1) // (POINTS - 1)] for i in range(POINTS)]
    low, high = min(values, default=0.0), max(values, default=0.0)
    height = (high - low) or 1.0
    return "".join(bars[min(int((v - low) / height * len(bars)), len(bars) - 1)] for v in values)
