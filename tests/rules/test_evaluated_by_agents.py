"""GG301: a function that is named as an evaluation plays with an agent, whose method runs the model."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files

AGENT = """
import torch
import torch.nn as nn

class Agent:
    def __init__(self, states, actions):
        self.actor = nn.Sequential(nn.Linear(states, 8), nn.Linear(8, actions))
        self.optimizer = torch.optim.Adam(self.actor.parameters())
        self.scores, self.saved = [], []

    def select_action(self, state):
        state = torch.FloatTensor(state.reshape(1, -1))
        out = self.actor(state)
        return out.cpu().data.numpy().flatten()

    def update(self, states):
        loss = self.actor(states).pow(2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
"""
SCRIPT = """
import gym
from agent import Agent

def test():
    env = gym.make("Walker")
    policy = Agent(4, 2)
    for episode in range(3):
        state = env.reset()
        for step in range(1000):
            action = policy.select_action(state)
            state, reward, done, _ = env.step(action)
            if done:
                break

if __name__ == "__main__":
    test()
"""
AT = [("script.py", 11)]
RETURNS = "return out.cpu().data.numpy().flatten()"


def _lines(folder: Path, script: str = SCRIPT, agent: str = AGENT) -> list[tuple[str, int]]:
    return lines_in_files(folder, {"agent.py": agent, "script.py": script}, "GG301")


def _edited(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("import gym", "import gym"),
        ("import gym", "import gym, torch"),
        ("from agent import Agent", "import agent\nAgent = agent.Agent"),
        ("def test(", "def evaluate("),
        ("state, reward, done, _ =", "state, reward, done, cut, info ="),
    ],
)
def test_an_agent_plays(tmp_path: Path, old: str, new: str) -> None:
    """The script need not name torch: it imports what does."""
    found = _lines(tmp_path, _edited(SCRIPT, old, new))
    assert [(name, line - new.count("\n")) for name, line in found] == AT


@pytest.mark.parametrize("new", ["return out.argmax(1).item()", "return out.detach()", "return out.max(1)[1].numpy()"])
def test_an_agent_gives_something_without_a_graph(tmp_path: Path, new: str) -> None:
    assert _lines(tmp_path, agent=_edited(AGENT, RETURNS, new)) == AT


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    def select_action", "    @torch.no_grad()\n    def select_action"),
        ("        out = self", "        with torch.inference_mode():\n            out = self"),
        ("        out = self", "        torch.set_grad_enabled(False)\n        out = self"),
        ("        out = self.actor(state)", "        out = state @ self.table"),
        ("import torch\n", "import tensorflow\nimport torch\n"),
    ],
)  # fmt: skip
def test_an_agent_that_records_nothing(tmp_path: Path, old: str, new: str) -> None:
    assert _lines(tmp_path, agent=_edited(AGENT, old, new)) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("def test(", "def collect("),
        ("def test(", "def play("),
        ("state, reward, done, _ = env.step(action)", "state, done = env.step(action)"),
        ("            if done:", "            policy.update(state)\n            if done:"),
        ("    test()", "    import torch\n    with torch.no_grad():\n        test()"),
        ("from agent import Agent", "from numpy_agent import Agent"),
    ],
)
def test_a_loop_that_is_no_evaluation_or_needs_no_mode(tmp_path: Path, old: str, new: str) -> None:
    assert _lines(tmp_path, _edited(SCRIPT, old, new)) == []


@pytest.mark.parametrize("returned", ["out", "(out.argmax(1).item(), out)", "out.max(1)"])
@pytest.mark.parametrize("ends", ["return action", "self.kept = action", "seen.append(action)"])
def test_what_leaves_the_evaluation_may_be_trained_elsewhere(tmp_path: Path, returned: str, ends: str) -> None:
    script = _edited(SCRIPT, "                break", f"                {ends}")
    script = _edited(script, "def test():", "def test(self=None, seen=None):")
    assert _lines(tmp_path, script, _edited(AGENT, RETURNS, f"return {returned}")) == []


def test_a_script_that_imports_nothing_of_torch(tmp_path: Path) -> None:
    numpy_agent = _edited(AGENT, "import torch\nimport torch.nn as nn\n", "import numpy as nn\nimport numpy as torch\n")
    assert _lines(tmp_path, agent=numpy_agent) == []


PAGE = """
{imports}
from agent import CLASSIFIERS, data_loader

def evaluate_classifier(classifier):
    scores = []
    for features, labels in data_loader:
        out = classifier(features)
        scores += out.max(-1)[0].tolist()
    return scores

def main(name):
    print(evaluate_classifier(CLASSIFIERS[name]()))
"""


@pytest.mark.parametrize("imports", ["import streamlit", "import streamlit, torch", "from common import *"])
def test_only_a_name_says_what_a_file_without_torch_runs(tmp_path: Path, imports: str) -> None:
    (tmp_path / "common.py").write_text("import torch\n")
    files = {"agent.py": AGENT, "script.py": PAGE.format(imports=imports)}
    at = [] if imports == "import streamlit" else [("script.py", 8)]
    assert lines_in_files(tmp_path, files, "GG301") == at


MEASURED = """
    class Measure:
        def __init__(self, policy, {env}, rate):
            self.policy, self.{env} = policy, {env}
            self.opt = torch.optim.Adam(policy.parameters(), rate)

        def measure(self, games):
            mean = 0
            for game in range(1, games + 1):
                total, reward_sum, state = 0, 0, self.{env}.reset()
                while True:
                    dist = self.policy(state)
                    state, reward, done, _ = self.{env}.step(dist.sample())
                    reward_sum += reward
                    total = total + dist.entropy()  # !
                    if done:
                        break
                mean = mean + (total - mean) / game
            return mean, reward_sum

        def report(self):
            entropy, reward = self.measure(10)
            print(entropy.item(), reward)

    def fit(policy, loader, opt):
        for x, y in loader:
            opt.zero_grad()
            F.mse_loss(policy(x).mean, y).backward()
            opt.step()
"""
ENVIRONMENTS = ("test_env", "eval_env", "env_test", "validation_envs", "evaluation_env")


@pytest.mark.parametrize("env", ENVIRONMENTS)
def test_a_sum_of_games_in_an_environment_for_evaluation(env: str) -> None:
    assert_flagged(MEASURED.format(env=env), "GG103")
    gymnasium = MEASURED.replace("state, reward, done, _ =", "state, reward, done, cut, info =")
    assert_flagged(gymnasium.format(env=env), "GG103")


@pytest.mark.parametrize(
    "edit",
    [
        ("{env}", "env"),
        ("{env}", "latest_env"),
        ("        def measure", "        @torch.no_grad()\n        def measure"),
        ("dist.entropy()", "dist.entropy().item()"),
        ("dist.entropy()", "dist.entropy().detach()"),
        # it is trained there
        ("print(entropy.item(), reward)", "(-0.01 * entropy).backward(); self.opt.step()"),
        ("return mean, reward_sum", "self.opt.zero_grad(); mean.backward(); self.opt.step(); return mean, reward_sum"),
        ("if done:", "self.learn(state, reward)\n                    if done:"),
        ("if done:", "self.policy.update(state, reward)\n                    if done:"),
    ],
)
def test_look_alikes_of_games_for_evaluation(edit: tuple[str, str]) -> None:
    for env in ENVIRONMENTS[:2]:
        assert_clean(MEASURED.replace("  # !", "").replace(*edit).format(env=env), "GG103")
