"""Of several programs beside each other each has its own ``agent.py``, with a class of the same name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import lines_in_files

CODE = "GG301"

AGENT = """
    import torch

    class Agent:
        def __init__(self, algorithm):
            self.algo = algorithm

        def predict(self, obs):
            return self.algo.predict(torch.tensor(obs)).argmax().item()

        def learn(self, obs, target):
            return self.algo.learn(obs, target)
"""

ALGORITHM = """
    import torch
    from torch import nn

    class {name}:
        def __init__(self, model):
            self.model = model
            self.optimizer = torch.optim.Adam(self.model.parameters())

        def predict(self, obs):
            return self.model(obs)

        def learn(self, obs, target):
            loss = (self.model(obs) - target).pow(2).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            return loss.item()
"""

TRAIN = """
    from agent import Agent
    from algo import {name}  # as that of First

    def evaluate_agent(agent, env):
        total = []
        for _ in range(5):
            obs, done, reward = env.reset(), False, 0
            while not done:
                action = agent.predict(obs)
                obs, gained, done, _ = env.step(action)
                reward += gained
            total.append(reward)
        return sum(total)

    def main(env, net):
        agent = Agent({name}(net))
        for _ in range(1000):
            agent.learn(*env.sample())
            print(evaluate_agent(agent, env))
"""

NAMES = "First Second Third Fourth Fifth Sixth Seventh".split()


def program(name: str) -> dict[str, str]:
    return {
        f"{name}/agent.py": AGENT,
        f"{name}/algo.py": ALGORITHM.format(name=name),
        f"{name}/train.py": TRAIN.format(name=name),
    }


def lines(folder: Path, files: dict[str, str]) -> list[tuple[str, int]]:
    for name in files:
        (folder / name).parent.mkdir(exist_ok=True)
    return lines_in_files(folder, files, CODE)


FOUND = ("train.py", 10)


@pytest.mark.parametrize("count", [1, 2, 5, 7])
def test_each_program_has_its_own(tmp_path: Path, count: int) -> None:
    files = {name: text for each in NAMES[:count] for name, text in program(each).items()}
    assert lines(tmp_path, files) == [FOUND] * count


def test_one_that_records_nothing_is_not_taken_for_another(tmp_path: Path) -> None:
    files = {name: text for each in NAMES[:5] for name, text in program(each).items()}
    files["Second/algo.py"] = files["Second/algo.py"].replace(
        "        def predict", "        @torch.no_grad()\n        def predict"
    )
    assert lines(tmp_path, files) == [FOUND] * 4
