"""What is said at the end: pure functions over samples and diagnoses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gradguard.findings import Forecast, Growth, Leak, RunReport, is_beside
from gradguard.runtime.out_of_memory import out_of_memory
from gradguard.runtime.series import Series
from gradguard.runtime.staircase import staircase
from gradguard.runtime.trend import MIN_POINTS, Trend, has_fallen, is_back, is_beyond, late, stands_still, trend
from gradguard.runtime.usercode import START

if TYPE_CHECKING:
    from gradguard.runtime.diagnosed import Diagnosed

SHORT = 30
"""Fewer steps than this say nothing."""

UNATTRIBUTED_FLOOR = 4_096.0
"""Bytes a step below which growth that no variable explains is not worth a word."""

UNATTRIBUTED_LEAST = 1_000_000.0
"""Bytes in all below which it is not, either: libraries below have caches (oneDNN keeps what it made for a shape)."""

LARGE_BUFFER = 512 << 20
"""What is bounded and will hold more than this many bytes when it is full is as good as unbounded."""

BYTES_OF_A_NODE = 800.0
"""Of host memory, measured on torch 2.13: what stays of an autograd node when its saved tensors are freed."""

MOST_OF_A_NODE = 2 * BYTES_OF_A_NODE
"""What grows beyond that is not in the nodes, whoever holds them."""

MOST_OF_A_TOOTH = 1.5
"""Times the garbage of a step: memory that rises no faster than that rises by garbage."""

SURE = 0.8
COUNTS = ("graphs", "hooks", "tensors.count", "tensors.attached")
"""Signals that are not in bytes."""


FLOORS = {"graphs": 0.02, "hooks": 0.01, "process": 65_536.0, "tensors.count": 0.02, "tensors.attached": 0.02}
BYTES_FLOOR = 1_024.0
"""Bytes a step: a clean loop moves the heap by some hundred, a list of detached losses by less than a thousand."""


STAIR = 16_384.0
"""Bytes: a stair below it may be anything that a program makes for itself now and then."""

NOISY = ("process", "tensors", "tensors.count", "tensors.attached", "hooks")
"""Signals whose stairs tell nothing: read in pages, or rarely; one hook more at times is told by steady growth."""


MANY_GRAPHS = 8
"""Graphs of earlier steps that came to be alive at once: then their number shows what is kept."""

MOST_BESIDE = 20
"""How many times as fast as a collection memory may have grown where it is judged by what the collection took."""

SLOW_FLOOR = 16.0
"""Bytes a step: where an old graph stays every so many steps, that is what may be left of it."""


def growing(series: Mapping[str, Series]) -> dict[str, Trend]:
    """The signals that grow steadily, by even stairs, or have begun to."""
    trends = {name: _growth(name, s) for name, s in series.items()}
    return {name: grown for name, grown in trends.items() if grown is not None}


def floor_of(name: str) -> float:
    """The least slope that is growth, in a signal's unit per step."""
    return FLOORS.get(name, BYTES_FLOOR)


def _growth(name: str, series: Series) -> Trend | None:
    steady = trend(series.steps, series.values, floor_of(name))
    if steady is not None or name in NOISY:
        return steady
    stairs = staircase(series.steps, series.values, 1 if name in COUNTS else STAIR)
    return stairs or late(series.steps, series.values, tuple(series.recent), floor_of(name))


def telling(growing: Mapping[str, Trend], series: Mapping[str, Series]) -> dict[str, Trend]:
    """The growth that counts."""
    counts = counting(series)
    return {name: grown for name, grown in growing.items() if name in counts}


def counting(series: Mapping[str, Series]) -> set[str]:
    """The signals that count: of several that see the same memory, the best that is known."""
    return {"graphs", "hooks", *_memory_signals([name for name in series if _is_told(name, series)])}


def _is_told(name: str, series: Mapping[str, Series]) -> bool:
    """Whether a signal has samples; of one that is read rarely, enough of them."""
    return len(series[name].steps) >= (MIN_POINTS if name.startswith("tensors") else 1)


HOST = ("heap", "pinned")
"""Exact signals of the host's memory; they have no byte in common."""


