"""GG215 of terms that lead to another network alone."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged
from tests.rules.test_unreached_parameters import NETS, gan

CODE = "GG215"


CYCLE = f"""
    {NETS}

    class Translator:
        def __init__(self):
            self.maker, self.critic = Generator(), Critic()
            self.opt_g = torch.optim.Adam(self.maker.parameters())
            self.opt_d = torch.optim.Adam(self.critic.parameters())

        def forward(self, real):
            self.real = real
            self.fake = self.maker(real)
            self.again = self.maker(self.fake)

        def backward_g(self):
            judged = self.critic(self.fake.detach()).view(-1)  # !
            self.loss_adv = F.mse_loss(judged, torch.ones(4))
            self.loss_cycle = F.l1_loss(self.again, self.real) * 10
            loss = self.loss_adv + self.loss_cycle
            loss.backward()

        def backward_d(self):
            (self.critic(self.fake.detach()) - self.critic(self.real)).mean().backward()

        def optimize(self, real):
            self.forward(real)
            self.opt_g.zero_grad()
            self.backward_g()
            self.opt_g.step()
            self.opt_d.zero_grad()
            self.backward_d()
            self.opt_d.step()
"""
TERM = "-critic(fake.detach()).mean() + F.l1_loss(fake, real)"


@pytest.mark.parametrize(
    "snippet",
    [
        CYCLE,
        gan(second=f"{TERM}  # !"),
        gan(second="0.1 * F.softplus(-critic(fake.detach())).mean() + F.l1_loss(fake, real)  # !"),
        gan(second="F.l1_loss(fake, real)", after="pass").replace(
            "g_loss = F.l1_loss(fake, real)",
            "adv = -critic(fake.detach()).mean()  # !\n            g_loss = F.l1_loss(fake, real) + adv",
        ),
    ],
)
def test_a_term_leads_to_nothing_that_is_trained(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "snippet",
    [
        CYCLE.replace("self.critic(self.fake.detach()).view(-1)  # !", "self.critic(self.fake).view(-1)"),
        CYCLE.replace("loss = self.loss_adv + self.loss_cycle", "loss = self.loss_cycle").replace("  # !", ""),
        CYCLE.replace("            self.opt_d.zero_grad()\n", "").replace("  # !", ""),  # the critic steps with it
        CYCLE.replace(
            "Adam(self.maker.parameters())", "Adam([*self.maker.parameters(), *self.critic.parameters()])"
        ).replace("  # !", ""),
        CYCLE.replace("self.critic(self.fake.detach()).view(-1)  # !", "self.critic(self.real.detach()).view(-1)"),
        gan(second="-critic(fake).mean() + F.l1_loss(fake, real)"),
        gan(second="(critic(fake.detach()) * (fake - real).abs()).mean()"),  # a weight
        gan(second="F.mse_loss(critic(fake), critic(fake.detach()))"),  # a target
        gan(second="F.l1_loss(fake, real)", after="print(critic(fake.detach()).mean().item())"),
        gan(second="-critic(real.detach()).mean() + F.l1_loss(fake, real)"),
        gan(second=TERM, after="c_optimizer.step()"),
        gan(second="F.l1_loss(generator(critic(fake.detach()).expand(4, 8)), real)"),
        gan(second=TERM, made="build()").replace("generator.parameters()", "parameters"),
    ],
)
def test_a_term_that_is_trained_by_or_meant(snippet: str) -> None:
    assert_clean(snippet, CODE)
