"""What an object in a collection stores, and another of its methods empties, under the same key or another."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged

HUB = """
    class Hub:
        def __init__(self):
            self.series, self.report = defaultdict(list), {}

        def _key(self, name):
            return f"train/{name}"

        def push(self, **values):
            for name, value in values.items():
                self.series[self._key(name)].append(value)

        def flush(self, *names):
            for name in names:
                RESET

    class Log:
        def __init__(self, hub):
            self.hub = hub

        def on_step(self, trainer, loss):
            self.hub.push(loss=loss)

        def on_window(self, trainer):
            self.hub.flush("loss")

    class Trainer:
        def __init__(self, model, opt, callbacks):
            self.model, self.opt, self.callbacks = model, opt, callbacks

        def fit(self, loader):
            for step, (x, y) in enumerate(loader):
                loss = F.cross_entropy(self.model(x), y)
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                for callback in self.callbacks:
                    callback.on_step(self, loss)MARK
                if step % 50 == 0:
                    for callback in self.callbacks:
                        callback.on_window(self)

    def main(model, opt, loader):
        Trainer(model, opt, [Log(Hub())]).fit(loader)
"""
READS = "rows = self.series[self._key(name)]\n                self.report[name] = len(rows)\n                "


def hub(reset: str, mark: str = "") -> str:
    return HUB.replace("RESET", reset).replace("MARK", mark)


@pytest.mark.parametrize(
    "reset",
    [
        READS + "self.series[self._key(name)] = []",
        READS + "self.series[self._key(name)].clear()",
        READS + "self.series.pop(self._key(name), None)",
        "key = self._key(name)\n                self.series[key] = []",
        "del self.series[self._key(name)]",
        "self.series.clear()",
        "self.report.update({name: 1})\n                self.series = defaultdict(list)",
        "self.series[name] = []",
    ],
)
def test_what_an_object_in_a_collection_empties(reset: str) -> None:
    assert_clean(hub(reset))


@pytest.mark.parametrize("reset", [READS + "self.series[name] = []", READS + "self.series[name].clear()", "pass"])
def test_what_is_emptied_under_another_key(reset: str) -> None:
    assert_flagged(hub(reset, "  # !"), "GG107")
