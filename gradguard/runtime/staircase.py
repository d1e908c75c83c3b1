"""Memory that rises by even steps, far apart: an evaluation every so many steps, the end of each epoch.

So few stores are no trend yet (see ``trend``), but chance does not lay stairs of one height and one length. They are a
reason to look closely, and by themselves no reason to say anything: pure functions, no torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from statistics import median

from gradguard.runtime.trend import FIRST_STEPS, Trend

FEWEST = 3
"""Stairs that are needed."""

MOST = 24
"""More stairs than these are a trend."""

UNEVEN = 1.4
"""How many times as high, or as long, as the least one the greatest stair may be."""

LEAST_SAMPLES = 3
"""Samples on each stair: what rises all the time has none."""

CONFIDENCE = 0.6
"""Not enough to call it growth where no variable is found."""


def staircase(steps: Sequence[int], values: Sequence[float], least: float) -> Trend | None:
    """The even stairs of a lower envelope, if these are what it consists of.

    Args:
        steps: step numbers, ascending.
        values: the least value of the signal around each step.
        least: the height of a stair, in the signal's unit, below which it tells nothing.
    """
    first = next((i for i, step in enumerate(steps) if step > FIRST_STEPS), len(steps))
    steps, values = steps[first:], values[first:]
    if len(steps) < (FEWEST + 1) * LEAST_SAMPLES:
        return None
    floor = list(accumulate(reversed(values), min))[::-1]  # what it never falls below again
    if floor[-1] - floor[0] < FEWEST * least:
        return None  # the common case, for little
    noise = median(abs(b - a) for a, b in pairwise(values))
    stairs = _stairs(floor, max(least, 4 * noise, (floor[-1] - floor[0]) / MOST))
    if stairs and stairs[-1][0] == len(floor) - 1:  # a last sample may be anything
        steps, floor, stairs = steps[:-1], floor[:-1], stairs[:-1]
    for begun in range(3):  # the first ones may have had other things in them: what is made once
        found = _even(stairs[begun:], steps, floor)
        if found is not None:
            return found
    return None


def _stairs(floor: Sequence[float], least: float) -> list[tuple[int, float]]:
    """Where it rises, as the index of the first sample after it, and by how much; neighbours are one stair."""
    stairs: list[tuple[int, float]] = []
    for index, (before, after) in enumerate(pairwise(floor), 1):
        if after - before < least:
            continue
        if stairs and index - stairs[-1][0] < 2:
            stairs[-1] = index, stairs[-1][1] + after - before
        else:
            stairs.append((index, after - before))
    return stairs


def _even(stairs: Sequence[tuple[int, float]], steps: Sequence[int], floor: Sequence[float]) -> Trend | None:
    if len(stairs) < FEWEST:
        return None
    at, heights = [index for index, _ in stairs], [height for _, height in stairs]
    lengths = [steps[b] - steps[a] for a, b in pairwise(at)]
    last = steps[-1] - steps[at[-1]]
    samples = [b - a for a, b in pairwise([*at, len(floor)])]
    between = floor[-1] - floor[at[0] - 1] - sum(heights)
    if (
        max(heights) > UNEVEN * min(heights)
        or max(lengths) > UNEVEN * min(lengths)
        or last > UNEVEN * max(lengths)  # they have ended
        or min(samples[:-1]) < LEAST_SAMPLES
        or between > 0.2 * sum(heights)
    ):
        return None
    return Trend(median(heights) / median(lengths), steps[at[0]], CONFIDENCE, is_hint=True)
