"""GG264: layers whose scores only choose."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, twin

CODE = "GG264"

SWITCH = """
    class Switch(nn.Module):
        def __init__(self, dim, count):
            super().__init__()
            self.router = nn.Linear(dim, count, bias=False)
            self.experts = nn.ModuleList(nn.Linear(dim, dim) for _ in range(count))
            self.register_buffer("load", torch.zeros(count))

        def forward(self, x):
            probs = self.router(x).softmax(-1)  # !
            gate, choice = probs.max(-1)
            out = torch.zeros_like(x)
            for i, expert in enumerate(self.experts):
                rows = (choice == i).nonzero()[:, 0]
                out = out.index_copy(0, rows, expert(x[rows]))
            return out

    def main(loader):
        net = nn.Sequential(nn.Linear(8, 8), Switch(8, 4), nn.Linear(8, 2))
        optimizer = torch.optim.AdamW(net.parameters())
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(net(x), y).backward()
            optimizer.step()
"""
CHOICE = "gate, choice = probs.max(-1)"
RUNS = "expert(x[rows])"
PROBS = "probs = self.router(x).softmax(-1)  # !"
RETURN = "return out\n"


@pytest.mark.parametrize(
    "edits",
    [
        [],
        [(CHOICE, "choice = probs.argmax(dim=-1)")],
        [(CHOICE, "choice = torch.argmax(probs, -1)")],
        [(CHOICE, "choice = probs.topk(1).indices[:, 0]")],
        [(CHOICE, "choice = torch.topk(probs, 1)[1][:, 0]")],
        [(CHOICE, "choice = torch.multinomial(probs, 1)[:, 0]")],
        [(PROBS, "scores = self.router(x)  # !\n            probs = F.softmax(scores / 2, -1)")],
        [("self.router = nn.Linear(dim, count, bias=False)",
          "self.pick = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, count))"),
         ("self.router(x)", "self.pick(x)")],
        [(RETURN, "with torch.no_grad():\n                self.load.lerp_(probs.mean(0), 0.1)\n"
          "            return out\n")],
    ],
)  # fmt: skip
def test_scores_that_only_choose(edits: list[tuple[str, str]]) -> None:
    snippet = SWITCH
    for old, new in edits:
        assert old in snippet
        snippet = snippet.replace(old, new)
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [(RUNS, "gate[rows, None] * expert(x[rows])")],
        [(RUNS, "probs[rows, i, None] * expert(x[rows])")],
        [(RETURN, "return out, probs\n")],
        [(RETURN, "self.probs = probs\n            return out\n")],
        [(RETURN, "balance(probs)\n            return out\n")],
        [(RETURN, "self.aux = (probs.mean(0) ** 2).sum()\n            return out\n")],
        [(RETURN, "return out + (probs - probs.detach()).sum(-1, keepdim=True)\n")],
        [(CHOICE, "top = probs.topk(1)\n            gate, choice = top"), (RUNS, "gate[rows] * expert(x[rows])")],
        [(CHOICE, "choice = torch.distributions.Categorical(probs).sample()\n            self.dist = probs")],
        [("softmax(-1)", "softmax(-1).detach()")],
        [("nn.Linear(dim, count, bias=False)", "nn.Linear(dim, count).requires_grad_(False)")],
        [("    def main", "    def freeze(m):\n        for p in m.parameters(): p.requires_grad = False\n\n"
          "    def main")],
        [("self.router", "self.random_router")],
        [("    def main", "    def balance(layer, x):\n        return layer.router(x).pow(2).mean()\n\n    def main")],
        [("        def forward", "        def aux(self, x):\n            return self.router(x).logsumexp(-1).mean()\n\n"
          "        def forward")],
        [("    def main", "    class Balanced(Switch):\n        pass\n\n    def main")],
        [("self.router(x).softmax(-1)", "F.softmax(x @ self.router.weight.T, -1) + self.router.weight.sum()"),
         (RUNS, "probs[rows, :1] * expert(x[rows])")],
        [("return out\n", "return choice\n")],
        [("    def main", "    def penalty(net):\n        return sum(p.pow(2).sum() for p in net.parameters())\n\n"
          "    def main")],
    ],
)  # fmt: skip
def test_scores_that_are_used(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(SWITCH, *edits), CODE)