def is_device(name: str) -> bool:
    """Whether a signal is what a device has allocated: ``cuda:0``, not ``cuda:0.reserved``."""
    return name.startswith("cuda") and not is_beside(name)


def is_exact(name: str) -> bool:
    """Whether a signal counts bytes that tensors and nodes have got, on the host or a device, and nothing else."""
    return name in HOST or is_device(name)


def _slow(series: Mapping[str, Series]) -> dict[str, Trend]:
    """How fast memory grows where that is too slow to be growth by itself, and something else tells of a leak."""
    best = {name: series[name] for name in _memory_signals([name for name in series if _is_told(name, series)])}
    trends = {name: trend(s.steps, s.values, SLOW_FLOOR) for name, s in best.items()}
    return {name: grown for name, grown in trends.items() if grown is not None}


def bytes_per_step(growing: Mapping[str, Trend]) -> float:
    """The growth of the program's memory, by the best signals that grow."""
    return sum(growing[name].slope for name in _memory_signals(list(growing)))


def _memory_signals(known: Sequence[str]) -> list[str]:
    """Those of the host and of devices; where none is known the tensors, else resident memory, which is noisy."""
    exact = [name for name in known if is_exact(name)]
    return exact or [name for name in ("tensors", "process") if name in known][:1]


def attribute(found: Sequence[Diagnosed], growing: Mapping[str, Trend]) -> list[Leak]:
    """The leaks with their share of the growth.

    What Python sees (storages) is measured. The rest of the growth, saved tensors and nodes behind C++, is divided
    among the leaks that hold graphs: a graph that was backpropagated has its nodes left and nothing else. Where that
    was seen, it is given no more than nodes can take, and what is left over stays unexplained. Where memory is not
    known to grow, what graphs take is not known either: the storages that Python sees are the least of it. What the
    cyclic collector frees is no growth: it has its own rate, and no share.
    """
    kept = iter(_shares([d for d in found if not d.comes_back], growing))
    return [replace(d.leak, bytes_per_step=round(d.storage_per_step, 1)) if d.comes_back else next(kept) for d in found]


def _shares(found: Sequence[Diagnosed], growing: Mapping[str, Trend]) -> list[Leak]:
    # A sum that starts anew with each epoch may have been emptied just now: it grew at the rate that it was found with.
    total = bytes_per_step(growing) or max((d.rate for d in found), default=0.0)
    hidden = max(total - sum(d.storage_per_step for d in found), 0.0)
    sizes = [d.storage_per_step + h for d, h in zip(found, _divided(found, hidden))]
    if total and sum(sizes) > total:  # what two of them hold, both would have
        sizes = [size * total / sum(sizes) for size in sizes]
    return [
        replace(
            each.leak,
            bytes_per_step=round(size, 1) if total or not each.nodes_per_step else None,
            explained=round(min(size / total, 1.0), 3) if total else None,
        )
        for each, size in zip(found, sizes)
    ]


def without_garbage(growing: Mapping[str, Trend], coming_back: float, beneath: Mapping[str, Trend]) -> dict[str, Trend]:
    """The growth that is no saw-tooth of the cyclic collector's: it fits to any slope while garbage waits.

    Args:
        growing: by signal.
        coming_back: bytes a step that wait for the collector, and that it frees.
        beneath: the growth of what is in use when nothing waits, as far as that is known.
    """
    if not coming_back:
        return dict(growing)
    kept = {
        name: grown for name, grown in growing.items() if name in COUNTS or grown.slope > MOST_OF_A_TOOTH * coming_back
    }
    real = {name: grown for name, grown in beneath.items() if grown.slope >= floor_of(name)}
    sized = {name: replace(grown, slope=real[name].slope) if name in real else grown for name, grown in kept.items()}
    return {**real, **sized}


def _divided(found: Sequence[Diagnosed], hidden: float) -> list[float]:
    """Bytes per step that Python does not see, for each."""
    nodes = [0.0 if d.leak.kind == "hook" else d.nodes_per_step for d in found]
    if not sum(nodes):
        return [0.0 for _ in found]
    whole = [n for n, d in zip(nodes, found) if not d.freed]
    skeletons = [n * BYTES_OF_A_NODE if d.freed and any(whole) else 0.0 for n, d in zip(nodes, found)]
    rest = max(hidden - sum(skeletons), 0.0)
    share = rest / (sum(whole) or sum(nodes))
    sizes = [s or n * share for s, n in zip(skeletons, nodes)]
    return [
        n * BYTES_OF_A_NODE if d.is_bare and size > n * MOST_OF_A_NODE else size
        for size, n, d in zip(sizes, nodes, found)
    ]


