"""Two runs side by side."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gradguard.compare import compare
from gradguard.findings import Growth, Holder, Leak, RunReport


def a_run(*leaks: Leak, verdict: str | None = None, heap: float = 0.0) -> RunReport:
    return RunReport(
        verdict=verdict or ("leak" if leaks else "clean"),
        steps=100,
        step_source="optimizer",
        growth={"heap": Growth(heap or sum(x.bytes_per_step or 0 for x in leaks), None, None, None), "cuda:0": None},
        leaks=leaks,
        peak={"heap": 1000},
    )


def a_leak(path: str, rate: float | None = 10_000.0, kind: str = "graph") -> Leak:
    return Leak(kind, Holder(path.split(".")[-1], path, "list", "local"), rate, 1.0, 1.0)


A, B = a_leak("train.a"), a_leak("train.b", 20_000.0)


def test_gone_new_and_still() -> None:
    found = compare(a_run(A, B), a_run(replace(B, bytes_per_step=20_500.0), a_leak("train.c", 500.0)))
    assert [x.holder.path for x in found.gone if x.holder] == ["train.a"]
    assert [x.holder.path for x in found.new if x.holder] == ["train.c"]
    assert [(a.bytes_per_step, b.bytes_per_step) for a, b in found.still] == [(20_000.0, 20_500.0)]
    assert not found.leaks_more


@pytest.mark.parametrize(
    ("before", "after", "more"),
    [
        (a_run(), a_run(), False),
        (a_run(A), a_run(), False),
        (a_run(), a_run(A), True),
        (a_run(A), a_run(A), False),
        (a_run(A), a_run(replace(A, bytes_per_step=10_500.0)), False),  # runs differ a little
        (a_run(A), a_run(replace(A, bytes_per_step=30_000.0)), True),
        (a_run(A), a_run(A, B), True),
        (a_run(), a_run(a_leak("net._forward_hooks", None, "hook")), True),  # its bytes are not known
        (a_run(), a_run(a_leak("predict.out", 1e6, "collected"), verdict="suspect"), False),
        (a_run(), a_run(verdict="suspect", heap=50_000.0), True),
        (a_run(), a_run(A, verdict="suspect", heap=50_000.0), True),  # named, and not yet confirmed
        (a_run(), a_run(verdict="too-short"), False),
    ],
)
def test_leaks_more(before: RunReport, after: RunReport, more: bool) -> None:
    assert compare(before, after).leaks_more == more


def test_measures_that_only_one_run_has() -> None:
    with_card = replace(a_run(), growth={"cuda:0": Growth(5.0, None, None, None)}, peak={"cuda:0": 7})
    changes = {c.name: (c.before, c.after) for c in compare(a_run(), with_card, (0.1, None)).changes}
    assert changes == {
        "heap": (0.0, None),
        "cuda:0": (None, 5.0),
        "heap peak": (1000, None),
        "cuda:0 peak": (None, 7),
        "step time": (0.1, None),
    }
