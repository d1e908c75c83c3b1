from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files, twin

CODE = "GG229"

NETS = """
    class Generator(nn.Module):
        def __init__(self, dim=8):
            super().__init__()
            self.layer = nn.Linear(dim, 8)

        def forward(self, z):
            return self.layer(z)

    class Critic(nn.Module):
        def __init__(self, dim=8):
            super().__init__()
            self.layer = nn.Linear(dim, 1)

        def forward(self, x):
            return self.layer(x)
"""


def gan(
    fake: str = "generator(z)",
    second: str = "-critic(fake).mean()",
    before: str = "pass",
    made: str = "Generator(), Critic()",
    after: str = "pass",
    reset: str = "g_optimizer.zero_grad()",
) -> str:
    """A loop that trains a critic, and then a generator."""
    return f"""
    {NETS}

    def fit(loader):
        generator, critic = {made}
        g_optimizer = torch.optim.Adam(generator.parameters())
        c_optimizer = torch.optim.Adam(critic.parameters())
        {before}
        for real in loader:
            z = torch.randn(4, 8)
            fake = {fake}
            c_optimizer.zero_grad()
            c_loss = critic(fake.detach()).mean() - critic(real).mean()
            c_loss.backward()
            c_optimizer.step()
            g_loss = {second}
            {reset}
            g_loss.backward()
            {after}
            g_optimizer.step()
    """


def agent(policy: str, before: str = "pass", critic: str = "Critic(16)") -> str:
    """A class that trains a critic, and then an actor."""
    return f"""
    {NETS}

    class Agent:
        def __init__(self):
            self.actor = Generator()
            self.critic = {critic}
            {before}
            self.actor_opt = torch.optim.Adam(self.actor.parameters())
            self.critic_opt = torch.optim.Adam(self.critic.parameters())

        def update(self, s, a, target):
            critic_loss = F.mse_loss(self.critic(torch.cat([s, a], 1)), target)
            self.critic_opt.zero_grad()
            critic_loss.backward()
            self.critic_opt.step()
            {policy}
            loss = -self.critic(torch.cat([s, action], 1)).mean()
            self.actor_opt.zero_grad()
            loss.backward()
            self.actor_opt.step()

    def train(replay):
        agent = Agent()
        for s, a, target in replay:
            agent.update(s, a, target)
    """


def whitened(whiten: str, optimizer: str = "[*encoder.parameters(), *head.parameters()]", around: str = "pass") -> str:
    """A loop that trains an encoder and a head together."""
    return f"""
    def whiten(h):
        {whiten}

    def fit(loader):
        encoder, head = nn.Linear(8, 4), nn.Linear(4, 2)
        optimizer = torch.optim.SGD({optimizer}, 0.1)
        for x, y in loader:
            {around}
            h = whiten(encoder(x))
            loss = F.cross_entropy(head(h), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """


@pytest.mark.parametrize("fake", ["generator(z).detach()  # !", "generator(z).data  # !"])
def test_the_generator_is_trained_with_what_was_detached(fake: str) -> None:
    assert_flagged(gan(fake), CODE)


def test_the_critic_is_given_what_was_detached() -> None:
    assert_flagged(gan(second="-critic(fake.detach()).mean()  # !"), CODE)


def test_an_actor_whose_action_is_computed_without_a_graph() -> None:
    assert_flagged(agent("with torch.no_grad():\n                action = self.actor(s)  # !"), CODE)
    assert_flagged(agent("action = self.actor(s).detach()  # !"), CODE)


@pytest.mark.parametrize(
    "code",
    [
        gan(),  # only the critic's own loss is of what is detached
        gan(second="generator(z).abs().mean() - critic(fake.detach()).mean()"),  # another term reaches it
        gan("generator(z).detach()", second="-critic(generator(z)).mean()"),
        gan("generator(z).detach()", before="critic.front = generator.layer"),  # they share a part
        gan("generator(z).detach()", made="build()"),  # what they are cannot be seen
        gan("generator(z).detach()", after="F.mse_loss(generator(z), real).backward()"),  # a second loss for the step
        gan("generator(z).detach()", reset="pass"),  # gradients may be those of somebody else
        gan("generator(z).detach()", after="for p in generator.parameters(): p.grad = torch.ones_like(p)"),
        gan("generator(z).detach()", after="for p in generator.parameters(): p.grad.add_(noise)"),
        gan("generator(z).detach()", after="accumulate(generator)"),
        gan(second="generator_loss(z)"),  # a function that is not there
        gan("augment(z)"),  # nothing of the generator's runs
    ],
)
def test_generators_that_are_trained_or_may_be(code: str) -> None:
    assert_clean(code, CODE)


@pytest.mark.parametrize(
    "code",
    [
        agent("action = self.actor(s)"),
        agent("action = self.actor(s) if len(s) > 1 else self.actor(s).detach()"),
        agent("action = self.actor(s).detach()", critic="Critic(self.actor)"),  # the critic has the actor
        agent("action = self.actor(s).detach()", before="self.critic.front = self.actor.layer"),
        agent("action = a"),
    ],
)
def test_actors_that_are_trained_or_may_be(code: str) -> None:
    assert_clean(code, CODE)


@pytest.mark.parametrize(
    "code",
    [
        whitened("return (h - h.mean(0)) / h.std(0)"),
        whitened("return h.detach()", "head.parameters()"),  # only the head is to be trained
        whitened("return torch.from_numpy(h.detach().numpy())", around="(encoder(x) - x).pow(2).mean().backward()"),
        whitened("return h", around="encoder(x).detach()"),
        whitened("return torch.from_numpy(h.detach().numpy() * 2)"),  # one of two, which may be meant
    ],
)
def test_encoders_that_are_trained_or_not_meant_to_be(code: str) -> None:
    assert_clean(code, CODE)


