from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged

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
