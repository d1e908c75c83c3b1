"""Snapshots of a model in a list that is trimmed, or seems to be: a copy of the list is."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged

PROGRAM = """
import copy
import heapq

class Best:
    def __init__(self, keep):
        self.keep, self.best = keep, []

    def offer(self, score, model):
        self.best.append((score, copy.deepcopy(model.state_dict())))  # !
        TRIM

class Stopper:
    def __init__(self, patience):
        self.patience, self.bad, self.least, self.early_stop = patience, 0, 1e9, False

    def __call__(self, score):
        self.bad = 0 if score < self.least else self.bad + 1
        self.least = min(self.least, score)
        self.early_stop = self.bad >= self.patience
        return self.early_stop

def train(model, optimizer, loader, steps, patience):
    best, stopper = Best(3), Stopper(patience)
    stop, bad = False, 0
    for step, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        best.offer(loss.item(), model)
        stop = stopper(loss.item())
        if LEAVE:
            break
"""

OF_A_COPY = {
    "none": "pass",
    "popped": "if len(self.best) > self.keep:\n            sorted(self.best).pop()",
    "popped with a key": "if len(self.best) > self.keep:\n            sorted(self.best, key=lambda b: b[0]).pop()",
    "popped of a list": "list(self.best).pop(0)",
    "popped of a copy": "self.best.copy().pop()",
    "popped of copy.copy": "copy.copy(self.best).pop(0)",
    "cut": "sorted(self.best, key=lambda b: b[0])[: self.keep]",
    "a name of the copy": "ranked = sorted(self.best)\n        ranked.pop()",
    "a cut name": "ranked = sorted(self.best)[: self.keep]",
    "only sorted": "self.best.sort(key=lambda b: b[0])",
}
OF_ITSELF = {
    "popped": "if len(self.best) > self.keep:\n            self.best.pop()",
    "sorted, then popped": "self.best.sort(key=lambda b: b[0])\n        self.best.pop()",
    "bound to what is left": "self.best = sorted(self.best, key=lambda b: b[0])[: self.keep]",
    "its slice set": "self.best[:] = sorted(self.best)[: self.keep]",
    "the rest deleted": "del self.best[self.keep :]",
    "the worst removed": "if len(self.best) > self.keep:\n            self.best.remove(max(self.best))",
    "by another name": "best = self.best\n        best.pop()",
    "a heap": "if len(self.best) > self.keep:\n            heapq.heappop(self.best)",
    "a copy that takes its place": "ranked = sorted(self.best)\n        self.best = ranked[: self.keep]",
}


@pytest.mark.parametrize("trim", OF_A_COPY.values(), ids=OF_A_COPY)
def test_a_copy_that_is_trimmed_leaves_the_list_as_it_is(trim: str) -> None:
    assert_flagged(PROGRAM.replace("TRIM", trim).replace("LEAVE", "step >= steps"), "GG406")


@pytest.mark.parametrize("trim", OF_ITSELF.values(), ids=OF_ITSELF)
def test_a_list_that_is_trimmed_is_clean(trim: str) -> None:
    program = PROGRAM.replace("TRIM", trim).replace("LEAVE", "step >= steps")
    assert_clean(program.replace("  # !", ""), "GG406")


LATE = (
    "stop",
    "stop or step >= steps",
    "stopper.early_stop",
    "stopper(loss.item())",
    "stopper.bad >= patience",
    "judge(loss.item(), model)",
    "watcher.is_done(val_loss)",
    "step % 5 == 0 and judge(evaluate(model), best_acc)",
    "step % 5 == 0 and judge.update(validate(model, y), model)",
    "tracker(self.evaluate_on(val_loader))",
    "patience.update(step, model)",
)


@pytest.mark.parametrize("leave", LATE)
def test_a_loop_that_stops_when_nothing_is_learned_any_more_is_long(leave: str) -> None:
    assert_flagged(PROGRAM.replace("TRIM", "pass").replace("LEAVE", leave), "GG406")


@pytest.mark.parametrize(
    "leave",
    [
        "True",
        "step == 2",
        "stop or step == 2",
        "y.any()",
        "stop and step == 2",
        "found(x, y)",
        "step % 5 == 0",
        "found(value(x))",
        "found(evaluations)",
    ],
)
def test_a_loop_that_may_be_left_at_once_is_not(leave: str) -> None:
    assert_clean(PROGRAM.replace("TRIM", "pass").replace("LEAVE", leave).replace("  # !", ""), "GG406")
