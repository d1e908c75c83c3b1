"""A recurrent state whose parts are entries of a dict, and what is taken out of that under another word."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, twin

CODE = "GG105"

PROBE = """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.lstm, self.out = nn.LSTM(24, 48), nn.Linear(48, 10)

            def begin(self, size):
                weight = next(self.parameters())
                return weight.new_zeros(1, size, 48), weight.new_zeros(1, size, 48)

            def forward(self, x, state):
                y, state = self.lstm(x, state)
                return self.out(y), state

        class Probe:
            def __init__(self, data):
                self.data, self.state, self.hits = data, {}, 0

            def reset(self):
                self.hits = 0
                self.state.pop("hx", None)

            def __call__(self, net):
                if not self.state:
                    self.state["h"], self.state["c"] = net.begin(1)
                out, (h, c) = net(self.data, (self.state["h"], self.state["c"]))
                self.state.update(h=h, c=c)  # !
                self.hits += int(out.argmax(-1).sum())

        def train(data, loader, epochs):
            net = Net()
            optimizer = torch.optim.Adam(net.parameters())
            probe = Probe(data)
            for epoch in range(epochs):
                probe.reset()
                for x, y in loader:
                    out, _ = net(x, net.begin(8))
                    loss = F.cross_entropy(out, y)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    probe(net)
"""

UPDATE = "self.state.update(h=h, c=c)"
BEGIN = "if not self.state:"

FLAGGED = {
    "entries by keyword": PROBE,
    "entries of a dict": PROBE.replace(UPDATE, 'self.state.update({"h": h, "c": c})'),
    "one after the other": PROBE.replace(
        f"{UPDATE}  # !", 'self.state["h"] = h  # !\n                self.state["c"] = c  # !'
    ),
    "at once": PROBE.replace(UPDATE, 'self.state["h"], self.state["c"] = h, c'),
    "no reset": PROBE.replace('self.state.pop("hx", None)', "pass"),
    "begins where a word is missing": PROBE.replace(BEGIN, 'if "h" not in self.state:'),
    "begins where it is empty": PROBE.replace(BEGIN, "if len(self.state) == 0:"),
    "begins where one is None": PROBE.replace(BEGIN, 'if self.state.get("h") is None:'),
    "emptied before each epoch": PROBE.replace('self.state.pop("hx", None)', "self.state.clear()"),
}

KEPT = """
        def train(net, loader, optimizer):
            last = {}
            for x, y in loader:
                optimizer.zero_grad()
                loss = F.cross_entropy(net(x), y)
                loss.backward()
                optimizer.step()
                last.update(loss=loss)
            return last
"""

LOOKALIKES = {
    "detached": twin(PROBE, (UPDATE, "self.state.update(h=h.detach(), c=c.detach())")),
    "detached as it is given": twin(
        PROBE, ('(self.state["h"], self.state["c"]))', '(self.state["h"].detach(), self.state["c"].detach()))')
    ),
    "no_grad": twin(PROBE, ("def __call__", "@torch.no_grad()\n            def __call__")),
    "made anew by each call": twin(PROBE, (BEGIN, "if True:")),
    "emptied by each call": twin(PROBE, (BEGIN, f"self.state.clear()\n                {BEGIN}")),
    "its words are taken out by each call": twin(
        PROBE,
        (
            "self.hits += int",
            'self.state.pop("h")\n                self.state.pop("c")\n                self.hits += int',
        ),
    ),
    "all words are taken out by each call": twin(
        PROBE, ("self.hits += int", "[self.state.pop(k) for k in list(self.state)]\n                self.hits += int")
    ),
    "reset in each iteration": twin(
        PROBE,
        ('self.state.pop("hx", None)', "self.state.clear()"),
        ("                    probe(net)", "                    probe(net)\n                    probe.reset()"),
    ),
    "only the last is kept": KEPT,
    "only the last is kept, of a dict": twin(KEPT, ("update(loss=loss)", 'update({"loss": loss})')),
    "numbers": twin(KEPT, ("update(loss=loss)", "update(loss=loss.item())")),
    "what was noted is taken out": twin(
        KEPT, ("last.update(loss=loss)", 'last.update(loss=loss)\n                print(last.pop("loss"))')
    ),
    "a sum of numbers": twin(KEPT, ("update(loss=loss)", 'update(loss=last.get("loss", 0) + loss.item())')),
}


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name: str) -> None:
    assert_flagged(FLAGGED[name], CODE)


@pytest.mark.parametrize("name", LOOKALIKES)
def test_lookalikes(name: str) -> None:
    assert_clean(LOOKALIKES[name])


def test_a_sum_under_a_word() -> None:
    snippet = twin(KEPT, ("update(loss=loss)", 'update(loss=last.get("loss", 0) + loss)  # !'))
    assert_flagged(snippet, "GG103")


def averaged(update: str) -> str:
    """Weights that are averaged by a method, entry by entry."""
    return f"""
        class Average:
            def __init__(self, model, decay=0.9):
                self.decay = decay
                self.weights = {{k: p.detach().clone() for k, p in model.named_parameters()}}

            def mix(self, old, new):
                return self.decay * old + (1 - self.decay) * new

            def update(self, model):
                {update}

        def train(model, opt, loader):
            average = Average(model)
            for x, y in loader:
                opt.zero_grad()
                F.mse_loss(model(x), y).backward()
                opt.step()
                average.update(model)
    """


MIXED = "{k: self.mix(self.weights[k], p) for k, p in model.named_parameters()}"
THEN = "\n                self.weights = "


@pytest.mark.parametrize(
    "update",
    [
        f"self.weights = {MIXED}  # !",
        f"fresh = {MIXED}{THEN}fresh  # !",
        f"old = self.weights\n                fresh = {MIXED.replace('self.weights', 'old')}{THEN}fresh  # !",
        f"fresh = {MIXED}\n                merged = fresh{THEN}merged  # !",
    ],
)
def test_what_a_method_makes_of_each_entry(update: str) -> None:
    assert_flagged(averaged(update), CODE)


@pytest.mark.parametrize(
    "update",
    [
        f"fresh = {MIXED.replace(', p)', ', p.detach())')}{THEN}fresh",
        f"with torch.no_grad():\n                    fresh = {MIXED}{THEN}fresh",
        f"fresh = {MIXED}\n                self.distance = float(sum(w.norm() for w in fresh.values()))",
        "fresh = {k: self.mix(p.detach(), p).detach() for k, p in model.named_parameters()}" + THEN + "fresh",
    ],
)
def test_entries_without_the_old_graph(update: str) -> None:
    assert_clean(averaged(update), CODE)
