from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files, twin

CODE = "GG305"

NET = """
class Net(nn.Module):
    def __init__(self, n=8, out=4):
        super().__init__()
        self.one, self.two = nn.Linear(n, 64), nn.Linear(64, out)

    def forward(self, x):
        return self.two(F.relu(self.one(x)))
"""
AGENT = (
    NET
    + """
class Agent:
    def __init__(self):
        self.net, self.target = Net(), Net()
        self.optimizer = torch.optim.Adam(self.net.parameters())

    def values(self, states):
        return self.target(states)

    def act(self, state):
        return self.net(torch.as_tensor(state).float()).argmax(1).item(){acts}

    def learn(self, states, actions, rewards, following):
        q = self.net(states).gather(1, actions)
{learns}
        loss = F.mse_loss(q, expected)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

def play(env, agent, steps):
    state = env.reset()
    for step in range(steps):
        state, reward, done, _ = env.step(agent.act(state))
        agent.learn(*env.sample())
"""
)


def agent(*lines: str, acts: bool = False) -> str:
    """An agent that computes its targets by these lines."""
    body = "\n".join(f"        {line}" for line in lines)
    text = AGENT.replace("{learns}", body).replace("{acts}", "  # !" if acts else "")
    return text if acts else text.replace("    def act", "    @torch.no_grad()\n    def act")


FEATURES = (
    NET
    + """
def train_head(backbone, head, loader):
    optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
    for x, y in loader:
        features = backbone(x).detach()  # !
        loss = F.cross_entropy(head(features), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

def main(loader):
    train_head(Net(8, 64), Net(64, 4), loader)
"""
)
ROLLOUT = (
    NET
    + """
class Trainer:
    def __init__(self):
        self.policy = Net()
        self.optimizer = torch.optim.Adam(self.policy.parameters())

    def update(self, states, actions, advantages, epochs):
        old = torch.distributions.Categorical(logits=self.policy(states))  # !
        old_log_probs = old.log_prob(actions).detach()
        for epoch in range(epochs):
            new = torch.distributions.Categorical(logits=self.policy(states))
            ratio = (new.log_prob(actions) - old_log_probs).exp()
            loss = -torch.min(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
"""
)
STATISTICS = (
    NET
    + """
def train(net, loader):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    correct = 0
    for x, y in loader:
        loss = F.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        after = net(x)  # !
        correct += (after.argmax(1) == y).sum().item()
    return correct
"""
)
GAN = """
class Gan:
    def __init__(self):
        self.G = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 4))
        self.D = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 1))
        self.for_g = torch.optim.Adam(self.G.parameters())
        self.for_d = torch.optim.Adam(self.D.parameters())

    def train(self, loader):
        for real in loader:
            z = torch.randn(len(real), 8)
            {fake}
            d_loss = self.D(fake{cut}).mean() - self.D(real).mean()
            self.for_d.zero_grad()
            d_loss.backward()
            self.for_d.step()
            g_loss = -self.D({again}).mean()
            self.for_g.zero_grad()
            g_loss.backward()
            self.for_g.step()
"""


def gan(fake: str, cut: str = "", again: str = "self.G(z)") -> str:
    return GAN.replace("{fake}", fake).replace("{cut}", cut).replace("{again}", again)


