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


AGENT = """
class Agent:
    def __init__(self):
        self.actor, self.one, self.other = nn.Linear(8, 4), nn.Linear(12, 1), nn.Linear(12, 1)
        self.log_alpha = {leaf}
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), 1e-3)
        self.critic_opt = torch.optim.Adam([*self.one.parameters(), *self.other.parameters()], 1e-3)
        self.alpha_opt = torch.optim.Adam([self.log_alpha], 1e-3)

    def learn(self, s, a, y):
        x = torch.cat([s, a], -1)
        loss = sum((q(x) - y).square().mean() for q in (self.one, self.other))
        self.critic_opt.zero_grad()
        loss.backward()
        self.critic_opt.step()
        chosen = self.actor(s)
        value = self.one(torch.cat([s, chosen], -1))
        gain = (self.log_alpha.exp().detach() * chosen.norm() - value).mean()
        self.{first}.zero_grad()
        gain.backward(){mark}
        self.actor_opt.step()
        alpha_loss = -(self.log_alpha * chosen.norm().detach())
        self.alpha_opt.zero_grad()
        alpha_loss.backward()
        self.alpha_opt.step()

def main(replay):
    agent = Agent()
    for batch in replay:
        agent.learn(*batch)
"""


def test_an_actor_whose_gradients_nobody_resets_beside_a_leaf_with_an_optimizer() -> None:
    leaf = "torch.zeros((), requires_grad=True)"
    assert_flagged(AGENT.format(leaf=leaf, first="critic_opt", mark="  # !"), CODE)
    assert_clean(AGENT.format(leaf=leaf, first="actor_opt", mark=""), CODE)


def test_a_leaf_that_may_be_the_actors_own() -> None:
    assert_clean(AGENT.format(leaf="self.actor.bias", first="alpha_opt", mark=""), CODE)
