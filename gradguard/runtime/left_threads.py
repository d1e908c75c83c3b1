"""Threads that are begun again and again, and never end: each keeps its stack, and all that its function has.

A prefetching thread whose queue is full waits for ever once nobody takes from that queue.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import CodeType, FrameType

from gradguard.findings import Holder, Leak, Place
from gradguard.runtime import advice, origin
from gradguard.runtime.diagnosed import Diagnosed
from gradguard.runtime.roots import other_threads
from gradguard.runtime.source import Sources
from gradguard.runtime.usercode import user_frames

LEAST = 4
"""Threads: fewer more of them may be a pool that is being filled."""

FEW = 4
"""Steps for each of which there is a thread more."""


@dataclass(frozen=True, slots=True)
class LeftThreads:
    """Threads that one function of the user's runs in, more of them than before.

    Args:
        code: of the outermost such function.
        line: where the last of them is in it.
        gained: how many more there are.
        steps: since then.
    """

    code: CodeType
    line: int
    gained: int
    steps: int


def counted() -> Counter[CodeType]:
    """How many threads run each function of the user's, told by the outermost one on their stacks."""
    return Counter(frame.f_code for frame in _outermost())


def _outermost() -> list[FrameType]:
    return [frames[0] for top in other_threads() if (frames := user_frames(top))]


def grown(before: Mapping[CodeType, int], steps: int) -> LeftThreads | None:
    """The function for which there are more threads than before, one for every few steps; None where there is none.

    Args:
        before: what ``counted`` told so many steps ago.
    """
    now = _outermost()
    lines = {frame.f_code: frame.f_lineno for frame in now}
    gains = Counter(frame.f_code for frame in now) - Counter(before)
    code, gained = next(iter(gains.most_common(1)), (None, 0))
    if code is None or gained < max(LEAST, steps // FEW):
        return None
    return LeftThreads(code, lines[code], gained, steps)


def explained(left: LeftThreads, sources: Sources, step: int, rate: float) -> Diagnosed:
    """What is to be said of them: no variable of the program need hold them.

    Args:
        rate: bytes that memory grows by in a step.
    """
    code = left.code
    name = getattr(code, "co_qualname", code.co_name).replace("<locals>.", "")
    waits = sources.place(code.co_filename, left.line, code.co_name)
    begun = _where_begun(code, sources)
    at = f"; the last one is at {waits.path}:{waits.line}" if waits is not None else ""
    leak = Leak(
        kind="heap",
        holder=Holder(code.co_name, f"threads in {name}", "threading.Thread", "internal"),
        bytes_per_step=None,
        per_step=left.gained / left.steps,
        explained=None,
        stored_at=begun or waits,
        also_stored_at=(),
        devices=("cpu",),
        advice=advice.for_leak("threads", None, code.co_name, None, trains=True) + at,
    )
    return Diagnosed(leak, rate, 0.0, False, None, None, step, rate)


def _where_begun(code: CodeType, sources: Sources) -> Place | None:
    """The statement that gives the function to a thread; of a thread's own ``run``, none."""
    found = origin.calls_with(sources, rf"(?:Thread|Timer|submit|apply_async)\(.*\b{re.escape(code.co_name)}\b")
    where = next(((filename, stmt) for filename, stmt in found if filename == code.co_filename), None)
    return sources.place(where[0], where[1].lineno, code.co_name) if where is not None else None
