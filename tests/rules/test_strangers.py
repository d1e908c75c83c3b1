"""A state that goes through a module whose class only the run knows: one of them may cut its graph itself."""

from __future__ import annotations

import pytest

from gradguard.findings import Confidence
from tests.rules.snippets import assert_clean, assert_flagged

CODE = "GG105"

CHOSEN = """
        class Stack(nn.Module):
            def __init__(self):
                super().__init__()
                self.cells, self.head = nn.ModuleList([nn.LSTM(4, 4), nn.LSTM(4, 4)]), nn.Linear(4, 4)

            def forward(self, x, hidden=None):
                new = []
                for h, cell in zip(hidden or [None, None], self.cells):
                    x, h = cell(x, h)
                    {kept}
                return self.head(x), new

            def cut(self, h):
                if isinstance(h, torch.Tensor):
                    return {cut}
                return tuple(self.cut(v) for v in h)

        class Long(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(4, 4)

            def forward(self, x, memory=None, context=3):
                return self.layer(x), torch.cat([memory, self.layer(x)])

        class Runner:
            def __init__(self, kind):
                if kind == "lstm":
                    self.net = Stack()
                else:
                    self.net = Long()
                if torch.cuda.is_available():
                    self.net = self.net.cuda()

            def evaluate(self, loader):
                self.net.eval()
                hidden = None
                for x, y in loader:
                    out, hidden = self.net(x, hidden){mark}
                return None

        def evaluate(net, loader):
            net.eval()
            hidden = None
            for x, y in loader:
                out, hidden = net(x, hidden){mark}
            return None
"""

CUTTING = [
    ("new.append(self.cut(h))", "h.detach()"),
    ("new.append(tuple(v.detach() for v in h))", "h"),
    ("h = [v.detach_() for v in h]; new.append(h)", "h"),
]


@pytest.mark.parametrize(("kept", "cut"), CUTTING)
def test_one_of_the_classes_cuts_it(kept: str, cut: str) -> None:
    assert_clean(CHOSEN.format(kept=kept, cut=cut, mark=""), CODE)
    assert_flagged(CHOSEN.format(kept=kept, cut=cut, mark="  # !"), CODE, Confidence.LOW)


@pytest.mark.parametrize(
    ("kept", "cut"),
    [("new.append(h)", "h"), ("new.append(h)", "h.detach()"), ("new.append(self.cut(h))", "h.clone()")],
)
def test_none_of_them_does(kept: str, cut: str) -> None:
    assert_flagged(CHOSEN.format(kept=kept, cut=cut, mark="  # !"), CODE)


def test_a_class_that_cuts_and_cannot_take_the_arguments() -> None:
    snippet = CHOSEN.replace("x, hidden=None", "x, lengths, mask, hidden").replace("self.net = Stack()", "pass")
    assert_flagged(snippet.format(kept=CUTTING[0][0], cut=CUTTING[0][1], mark="  # !"), CODE)


@pytest.mark.parametrize("made", ["nn.LSTM(4, 4)", "nn.GRU(4, 4)"])
def test_a_layer_of_torch_beside_a_class_that_cuts(made: str) -> None:
    snippet = CHOSEN.replace("self.net = Stack()", "pass").replace("self.net = Long()", f"self.net = {made}")
    snippet = snippet[: snippet.index("        def evaluate(net, loader)")].replace("if kind ==", "if not kind ==")
    assert_flagged(snippet.format(kept=CUTTING[0][0], cut=CUTTING[0][1], mark="  # !"), CODE)
