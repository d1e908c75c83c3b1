"""A model that is told whether to record a graph: ``self.actor(obs, no_grad=True)``."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged

CODE = "GG301"

POLICY = """
    class Policy(nn.Module):
        def __init__(self, actor, critic):
            super().__init__()
            self.actor, self.critic = actor, critic

        def forward(self, obs, {given}):
            samples = self.actor(torch.tensor(obs), {told}, horizon=1)
            return samples[:, 0], samples

        def sample_action(self, obs):
            actions, _ = self(obs{asks})
            return actions[0].cpu().detach().numpy()

        def update(self, obs):
            actions, _ = self(obs, no_grad=False)
            loss = -self.critic(obs, actions).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
"""
PLAYS = """
    class Trainer:
        def __init__(self, agent, buffer):
            self.agent, self.buffer = agent, buffer

        def evaluate(self, env):
            self.agent.eval()
            obs, done = env.reset(), False
            while not done:
                action = self.agent.sample_action(self.buffer.normalize(obs)){mark}
                obs, reward, done, _ = env.step(action)
"""
LOOP = """
    def evaluate(model, loader{given}):
        model.eval()
        for x, y in loader:
            out = model(x{told}){mark}
            print((out.argmax(1) == y).sum().item())
"""


@pytest.mark.parametrize(
    ("given", "told", "asks"),
    [
        ("no_grad=True, deterministic=False", "no_grad=no_grad", ""),
        ("no_grad=True", "no_grad=no_grad", ", no_grad=True"),
        ("no_grad=False", "no_grad=no_grad", ", no_grad=True"),
        ("learns=False", "no_grad=not learns", ""),
        ("deterministic=False", "no_grad=True", ""),
    ],
)
def test_a_policy_hands_on_what_it_is_told(given: str, told: str, asks: str) -> None:
    assert_clean(POLICY.format(given=given, told=told, asks=asks) + PLAYS.format(mark=""), CODE)


@pytest.mark.parametrize(
    ("given", "told", "asks"),
    [
        ("no_grad=False", "no_grad=no_grad", ""),
        ("no_grad=True", "no_grad=no_grad", ", no_grad=False"),
        ("deterministic=True", "no_grad=False", ""),
        ("no_grad=True", "deterministic=no_grad", ""),
    ],
)
def test_a_policy_that_records(given: str, told: str, asks: str) -> None:
    assert_flagged(POLICY.format(given=given, told=told, asks=asks) + PLAYS.format(mark="  # !"), CODE)


@pytest.mark.parametrize(
    ("given", "told"), [("", ", no_grad=True"), (", train=False", ", no_grad=not train"), (", off", ", no_grad=off")]
)
def test_a_model_is_told_in_the_loop(given: str, told: str) -> None:
    assert_clean(LOOP.format(given=given, told=told, mark=""), CODE)


@pytest.mark.parametrize(("given", "told"), [("", ""), ("", ", no_grad=False"), (", off=True", ", cached=off")])
def test_a_model_that_is_not_told(given: str, told: str) -> None:
    assert_flagged(LOOP.format(given=given, told=told, mark="  # !"), CODE)


def test_what_is_kept_has_no_graph() -> None:
    kept = """
        def train(model, encoder, optimizer, loader):
            seen = []
            for x, y in loader:
                seen.append(encoder(x{told})){mark}
                loss = F.cross_entropy(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            print(len(seen))
    """
    assert_clean(kept.format(told=", no_grad=True", mark=""), "GG104")
    assert_flagged(kept.format(told=", no_grad=False", mark="  # !"), "GG104")
