"""A tensor as the key of a dict: told apart by its identity, it makes a new entry each time, and stays."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, findings

CODE = "GG104"

NOVELTY = """
        from collections import Counter, OrderedDict

        class Novelty:
            def __init__(self, n):
                self.proj = nn.Sequential(nn.Linear(n, 64), nn.Tanh(), nn.Linear(64, 8))
                self.counts = {made}

            def cell(self, obs):
                return torch.sign(self.proj(obs))

            def bonus(self, obs):
                c = self.cell(obs)
                {counts}
                return 1.0

            def reset(self):
                self.counts.clear()

        def train(net, loader, opt):
            novelty = Novelty(6)
            for x, y in loader:
                {each}
                loss = F.mse_loss(net(x), y + novelty.bonus(x))
                opt.zero_grad()
                loss.backward()
                opt.step()
"""


def _snippet(made: str = "Counter()", counts: str = "self.counts[c] += 1", each: str = "pass") -> str:
    return NOVELTY.format(made=made, counts=counts, each=each)


@pytest.mark.parametrize(
    ("made", "counts"),
    [
        ("Counter()", "self.counts[c] += 1"),
        ("defaultdict(int)", "self.counts[c] += 1"),
        ("{}", "self.counts[c] = 1"),
        ("OrderedDict()", "self.counts[c] = 1"),
        ("defaultdict(float)", "self.counts[self.cell(obs)] += 0.5"),
    ],
)
def test_counted_by_tensors(made: str, counts: str) -> None:
    snippet = _snippet(made, counts + "  # !")
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    ("made", "counts", "each"),
    [
        ("Counter()", "self.counts[tuple(c.tolist())] += 1", "pass"),
        ("Counter()", "self.counts[c.sum().item()] += 1", "pass"),
        ("Counter()", "self.counts[str(c)] += 1", "pass"),
        ("Counter()", "self.counts[id(c)] += 1", "pass"),
        ("Counter()", "self.counts[c.detach().numpy().tobytes()] += 1", "pass"),
        ("torch.zeros(256)", "self.counts[c] += 1", "pass"),
        ("torch.zeros(256)", "self.counts[c.long()] += 1", "pass"),
        ("[0] * 256", "self.counts[c.argmax()] += 1", "pass"),
        ("Counter()", "self.counts[c] += 1", "novelty.reset()"),
        ("Counter()", "self.counts[c] += 1; self.counts.clear()", "pass"),
        ("Counter()", "self.counts = Counter(); self.counts[c] += 1", "pass"),
        ("Counter()", "counts = Counter(); counts[c] += 1", "pass"),
        ("Counter()", "self.counts[c] += 1", "novelty = Novelty(6)"),
        ("Counter()", "self.counts['all'] += 1", "pass"),
        ("{}", "self.counts['mean'] = 1", "pass"),
    ],
)
def test_counted_by_something_else_or_not_for_long(made: str, counts: str, each: str) -> None:
    assert_clean(_snippet(made, counts, each), CODE)


def test_what_is_there_under_a_tensor_has_no_graph_of_it() -> None:
    snippet = _snippet(counts="self.counts[c] += 1  # !").replace("return 1.0", "return 1 / self.counts[c] ** 0.5")
    assert_flagged(snippet.replace("novelty.bonus(x))", "(b := novelty.bonus(x))); kept.append(b)"), CODE)


def test_states_by_parameter() -> None:
    assert_clean(
        """
        class Average:
            def __init__(self, net):
                self.steps, self.net = defaultdict(int), net

            def update(self):
                for p in self.net.parameters():
                    self.steps[p] += 1

        def train(net, loader, opt, average):
            average = Average(net)
            for x, y in loader:
                opt.zero_grad()
                F.mse_loss(net(x), y).backward()
                opt.step()
                average.update()
        """,
        CODE,
    )


def test_it_is_to_be_keyed_by_numbers() -> None:
    [finding] = findings(_snippet(), CODE)
    assert finding.fix is None
    assert (finding.help or "").startswith("key `novelty.counts` by numbers")
