"""Records that are made anew with what the old one had: running means in a dataclass, in a named tuple."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, twin

CODE = "GG107"

PROGRAM = """
        import dataclasses
        from dataclasses import dataclass, replace
        from typing import NamedTuple

        @dataclass
        class Stats:
            step: int = 0
            mean: object = None
            last: object = None

        class Weights:
            def __init__(self):
                self.stats = Stats()

            def observe(self, loss):
                if self.stats.step == 0:
                    self.stats = Stats(1, loss, loss)
                    return
                {steps}

        def train(model, loader, opt):
            weights = Weights()
            for x, y in loader:
                loss = F.mse_loss(model(x), y)
                opt.zero_grad()
                loss.backward()
                opt.step()
                weights.observe(loss)  # !
"""

MEAN = "mean = 0.9 * self.stats.mean + 0.1 * loss"
FLAGGED = {
    "its constructor": f"{MEAN}; self.stats = Stats(self.stats.step + 1, mean, loss)",
    "written out": "self.stats = Stats(1, 0.9 * self.stats.mean + 0.1 * loss)",
    "replace": f"{MEAN}; self.stats = replace(self.stats, mean=mean)",
    "replace, by its module": f"{MEAN}; self.stats = dataclasses.replace(self.stats, step=1, mean=mean)",
    "by another name": "s = self.stats; self.stats = replace(s, mean=0.9 * s.mean + 0.1 * loss)",
    "a field of it": "self.stats.mean = 0.9 * self.stats.mean + 0.1 * loss",
    "a field of it, by another name": "s = self.stats; s.mean = 0.9 * s.mean + 0.1 * loss",
}
LOOKALIKES = {
    "only the last": "self.stats = Stats(self.stats.step + 1, None, loss)",
    "only the last, replaced": "self.stats = replace(self.stats, step=self.stats.step + 1, last=loss)",
    "the last and the one before": "self.stats = Stats(1, self.stats.last, loss)",
    "the last and the one before, replaced": "self.stats = replace(self.stats, mean=self.stats.last, last=loss)",
    "without a graph": "self.stats = replace(self.stats, mean=0.9 * self.stats.mean.detach() + 0.1 * loss)",
    "numbers": "self.stats = Stats(1, 0.9 * self.stats.mean.item() + 0.1 * loss.item())",
    "the graph of one loss at a time": "self.stats = Stats(1, 0.9 * self.stats.last.detach() + 0.1 * loss)",
}
STARTS = ["Stats()", "Stats(0, torch.zeros(()), torch.zeros(()))"]


def program(steps: str, start: str) -> str:
    return PROGRAM.replace("{steps}", steps).replace("= Stats()\n", f"= {start}\n")


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("name", FLAGGED)
def test_a_mean_in_a_record(name: str, start: str) -> None:
    assert_flagged(program(FLAGGED[name], start), CODE)


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("name", LOOKALIKES)
def test_records_that_keep_one_graph(name: str, start: str) -> None:
    assert_clean(twin(program(LOOKALIKES[name], start)))


@pytest.mark.parametrize("start", STARTS)
def test_a_mean_in_a_named_tuple(start: str) -> None:
    edits = [("@dataclass\n        class Stats:", "class Stats(NamedTuple):")]
    kept = program("self.stats = self.stats._replace(mean=0.9 * self.stats.mean + 0.1 * loss)", start)
    named = twin(kept, *edits)
    assert_flagged(named.replace("weights.observe(loss)", "weights.observe(loss)  # !"), CODE)
    for edit in (("0.1 * loss", "0.1 * loss.detach()"), ("0.9 * self.stats.mean + 0.1 * loss", "loss")):
        assert_clean(twin(kept, *edits, edit, ("Stats(1, loss, loss)", "Stats(1, loss.detach(), None)")))


def test_behind_an_early_return_a_name_is_the_same_object() -> None:
    steps = FLAGGED["a field of it, by another name"]
    early = program(steps, STARTS[0]).replace(
        "                if self.stats.step", "                s = self.stats\n                if s.step"
    )
    assert_flagged(early.replace("s = self.stats; s.mean", "s.mean"), CODE)


CALLBACK = """
    import dataclasses
    from typing import NamedTuple

    class Pass(NamedTuple):
        step: int
        loss: torch.Tensor

    class Record:
        def __init__(self):
            self.book = []

        def after(self, done):
            self.book.append({kept})

    class Engine:
        def __init__(self, net, optimizer):
            self.net, self.optimizer, self.record = net, optimizer, Record()

        def advance(self, step, x, y):
            loss = F.mse_loss(self.net(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            return Pass(step, loss)

        def fit(self, loader):
            for step, (x, y) in enumerate(loader):
                done = self.advance(step, x, y)
                self.record.after(done)  {mark}
"""


@pytest.mark.parametrize("kept", ["done", "done._replace(step=done.step + 1)", "dataclasses.replace(done, step=0)"])
def test_a_record_that_is_kept_with_its_graph(kept: str) -> None:
    assert_flagged(CALLBACK.format(kept=kept, mark="# !"), CODE)


@pytest.mark.parametrize(
    "kept",
    [
        "done._replace(loss=done.loss.item())",
        "done._replace(loss=done.loss.detach())",
        "done._replace(step=done.step + 1, loss=float(done.loss.detach()))",
        "dataclasses.replace(done, loss=done.loss.item())",
    ],
)
def test_a_record_whose_loss_is_cut(kept: str) -> None:
    assert_clean(CALLBACK.format(kept=kept, mark=""))