def conclude(
    *,
    series: Mapping[str, Series],
    found: Sequence[Diagnosed],
    growing: Mapping[str, Trend],
    steps: int,
    source: str | None,
    seconds_per_step: float | None,
    room: Mapping[str, int],
    peaks: Mapping[str, int],
    error: BaseException | None,
    exit_status: int | None,
    command: tuple[str, ...],
    notes: Sequence[str],
    microseconds: float | None,
    diagnosis_seconds: float,
    is_early: bool = False,
    evaluates: bool = False,
) -> RunReport:
    """The report.

    Args:
        series: the samples, by signal.
        found: what was diagnosed.
        growing: the signals that grow at the end.
        steps: how many.
        source: what ended most of them.
        seconds_per_step: how long one takes, when known.
        room: bytes that are left, by signal.
        peaks: the most bytes of each signal.
        error: what ended the program, if it failed.
        exit_status: of the program, when known.
        command: what was run.
        notes: what the reader should know.
        microseconds: own work in a step.
        diagnosis_seconds: own work in censuses and tracing.
        is_early: the run was ended when no step of its optimizer had been seen; what was counted is something else.
        evaluates: beside the steps of training there are some of an evaluation.
    """
    said = list(notes)
    tells = telling(growing, series)
    kept = _standing(found, series, tells, steps, said)
    if evaluates:
        kept = _beyond_an_evaluation(kept, steps, said)
    if is_early:
        kept = _beyond_the_first_step(kept, said)
    total = bytes_per_step(tells)
    lasting = [d for d in kept if not d.comes_back]
    weighty = _weighty(tells, series)
    word = "too-short" if is_early and not kept else _verdict(kept, weighty, steps, found)
    shown = attribute(_listed(kept, word), tells if total or not kept else {**tells, **_slow(series)})
    shown.sort(key=_what_ends_the_run)
    ended = out_of_memory(error, steps)
    lasts = tells if lasting else weighty if word == "suspect" and not kept else {}
    return RunReport(
        verdict=word,
        steps=steps,
        step_source=source,
        growth=growth_of(series, {name: t for name, t in growing.items() if shown or not t.is_hint}),
        leaks=tuple(shown),
        unexplained_bytes_per_step=round(max(total - sum(x.bytes_per_step or 0 for x in shown), 0.0), 1),
        forecast=_forecast(lasts, room, seconds_per_step) if ended is None else None,
        out_of_memory=ended,
        peak=peaks,
        microseconds_per_step=round(microseconds, 2) if microseconds is not None else None,
        diagnosis_seconds=round(diagnosis_seconds, 3),
        notes=tuple(said),
        exit_status=exit_status,
        command=command,
        start=START,
    )


def _what_ends_the_run(leak: Leak) -> tuple[bool, float]:
    """The order in which leaks are told: first what is lost, the fastest before others; then what comes back."""
    return bool(leak.freed_by_gc) and leak.explained is None, -(leak.bytes_per_step or 0)


def _listed(kept: Sequence[Diagnosed], word: str) -> list[Diagnosed]:
    """The holders that a report with this verdict names: a suspect's may have an excuse that the run did not reach."""
    if word == "suspect":
        return list(kept)
    return [d for d in kept if d.excuse is None] if word == "leak" else []