@pytest.mark.parametrize(
    "snippet",
    [
        agent("expected = rewards + 0.99 * self.target(following).max(1)[0].detach()  # !"),
        agent("best = self.target(following).max(1)[0]  # !", "expected = (rewards + 0.99 * best).detach()"),
        agent("best = self.values(following).max(1)[0]  # !", "expected = (rewards + 0.99 * best).detach()"),
        agent("best = self.target(following).data.max(1)[0]  # !", "expected = rewards + 0.99 * best"),
        agent("best = self.target(following)  # !", "expected = rewards + best.cpu().detach().numpy().max(1)"),
        agent(  # double: the one graph of the network is there when the other one is made
            "chosen = self.net(following).argmax(1, keepdim=True)  # !",
            "with torch.no_grad():",
            "    expected = rewards + self.target(following).gather(1, chosen)",
        ),
        agent(  # double: only the indices are used
            "_, best = self.net(following).max(1)  # !",
            "with torch.no_grad():",
            "    expected = rewards + self.target(following).gather(1, best)",
        ),
        agent("self.net(following)  # !", "expected = rewards"),
        agent("unused = self.net(following)  # !", "expected = rewards"),
        agent("value = self.net(following)  # !", "value = rewards.sum()", "expected = rewards + value"),
        agent("expected = rewards", acts=True),
        FEATURES,
        ROLLOUT,
        STATISTICS,
        gan("fake = self.G(z)  # !", ".detach()"),
        agent(
            "with torch.autocast('cuda'):",
            "    best = self.target(following).max(1)[0]  # !",
            "expected = (rewards + 0.99 * best).detach()",
        ),
        FEATURES.replace("backbone(x).detach()", "torch.relu(backbone(x)).detach().flatten(1)"),
    ],
)
def test_a_graph_that_nothing_asks_for(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "snippet",
    [
        agent("with torch.no_grad():", "    expected = rewards + 0.99 * self.target(following).max(1)[0]"),
        agent("expected = rewards + 0.99 * self.target(following).max(1)[0]"),  # GG253 tells of it
        agent("self.last = self.target(following)", "expected = rewards + self.last.max(1)[0].detach()"),
        agent("best = self.target(following)", "show(best)", "expected = rewards + best.max(1)[0].detach()"),
        agent("best = self.net(following)", "expected = rewards + best.max(1)[0].detach()", "q = q + best.mean()"),
        agent("penalty = self.net(following).mean()", "expected = rewards", "q = q + (lambda: penalty)()"),
        agent("expected = rewards + 0.99 * self.target(following).max(1)[0].detach()").replace(
            "self.net, self.target = Net(), Net()", "self.net, self.target = Net(), Net().requires_grad_(False)"
        ),
        agent("expected = rewards + 0.99 * self.target(following).max(1)[0].detach()").replace(
            "    def values",
            "    def sync(self):\n        for p in self.target.parameters():\n"
            "            p.requires_grad = False\n\n    def values",
        ),
        agent("expected = rewards + self.target(following).max(1)[0].detach()")
        .replace("        agent.learn", "        with torch.no_grad():\n            agent.learn")
        .replace("        loss.backward()\n", "")
        .replace("self.optimizer.step()", "return loss.item()"),
        agent("expected = rewards", acts=True)
        .replace("  # !", "")
        .replace("env.step(agent.act(state))", "env.step(choose(agent, state))")
        + "\n@torch.no_grad()\ndef choose(agent, state):\n    return agent.act(state)\n",
        FEATURES.replace("  # !", "").replace(
            "def main(loader):\n", "def main(loader):\n    Net.register_forward_hook(keep)\n"
        ),
        FEATURES.replace("backbone(x).detach()  # !", "backbone(x)"),
        FEATURES.replace("  # !", "").replace("    train_head(Net(8, 64)", "    train_head(freeze_all(Net(8, 64))"),
        FEATURES.replace("  # !", "").replace("    for x, y", "    backbone.requires_grad_(False)\n    for x, y"),
        ROLLOUT.replace("  # !", "").replace("loss = -torch", "loss = old.entropy().mean() - torch"),
        STATISTICS.replace("after = net(x)  # !", "after = measure(x)"),
        STATISTICS.replace("  # !", "")
        .replace("import", "import")
        .replace("def train", "@without_gradients\ndef train"),
        gan("fake = self.G(z).detach()"),
        gan("fake = self.G(z)\n            fake = fake.detach()"),
        gan("fake = self.G(z).detach()").replace(
            "for real in loader:", "for real in loader:\n            self.again()"
        ),
        agent("chosen = self.net(following).max(1)[1]", "expected = chosen + self.extra()")
        .replace("        q = self.net(states).gather(1, actions)\n", "")
        .replace("mse_loss(q,", "mse_loss(self.net(states).gather(1, actions),"),
        gan("with torch.no_grad():\n                fake = self.G(z)"),
        gan("fake = self.G(z)", ".detach()", "fake"),
        NET + "\nif __name__ == '__main__':\n    net = Net()\n    out = net(torch.randn(2, 8))\n    print(out.shape)\n",
        NET + "\ndef test_net():\n    for n in (1, 2):\n        assert Net()(torch.randn(n, 8)).argmax(1).sum() >= 0\n",
        NET + "\ndef sizes():\n    net = Net()\n    return net(torch.randn(2, 8)).detach().shape\n\nsizes()\n",
    ],
)
def test_what_is_asked_for_or_records_nothing(snippet: str) -> None:
    assert_clean(snippet, CODE)


TARGET = "best = self.target(following).max(1)[0]"
LATER = agent(f"{TARGET}  # !", "expected = (rewards + 0.99 * best).detach()")
DICE = """
class Dice(nn.Module):
    def __init__(self, smooth=1.0):
        super().__init__()
        self.smooth = smooth
        self.register_buffer("weights", torch.ones(4))

    def forward(self, x):
        return self.weights * x / (x.sum() + self.smooth)
"""
ACTING = agent("expected = rewards", acts=True)


