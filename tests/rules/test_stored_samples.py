"""A table with an entry for each sample, as prioritised replay has one, is given parts of the loss of a batch."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, twin

REPLAY = """
class Replay:
    def __init__(self, capacity=50_000):
        self.capacity = capacity
        self.rows, self.weights, self.at = [], {}, 0

    def put(self, row):
        self.rows[self.at] = row
        self.weights[self.at] = 1.0
        self.at = (self.at + 1) % self.capacity

    def update(self, keys, errors):
        for key, error in zip(keys, errors):
            self.weights[key] = error

def fit(net, target, replay, optimizer, steps):
    for step in range(steps):
        keys, x, a, y = replay.draw(32)
        error = net(x).gather(1, a).squeeze(1) - y
        loss = error.pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        replay.update(keys, error.abs())  # !

def main(net, target, optimizer):
    fit(net, target, Replay(), optimizer, 10_000)
"""
AGENT = """
class Buffer:
    def __init__(self, size):
        self.data = []
        self.priorities = [1.0] * size

    def set(self, chosen, values):
        for n, i in enumerate(chosen):
            self.priorities[i] = values[n] + 1e-6

class Agent:
    def __init__(self, net, size):
        self.net, self.buffer = net, Buffer(size)
        self.optimizer = torch.optim.Adam(net.parameters())

    def learn(self):
        chosen, x, y = self.buffer.sample(64)
        errors = F.smooth_l1_loss(self.net(x), y, reduction="none").mean(1)
        self.optimizer.zero_grad()
        errors.mean().backward()
        self.optimizer.step()
        self.buffer.set(chosen, errors)  # !

def play(agent, env):
    for step in range(100_000):
        agent.act(env)
        agent.learn()
"""
HERE = """
def fit(net, loader, optimizer, epochs):
    hardness = {}
    for epoch in range(epochs):
        for indices, x, y in loader:
            losses = F.cross_entropy(net(x), y, reduction="none")
            optimizer.zero_grad()
            losses.mean().backward()
            optimizer.step()
            for index, each in zip(indices.tolist(), losses):
                hardness[index] = each  # !
    return sorted(hardness, key=hardness.get)
"""
ON_OBJECT = """
class Trainer:
    def __init__(self, net, loader):
        self.net, self.loader, self.hardness = net, loader, {}
        self.optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def note(self, idx, losses):
        for i, each in zip(idx, losses):
            self.hardness[int(i)] = each

    def fit(self):
        for idx, x, y in self.loader:
            losses = F.cross_entropy(self.net(x), y, reduction="none")
            self.optimizer.zero_grad()
            losses.mean().backward()
            self.optimizer.step()
            self.note(idx, losses)
"""
CURRICULUM = """
class Sampler:
    def __init__(self, n, size):
        self.n, self.size = n, size
        self.difficulty = {i: 0.0 for i in range(n)}

    def __iter__(self):
        while True:
            order = sorted(range(self.n), key=lambda i: float(self.difficulty[i]))
            for start in range(0, self.n, self.size):
                yield order[start : start + self.size]

    def feedback(self, ids, losses):
        for i, value in zip(ids, losses):
            self.difficulty[i] = value

def train_step(net, optimizer, x, y):
    losses = F.cross_entropy(net(x), y, reduction="none")
    optimizer.zero_grad()
    losses.mean().backward()
    optimizer.step()
    return losses

def fit(net, data, optimizer, steps):
    sampler = Sampler(len(data), 16)
    for step, ids in enumerate(itertools.islice(sampler, steps)):
        losses = train_step(net, optimizer, *data.fetch(ids))
        sampler.feedback(ids, losses)  # !
"""
NAMES = """
def fit(net, names, loader, optimizer, criteria):
    last = {}
    for x, ys in loader:
        losses = torch.stack([criteria[name](net(x), ys[name]) for name in names])
        optimizer.zero_grad()
        losses.sum().backward()
        optimizer.step()
        for name, each in zip(names, losses):
            last[name] = each
        print({name: each.item() for name, each in last.items()})
