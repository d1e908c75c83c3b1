from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, twin

CODE = "GG420"

ATTENTION = """
    class Attention(nn.Module):
        def __init__(self, dim, left):
            super().__init__()
            self.left, self.qkv = left, nn.Linear(dim, 3 * dim)
            self.reset()

        def reset(self):
            self.past = None

        def forward(self, x):
            past = x.new_zeros(len(x), 0, x.size(-1)) if self.past is None else self.past
            seen = torch.cat([past[:, -self.left :], x], dim=1)
            self.past = torch.cat([past, x.detach()], dim=1)  # !
            return self.qkv(seen)

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(Attention(8, 16) for _ in range(2))

        def begin(self):
            for layer in self.layers:
                layer.reset()

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)[..., :8]
            return x

    def main(loader):
        net = Encoder()
        net.begin()
        optimizer = torch.optim.Adam(net.parameters())
        for x, y in loader:
            loss = F.mse_loss(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
"""

FIRST = """
    class Bank(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.size, self.proj, self.keys = size, nn.Linear(8, 8), None

        def forward(self, x):
            out = self.proj(x)
            if self.keys is None:
                self.keys = out.detach()
            else:
                self.keys = torch.cat((self.keys, out.detach()))  # !
            return out @ self.keys[-self.size :].T
"""

PAIRS = """
    class Quasi(torch.optim.Optimizer):
        def __init__(self, params, history=8):
            super().__init__(params, dict(history=history))
            self.pairs, self.m = [], history

        def direction(self, g):
            q = g.clone()
            recent = self.pairs[-self.m :]
            for s, y in reversed(recent):
                q.sub_(y, alpha=float(s.dot(q)))
            return q

        def remember(self, s, y):
            if s.dot(y) > 1e-10:
                self.pairs.append((s, y))  # !

        def step(self, closure):
            loss = closure()
            g = torch.cat([p.grad.view(-1) for p in self.param_groups[0]["params"]])
            d = self.direction(g)
            if len(self.pairs) > 2 and self.pairs:
                d = d - self.pairs[-1][0]
            self.remember(d, g)
            return loss
"""


DIMENSIONS = ATTENTION.replace("past[:, -self.left :]", "past[..., -self.left :, :]")


@pytest.mark.parametrize("snippet", [ATTENTION, DIMENSIONS, FIRST, PAIRS])
def test_only_the_end_is_read(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    ("snippet", "old", "new"),
    [
        (ATTENTION, "torch.cat([past, x.detach()], dim=1)", "seen[:, -self.left :].detach()"),
        (ATTENTION, "torch.cat([past, x.detach()], dim=1)", "torch.cat([past[:, -8:], x.detach()], dim=1)"),
        (ATTENTION, "torch.cat([past, x.detach()], dim=1)", "torch.cat([past, x.detach()], dim=1)[:, -16:]"),
        (ATTENTION, "return self.qkv(seen)", "self.past = self.past[:, -16:]\n            return self.qkv(seen)"),
        (ATTENTION, "return self.qkv(seen)", "return self.qkv(seen) + self.past.mean()"),
        (ATTENTION, "past[:, -self.left :]", "past"),
        (ATTENTION, "past[:, -self.left :]", "past[:, -self.left : -1]"),
        (ATTENTION, "past[:, -self.left :]", "past[:, : self.left]"),
        (ATTENTION, "        for x, y in loader:", "        for x, y in loader:\n            net.begin()"),
        (ATTENTION, "        net.begin()\n", ""),
        (ATTENTION, "return self.qkv(seen)", "self.trim()\n            return self.qkv(seen)\n\n"
         "        def trim(self):\n            self.past = self.past[:, -self.left :]"),
        (ATTENTION, "def main(loader):", "def draw(net):\n        return net.layers[0].past\n\n    def main(loader):"),
        (ATTENTION, "class Attention(nn.Module)", "class Attention(Base)"),
        (FIRST, "self.keys[-self.size :].T", "self.keys.T"),
        (FIRST, "return out @", "self.keys = self.keys[-self.size :]\n            return out @"),
        (FIRST, "def forward", "def reset(self):\n            self.keys = None\n\n        def forward"),
        (FIRST, "def forward", "def update"),
        (FIRST, "self.keys[-self.size :].T", "queue(self.keys)[-self.size :].T"),
        (PAIRS, "self.pairs.append((s, y))", "self.pairs.append((s, y))\n                del self.pairs[: -self.m]"),
        (PAIRS, "self.pairs.append((s, y))", "self.pairs.append((s, y)); self.pairs = self.pairs[-self.m :]"),
        (PAIRS, "self.pairs.append((s, y))", "self.pairs.append((s, y)); self.pairs.pop(0)"),
        (PAIRS, "self.pairs, self.m = [], history", "self.pairs, self.m = deque(maxlen=history), history"),
        (PAIRS, "reversed(recent)", "reversed(self.pairs)"),
        (PAIRS, "self.pairs.append((s, y))", "self.pairs.append(s.item())"),
        (PAIRS, "loss = closure()", "loss = closure(); self.pairs = []"),
        (PAIRS, "return loss", "save(self.pairs)\n            return loss"),
        (PAIRS, "class Quasi(torch.optim.Optimizer)", "class Quasi(Solver)"),
    ],
)  # fmt: skip
def test_histories_that_are_cut_or_read(snippet: str, old: str, new: str) -> None:
    assert_clean(twin(snippet, (old, new)), CODE)
