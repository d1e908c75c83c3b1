"""GG106: a running maximum for each layer, in an entry of a list by a number that the module's own loop gives."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged

NET = """
    class Net(nn.Module):
        def __init__(self, sizes):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(a, b) for a, b in zip(sizes[:-1], sizes[1:])])
            self.high = [torch.zeros(()) for _ in sizes]

        def forward(self, x):
            for i, layer in enumerate(self.layers):
                x = layer(x)
                {update}
            return x

    def main(steps):
        net = Net([2, 32, 1])
        opt = torch.optim.Adam(net.parameters())
        for {count} in range(steps):
            loss = net(torch.rand(8, 2)).sum()
            opt.zero_grad()
            loss.backward()
            opt.step()
"""
CHAINED = {
    "maximum": "self.high[i] = torch.maximum(self.high[i], x.abs().max())  # !",
    "max of two": "self.high[i] = torch.max(self.high[i], x.abs().max())  # !",
    "minimum": "self.high[i] = torch.min(self.high[i], x.amin())  # !",
    "where": "self.high[i] = torch.where(x.max() > self.high[i], x.max(), self.high[i])  # !",
    "in training only": "if self.training: self.high[i] = torch.maximum(self.high[i], x.max())  # !",
    "an average": "self.high[i] = 0.9 * self.high[i] + 0.1 * x.abs().max()  # !",
}
CUT = {
    "detached": "self.high[i] = torch.maximum(self.high[i], x.detach().abs().max())",
    "of the data": "self.high[i] = torch.maximum(self.high[i], x.data.max())",
    "cut as it is kept": "self.high[i] = torch.maximum(self.high[i], x.max()).detach()",
    "numbers": "self.high[i] = max(self.high[i], x.abs().max().item())",
    "one of the two": "self.high[i] = max(self.high[i], x.abs().max())",
    "the last one": "self.high[i] = x.abs().max()",
    "without gradients": "with torch.no_grad(): self.high[i] = torch.maximum(self.high[i], x.max())",
    "in place, of the data": "self.high[i].copy_(torch.maximum(self.high[i], x.detach().max()))",
}


@pytest.mark.parametrize("count", ["i", "step", "_"])
@pytest.mark.parametrize("update", CHAINED.values(), ids=CHAINED)
def test_an_extremum_with_its_graph_is_flagged_whatever_the_caller_calls_its_count(update: str, count: str) -> None:
    assert_flagged(NET.format(update=update, count=count), "GG106")


@pytest.mark.parametrize("count", ["i", "step"])
@pytest.mark.parametrize("update", CUT.values(), ids=CUT)
def test_what_has_no_graph_or_chains_none_is_not_flagged(update: str, count: str) -> None:
    assert_clean(NET.format(update=update, count=count), "GG106")
    assert_clean(NET.format(update=update, count=count), "GG105")


OF_CALLER = {
    "the caller gives the place": """
        def add(target, i, value):
            target[i] = target[i] + value

        def returns(model, rewards, opt):
            target = [torch.zeros(()) for _ in rewards]
            for i in range(len(rewards)):
                add(target, i, model(rewards[i]).sum())
            loss = torch.stack(target).sum()
            opt.zero_grad()
            loss.backward()
            opt.step()
    """,
    "each step begins anew": NET.format(
        update="self.high[i] = torch.maximum(self.high[i], x.abs().max())", count="i"
    ).replace(
        "            for i, layer",
        "            self.high = [torch.zeros(()) for _ in self.layers]\n            for i, layer",
    ),
}


@pytest.mark.parametrize("snippet", OF_CALLER.values(), ids=OF_CALLER)
def test_entries_of_the_caller_are_not_flagged(snippet: str) -> None:
    assert_clean(snippet, "GG106")