def _standing(
    found: Sequence[Diagnosed],
    series: Mapping[str, Series],
    growing: Mapping[str, Trend],
    steps: int,
    notes: list[str],
) -> list[Diagnosed]:
    """What is left of the diagnoses at the end: some places were emptied since, some were excused."""
    kept = []
    in_teeth = any(each.comes_back for each in found)
    goes_on = in_teeth and bytes_per_step(growing) > 0  # beneath what is garbage
    for each in found:
        path = each.path
        if each.excuse == "filling":
            notes.append(f"`{path}` is bounded, and was still filling when it was looked at")
        elif each.excuse == "inputs":
            notes.append(f"`{path}` is made anew in each step and grows: larger inputs, not a leak")
        elif each.excuse == "items":
            notes.append(f"what is in `{path.partition('[*]')[0]}` gets larger, not more: larger inputs, not a leak")
        elif each.excuse in ("emptied", "consumed") and _fell(series, each):
            notes.append(f"`{path}` grows and is emptied again ({_at(each)})")
        elif each.excuse in (None, "consumed") and each.is_retracted:
            notes.append(f"`{path}` grows until it is backpropagated")
        elif _has_settled(each, steps):
            notes.append(f"`{path}` is mostly asked for what it has, and grows ever more slowly")
        elif _is_filled(each) or (
            not goes_on and _may_level_off(each) and _levelled_off(series, each, steps, in_teeth=in_teeth)
        ):
            notes.append(f"`{path}` grew, and has levelled off")
        elif each.excuse is None and _is_bounded(each) and _came_back(series, each):
            notes.append(f"`{path}` grew until it was emptied again")
        else:
            if each.excuse is not None:
                what = "emptied" if each.excuse == "emptied" else "backpropagated"
                notes.append(f"`{path}` grows, and is to be {what} at {_at(each)}; in this run it never got shorter")
            kept.append(each)
    return kept


def _beyond_the_first_step(kept: Sequence[Diagnosed], notes: list[str]) -> list[Diagnosed]:
    """What the first step of an optimizer cannot be made from: its graphs were backpropagated before."""
    for each in kept:
        if not each.freed:
            notes.append(f"`{each.path}` grew, and may be what the first step of an optimizer is made from")
    return [each for each in kept if each.freed]


def _beyond_an_evaluation(kept: Sequence[Diagnosed], steps: int, notes: list[str]) -> list[Diagnosed]:
    """What an evaluation beside the training does not collect on purpose, or collects too much of."""
    results = [d for d in kept if d.leak.kind == "collected" and d.storage_per_step * steps < LARGE_BUFFER]
    for each in results:
        notes.append(f"`{each.path}` collects the results of an evaluation")
    return [each for each in kept if each not in results]


def _is_bounded(each: Diagnosed) -> bool:
    """Whether emptying it now and then is how such a thing is used: a collection that outlives the loop."""
    local = each.leak.holder is not None and each.leak.holder.scope == "local"
    return each.leak.kind != "hook" and not each.is_carried and not local


def _is_filled(each: Diagnosed) -> bool:
    """Whether it is a dict that has the entries that it will get."""
    return each.excuse is None and each.entries is not None and each.entries.has_settled


def _has_settled(each: Diagnosed, steps: int) -> bool:
    """Whether it is a cache that has most of what it is asked for."""
    return each.excuse is None and each.asked is not None and each.asked.has_settled(steps)


def _may_level_off(each: Diagnosed) -> bool:
    """Whether it may have been a buffer or a cache: graphs are nobody's cache, but one for each key is bounded."""
    kinds = ("tensor", "view", "heap", "collected", "cache", "snapshot")
    return each.excuse == "emptied" or each.leak.kind in kinds or _is_graph_by_key(each)


def _is_graph_by_key(each: Diagnosed) -> bool:
    return each.leak.kind == "graph" and each.is_keyed


