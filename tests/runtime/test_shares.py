"""How much of the growth each holder is given."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytest.importorskip("torch")

from gradguard.findings import RunReport

Run = Callable[[str], tuple[RunReport, str]]

NATIVE = """
import ctypes
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
kept = []
for model, output, loss in training():
    {store}
    ctypes.memset(libc.malloc(50_000), 1, 50_000)
"""


def share(report: RunReport) -> float:
    assert [leak.holder.name for leak in report.leaks if leak.holder] == ["kept"]
    assert report.leaks[0].explained is not None
    return report.leaks[0].explained


@pytest.mark.parametrize("store", ["kept.append(loss)", "kept.append(loss * 2)"])
def test_graphs_that_backward_has_freed_are_given_no_more_than_nodes_take(run: Run, store: str) -> None:
    report, _ = run(NATIVE.format(store=store))
    assert share(report) < 0.3
    assert 40_000 < (report.unexplained_bytes_per_step or 0) < 60_000


@pytest.mark.parametrize(
    "store",
    [
        "kept.append(output.exp().sum())",  # what this one saved is not freed
        "x = torch.randn(12_000, requires_grad=True); y = x.sum(); y.backward(); kept.append(y); del x",  # a leaf
    ],
)
def test_graphs_that_keep_more_are_not_bounded_by_their_nodes(run: Run, store: str) -> None:
    report, _ = run(NATIVE.format(store=store))
    assert share(report) > 0.9


def test_a_graph_that_explains_all_is_given_all(run: Run) -> None:
    report, _ = run("kept = []\nfor model, output, loss in training():\n    kept.append(loss)\n")
    assert share(report) > 0.95
