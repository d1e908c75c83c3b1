"""States that an object has by key, and that a helper is given the key of."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, twin

CODE = "GG105"

SESSION = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = nn.LSTM(3, 8)
            self.out = nn.Linear(8, 1)

        def start(self):
            return torch.zeros(1, 4, 8), torch.zeros(1, 4, 8)

        def forward(self, x, state):
            y, state = self.cell(x, state)
            return self.out(y), state

    class Session:
        def __init__(self, streams):
            self.net, self.streams = Net(), streams
            self.optimizer = torch.optim.Adam(self.net.parameters())
            self.states = {name: self.net.start() for name in streams}

        def ahead(self, name):
            x, y = self.streams[name].draw()
            guess, state = self.net(x, self.states[name])
            return (guess - y).abs().mean(), state

        def learn(self):
            self.net.train()
            loss, (h, c) = self.ahead("train")
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.states["train"] = (h.detach(), c.detach())

        def watch(self):
            self.net.eval()
            loss, state = self.ahead("live")
            self.states["live"] = state  # !
            return loss.item()

    def main(streams):
        session = Session(streams)
        for _ in range(10_000):
            session.learn()
            print(session.watch())
"""

WRITTEN_OUT = """
    class Runner:
        def __init__(self, draw):
            self.net, self.draw = nn.GRU(3, 8), draw
            self.optimizer = torch.optim.Adam(self.net.parameters())
            self.memory = {"seen": None, "unseen": None}

        def fit(self):
            x, y = self.draw()
            out, memory = self.net(x, self.memory["seen"])
            self.optimizer.zero_grad()
            F.mse_loss(out, y).backward()
            self.optimizer.step()
            self.memory["seen"] = memory.detach()

        def check(self):
            x, y = self.draw()
            out, memory = self.net(x, self.memory["unseen"])
            self.memory["unseen"] = memory  # !
            return F.mse_loss(out, y).item()

    def run(draw):
        runner = Runner(draw)
        for _ in range(1_000):
            runner.fit()
            runner.check()
"""

ROLLOUT = """
    class Player:
        def __init__(self, net, env):
            self.net, self.env = net, env
            self.hidden = {"left": None, "right": None}

        def think(self, side, seen):
            return self.net(seen, self.hidden[side])

        def move(self, seen):
            self.net.eval()
            act, hidden = self.think("left", seen)
            self.hidden["left"] = hidden  # !
            return act.argmax().item()

    def play(env):
        player = Player(nn.GRU(4, 4), env)
        seen = env.reset()
        for _ in range(1_000):
            seen = env.step(player.move(seen))
"""

STATES = "self.states = {name: self.net.start() for name in streams}"
FLAGGED = {
    "a helper has the key": SESSION,
    "the entries are written out": SESSION.replace(STATES, 'self.states = {"train": None, "live": None}'),
    "another entry is put there in the same iteration": WRITTEN_OUT,
    "nothing is trained": ROLLOUT,
}

KEPT = 'self.states["live"] = state'
WATCH, CHECK, FIT = "        def watch(self):", "        def check(self):", "        def fit(self):"
OFF = "        @torch.no_grad()\n"
CUT = "return (guess - y).abs().mean(), [s.detach() for s in state]"
CLEAN = {
    "without gradients": twin(SESSION, (WATCH, OFF + WATCH)),
    "detached": twin(SESSION, (KEPT, 'self.states["live"] = tuple(s.detach() for s in state)')),
    "the helper detaches": twin(SESSION, ("return (guess - y).abs().mean(), state", CUT)),
    "kept under another key": twin(SESSION, (KEPT, 'self.states["last"] = state')),
    "begins anew": twin(SESSION, ("self.net.eval()", 'self.states["live"] = self.net.start()')),
    "another entry, without gradients": twin(WRITTEN_OUT, (CHECK, OFF + CHECK)),
    "all begin anew": twin(WRITTEN_OUT, (FIT, f"{FIT}\n            self.memory = dict.fromkeys(self.memory)")),
    "the state of the other side": twin(ROLLOUT, ('self.hidden["left"] = hidden', 'self.hidden["right"] = hidden')),
}


@pytest.mark.parametrize("name", FLAGGED)
def test_a_state_under_a_key(name: str) -> None:
    assert_flagged(FLAGGED[name], CODE)


@pytest.mark.parametrize("name", CLEAN)
def test_a_state_that_is_cut_or_begins_anew(name: str) -> None:
    assert_clean(CLEAN[name], CODE)
