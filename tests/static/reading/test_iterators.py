"""Loops over an object of the project, which keeps something of each iteration."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, twin

GENERATES = """
        class Batches:
            def __init__(self, loader):
                self.loader, self.seen = loader, []

            def __iter__(self):
                for x, y in self.loader:
                    x, y = x.cuda(), y.cuda()
                    self.seen.append((x, y))  # !
                    yield x, y

        class Trainer:
            def __init__(self, net, loader):
                self.net, self.batches = net.cuda(), Batches(loader)
                self.optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

            def fit(self, epochs):
                for epoch in range(epochs):
                    for i, (x, y) in enumerate(self.batches):
                        loss = F.cross_entropy(self.net(x), y)
                        self.optimizer.zero_grad()
                        loss.backward()
                        self.optimizer.step()
"""
NEXT = """
        class Batches:
            def __init__(self, data):
                self.data, self.at, self.seen = data, 0, []

            def __iter__(self):
                return self

            def __next__(self):
                x = self.data[self.at].to("cuda")
                self.at += 1
                self.seen.append(x)  # !
                return x

        def train(net, data):
            net.cuda()
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            batches = Batches(data)
            for step, x in zip(range(10_000), batches):
                optimizer.zero_grad()
                net(x).square().mean().backward()
                optimizer.step()
"""
SEEN = "self.seen.append((x, y))"


WITH_A_BAR = GENERATES.replace("enumerate(self.batches)", "enumerate(tqdm(self.batches))")
UNNAMED = (
    GENERATES.split("        class Trainer")[0]
    + """
        def train(loader):
            net = nn.Linear(8, 2).cuda()
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            for x, y in Batches(loader):
                loss = F.cross_entropy(net(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
"""
)
ROUND = "            for x, y in Batches"
OF_EACH_EPOCH = UNNAMED.replace(ROUND, f"            for epoch in range(9):\n {ROUND}")


@pytest.mark.parametrize("code", [GENERATES, WITH_A_BAR, NEXT, UNNAMED])
def test_what_an_iterator_keeps_of_each_batch(code: str) -> None:
    assert_flagged(code, "GG409")


@pytest.mark.parametrize(
    ("code", "edit"),
    [
        (GENERATES, (SEEN, "self.seen = [(x, y)]")),
        (GENERATES, (SEEN, "self.seen.append((x, y))\n                    del self.seen[:-2]")),
        (GENERATES, (SEEN, "self.seen.append(len(x))")),
        (GENERATES, ("def __iter__(self):", "def __iter__(self):\n                self.seen = []")),
        (GENERATES, ("self.seen = loader, []", "self.seen = loader, deque(maxlen=8)")),
        (NEXT, ("self.seen.append(x)", "self.seen.append(x)\n                self.seen.pop(0)")),
        (NEXT, ("self.seen.append(x)", "self.seen.append(x.mean().item())")),
        (NEXT, ('to("cuda")', "float()")),
        (UNNAMED, (SEEN, "self.seen = [(x, y)]")),
        (OF_EACH_EPOCH, ("self.loader", "self.loader")),
    ],
)
def test_what_an_iterator_does_not_keep(code: str, edit: tuple[str, str]) -> None:
    assert_clean(twin(code, edit))
