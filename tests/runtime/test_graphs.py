"""Live graphs, counted by what lives and dies with their heads."""

from __future__ import annotations

from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")

from gradguard.runtime.graph_size import measure  # noqa: E402
from gradguard.runtime.sensors.graphs import SELDOM, Graphs, Held  # noqa: E402


def loss() -> torch.Tensor:
    return (torch.ones(3, requires_grad=True) * 2).sum()


def test_a_graph_counts_as_long_as_it_lives() -> None:
    graphs = Graphs()
    first, second = loss(), loss()
    for each in (first, second, first):
        graphs.mark(each.grad_fn)
    assert graphs.read() == 2
    del first, each
    assert graphs.read() == 1
    del second
    assert graphs.read() == 0


def test_a_sum_keeps_the_graphs_of_its_terms() -> None:
    graphs = Graphs()
    total = torch.zeros(())
    for _ in range(5):
        each = loss()
        graphs.mark(each.grad_fn)
        total = total + each
    del each
    assert graphs.read() == 5
    total = total.detach()
    assert graphs.read() == 0


def test_the_loss_counts_when_the_scaled_loss_was_backpropagated() -> None:
    graphs = Graphs()
    kept = loss()
    graphs.mark((kept * 1024).grad_fn)
    assert graphs.read() == 1
    del kept
    assert graphs.read() == 0


def test_a_parameter_keeps_no_graph_alive() -> None:
    graphs = Graphs()
    parameter = torch.nn.Parameter(torch.ones(()))
    hooked = parameter.register_hook(lambda grad: grad)  # its node lives from now on
    for _ in range(3):
        graphs.mark((parameter * 2).grad_fn)
    hooked.remove()
    assert graphs.read() == 0


def alive(keeps: Callable[[int, torch.Tensor], object], steps: int, dense: int = 0) -> int:
    """What is counted after so many steps, of which some are marked; all of the first ``dense`` are."""
    now = [0]
    graphs = Graphs(lambda: now[0])
    for step in range(1, steps + 1):
        graphs.choose(step - 1, each=step <= dense)
        each = loss()
        if step == graphs.next_step:
            graphs.mark(each.grad_fn, step)
        keeps(step, each)
        now[0] = step
    del each
    return graphs.read()


@pytest.mark.parametrize("dense", [0, 200])
def test_where_some_steps_are_marked_they_count_for_all(dense: int) -> None:
    kept: list[torch.Tensor] = []
    assert alive(lambda step, each: kept.append(each), 1_000, dense) in range(1_000 - 2 * SELDOM, 1_001)
    assert alive(lambda step, each: None, 1_000, dense) == 0
    total = [torch.zeros(())]
    assert alive(lambda step, each: total.__setitem__(0, total[0] + each), 1_000, dense) > 1_000 - 2 * SELDOM


@pytest.mark.parametrize("dense", [0, 600])
def test_the_last_graph_of_a_training_is_one_however_long_nothing_is_backpropagated(dense: int) -> None:
    now, seen = [0], []
    graphs = Graphs(lambda: now[0])
    last = loss()
    for step in range(1, 601):
        graphs.choose(step - 1, each=step <= dense)
        if step == graphs.next_step and step <= 300:
            last = loss()
            graphs.mark(last.grad_fn, step)
        now[0] = step
        seen.append(graphs.read())
    assert last.grad_fn is not None
    assert max(seen[300:]) <= (1 if dense else 2 * SELDOM)
    assert len(set(seen[300 + 2 * SELDOM :])) == 1


@pytest.mark.parametrize(("every", "first"), [(7, 3), (16, 0), (16, 5), (32, 31), (100, 50)])
def test_what_is_kept_now_and_then_is_neither_missed_nor_counted_many_times(every: int, first: int) -> None:
    kept: list[torch.Tensor] = []
    counted = alive(lambda step, each: step % every == first and kept.append(each), 1_000 * every)
    assert 0.6 < counted / len(kept) < 1.7


def test_a_held_graph_knows_when_it_was_needed_and_when_it_is_gone() -> None:
    kept = loss()
    held = Held(kept.grad_fn)
    held.look_for(loss().grad_fn, 100)
    held.look()
    assert not held.consumed
    held.look_for((kept + loss()).grad_fn, 100)
    held.look()
    assert (held.consumed, held.released, held.was_needed) == (1, False, False)
    del kept
    held.look()
    assert held.released
    assert held.was_needed


def test_a_graph_that_outlives_its_backwards_was_not_kept_for_them() -> None:
    state = loss()
    held = Held(state.grad_fn)
    for _ in range(5):
        state = state * 2
        held.look_for(state.grad_fn, 100)
        held.look()
    del state
    held.look()
    assert (held.consumed, held.released, held.was_needed) == (5, True, False)


def test_a_graph_that_contains_its_former_self_is_chained() -> None:
    from gradguard.runtime.graph_size import MARK

    state = loss()
    state.grad_fn.metadata[MARK] = {"state"}
    assert not measure(state.grad_fn, "state", 100).chained
    assert measure((state * 2).grad_fn, "state", 100).chained
    assert not measure((state * 2).grad_fn, "other", 100).chained
    assert not measure(loss().grad_fn, "state", 100).chained
