"""What a generator in evaluation mode returns, to one who backpropagates it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files

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


STEP = """
class Depth(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width, self.layers = width, nn.ModuleList([nn.Linear(8, width) for _ in range(4)])

    def forward(self, x):
        self.outputs = {}
        for scale, layer in enumerate(self.layers):
            self.outputs["disparity", scale] = layer(x)
        return self.outputs

class Trainer:
    def __init__(self, config, loader):
        self.offsets, self.loader = config.offsets, loader
        self.nets = {"depth": Depth(8), "features": nn.Linear(4, 4), "pose": nn.LSTM(4, 2)}
        self.optimizer = torch.optim.Adam(self.nets["pose"].parameters())

    def predict_motion(self, frames):
        found = {}
        for offset in self.offsets[1:]:
            features = [self.nets["features"](torch.cat([frames[0], frames[offset]], 1))]
            turn, shift = self.nets["pose"](features)
            found["turn", offset], found["shift", offset] = turn, shift
        return found

    def run_batch(self, frames):
        # made
        losses = self.losses(frames, given)
        return given, losses

    def losses(self, frames, given):
        total = 0
        for offset in self.offsets[1:]:
            total = total + (given["turn", offset] - frames[offset]).abs().mean()
        return {"loss": total}

    def run_epoch(self):
        for frames in self.loader:
            given, losses = self.run_batch(frames)
            self.optimizer.zero_grad()
            losses["loss"].backward()
            self.optimizer.step()
"""


def step(*made: str) -> str:
    return STEP.replace("# made", "\n        ".join(made))


RUN = 'given = self.nets["depth"](frames[0])'


@pytest.mark.parametrize(
    "made",
    [
        (RUN, "given.update(self.predict_motion(frames))"),
        (RUN, "found = self.predict_motion(frames)", "given.update(found)"),
        ("given = {}", "given.update(self.predict_motion(frames))"),
        ("given = {}", "moved = self.predict_motion(frames)", "given.update(moved)"),
        ("given = dict()", f"given.update({RUN[8:]})", "moved = self.predict_motion(frames)", "given.update(moved)"),
        ("given = self.predict_motion(frames)",),
    ],
)
def test_a_dict_that_gets_what_is_backpropagated(made: tuple[str, ...]) -> None:
    assert_clean(step(*made), "GG301")


@pytest.mark.parametrize(
    "made",
    [
        (RUN, "self.shown = len(self.predict_motion(frames))"),
        (RUN, "other = {}", "other.update(self.predict_motion(frames))", "self.log(list(other))"),
        (RUN, "given.update({'n': len(self.predict_motion(frames))})"),
        ("given = {}", f"given.update({RUN[8:]})", "found = self.predict_motion(frames)", "print(len(found))"),
    ],
)
def test_a_dict_that_gets_none_of_it(made: tuple[str, ...]) -> None:
    features = 'self.nets["features"](torch.cat([frames[0], frames[offset]], 1))'
    snippet = step(*made).replace(f"[{features}]\n", f"[{features}]  # !\n")
    assert_flagged(snippet, "GG301")
