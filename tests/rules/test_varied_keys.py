"""Caches without a limit, whose keys are new with nearly each batch."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, twin

CODE = "GG404"

SCRIPT = """
    import functools
    import random

    @functools.lru_cache(maxsize=None)  # !
    def padding(lengths, width):
        ends = torch.tensor(lengths)[:, None]
        return torch.zeros(len(lengths), width).masked_fill(torch.arange(width) >= ends, float("-inf"))

    net = nn.Linear(8, 8)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    texts = [list(range(n)) for n in (3, 5, 8, 4, 6)]
    for step in range(10_000):
        batch = random.sample(texts, 4)
        scores = net(torch.randn(4, 8)) + padding(tuple(len(text) for text in batch), 8)
        loss = scores.softmax(1).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""

TRAINER = """
    from functools import cache
    from typing import Tuple

    @cache  # !
    def blocks(sizes: Tuple[int, ...]) -> torch.Tensor:
        owner = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
        return (owner[:, None] == owner[None, :]).float()

    class Mixer(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.inner = nn.Linear(dim, dim)

        def forward(self, nodes, sizes):
            return blocks(sizes) @ self.inner(nodes)

    class Trainer:
        def __init__(self, rng):
            self.rng = rng
            self.model = Mixer(8)
            self.optimizer = torch.optim.Adam(self.model.parameters())

        def draw(self):
            graphs = [self.graph(self.rng) for _ in range(16)]
            return torch.cat(graphs), tuple(len(graph) for graph in graphs)

        def graph(self, rng):
            return torch.randn(rng.randrange(3, 20), 8)

        def run(self, steps):
            for _ in range(steps):
                nodes, sizes = self.draw()
                self.optimizer.zero_grad()
                self.model(nodes, sizes).pow(2).mean().backward()
                self.optimizer.step()
"""

LOADER = """
    import functools
    from torch.utils.data import DataLoader

    @functools.lru_cache(None)  # !
    def weights(counts, size):
        return torch.ones(len(counts), size) / torch.tensor(counts)[:, None]

    def fit(model, data, optimizer):
        loader = DataLoader(data, batch_size=16, shuffle=True)
        for x, counts in loader:
            optimizer.zero_grad()
            loss = (model(x) * weights(tuple(counts.tolist()), x.shape[1])).sum()
            loss.backward()
            optimizer.step()
"""

LENGTHS = "tuple(len(text) for text in batch)"
BOTH = "nodes, sizes = self.draw()"
FLAGGED = {
    "a script": SCRIPT,
    "the function is applied by map": SCRIPT.replace(LENGTHS, "tuple(map(len, batch))"),
    "in order": SCRIPT.replace(LENGTHS, "tuple(sorted([len(text) + 1 for text in batch]))"),
    "a module is given them by its trainer": TRAINER,
    "as one of what a helper gives": TRAINER.replace(BOTH, "nodes = self.draw()[0]; sizes = self.draw()[1]"),
    "values of a tensor of the batch": LOADER,
}  # fmt: skip

AGAIN = "    for step in range(10_000):\n        batch = random.sample(texts, 4)"
ONCE = "    batch = random.sample(texts, 4)\n    for step in range(10_000):"
ENDS = 'torch.zeros(len(lengths), width).masked_fill(torch.arange(width) >= ends, float("-inf"))'
CLEAN = {
    "the cache has a limit": twin(SCRIPT, ("maxsize=None", "maxsize=8")),
    "it has the usual limit": twin(SCRIPT, ("@functools.lru_cache(maxsize=None)", "@functools.lru_cache")),
    "it is emptied": twin(SCRIPT, ("optimizer.step()", "optimizer.step(); padding.cache_clear()")),
    "the same batch in each step": twin(SCRIPT, ("random.sample(texts, 4)", "texts[:4]")),
    "drawn once": twin(SCRIPT, (AGAIN, ONCE)),
    "of the samples that are there, in each step": twin(SCRIPT, ("for text in batch)", "for text in texts)")),
    "a length for all": twin(SCRIPT, (LENGTHS, "max(len(text) for text in batch)")),
    "rounded up to a few": twin(SCRIPT, ("tuple(len(text) for", "tuple(-(-len(text) // 8) * 8 for")),
    "numbers are kept": twin(SCRIPT, (ENDS, "sum(lengths) / width")),
    "a shape": twin(LOADER, ("tuple(counts.tolist())", "tuple(x.shape)")),
    "the loader gives the same batches again": twin(LOADER, ("shuffle=True", "shuffle=False")),
    "of the layers of a model": twin(SCRIPT, ("for text in batch)", "for text in net.parameters())")),
    "nothing is trained": twin(
        TRAINER, ("self.model(nodes, sizes).pow(2).mean().backward()", "print(self.model(nodes, sizes))"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FLAGGED)
def test_a_key_of_each_batch(name: str) -> None:
    assert_flagged(FLAGGED[name], CODE)


@pytest.mark.parametrize("name", CLEAN)
def test_a_key_that_comes_again_or_is_let_go(name: str) -> None:
    assert_clean(CLEAN[name], CODE)
