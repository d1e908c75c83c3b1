"""GG104: the list that a method means to empty, and of which it only binds its own name anew."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, findings

PROGRAM = """
    class Lit(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Linear(8, 2)
            self.outputs = []

        def training_step(self, x, y):
            logits = self.net(x)
            self.outputs.append(logits)
            return F.cross_entropy(logits, y)

        def end_epoch(self):
            kept = self.outputs
            print(torch.cat([each.detach() for each in kept]).mean())
            {ends}

    def train(loader):
        lit = Lit()
        opt = torch.optim.SGD(lit.parameters(), lr=0.1)
        for epoch in range(10):
            for x, y in loader:
                opt.zero_grad()
                lit.training_step(x, y).backward()
                opt.step()
            lit.end_epoch()
"""


@pytest.mark.parametrize("ends", ["kept = []", "kept = list()", "kept = {}", "if kept:\n                kept = []"])
def test_it_points_to_the_name_that_is_bound_anew(ends: str) -> None:
    (finding,) = findings(PROGRAM.format(ends=ends), "GG104")
    (note, *_) = finding.related
    assert "binds the name `kept` anew: `kept.clear()` would" in note.message


@pytest.mark.parametrize("ends", ["pass", "kept = 0", "other = []", "kept = [1]", "rows = kept"])
def test_it_points_to_nothing_that_was_not_to_empty_it(ends: str) -> None:
    (finding,) = findings(PROGRAM.format(ends=ends), "GG104")
    assert not any("anew" in note.message for note in finding.related)


def test_a_name_that_is_empty_before_it_is_that_of_the_list() -> None:
    text = PROGRAM.format(ends="pass").replace("kept = self.outputs", "kept = []\n            kept = self.outputs")
    (finding,) = findings(text, "GG104")
    assert not any("anew" in note.message for note in finding.related)


@pytest.mark.parametrize("ends", ["kept.clear()", "self.outputs = []", "self.outputs = kept = []", "del kept[:]"])
def test_what_empties_it_is_not_flagged(ends: str) -> None:
    assert_clean(PROGRAM.format(ends=ends), "GG104")