@pytest.mark.parametrize(
    "snippet",
    [
        # modules without parameters, or of which that is not known
        twin(FEATURES, ("main(loader):\n    train_head(Net(8, 64)", "main(loader):\n    train_head(Dice()")) + DICE,
        twin(FEATURES, ("def main(loader):\n    train_head(Net(8, 64), Net(64, 4), loader)\n", "")),
        twin(FEATURES, ("Net(8, 64)", "nn.Sequential(nn.ReLU(), nn.MaxPool2d(2))")),
        twin(LATER, ("self.net, self.target = Net(), Net()", "self.net, self.target = Net(), Dice()")) + DICE,
        twin(LATER, ("self.net, self.target = Net(), Net()", "self.net, self.target = Net(), make_target()")),
        twin(LATER, ("self.one, self.two =", "self.requires_grad_(False)\n        self.one, self.two =")),
        # what a helper gives need not be all that it makes of it
        twin(STATISTICS, ("after = net(x)", "after = net(x)\n        terms, number = pair(after)"))
        + "\ndef pair(x):\n    return (x, x.sum().item()) if isinstance(x, list) else x.detach()\n",
        twin(LATER, ("expected = (rewards + 0.99 * best).detach()", "expected = best + rewards")),
        twin(LATER, ("expected = (rewards", "hand_over(best)\n        expected = (rewards")),
        twin(LATER, ("expected = (rewards", "self.queue.put(best)\n        expected = (rewards")),
        # a backward that is called by others
        twin(LATER, ("expected = (rewards", "self.manager.backward(best.mean())\n        expected = (rewards")),
        twin(LATER, ("expected = (rewards", "self.emit('backward', best.mean())\n        expected = (rewards")),
        twin(LATER, ("expected = (rewards", "accelerator.backward(best.mean())\n        expected = (rewards")),
        twin(LATER, ("expected = (rewards", "fabric.backward(best.mean())\n        expected = (rewards")),
        # callers under no_grad, or which are not known
        twin(
            ACTING,
            (
                "        state, reward",
                "        with torch.no_grad():\n            act = agent.act(state)\n        state, reward",
            ),
        ).replace("env.step(agent.act(state))", "env.step(act)"),
        twin(ACTING, ("agent.act(state)", "agent.policy(state)")),
        twin(ACTING, ("def play(", "@torch.inference_mode()\ndef play(")).replace("agent.learn(*env.sample())", "pass"),
        twin(ACTING, ("def play(env, agent, steps)", "@quietly\ndef play(env, agent, steps)")).replace(
            "agent.learn(*env.sample())", "pass"
        ),
        # a distribution of its own, which samples with a graph
        twin(ROLLOUT, ("old_log_probs = old.log_prob(actions).detach()", "drawn = old.sample()"))
        .replace("- old_log_probs", "- drawn")
        .replace("import", "import")
        + "\nclass Truncated(torch.distributions.Normal):\n    def sample(self, clip=None):\n"
        "        return self.loc + self.scale * torch.randn(3)\n",
        # only on one way
        twin(LATER, ("expected = (rewards + 0.99 * best).detach()", "expected = best.detach() if self.cuts else best")),
        twin(
            LATER,
            (
                "expected = (rewards + 0.99 * best).detach()",
                "expected = rewards + best\n        if self.cuts:\n            expected = expected.detach()",
            ),
        ),
        # contexts that may switch gradients off
        twin(LATER, (TARGET, f"with self.mode:\n            {TARGET}")),
        twin(LATER, (TARGET, f"with quiet(self.target):\n            {TARGET}")),
        twin(LATER, (TARGET, f"with context or torch.no_grad():\n            {TARGET}")),
        # it looks at what the layers have saved, or runs once
        twin(LATER, ("class Agent", "from torch.autograd.graph import saved_tensors_hooks\n\nclass Agent")),
        twin(
            FEATURES,
            ("    for x, y in loader", "    sizes = backbone(torch.randn(2, 8)).detach()\n    for x, y in loader"),
            ("backbone(x).detach()", "x"),
        ),
        AGENT.replace("{acts}", "")
        .replace("{learns}", "        expected = rewards")
        .replace(".argmax(1).item()", ".view(1, -1).size(1)"),
        twin(ACTING, ("        self.net, self", "        self.act(torch.zeros(8))\n        self.net, self")).replace(
            "env.step(agent.act(state))", "env.step(state)"
        )
        + "\ndef several():\n    return [Agent() for _ in range(3)]\n",
        twin(LATER, ("expected = (rewards + 0.99 * best).detach()", "expected = rewards\n        n = best.shape[0]")),
        # its graph goes at once, and the step makes another one: that of the action before is not there any more
        STATISTICS.replace("  # !", "")
        .replace("        loss = F", "        env.step(net(x))\n        best = net(x).argmax(1)\n        loss = F")
        .replace("        after = net(x)\n        correct += (after.argmax(1) == y).sum().item()\n", ""),
        # it may leave something behind
        twin(
            agent("self.net(following)", "expected = rewards"),
            ("        return self.two(", "        self.seen = F.relu(self.one(x))\n        return self.two("),
        ),
        twin(
            agent("self.net(following)", "expected = rewards"),
            ("self.net, self.target = Net(),", "self.net, self.target = make(),"),
        ),
        # a decorator of the forward that may switch gradients off
        twin(LATER, ("    def forward", "    @torch.no_grad()\n    def forward")),
    ],
)
def test_what_is_not_sure(snippet: str) -> None:
    assert_clean(snippet, CODE)