"""


def test_flagged() -> None:
    assert_flagged(REPLAY, "GG107")
    assert_flagged(AGENT, "GG107")
    assert_flagged(HERE, "GG104")
    assert_flagged(CURRICULUM, "GG107")


@pytest.mark.parametrize(
    "storing",
    [
        "for i, value in zip(ids.tolist(), losses):\n            self.difficulty[i] = value",
        "for i, value in zip(ids, losses):\n            self.difficulty[int(i)] = value",
        "for n, i in enumerate(ids):\n            self.difficulty[i] = losses[n]",
        "self.difficulty.update({i: value for i, value in zip(ids, losses)})",
        "self.difficulty.update(zip(ids, losses))",
    ],
)
def test_ways_to_store_each(storing: str) -> None:
    plain = "for i, value in zip(ids, losses):\n            self.difficulty[i] = value"
    assert plain in CURRICULUM
    assert_flagged(CURRICULUM.replace(plain, storing), "GG107")


@pytest.mark.parametrize("name", ["item_ids", "user_ids", "example_ids", "utt_ids", "image_id"])
def test_names_of_samples(name: str) -> None:
    assert_flagged(HERE.replace("indices", name), "GG104")


TABLE = "{i: 0.0 for i in range(n)}"


@pytest.mark.parametrize("table", ["[0.0] * n", "[0.0 for _ in range(n)]", "{k: None for k in range(50_000)}"])
def test_tables_with_an_entry_for_each(table: str) -> None:
    assert_flagged(CURRICULUM.replace(TABLE, table), "GG107")


@pytest.mark.parametrize("table", ["{}", "{i: 0.0 for i in range(10)}", "[0.0] * n_tasks", "{i: 0.0 for i in names}"])
def test_tables_that_may_have_few(table: str) -> None:
    assert_clean(CURRICULUM.replace("  # !", "").replace(TABLE, table), "GG107")


@pytest.mark.parametrize("name", ["task_ids", "domains", "heads", "class_ids", "agent_ids", "layer_ids"])
def test_names_of_few(name: str) -> None:
    assert_clean(HERE.replace("indices", name), "GG104")


CLEAN = {
    "numbers": twin(REPLAY, ("= error\n", "= error.item()\n")),
    "a list of numbers": twin(REPLAY, ("error.abs())", "error.abs().tolist())")),
    "detached by the caller": twin(REPLAY, ("error.abs())", "error.abs().detach())")),
    "an array": twin(AGENT, ("[1.0] * size", "np.zeros(size)"), ("class Buffer", "import numpy as np\n\nclass Buffer")),
    "a short ring": twin(REPLAY, ("capacity=50_000", "capacity=8")),
    "the number of each": twin(AGENT, ("values[n] +", "float(values[n]) +")),
    "detached": twin(AGENT, ("(chosen, errors)", "(chosen, errors.detach())")),
    "the same samples": twin(
        REPLAY,
        ("        keys, x, a, y = replay.draw(32)\n", ""),
        ("    for step in", "    keys, x, a, y = replay.draw(32)\n    for step in"),
    ),
    "begun anew in each batch": twin(
        HERE, ("    hardness = {}\n", ""), ("            losses =", "            hardness = {}\n            losses =")
    ),
    "names of tasks": NAMES,
    "ids of tasks": NAMES.replace("names", "task_ids"),
    "numbers of each item": twin(CURRICULUM, ("= value\n", "= value.item()\n")),
    "a step that gives numbers": twin(CURRICULUM, ("return losses\n", "return losses.tolist()\n")),
    "detached items": twin(CURRICULUM, ("feedback(ids, losses)", "feedback(ids, losses.detach())")),
    "forgotten after each batch": twin(
        CURRICULUM, ("feedback(ids, losses)", "feedback(ids, losses)\n        sampler.difficulty.clear()")
    ),
    "which of the batch it is": twin(HERE, ("zip(indices.tolist(), losses)", "enumerate(losses)")),
    "what all have": twin(HERE, ("= each\n", "= epoch\n")),
    "without a graph": twin(HERE, ("            for i", "            losses = losses.detach()\n            for i")),
}


@pytest.mark.parametrize("snippet", CLEAN.values(), ids=CLEAN)
def test_clean(snippet: str) -> None:
    assert_clean(snippet, "GG104")
    assert_clean(snippet, "GG107")
