"""GG201: the caller of a loop made its optimizers: it tells whose parameters each of them has."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files, twin

CODE = "GG201"

WRONG_ONE = """
def main(args, batches):
    mean, last = Classifier(args.size), Classifier(args.size)
    optim_mean = torch.optim.Adam(mean.parameters())
    optim_last = torch.optim.Adam(last.parameters())
    for epoch in range(args.epochs):
        one_epoch(mean.cuda(), last.cuda(), batches, optim_mean, optim_last)

def one_epoch(mean, last, batches, optim_mean, optim_last):
    train(mean, last, batches, optim_mean, optim_last)
    print(valid(last, batches))

def train(mean, last, batches, optim_mean, optim_last):
    for x, y in batches:
        optim_mean.zero_grad()
        loss = F.cross_entropy(mean(x), y)
        loss.backward()
        optim_mean.step()
    for x, y in batches:
        optim_mean.zero_grad()
        loss = F.cross_entropy(last(x), y)
        loss.backward()  # !
        optim_last.step()

def valid(last, batches):
    with torch.no_grad():
        return sum(F.cross_entropy(last(x), y).item() for x, y in batches)
"""


@pytest.mark.parametrize(
    "edits",
    [
        [],
        [
            (
                "optim_mean, optim_last)\n\ndef one_epoch",
                "optim_last=optim_last, optim_mean=optim_mean)\n\ndef one_epoch",
            )
        ],
        [("torch.optim.Adam(last.parameters())", "torch.optim.SGD(list(last.parameters()), lr=0.1)")],
        [("torch.optim.Adam(last.parameters())", "torch.optim.Adam(last.head.parameters())")],
    ],
)
def test_another_optimizer_is_reset(edits: list[tuple[str, str]]) -> None:
    text = WRONG_ONE
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    assert_flagged(text, CODE)


SECOND = """        optim_mean.zero_grad()
        loss = F.cross_entropy(last(x), y)
"""


@pytest.mark.parametrize(
    "edits",
    [
        [(SECOND, SECOND.replace("optim_mean", "optim_last"))],
        [(SECOND, SECOND.replace("optim_mean", "last"))],
        [(SECOND, SECOND + "        last.zero_grad()\n")],
        [("torch.optim.Adam(mean.parameters())", "torch.optim.Adam(last.parameters())")],
        [("torch.optim.Adam(mean.parameters())", "torch.optim.Adam([*mean.parameters(), *last.parameters()])")],
        [("torch.optim.Adam(last.parameters())", "torch.optim.Adam(args.parameters)")],
        [("torch.optim.Adam(mean.parameters())", "make_optimizer(mean)")],
        [("torch.optim.Adam(last.parameters())", "make_optimizer(last)")],
        [("one_epoch(mean.cuda(), last.cuda(), batches, optim_mean, optim_last)", "one_epoch(*args.all)")],
        [("batches, optim_mean, optim_last)\n\ndef one", "batches, optim_last, optim_last)\n\ndef one")],
        [("        optim_last.step()", "        optim_last.step()\n        optim_last.zero_grad()")],
        [("        optim_last.step()", "        optim_last.step()\n        for p in last.parameters(): p.grad = None")],
    ],
)
def test_lookalikes(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(WRONG_ONE, *edits), CODE)


TRAINER = """
import torch

class Trainer:
    def __init__(self, net):
        self.net = net
        self.optimizer = torch.optim.Adam(self.net.parameters())

    def reset(self):
        self.optimizer.zero_grad()
"""

LOOP = """
import torch
import torch.nn.functional as F
from trainer import Trainer

def step(optimizer):
    optimizer.step()

def main(net, batches):
    trainer, slow = Trainer(net), torch.optim.SGD(net.parameters(), lr=1e-4)
    for x, y in batches:
        trainer.reset()
        F.mse_loss(net(x), y).backward()
        step(slow)
"""


def test_a_reset_by_an_object_that_has_the_same_module_under_another_name(tmp_path: Path) -> None:
    assert lines_in_files(tmp_path, {"trainer.py": TRAINER, "loop.py": LOOP}, CODE) == []
