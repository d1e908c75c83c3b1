"""Samples to growth: pure functions, no torch.

Growth is what the lower envelope does in every part of the run: a warm-up ends, a jump happens once, a saw-tooth comes
back, noise has no direction. What is left may still be a buffer that is filling or inputs that grow on purpose; only a
look at it tells, and that is not done here.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from operator import lt
from statistics import median

WINDOWS = 8
MIN_POINTS = 12
FEW_POINTS = 5
WARM_UPS = (0.1, 0.3, 0.5, 0.7, 0.85)
"""Shares of the run that may be warm-up; the least one after which the signal grows steadily is taken."""

LAST = (48, 24, 16)
"""So many of the last samples are looked at for growth that has begun late."""

FIRST_STEPS = 4
"""Optimizer state, allocator pools and autotuning belong to the first steps of any run."""


@dataclass(frozen=True, slots=True)
class Trend:
    """Steady growth.

    Args:
        slope: in the signal's unit per step.
        since: the step at which the stretch begins that was judged.
        confidence: from 0 to 1.
        is_hint: seen in little of the run, a few even stairs or its last steps; growth only where something is found
            that grows.
    """

    slope: float
    since: int
    confidence: float
    is_hint: bool = False


def trend(steps: Sequence[int], values: Sequence[float], floor: float) -> Trend | None:
    """The steady growth of a lower envelope, if there is any.

    Args:
        steps: step numbers, ascending.
        values: the least value of the signal around each step.
        floor: slopes below it are no growth, in the signal's unit per step.
    """
    first = next((i for i, step in enumerate(steps) if step > FIRST_STEPS), len(steps))
    for share in WARM_UPS:
        start = first + int((len(values) - first) * share)
        if len(values) - start < MIN_POINTS:
            return None
        found = _steady(steps[start:], values[start:], floor)
        if found:
            return found
    return None


def late(
    steps: Sequence[int], values: Sequence[float], recent: Sequence[tuple[int, float]], floor: float
) -> Trend | None:
    """The steady growth of the last samples of a long run, where that goes beyond whatever the run had reached before.

    Args:
        steps: of the whole run, as for :func:`trend`.
        values: of the whole run.
        recent: step and value of its last samples.
        floor: slopes below it are no growth, in the signal's unit per step.
    """
    for part in (recent[-count:] for count in LAST if count <= len(recent)):
        if part[0][0] <= FIRST_STEPS:
            continue
        found = _steady([step for step, _ in part], [value for _, value in part], floor)
        if found and is_beyond(steps, values, found.since):
            return replace(found, is_hint=True)
    return None


def is_back(steps: Sequence[int], values: Sequence[float], since: int) -> bool:
    """Whether a signal that grew until step ``since`` has given most of that growth back by the end."""
    before = [v for s, v in zip(steps, values) if FIRST_STEPS < s <= since]
    after = [v for s, v in zip(steps, values) if s > since]
    if len(before) < 4 or len(after) < 4:
        return False
    gained = before[-1] - min(before)
    return min(after[-max(len(after) // 4, 2) :]) < min(before) + 0.5 * gained


def is_beyond(steps: Sequence[int], values: Sequence[float], since: int) -> bool:
    """Whether a signal that grows from step ``since`` on goes, with most of that, beyond where it had ever been.

    A saw-tooth in the midst of a rise does not: it has been there, and came down again.
    """
    highest = max((v for s, v in zip(steps, values) if FIRST_STEPS < s < since), default=None)
    lowest = min(v for s, v in zip(steps, values) if s >= since)
    return highest is None or values[-1] - highest > 0.5 * (values[-1] - lowest)


def goes_on(
    steps: Sequence[int], values: Sequence[float], since: int, floor: float, fewest: int = FEW_POINTS
) -> bool | None:
    """Whether a signal's lows rise after step ``since``, by at least ``floor`` a step.

    None for fewer samples than ``fewest``, which is at least 2.
    """
    after = [(s, v) for s, v in zip(steps, values) if s > since]
    if len(after) < fewest:
        return None
    half = len(after) // 2
    (first, low), (last, high) = (min(part, key=lambda at: at[1]) for part in (after[:half], after[half:]))
    return high - low >= floor * (last - first)


def stands_still(steps: Sequence[int], values: Sequence[float], pause: int, slope: float) -> bool:
    """Whether a signal that grew by ``slope`` a step has hardly grown over the last ``pause`` steps."""
    if not steps:
        return False
    end = steps[-1]
    pause = max(
        pause, 2 * max((b - a for a, b in pairwise(steps[-6:])), default=1)
    )  # long runs are sampled now and then
    recent = [v for s, v in zip(steps, values) if s > end - pause]
    before = [v for s, v in zip(steps, values) if end - 2 * pause < s <= end - pause]
    return bool(before) and min(recent) - min(before) < 0.15 * slope * pause


def has_fallen(steps: Sequence[int], values: Sequence[float], least: float = 4096) -> bool:
    """Whether a signal has once given back most of what it had gained: a collection was emptied.

    Args:
        steps: step numbers, ascending.
        values: the least value of the signal around each step.
        least: what a fall must be more than, in the signal's unit.
    """
    lowest = highest = None
    for step, value in zip(steps, values):
        if step <= FIRST_STEPS:
            continue
        if lowest is None or highest is None:
            lowest = highest = value
        highest = max(highest, value)
        if highest - value > 0.6 * (highest - lowest) > least:
            return True
        lowest = min(lowest, value)
    return False


def _equal_stretches(steps: Sequence[int], windows: int) -> list[int]:
    """The indices that part a run into stretches of equally many steps, however many samples each has."""
    width = (steps[-1] + 1 - steps[0]) / windows
    bounds = [bisect_left(steps, steps[0] + width * i) for i in range(windows)]
    return sorted({*bounds, len(steps)})


def _may_rise(steps: Sequence[int], values: Sequence[float]) -> bool:
    """Whether the least value of all is in the first of equal stretches, and that of the last one is above it."""
    windows = min(WINDOWS, len(values) // 2)
    width = (steps[-1] + 1 - steps[0]) / windows
    least = min(values)
    end, begin = bisect_left(steps, steps[0] + width), bisect_left(steps, steps[0] + width * (windows - 1))
    return min(values[begin:]) > least and min(values[:end]) == least


def _steady(steps: Sequence[int], values: Sequence[float], floor: float) -> Trend | None:
    if not _may_rise(steps, values):
        return None  # the common case, for next to nothing
    bounds = _equal_stretches(steps, min(WINDOWS, len(values) // 2))
    windows = len(bounds) - 1
    if windows < WINDOWS // 2:
        return None
    lows = [min(values[a:b]) for a, b in pairwise(bounds)]
    if sum(map(lt, lows, lows[1:])) < windows - 2:
        return None
    # Each low at its own step: long runs are sampled ever more rarely, so the middle of a window is not where it lies.
    at = [steps[values.index(low, a, b)] for low, (a, b) in zip(lows, pairwise(bounds))]
    # A jump in the midst lies between most pairs of windows, but between few of those that are near each other.
    near = [(i, j) for i, j in combinations(range(windows), 2) if j - i <= windows // 2]
    slope = median((lows[j] - lows[i]) / (at[j] - at[i]) for i, j in near)
    rise = lows[-1] - lows[0]
    if slope < floor:
        return None
    gains = [b - a for a, b in pairwise(lows)]
    expected = [slope * (b - a) for a, b in pairwise(at)]
    rising = sum(gain > 0.25 * e for gain, e in zip(gains, expected))
    still = sum(gains[-2:]) > 0.25 * sum(expected[-2:])
    if rising < windows - 2 or not still or max(gains) > 0.6 * rise:
        return None
    residuals = [low - lows[0] - slope * (step - at[0]) for low, step in zip(lows, at)]
    bent = median(abs(r - median(residuals)) for r in residuals)
    jumpy = median(abs(v - u - slope * (t - s)) for (s, u), (t, v) in pairwise(zip(steps, values)))
    if rise < 4 * bent or rise < 3 * jumpy:
        return None
    return Trend(slope, steps[0], round(rising / (windows - 1) * (1 - bent / rise), 2))
