"""Properties that make, at each access, an object whose constructor registers hooks."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, twin

CODE = "GG401"

BUCKETS = """
class Buckets(nn.Module):
    def __init__(self, module, limit=3000):
        super().__init__()
        self.module = module
        self._build(limit)

    def _build(self, limit):
        group = []
        for p in reversed(list(self.module.parameters())):
            group.append(p)
            if len(group) >= limit:
                self._close(group)
                group = []
        self._close(group)

    def _close(self, group):
        for i, p in enumerate(group):
            p.register_hook(lambda grad: grad)

    def forward(self, *args):
        return self.module(*args)

class Loop:
    def __init__(self, net):
        self.net = net
        self.optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    @property
    def parallel(self):
        return Buckets(self.net)  # !

    def step(self, x, y):
        loss = F.l1_loss(self.parallel(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
"""
WATCHER = """
class Watcher:
    def __init__(self, net):
        self.norms = {}
        self.net = net
        for name, layer in self.net.named_modules():
            layer.register_forward_hook(self.note)

    def note(self, module, args, output):
        self.norms[module] = output.norm().item()

class Trainer:
    def __init__(self):
        self.model = nn.Linear(8, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    @property
    def watcher(self):
        return Watcher(net=self.model)  # !

    def fit(self, loader):
        for x, y in loader:
            watcher = self.watcher
            self.optimizer.zero_grad()
            F.mse_loss(self.model(x), y).backward()
            self.optimizer.step()
            print(watcher.norms)
"""
REMOVES = "    def off(self):\n        for h in self.handles:\n            h.remove()\n\n    def forward"
CLEAN = {
    "made once": twin(BUCKETS, ("@property", "@cached_property")),
    "made once, by hand": twin(
        BUCKETS,
        (
            "        return Buckets(self.net)",
            "        self.made = self.made or Buckets(self.net)\n        return self.made",
        ),
    ),
    "a method, which is not read": twin(BUCKETS, ("    @property\n", "")),
    "nothing is registered": twin(BUCKETS, ("p.register_hook(lambda grad: grad)", "p.requires_grad_(True)")),
    "hooks that something removes": twin(BUCKETS, ("    def forward", REMOVES)),
    "not by the constructor": twin(BUCKETS, ("        self._build(limit)\n", "")),
    "on a copy": twin(BUCKETS, ("self.module = module", "self.module = copy.deepcopy(module)")),
    "on a module of its own": twin(
        BUCKETS,
        ("self.module = module", "self.module = module\n        self.head = nn.Linear(2, 2)"),
        ("self.module.par", "self.head.par"),
    ),
    "a net that is made anew": twin(
        BUCKETS, ("    def step(self, x, y):", "    def step(self, x, y):\n        self.net = make()")
    ),
    "given something else": twin(BUCKETS, ("Buckets(self.net)", "Buckets(make())")),
    "nothing reads it": twin(BUCKETS, ("self.parallel(x)", "self.net(x)")),
    "read where nothing trains": twin(BUCKETS, ("loss.backward()", "loss.item()")),
    "the handles are kept": twin(
        WATCHER, ("            layer.register", "            self.norms[name] = layer.register")
    ),
    "another class": twin(WATCHER, ("Watcher(net=self.model)", "Other(net=self.model)")),
}


def test_flagged() -> None:
    assert_flagged(BUCKETS, CODE)
    assert_flagged(WATCHER, CODE)


@pytest.mark.parametrize("snippet", CLEAN.values(), ids=CLEAN)
def test_clean(snippet: str) -> None:
    assert_clean(snippet, CODE)
