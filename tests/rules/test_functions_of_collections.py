"""GG104: an attribute is one of the functions of a global collection: ``self.project = NORMS[name]``."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, twin

MIXES = """
from functools import partial

MIXES = {}

def mix(name):
    def put(function):
        MIXES[name] = function
        return function
    return put

@mix("mean")
def mean(terms, scale=1.0):
    return scale * sum(terms) / len(terms)

@mix("worst")
def worst(terms, scale=1.0):
    return scale * torch.stack(terms).max()

class Curve:
    def __init__(self, name):
        self.mix = MIXES[name]
        self.points = []

    def add(self, terms):
        self.points.append(self.mix(terms))

def train(model, optimizer, loader, name):
    curve = Curve(name)
    for x, y in loader:
        out = model(x)
        loss = F.mse_loss(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        curve.add([loss, out.abs().mean()])  # !
"""
CHOSEN = "self.mix = MIXES[name]"
BY_HAND = (MIXES[MIXES.index("MIXES = {}") : MIXES.index("@mix")], "")


@pytest.mark.parametrize(
    "edits",
    [
        [],
        [(CHOSEN, "self.mix = partial(MIXES[name], scale=0.5)")],
        [(CHOSEN, "self.mix: object = MIXES[name.lower()]")],
        [(CHOSEN, "self.begin(name)"),
         ("    def add", "    def begin(self, name):\n        self.mix = MIXES[name]\n\n    def add")],
        [BY_HAND, ('@mix("mean")\n', ""), ('@mix("worst")\n', ""),
         ("class Curve:", 'MIXES = {"mean": mean, "worst": worst}\n\nclass Curve:')],
    ],
)  # fmt: skip
def test_one_of_a_collection(edits: list[tuple[str, str]]) -> None:
    snippet = MIXES
    for old, new in edits:
        assert old in snippet
        snippet = snippet.replace(old, new)
    assert_flagged(snippet, "GG107")


@pytest.mark.parametrize(
    "edits",
    [
        [("self.points.append(self.mix(terms))", "self.points.append(self.mix(terms).item())")],
        [("self.points.append(self.mix(terms))", "self.points.append(self.mix([each.detach() for each in terms]))")],
        [("return scale * sum(terms) / len(terms)", "return scale * sum(each.item() for each in terms) / len(terms)"),
         ("return scale * torch.stack(terms).max()", "return scale * max(each.item() for each in terms)")],
        [("    return scale * sum", "    terms = [each.detach() for each in terms]\n    return scale * sum"),
         ("torch.stack(terms)", "torch.stack([each.detach() for each in terms])")],
        [("[loss, out.abs().mean()]", "[loss.detach(), out.detach().abs().mean()]")],
        [("self.points.append(self.mix(terms))", "self.points = [*self.points[-9:], float(self.mix(terms))]")],
    ],
)  # fmt: skip
def test_none_of_them_gives_a_graph(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(MIXES, *edits), "GG107")