AGENT_FILE = (
    "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"
    + NET
    + """
class Agent:
    def __init__(self):
        self.net = Net()
        self.optimizer = torch.optim.Adam(self.net.parameters())

    def act(self, state):
        return self.net(torch.as_tensor(state).float()).argmax(1).item()
"""
)
ACT_LINE = [("agent.py", 19)]
PLAYS = """
import torch
from agent import Agent

def play(env, steps):
    agent, state = Agent(), env.reset()
    for step in range(steps):
        state, reward, done, _ = env.step(agent.act(state))

def main(env):
    play(env, 100)
"""


@pytest.mark.parametrize(
    ("play", "expected"),
    [
        (PLAYS, ACT_LINE),
        (PLAYS.replace("def main", "@torch.no_grad()\ndef main"), []),
        (PLAYS.replace("def play", "@torch.inference_mode()\ndef play"), []),
        (PLAYS.replace("    play(env, 100)", "    with torch.no_grad():\n        play(env, 100)"), []),
        (PLAYS.replace("def main", "def loop"), []),  # who calls that is not known
        (PLAYS + "\ndef show(agent, state):\n    with torch.no_grad():\n        return agent.act(state)\n", []),
        (PLAYS + "\ndef show(state):\n    agent = Agent()\n    with torch.no_grad():\n        agent.act(state)\n", []),
        (PLAYS.replace("agent, state = Agent(), env", "agent, state = make(), env"), ACT_LINE),
        (PLAYS.replace("agent.act(state)", "0"), []),
    ],
)
def test_who_calls_it(tmp_path: Path, play: str, expected: list[tuple[str, int]]) -> None:
    assert lines_in_files(tmp_path, {"agent.py": AGENT_FILE, "play.py": play}, CODE) == expected


@pytest.mark.parametrize(
    "lines",
    [
        ("expected = rewards + self.target(following).max(1)[0]  # !", "expected.to('cuda')",
         "expected = expected.detach()"),
        ("best = self.target(following)  # !", "best.squeeze(1).to(q.device)", "expected = rewards + best.detach()"),
        ("best = self.target(following)  # !", "known = torch.zeros_like(best)[:, :-1]", "known[:, 0] = q",
         "self.seen = known", "expected = rewards + best.detach()"),
        ("best = self.target(following)  # !", "noise = 0.1 * torch.randn_like(best)",
         "expected = rewards + best.detach() + noise"),
    ],
)  # fmt: skip
def test_what_is_dropped_or_only_gives_its_shape(lines: tuple[str, ...]) -> None:
    assert_flagged(agent(*lines), CODE)


@pytest.mark.parametrize(
    "lines",
    [
        ("expected = rewards + self.target(following).max(1)[0]", "expected = expected.to('cuda')"),
        ("best = self.target(following)", "self.memory = best.to(q.device)", "expected = rewards + best.detach()"),
        ("best = self.target(following)", "self.memory.put(best.to(q.device))", "expected = rewards + best.detach()"),
        ("best = self.target(following)", "best.to(q.device).sum().backward()", "expected = rewards + best.detach()"),
        ("best = self.target(following)", "seen = torch.zeros_like(best) + best", "self.seen = seen",
         "expected = rewards + best.detach()"),
        ("best = self.target(following)", "expected = rewards + make_like(best)"),
    ],
)  # fmt: skip
def test_what_is_moved_and_kept(lines: tuple[str, ...]) -> None:
    assert_clean(agent(*lines), CODE)
