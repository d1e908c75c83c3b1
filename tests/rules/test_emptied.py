"""What an object in a collection stores, and another of its methods empties, under the same key or another."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged

HUB = """
    class Hub:
        def __init__(self):
            self.series, self.report = defaultdict(list), {}

        def _key(self, name):
            return f"train/{name}"

        def push(self, **values):
            for name, value in values.items():
                self.series[self._key(name)].append(value)

        def flush(self, *names):
            for name in names:
                RESET

    class Log:
        def __init__(self, hub):
            self.hub = hub

        def on_step(self, trainer, loss):
            self.hub.push(loss=loss)

        def on_window(self, trainer):
            self.hub.flush("loss")

    class Trainer:
        def __init__(self, model, opt, callbacks):
            self.model, self.opt, self.callbacks = model, opt, callbacks

        def fit(self, loader):
            for step, (x, y) in enumerate(loader):
                loss = F.cross_entropy(self.model(x), y)
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                for callback in self.callbacks:
                    callback.on_step(self, loss)MARK
                if step % 50 == 0:
                    for callback in self.callbacks:
                        callback.on_window(self)

    def main(model, opt, loader):
        Trainer(model, opt, [Log(Hub())]).fit(loader)
"""
READS = "rows = self.series[self._key(name)]\n                self.report[name] = len(rows)\n                "


def hub(reset: str, mark: str = "") -> str:
    return HUB.replace("RESET", reset).replace("MARK", mark)


@pytest.mark.parametrize(
    "reset",
    [
        READS + "self.series[self._key(name)] = []",
        READS + "self.series[self._key(name)].clear()",
        READS + "self.series.pop(self._key(name), None)",
        "key = self._key(name)\n                self.series[key] = []",
        "del self.series[self._key(name)]",
        "self.series.clear()",
        "self.report.update({name: 1})\n                self.series = defaultdict(list)",
        "self.series[name] = []",
    ],
)
def test_what_an_object_in_a_collection_empties(reset: str) -> None:
    assert_clean(hub(reset))


@pytest.mark.parametrize("reset", [READS + "self.series[name] = []", READS + "self.series[name].clear()", "pass"])
def test_what_is_emptied_under_another_key(reset: str) -> None:
    assert_flagged(hub(reset, "  # !"), "GG107")


ROLLOUT = """
    from dataclasses import dataclass, field, fields
    from typing import List

    @dataclass
    class Rollout:
        size: int = 8
        scores: List[torch.Tensor] = field(default_factory=list)
        values: List[torch.Tensor] = field(default_factory=list)
        entropies: list = field(default_factory=list)

        def record(self, **items):
            for name, item in items.items():
                getattr(self, name).append(item)

        def reset(self):
            RESET

    class Agent:
        def __init__(self, net, opt, env):
            self.net, self.opt, self.env = net, opt, env
            self.rollout = Rollout()

        def act(self, state):
            scores, value = self.net(state)
            policy = torch.distributions.Categorical(logits=scores)
            action = policy.sample()
            self.rollout.record(scores=policy.log_prob(action), values=value, entropies=policy.entropy())MARK
            return self.env.step(action)

        def learn(self, rewards):
            pulls = rewards - torch.stack(self.rollout.values)
            loss = -(torch.stack(self.rollout.scores) * pulls.detach()).mean() + pulls.pow(2).mean()
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            self.rollout.reset()

        def train(self, episodes):
            for episode in range(episodes):
                state = self.env.reset()
                rewards = []
                for _ in range(8):
                    state, reward = self.act(state)
                    rewards.append(reward)
                self.learn(torch.tensor(rewards))
"""


def rollout(reset: str, mark: str = "") -> str:
    return ROLLOUT.replace("RESET", reset).replace("MARK", mark)


SETS = "setattr(self, f.name, [])"


@pytest.mark.parametrize("part", ["fields(self)[:3]", "fields(self)[:-1]", "fields(self)[0:2]", "fields(self)[2:]"])
def test_a_reset_of_some_fields(part: str) -> None:
    assert_flagged(rollout(f"for f in {part}: {SETS}", "  # !"), "GG107")


@pytest.mark.parametrize(
    "reset",
    [
        f"for f in fields(self): {SETS}",
        f"for f in fields(self)[1:]: {SETS}",
        f"for f in fields(self)[-3:]: {SETS}",
        f"for f in list(fields(self))[1:]: {SETS}",
        f"for f in fields(self)[FIRST:]: {SETS}",
        "for f in fields(self)[1:]: getattr(self, f.name).clear()",
        f"for f in fields(self)[1:4]:\n                {SETS}",
        "for name in ('scores', 'values', 'entropies'): setattr(self, name, [])",
        "self.__init__()",
    ],
)
def test_a_reset_of_all_collections(reset: str) -> None:
    assert_clean(rollout(reset))