def _levelled_off(series: Mapping[str, Series], each: Diagnosed, steps: int, *, in_teeth: bool) -> bool:
    """Whether memory stands still at the end, for longer than a pause between two stores.

    Args:
        series: the samples, by signal.
        each: what grew.
        steps: of the run.
        in_teeth: memory falls whenever the cyclic collector runs: only a part of the run shows where it stands.
    """
    pause = max(5, int(3 / (each.leak.per_step or 1.0)))
    if in_teeth or (_is_graph_by_key(each) and each.excuse is None):
        pause = max(pause, steps // 3)  # a loop without a store, an evaluation, is no sign of a bound
    return all(stands_still(s.steps, s.values, pause, _own_rate(each)) for s in _memory(series))


def _own_rate(each: Diagnosed) -> float:
    """Bytes that it alone took in a step: what grew beside it at first, inputs that get longer, may have ended."""
    if each.nodes_per_step or not each.storage_per_step:
        return each.rate
    return max(min(each.rate, each.storage_per_step), each.rate / MOST_BESIDE)


def _at(each: Diagnosed) -> str:
    return f"{each.excuse_at.path}:{each.excuse_at.line}" if each.excuse_at else "?"


def _memory(series: Mapping[str, Series]) -> list[Series]:
    return [series[name] for name in _memory_signals([name for name in series if _is_told(name, series)])]


def _graphs_of(series: Mapping[str, Series], each: Diagnosed) -> Series | None:
    """The count of graphs, where that shows what a place holds.

    The heap falls as well when the cyclic collector runs, whoever has left that garbage.
    """
    graphs = series.get("graphs")
    if graphs is None or each.leak.kind != "graph":
        return None
    before = [value for step, value in zip(graphs.steps, graphs.values) if step <= each.step]
    return graphs if before and before[-1] - min(before) >= MANY_GRAPHS else None


def _came_back(series: Mapping[str, Series], each: Diagnosed) -> bool:
    graphs = _graphs_of(series, each)
    known = [*_memory(series), *([graphs] if graphs is not None else [])]
    return all(is_back(s.steps, s.values, each.step) for s in known)


def _fell(series: Mapping[str, Series], each: Diagnosed) -> bool:
    graphs = _graphs_of(series, each)
    if graphs is not None:
        return has_fallen(graphs.steps, graphs.values, MANY_GRAPHS)
    return any(has_fallen(s.steps, s.values) for s in _memory(series))


def _weighty(growing: Mapping[str, Trend], series: Mapping[str, Series]) -> dict[str, Trend]:
    """The growth that is worth a word though no variable explains it: large, and not one more rise of a saw-tooth."""
    found = {name: t for name, t in growing.items() if is_beyond(series[name].steps, series[name].values, t.since)}
    return {
        name: t
        for name, t in found.items()
        if name in COUNTS
        or (t.slope >= UNATTRIBUTED_FLOOR and t.slope * (series[name].steps[-1] - t.since) >= UNATTRIBUTED_LEAST)
    }


def _verdict(kept: Sequence[Diagnosed], growing: Mapping[str, Trend], steps: int, found: Sequence[Diagnosed]) -> str:
    if steps < SHORT:
        return "too-short"
    if any(d.excuse is None and d.is_leak for d in kept):
        return "leak"
    if kept:
        return "suspect"
    sure = {name: t.slope for name, t in growing.items() if t.confidence >= SURE and (name in COUNTS or not t.is_hint)}
    graphs = sure.get("graphs", 0.0) >= 0.2
    size = any(name not in COUNTS for name in sure)
    held = any(d.excuse not in ("inputs", "items") for d in found)  # what grew was named, and has been given back
    full = all(_is_filled(d) or _has_settled(d, steps) for d in found)  # then it is something else that goes on
    return "suspect" if (graphs and not held) or (size and full) else "clean"


def growth_of(series: Mapping[str, Series], growing: Mapping[str, Trend]) -> dict[str, Growth | None]:
    """Each signal's growth for the report: None for one that is not available, zero for one that is flat."""
    result: dict[str, Growth | None] = {}
    others = (n for n in series if n.startswith(("pinned", "cuda", "tensors.")))
    for name in ("graphs", "heap", "tensors", "process", *others):
        if name not in series or not _is_told(name, series):
            result[name] = None
            continue
        grown = growing.get(name)
        counts = name in COUNTS
        slope = round(grown.slope, 3 if counts else 1) if grown else None if name == "process" else 0.0
        result[name] = Growth(
            bytes_per_step=None if counts else slope,
            per_step=slope if counts else None,
            since_step=grown.since if grown else None,
            confidence=grown.confidence if grown else None,
        )
    return result


def _forecast(growing: Mapping[str, Trend], room: Mapping[str, int], seconds_per_step: float | None) -> Forecast | None:
    """When the first device is full at this rate."""
    found = []
    for name in growing.keys() & room.keys():
        left = int(room[name] / growing[name].slope)
        device = name if is_device(name) else "cpu"
        found.append(Forecast(device, left, round(left * seconds_per_step, 1) if seconds_per_step else None))
    return min(found, key=lambda f: f.steps_left, default=None)
