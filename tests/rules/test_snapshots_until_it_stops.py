"""Copies of a model that a training collects which may stop early."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, twin

CODE = "GG406"

STOPPER = """
    import copy

    class Stopper:
        def __init__(self, patience):
            self.patience, self.history, self.states, self.best = patience, [], [], None

        def stop(self, score, net):
            self.history.append(score)
            if self.best is None or score < self.history[self.best]:
                self.best = len(self.history) - 1
            self.states.append(copy.deepcopy(net.state_dict()))  # !
            return len(self.history) - 1 - self.best > self.patience

        def restore(self, net):
            net.load_state_dict(self.states[self.best])

    def train(net, draw, score, steps):
        optimizer, stopper = torch.optim.Adam(net.parameters()), Stopper(5)
        for step in range(steps):
            x, y = draw()
            loss = F.mse_loss(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 5 == 0 and stopper.stop(score(net), net):
                break
        stopper.restore(net)
"""

SCRIPT = """
    from copy import deepcopy

    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tried, losses = [], []
    while True:
        x = torch.randn(32, 4)
        loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        tried.append(deepcopy(model.state_dict()))  # !
        if losses[-1] < 1e-5:
            break
    model.load_state_dict(tried[losses.index(min(losses))])
"""

FIT = """
    import copy

    class Fitter:
        def __init__(self, net):
            self.net = net
            self.optimizer = torch.optim.Adam(net.parameters())
            self.weights = {}

        def fit(self, loader, goal):
            for step, (x, y) in enumerate(loader):
                loss = F.cross_entropy(self.net(x), y)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                self.weights[step] = {k: v.clone() for k, v in self.net.state_dict().items()}  # !
                if loss.item() < goal:
                    return self.weights[step]
            return None
"""

FLAGGED = {"an object that says when to stop": STOPPER, "a script until it is good enough": SCRIPT, "a return": FIT}

ADDED = "self.states.append(copy.deepcopy(net.state_dict()))"
TRIED = "tried.append(deepcopy(model.state_dict()))"
COPIED = "self.weights[step] = {k: v.clone() for k, v in self.net.state_dict().items()}"
SEARCH = "for attempt in range(20):"
CLEAN = {
    "the last one": twin(STOPPER, (ADDED, "self.states = [copy.deepcopy(net.state_dict())]")),
    "the best one": twin(SCRIPT, (TRIED, "best = deepcopy(model.state_dict()) if loss == min(losses) else best")),
    "a few": twin(SCRIPT, ("tried, losses = [], []", "tried, losses = deque(maxlen=3), []")),
    "trimmed": twin(SCRIPT, (TRIED, f"{TRIED}; del tried[:-3]")),
    "few steps": twin(SCRIPT, ("while True:", "for attempt in range(3):")),
    "numbers": twin(STOPPER, (ADDED, "self.states.append(score)")),
    "the search of one step": twin(SCRIPT, ("        optimizer.step()\n", ""), ("while True:", SEARCH)),
    "written to files": twin(FIT, (COPIED, "torch.save(self.net.state_dict(), f'{step}.pt')")),
}  # fmt: skip


@pytest.mark.parametrize("name", FLAGGED)
def test_one_more_until_it_stops(name: str) -> None:
    assert_flagged(FLAGGED[name], CODE)


@pytest.mark.parametrize("name", CLEAN)
def test_few_copies(name: str) -> None:
    assert_clean(CLEAN[name], CODE)
