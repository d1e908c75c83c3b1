"""What the outputs of a run say in the same words."""

from __future__ import annotations

import re

from gradguard.findings import Forecast, Growth, Leak, OutOfMemory, RunReport

KINDS = {
    "graph": "keeps autograd graphs",
    "tensor": "keeps tensors",
    "view": "keeps views, and with each one a whole storage",
    "gradient": "keeps gradients",
    "hook": "collects hooks",
    "cache": "is a cache that only grows",
    "cycle": "is a reference cycle that holds graphs",
    "exception": "keeps exceptions, and with each one its frames",
    "snapshot": "keeps copies of a model",
    "optimizer": "grows with each step",
    "worker": "grows in worker processes",
    "collected": "collects results",
    "heap": "keeps growing",
}


def what(leak: Leak) -> str:
    """What a leak does, in a few words."""
    if leak.kind == "cycle" and leak.freed_by_gc:
        return "is a reference cycle: what it holds waits for the cyclic collector"
    return KINDS[leak.kind]


def size(count: float | None) -> str:
    """Bytes in a readable unit: ``8.5 KB``."""
    if count is None:
        return "?"
    value = abs(count)
    for unit in ("B", "KB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            break
        value /= 1000
    digits = f"{value:.0f}" if unit == "B" or value >= 100 else f"{value:.1f}"
    return f"{'-' if count < 0 else ''}{digits} {unit}"


def rate(leak: Leak) -> str:
    """What a leak gains in a step."""
    if leak.kind == "hook":
        count = leak.per_step or 1.0
        return f"+{count:g} hook{'' if count == 1 else 's'} a step"
    if leak.bytes_per_step is None:
        return _gained(leak.per_step or 1.0)
    return f"+{size(leak.bytes_per_step)} a step"


def growth_rate(grown: Growth) -> str:
    """How a signal grows: ``+8.5 KB a step``, or ``flat``."""
    if grown.per_step is not None:
        return f"+{grown.per_step:.2g} a step" if grown.per_step else "flat"
    slope = grown.bytes_per_step or 0.0
    since = f" since step {grown.since_step}" if grown.since_step and grown.since_step > 30 else ""
    return f"+{size(slope)} a step{since}" if slope else "flat"


def gains(leak: Leak) -> str:
    """What the holder is, and how many it gains: ``(list, +1 a step)``."""
    if leak.holder is None:
        return ""
    count = f", {_gained(leak.per_step)}" if leak.per_step and leak.kind != "hook" else ""
    return f"({leak.holder.type}{count})"


def _gained(per_step: float) -> str:
    """``+1 a step``; of what is stored rarely, how rarely: ``+1 in 40 steps``."""
    return f"+{per_step:.3g} a step" if per_step > 0.5 else f"+1 in {round(1 / per_step)} steps"


def where(leak: Leak) -> str:
    """``train.py:41``, or nothing."""
    return f"{leak.stored_at.path}:{leak.stored_at.line}" if leak.stored_at else ""


def holder(leak: Leak) -> str:
    """The holder's path in backquotes."""
    return f"`{leak.holder.path}`" if leak.holder else "something without a name"


def headline(report: RunReport) -> str:
    """The verdict in one line."""
    steps = f"{report.steps} steps"
    if failed_at_once(report):
        return "Too short: the program failed before any step was seen."
    if report.verdict == "too-short" and report.steps >= FEWEST:
        counted = COUNTED.get(report.step_source or "", "steps")
        return f"Too short: {report.steps} {counted}; no optimizer had stepped yet."
    if report.verdict == "too-short":
        seen = "1 step" if report.steps == 1 else steps
        rest = FEWEST - report.steps
        return f"Too short: {seen} seen, {rest} more {'is' if rest == 1 else 'are'} needed to tell growth from warm-up."
    if report.verdict == "clean" and report.out_of_memory is not None:
        return f"Out of memory: it ended after {steps}, of which none was seen to leave anything behind."
    if report.verdict == "clean":
        gained = _gained_all_the_same(report)
        word, note = ("Memory is clean, gradients are not", "; see the note") if adds_up(report) else ("Clean", "")
        if gained:
            return f"{word}: no leak was found over {steps}, in which memory gained {size(gained)} a step{note}."
        return f"{word}: nothing keeps growing over {steps}{note}."
    if not report.leaks:
        return f"Suspect: {_grows_without_a_name(report, steps)}, and no variable was found that explains it."
    first = report.leaks[0]
    at = f" ({where(first)})" if first.stored_at else ""
    more = f", and {len(report.leaks) - 1} more" if len(report.leaks) > 1 else ""
    word = "Leak" if report.verdict == "leak" else "Suspect"
    is_told = first.kind == "collected" or first.freed_by_gc  # what there is to say of it has been said
    open_yet = "; not yet confirmed" if report.verdict == "suspect" and not is_told else ""
    return f"{word}: {holder(first)} {what(first)}, {rate(first)}{at}{more}{open_yet}."


def failed_at_once(report: RunReport) -> bool:
    """Whether the program ended with an error and without a step: of its memory there is nothing to say."""
    return not report.steps and bool(report.exit_status) and not (report.leaks or report.out_of_memory)


def adds_up(report: RunReport) -> bool:
    """Whether a note says by its rule that gradients are mishandled: no memory grows of it, and the loss goes wrong."""
    return any(_OF_GRADIENTS.search(note) for note in report.notes)


_OF_GRADIENTS = re.compile(r"\(GG2\d\d\)")


def _gained_all_the_same(report: RunReport) -> float | None:
    """Bytes a step of a run without a leak: a buffer that fills, or less than libraries may keep for themselves."""
    memory = report.growth.get("heap") or report.growth.get("process")
    return memory.bytes_per_step if memory is not None else None


def _grows_without_a_name(report: RunReport, steps: str) -> str:
    """What grows: not through tensors, where all that Python sees of them would be less than the growth."""
    rest, graphs = report.unexplained_bytes_per_step or 0.0, report.growth.get("graphs")
    tensors = report.peak.get("tensors")
    if tensors is None or graphs is None or graphs.per_step or rest * report.steps < TIMES_THE_TENSORS * tensors:
        return f"memory grows over {steps}"
    return f"memory grows by {size(rest)} a step over {steps}, but not through tensors"


TIMES_THE_TENSORS = 2
"""Growth of so many times what all tensors have together lies elsewhere."""

COUNTED = {"module": "module calls", "loader": "batches", "backward": "backwards"}
"""What the steps of a run were that ended before the first one of its optimizer, by their source."""

FEWEST = 30
"""Steps below which a run is too short."""

LEAST_LOOK = 0.05
"""Seconds; a close look that took less is not worth a word."""

LEAST_UNEXPLAINED = 4_096.0
"""Bytes a step; less may be what a library makes for itself."""

LEAST_SHARE = 0.1


def unexplained(report: RunReport) -> str | None:
    """The growth beside the leaks: ``another +50 KB a step is held by no variable that was found``; None if slight."""
    rest = report.unexplained_bytes_per_step or 0.0
    total = rest + sum(leak.bytes_per_step or 0.0 for leak in report.leaks)
    if not report.leaks or rest < LEAST_UNEXPLAINED or rest < LEAST_SHARE * total:
        return None
    return f"another +{size(rest)} a step ({rest / total:.0%} of the growth) is held by no variable that was found"


def cost(report: RunReport) -> str | None:
    """What it took to look closely, if that was done: ``looking closely took 0.4 s``."""
    seconds = report.diagnosis_seconds or 0.0
    return f"looking closely took {seconds:.1f} s" if seconds >= LEAST_LOOK else None


def memory_ended(ended: OutOfMemory) -> str:
    """Where, and what was said then: ``out of memory at step 4312 (cuda): CUDA out of memory``."""
    return f"out of memory at step {ended.step} ({ended.device}): {ended.message}"


def forecast(coming: Forecast) -> str:
    """When memory ends: ``At this rate out of memory (cuda:0) in about 2,100 steps (1 h 40 min).``"""
    steps = round(coming.steps_left, -max(len(str(coming.steps_left)) - 2, 0))  # two digits: it is a guess
    left = f" ({duration(coming.seconds_left)})" if coming.seconds_left is not None else ""
    return f"At this rate out of memory ({coming.device}) in about {steps:,} steps{left}."


def duration(seconds: float) -> str:
    """``1 h 40 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    hours = minutes // 60
    return f"{hours} h {minutes % 60} min" if hours < 48 else f"{hours // 24} days"