MAML = """
    import copy

    class MAML:
        def __init__(self, net, inner_lr=0.02, meta_lr=2e-3):
            self.net = net
            self.inner_lr = inner_lr
            self.meta_opt = torch.optim.Adam(self.net.parameters(), lr=meta_lr)
            self.criterion = nn.MSELoss()

        def adapt(self, support):
            x, y = support
            learner = copy.deepcopy(self.net)  # !
            inner = torch.optim.SGD(learner.parameters(), lr=self.inner_lr)
            for _ in range(2):
                inner.zero_grad()
                self.criterion(learner(x), y).backward()
                inner.step()
            inner.zero_grad()
            return learner

        def meta_step(self, tasks, k=10):
            self.meta_opt.zero_grad()
            total = 0.0
            for task in tasks:
                learner = self.adapt(task.draw(k))
                x, y = task.draw(k)
                query = self.criterion(learner(x), y) / len(tasks)
                query.backward()
                total += query.item()
            self.meta_opt.step()
            return total
"""

INLINE = """
    from copy import deepcopy

    def train(tasks, steps=5):
        model = nn.Sequential(nn.Linear(1, 40), nn.ReLU(), nn.Linear(40, 1))
        outer = torch.optim.Adam(model.parameters(), lr=1e-3)
        for batch in tasks:
            outer.zero_grad()
            for (x, y), (qx, qy) in batch:
                fast = deepcopy(model)  # !
                sgd = torch.optim.SGD(fast.parameters(), lr=0.1)
                for _ in range(steps):
                    sgd.zero_grad()
                    F.mse_loss(fast(x), y).backward()
                    sgd.step()
                loss = F.mse_loss(fast(qx), qy)
                loss.backward()
            outer.step()
"""

SUMMED = """
    import copy

    def clone_of(network):
        twin = copy.deepcopy(network)  # !
        twin.train()
        return twin

    def fit(episodes):
        network = nn.Linear(4, 2)
        optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
        for support, query in episodes:
            student = clone_of(network)
            loss = F.cross_entropy(student(query.x), query.y)
            loss += 0.1 * F.cross_entropy(student(support.x), support.y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
"""


@pytest.mark.parametrize("snippet", [MAML, INLINE, SUMMED])
def test_the_loss_of_a_copy(snippet: str) -> None:
    assert_flagged(snippet, CODE)


HANDED = """
                for p, q in zip(self.net.parameters(), learner.parameters()):
                    p.grad = q.grad.clone() if p.grad is None else p.grad + q.grad
"""


@pytest.mark.parametrize(
    "snippet",
    [
        twin(MAML, ("                total +=", HANDED.lstrip("\n") + "                total +=")),
        twin(MAML, ("learner(x), y) / len", "self.net(x), y) / len")),
        twin(MAML, ("learner(x), y) / len(tasks)", "learner(x), y) + self.penalty()")),
        twin(MAML, ("/ len(tasks)", "+ self.net.weight.pow(2).sum()")),
        twin(MAML, ("            self.meta_opt.zero_grad()\n", "")),  # the gradients may be of another loss
        twin(MAML, ("copy.deepcopy(self.net)", "self.net")),
        twin(MAML, ("copy.deepcopy(self.net)", "copy.deepcopy(self.other)")),
        twin(MAML, ("copy.deepcopy(self.net)", "copy.copy(self.net)")),
        twin(MAML, ("            self.meta_opt.step()", "            self.move(self); self.meta_opt.step()")),
        twin(MAML, ("Adam(self.net.parameters()", "Adam([*self.net.parameters(), *head.parameters()]")),
        twin(MAML, ("            self.meta_opt.step()", "            self.net.load_state_dict(learner.state_dict())\n"
                    "            self.meta_opt.step()")),
        twin(INLINE, ("fast = deepcopy(model)", "fast = model")),
        twin(INLINE, ("F.mse_loss(fast(qx), qy)", "F.mse_loss(model(qx), fast(qx))")),
        twin(INLINE, ("F.mse_loss(fast(qx), qy)", "F.mse_loss(fast(model(qx)), qy)")),
        twin(INLINE, ("            outer.step()", "            gather(model, fast)\n            outer.step()")),
        twin(INLINE, ("                loss.backward()\n", "                loss += F.mse_loss(model(qx), qy)\n"
                      "                loss.backward()\n")),
        twin(INLINE, ("outer = torch.optim.Adam(model", "outer = torch.optim.Adam(other")),
        twin(SUMMED, ("        return twin", "        return network")),
        twin(SUMMED, ("student(query.x)", "network(query.x)")),
    ],
)  # fmt: skip
def test_copies_beside_what_is_trained(snippet: str) -> None:
    assert_clean(snippet, CODE)


def test_a_copy_of_another_file(tmp_path: Path) -> None:
    helper, _, fit = SUMMED.replace("  # !", "").partition("    def fit")
    files = {
        "clones.py": helper,
        "meta.py": "    import torch\n    from torch import nn\n    import torch.nn.functional as F\n"
        "    from clones import clone_of\n\n    def fit" + fit,
    }  # fmt: skip
    assert lines_in_files(tmp_path, files, CODE) == [("clones.py", 5)]
    files["meta.py"] = files["meta.py"].replace("student(query.x)", "network(query.x)")
    assert lines_in_files(tmp_path, files, CODE) == []
