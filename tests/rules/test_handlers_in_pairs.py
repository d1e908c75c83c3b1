"""Handlers of a bus that is emptied of some of them while it calls all: a copy of the list has a name of its own."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, twin

CODE = "GG107"

BUS = """
    class Bus:
        def __init__(self):
            self._subs = defaultdict(list)

        def on(self, topic, fn):
            self._subs[topic].append((fn, False))

        def once(self, topic, fn):
            self._subs[topic].append((fn, True))

        def emit(self, topic, **payload):
            current = self._subs[topic]
            self._subs[topic] = [(fn, one) for fn, one in current if not one]
            for fn, _ in current:
                fn(**payload)

    class Worst:
        def __init__(self):
            self.seen = []

        def attach(self, trainer):
            trainer.bus.on("batch", self.note)

        def note(self, pred, target):
            self.seen.append(pred - target)

    class Trainer:
        def __init__(self, net, plugins):
            self.net, self.bus = net, Bus()
            self.optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            for plugin in plugins:
                plugin.attach(self)

        def batch(self, x, y):
            pred = self.net(x)
            loss = F.mse_loss(pred, y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.bus.emit("batch", pred=pred, target=y)  # !

    def main(loader):
        trainer = Trainer(nn.Linear(4, 1), [Worst()])
        for x, y in loader:
            trainer.batch(x, y)
"""

TAKEN = "current = self._subs[topic]"
FLAGGED = {
    "by its name": BUS,
    "a copy": BUS.replace(TAKEN, "current = list(self._subs[topic])"),
    "where there are some": BUS.replace(TAKEN, "current = self._subs.get(topic, [])"),
}
CLEAN = {
    "a number": twin(BUS, ("self.seen.append(pred - target)", "self.seen.append((pred - target).max().item())")),
    "without its graph": twin(BUS, ("pred=pred,", "pred=pred.detach(),")),
    "the last one": twin(BUS, ("self.seen.append(pred - target)", "self.seen = [pred - target]")),
    "other handlers": twin(BUS, (TAKEN, "current = OTHERS[topic]")),
}


@pytest.mark.parametrize("name", FLAGGED)
def test_handlers_that_keep_graphs(name: str) -> None:
    assert_flagged(FLAGGED[name], CODE)


@pytest.mark.parametrize("name", CLEAN)
def test_handlers_that_keep_none(name: str) -> None:
    assert_clean(CLEAN[name], CODE)


HANDLER = """
            trainer.bus.on("batch", self.note)

        def note(self, pred, target):
            self.seen.append(pred - target)
"""
MADE = """
            trainer.bus.on("batch", self.made(trainer.bus))

        def made(self, bus):
            def later(pred, target):
                def close(**_):
                    self.seen = (pred - target).abs().max().item()
                bus.on("epoch", close)
            return later
"""
OWN = """
            self.bus = trainer.bus
            self.bus.on("batch", self.later)

        def later(self, pred, target):
            self.bus.on("epoch", lambda **_: print((pred - target).abs().max()))
"""
FILTER = "if not one]"
LISTENING = {
    "a handler that a method makes": BUS.replace(HANDLER, MADE),
    "a handler that makes another one": BUS.replace(HANDLER, OWN),
    "the flag says that it stays": BUS.replace(HANDLER, OWN)
    .replace("fn, False", "fn, 'always'")
    .replace("fn, True", "fn, ''")
    .replace(FILTER, "if one]"),
}
CALLING = "            for fn, _ in"
LET_GO = {
    "once": [('bus.on("epoch"', 'bus.once("epoch"')],
    "all are let go": [(FILTER, "if fn is None]")],
    "the flag says that it goes": [(FILTER, "if one]")],
    "another method empties it": [
        ("            for fn, _ in", "            self._subs.clear()\n            for fn, _ in")
    ],
    "what it closes over has no graph": [("pred=pred,", "pred=pred.detach(),")],
}


@pytest.mark.parametrize("name", LISTENING)
def test_one_more_handler_in_each_step(name: str) -> None:
    assert_flagged(LISTENING[name], CODE)


@pytest.mark.parametrize("name", LET_GO)
@pytest.mark.parametrize("listening", [MADE, OWN])
def test_handlers_that_are_let_go(listening: str, name: str) -> None:
    assert_clean(twin(BUS.replace(HANDLER, listening), *LET_GO[name]), CODE)
