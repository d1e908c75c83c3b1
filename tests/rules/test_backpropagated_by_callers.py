"""What a generator in evaluation mode returns, to one who backpropagates it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import lines_in_files

CODE = "GG105"

MODEL = """
import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.decoder, self.words, self.critic = nn.GRU(4, 4), nn.Embedding(9, 4), nn.Linear(4, 2)

    def draw(self, z):
        self.eval()
        x, h, drawn = z, z, []
        for _ in range(15):
            x, h = self.decoder(x, h)
            x = F.softmax(x, -1) @ self.words.weight
            drawn.append(x)
        self.train()
        return RETURNED

    def draw_batch(self, n):
        return torch.cat([self.draw(torch.randn(1, 1, 4)) for _ in range(n)])

    def rate(self, x):
        return self.critic(x)
"""

MAIN = """
import torch
import torch.nn.functional as F
MADE

def main(steps):
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(steps):
        optimizer.zero_grad()
        x = DRAWN
        y = model.rate(torch.randn(4, 4))
        loss = LOSS
        loss.backward()
        optimizer.step()
"""

MADE = ("from model import Model\nmodel = Model()", "from model import Model\nmodel = Model().cuda()")


def lines(folder: Path, made: str, drawn: str, loss: str, returned: str = "torch.cat(drawn)") -> list[tuple[str, int]]:
    main = MAIN.replace("MADE", made).replace("DRAWN", drawn).replace("LOSS", loss)
    return lines_in_files(folder, {"model.py": MODEL.replace("RETURNED", returned), "main.py": main}, CODE)


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize(
    ("drawn", "loss"),
    [
        ("model.draw_batch(4)", "F.cross_entropy(model.rate(x), torch.zeros(4).long())"),
        ("model.draw(torch.randn(1, 1, 4))", "model.rate(x).mean()"),
        ("model.draw(torch.randn(1, 1, 4))", "y.mean() + 0.1 * (x - 1).abs().sum()"),
        ("[model.draw_batch(1) for _ in range(4)]", "sum(model.rate(each).mean() for each in x)"),
    ],
)
def test_the_words_are_backpropagated(tmp_path: Path, made: str, drawn: str, loss: str) -> None:
    assert lines(tmp_path, made, drawn, loss) == []


def test_a_state_is_backpropagated(tmp_path: Path) -> None:
    assert lines(tmp_path, MADE[0], "model.draw(torch.randn(1, 1, 4))", "x.pow(2).mean()", "h") == []


@pytest.mark.parametrize(
    ("drawn", "loss", "returned"),
    [
        ("model.draw_batch(4)", "y.mean()", "torch.cat(drawn)"),
        ("model.draw_batch(4).detach()", "model.rate(x).mean()", "torch.cat(drawn)"),
        ("model.draw_batch(4).argmax(-1)", "model.rate(x.float()).mean()", "torch.cat(drawn)"),
        ("model.draw(torch.randn(1, 1, 4))", "y.mean() * len(x)", "[each.argmax() for each in drawn]"),
    ],
)
def test_the_words_are_only_looked_at(tmp_path: Path, drawn: str, loss: str, returned: str) -> None:
    assert {name for name, _ in lines(tmp_path, MADE[0], drawn, loss, returned)} == {"model.py"}
