from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files, twin

CODE = "GG230"


def autoencoder(
    draw: str, given: str = "self.decoder(z), mean, log_var", before: str = "pass", decorator: str = ""
) -> str:
    """A variational autoencoder that draws its code in some way."""
    return f"""
    from torch import distributions as D
    from torch.distributions import Bernoulli, Normal, kl_divergence

    class Autoencoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = nn.Linear(8, 8)
            self.decoder = nn.Linear(4, 8)

        {decorator}
        def forward(self, x):
            mean, log_var = self.encoder(x).chunk(2, dim=-1)
            {before}
            {draw}
            return {given}
    """


@pytest.mark.parametrize(
    "draw",
    [
        "z = Normal(mean, log_var.exp()).sample()  # !",
        "z = D.Normal(mean, torch.exp(0.5 * log_var)).sample()  # !",
        "z = torch.distributions.Normal(mean, log_var.exp()).sample().view(-1, 4)  # !",
        "z = torch.distributions.Normal(loc=mean, scale=log_var.exp()).sample((1,)).squeeze(0)  # !",
        "z = D.Independent(D.Normal(mean, F.softplus(log_var)), 1).sample()  # !",
        "z = D.MultivariateNormal(mean, torch.diag_embed(log_var.exp())).sample()  # !",
        "z = torch.normal(mean, log_var.exp())  # !",
        "z = torch.normal(mean=mean, std=torch.exp(log_var / 2))  # !",
        "code = torch.tanh(Normal(mean, log_var.exp()).sample()); z = torch.cat([code, code])  # !",
    ],
)
def test_drawn_for_a_decoder(draw: str) -> None:
    assert_flagged(autoencoder(draw), CODE)


@pytest.mark.parametrize(
    ("given", "before"),
    [
        ("self.decoder(z), posterior", "posterior = Normal(mean, log_var.exp())"),
        ("{'out': self.decoder(z), 'posterior': posterior}", "posterior = Normal(mean, log_var.exp())"),
        ("self.decoder(z)", "posterior = Normal(mean, log_var.exp()); self.kl = (mean ** 2 + log_var.exp()).mean()"),
        ("F.mse_loss(self.decoder(z), x) + (mean ** 2).mean()", "posterior = Normal(mean, log_var.exp())"),
    ],
)
def test_the_caller_has_both(given: str, before: str) -> None:
    assert_flagged(autoencoder("z = posterior.sample()  # !", given, before), CODE)


@pytest.mark.parametrize(
    "draw",
    [
        "z = Normal(mean, log_var.exp()).rsample()",
        "z = mean + log_var.exp() * torch.randn_like(mean)",
        "z = mean + log_var.exp() * torch.normal(0.0, 1.0, size=mean.shape)",
        "z = mean + log_var.exp() * Normal(0.0, 1.0).sample(mean.shape)",
        "z = mean + log_var.exp() * Normal(torch.zeros_like(mean), torch.ones_like(mean)).sample()",
        "z = Bernoulli(logits=mean).sample()",  # it has no rsample
        "z = Normal(mean.detach(), log_var.exp().detach()).sample()",
        "z = mean if not self.training else Normal(mean, log_var.exp()).rsample()",
        "z = Normal(mean, log_var.exp()).rsample() if self.training else Normal(mean, log_var.exp()).sample()",
        "z = mean",
    ],
)
def test_drawn_with_a_gradient_or_of_constants(draw: str) -> None:
    assert_clean(autoencoder(draw), CODE)


@pytest.mark.parametrize(
    ("given", "before"),
    [
        ("self.decoder(z)", "pass"),  # only what is drawn is given: nothing trains the encoder with it
        ("z, mean, log_var", "pass"),
        ("self.decoder(mean), mean, log_var", "pass"),
        ("self.decoder(z), Normal(mean, log_var.exp()).log_prob(z).sum(-1)", "pass"),  # a score function
    ],
)
def test_something_else_is_given(given: str, before: str) -> None:
    assert_clean(autoencoder("z = Normal(mean, log_var.exp()).sample()", given, before), CODE)


def test_nothing_records_it() -> None:
    draw = "z = Normal(mean, log_var.exp()).sample()"
    assert_clean(autoencoder(draw, decorator="@torch.no_grad()"), CODE)
    assert_clean(autoencoder(f"with torch.no_grad(): {draw}"), CODE)


HELPER = """
from torch.distributions import Normal

class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(8, 8)
        self.decoder = nn.Linear(4, 8)

    def reparameterize(self, mean, log_var):
        std = torch.exp(0.5 * log_var)
        return torch.normal(mean, std)  # !

    def forward(self, x):
        mean, log_var = self.encoder(x).chunk(2, dim=-1)
        z = self.reparameterize(mean, log_var)
        return self.decoder(z), mean, log_var
"""


def test_drawn_by_a_helper() -> None:
    assert_flagged(HELPER, CODE)


@pytest.mark.parametrize(
    "edit",
    [
        ("torch.normal(mean, std)", "mean + std * torch.randn_like(std)"),
        ("return torch", "if self.training: return mean + std * torch.randn_like(std)\n        return torch"),
        ("def reparam", "@torch.no_grad()\n    def reparam"),
        ("std = torch", "with torch.no_grad(): return torch.normal(mean, log_var)\n        std = torch"),
    ],
)
def test_a_helper_that_does_not(edit: tuple[str, str]) -> None:
    snippet = twin(HELPER, edit)
    assert_clean(
        snippet.replace("return torch.normal(mean, std)", "return std") if "with" in edit[1] else snippet, CODE
    )


IN_ONE = """
import torch.distributions as D

def fit(loader, epochs):
    encoder, decoder = nn.Linear(8, 8), nn.Linear(4, 8)
    opt = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()])
    prior = D.Normal(torch.zeros(4), torch.ones(4))
    for epoch in range(epochs):
        for x in loader:
            opt.zero_grad()
            mean, raw = encoder(x).chunk(2, -1)
            posterior = D.Normal(mean, F.softplus(raw))
            code = posterior.sample()  # !
            nll = F.mse_loss(decoder(code), x)
            kl = D.kl_divergence(posterior, prior).mean()
            (nll + kl).backward()
            opt.step()
"""


def test_in_one_function() -> None:
    assert_flagged(IN_ONE, CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [("posterior.sample()", "posterior.rsample()")],
        [("decoder(code)", "decoder(mean)")],
        [("decoder(code)", "mean"), ("(nll + kl)", "decoder(code).mean().item(); (nll + kl)")],  # nobody trains it
        [("            nll =", "            with torch.no_grad(): shown = decoder(code)\n            nll ="),
         ("decoder(code), x", "decoder(mean), x")],
        [("+ kl)", "- (posterior.log_prob(code).sum(-1) * nll.detach()).mean())")],  # the score function
        [("+ kl)", "- posterior.log_prob(x).mean())")],  # the likelihood of what was observed
        [("(nll + kl)", "nll")],  # nothing trains the encoder: another mistake
        [("D.Normal(mean, F.softplus(raw))", "D.Bernoulli(logits=mean)")],
    ],
)  # fmt: skip
def test_look_alikes_in_one_function(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(IN_ONE, *edits), CODE)


GRAPHS = """
from torch.distributions import Normal

class GraphAutoencoder(nn.Module):
    def __init__(self, size, hidden):
        super().__init__()
        self.mean, self.log_std = nn.Linear(size, hidden), nn.Linear(size, hidden)

    def encode(self, x, adjacency):
        return Normal(adjacency @ self.mean(x), (adjacency @ self.log_std(x)).exp())

    def decode(self, z):
        return torch.sigmoid(z @ z.T)

    def forward(self, x, adjacency):
        q = self.encode(x, adjacency)
        z = q.sample()  # !
        logits = self.decode(z)
        return logits, q
"""


def test_a_decoder_without_parameters() -> None:
    assert_flagged(GRAPHS, CODE)


@pytest.mark.parametrize(
    "edit",
    [
        ("q.sample()", "q.rsample()"),
        ("self.decode(z)", "self.decode(q.mean)"),
        ("return logits, q", "return logits"),
        ("return logits, q", "return logits, q.log_prob(z)"),
        ("return logits, q", "return z, q"),  # an action, and its distribution
        ("return logits, q", "return logits, q.mean.detach()"),
    ],
)
def test_look_alikes_of_such_a_decoder(edit: tuple[str, str]) -> None:
    assert_clean(twin(GRAPHS, edit), CODE)


LIKELIHOOD = """
class Drawing(nn.Module):
    def __init__(self):
        super().__init__()
        self.infer, self.generate, self.head = nn.GRUCell(8, 8), nn.GRUCell(8, 8), nn.Linear(8, 8)

    def elbo(self, x, sigma):
        h_e = h_g = torch.zeros(len(x), 8)
        elbo = 0
        for layer in range(12):
            prior = torch.distributions.Normal(self.head(h_g), F.softplus(self.head(h_g)))
            h_e = self.infer(x, h_e)
            q = torch.distributions.Normal(self.head(h_e), F.softplus(self.head(h_e)))
            z = q.sample()  # !
            h_g = self.generate(z, h_g)
            elbo -= torch.distributions.kl_divergence(q, prior).sum(-1).mean()
        elbo += torch.distributions.Normal(self.head(h_g), sigma).log_prob(x).sum(-1).mean()
        return elbo
"""


def test_the_likelihood_of_what_a_decoder_gives() -> None:
    assert_flagged(LIKELIHOOD, CODE)


@pytest.mark.parametrize(
    "edit",
    [
        ("q.sample()", "q.rsample()"),
        ("z = q.sample()", "z = self.head(h_e)"),
        ("elbo -= torch", "elbo -= q.log_prob(z).sum(-1).mean() + torch"),
        ("elbo -= torch.distributions.kl_divergence(q, prior).sum(-1).mean()", "pass"),
    ],
)
def test_look_alikes_of_a_likelihood(edit: tuple[str, str]) -> None:
    assert_clean(twin(LIKELIHOOD, edit), CODE)


POLICY = """
from torch.distributions import Categorical, Normal

class Policy(nn.Module):
    def __init__(self, size=4, actions=2):
        super().__init__()
        self.body = nn.Linear(size, 32)
        self.mean = nn.Linear(32, actions)
        self.log_std = nn.Linear(32, actions)

    def forward(self, state):
        hidden = torch.relu(self.body(state))
        return self.mean(hidden), self.log_std(hidden).clamp(-20, 2)

    def sample(self, state):
        mean, log_std = self(state)
        normal = Normal(mean, log_std.exp())
        raw = normal.sample()  # !
        action = torch.tanh(raw)
        log_prob = normal.log_prob(raw) - torch.log(1 - action.pow(2) + 1e-6)
        return action, log_prob.sum(-1, keepdim=True), torch.tanh(mean)
"""
AGENT = """
class Critic(nn.Module):
    def __init__(self, size=4, actions=2):
        super().__init__()
        self.one, self.two = nn.Linear(size + actions, 1), nn.Linear(size + actions, 1)

    def forward(self, state, action):
        both = torch.cat([state, action], -1)
        return self.one(both), self.two(both)

class Agent:
    def __init__(self):
        self.policy, self.critic = Policy(), Critic()
        self.policy_opt = torch.optim.Adam(self.policy.parameters())
        self.alpha = 0.2

    def improve(self, state):
        action, log_pi, _ = self.policy.sample(state)
        one, two = self.critic(state, action)
        loss = (self.alpha * log_pi - torch.min(one, two)).mean()
        self.policy_opt.zero_grad()
        loss.backward()
        self.policy_opt.step()
"""


def test_a_policy_under_a_critic() -> None:
    assert_flagged(POLICY + AGENT, CODE)


def test_a_policy_in_another_file(tmp_path: Path) -> None:
    head = "import torch\nimport torch.nn as nn\n"
    files = {"nets.py": head + POLICY, "agent.py": head + "from nets import Policy\n" + AGENT}
    line = next(n for n, text in enumerate(files["nets.py"].splitlines(), 1) if "# !" in text)
    assert lines_in_files(tmp_path, files, CODE) == [("nets.py", line)]


@pytest.mark.parametrize(
    "edits",
    [
        [("normal.sample()", "normal.rsample()")],
        [("raw = normal.sample()", "raw = mean + log_std.exp() * Normal(0, 1).sample(mean.shape)")],
        [("raw = normal.sample()", "unit = Normal(0, 1)\n        raw = mean + log_std.exp() * unit.sample()")],
        [
            (
                "self.alpha * log_pi - torch.min(one, two)",
                "log_pi * (self.alpha * log_pi - torch.min(one, two)).detach()",
            )
        ],
        [("self.alpha * log_pi - torch.min(one, two)", "-log_pi * torch.min(one, two)")],
        [("self.alpha * log_pi - torch.min(one, two)", "self.alpha * log_pi - torch.min(one, two).detach()")],
        [("self.alpha * log_pi - torch.min(one, two)", "-torch.exp(log_pi - log_pi.detach()) * torch.min(one, two)")],
        [("self.alpha * log_pi - torch.min(one, two)", "self.alpha * log_pi")],
        [("(self.alpha * log_pi - torch.min(one, two))", "(one - two)")],  # only the critic is trained
        [("Normal(mean, log_std.exp())", "Categorical(logits=mean)")],
        [("self.critic(state, action)", "self.critic(state, torch.tanh(self.policy(state)[0]))")],
    ],
)
def test_look_alikes_of_policies(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(POLICY + AGENT, *edits), CODE)


FED_BACK = """
from torch.distributions import Normal

def fit(series, cell, head, opt):
    h = torch.zeros(1, 8)
    value = torch.zeros(1, 1)
    loss = 0.0
    for target in series:
        h = cell(value, h)
        mean = head(h)
        dist = Normal(mean, 1.0)
        loss = loss + F.gaussian_nll_loss(mean, target, torch.ones_like(mean))
        value = dist.sample()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


def test_a_sequence_that_goes_on_from_its_samples() -> None:
    assert_clean(FED_BACK, CODE)


IN_SEQUENCE = """
from torch.distributions import Categorical, Independent, Normal, kl_divergence

class GaussianHead(nn.Module):
    def __init__(self, size, codes):
        super().__init__()
        self.loc, self.raw = nn.Linear(size, codes), nn.Linear(size, codes)

    def forward(self, hidden):
        return Independent(Normal(self.loc(hidden), F.softplus(self.raw(hidden))), 1)

def inference(size, codes):
    trunk = nn.Sequential(nn.Linear(size, 32), nn.ELU())
    return nn.Sequential(trunk, GaussianHead(32, codes))

class Autoencoder(nn.Module):
    def __init__(self, size=12, codes=2):
        super().__init__()
        self.codes = codes
        self.encoder = nn.Sequential(nn.Linear(size, 32), nn.ELU(), GaussianHead(32, codes))
        self.decoder = nn.Sequential(nn.Linear(codes, 32), nn.ELU(), nn.Linear(32, size))

    @property
    def prior(self):
        return Independent(Normal(torch.zeros(self.codes), torch.ones(self.codes)), 1)

    def elbo(self, x, beta=1.0):
        posterior = self.encoder(x)
        z = posterior.sample()  # !
        rec = Independent(Normal(self.decoder(z), 1.0), 1).log_prob(x)
        return (rec - beta * kl_divergence(posterior, self.prior)).mean()
"""
TRAINS_IT = """
class Trainer:
    def __init__(self, model):
        self.model = Autoencoder()
        self.opt = torch.optim.Adam(self.model.parameters())

    def step(self, x):
        q = self.model.encoder(x)
        code = q.sample()  # !
        loss = F.mse_loss(self.model.decoder(code), x) + kl_divergence(q, self.model.prior).mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
"""
ENCODER = "nn.Sequential(nn.Linear(size, 32), nn.ELU(), GaussianHead(32, codes))"


@pytest.mark.parametrize(
    "encoder",
    [
        ENCODER,
        "nn.Sequential(nn.Linear(size, 32), nn.Sequential(nn.ELU(), GaussianHead(32, codes))).to('cpu')",
        "nn.Sequential(*[nn.Linear(size, 32), nn.ELU()], GaussianHead(32, codes))",
        "inference(size, codes)",
    ],
)
def test_what_the_last_of_a_sequence_gives(encoder: str) -> None:
    assert_flagged(IN_SEQUENCE.replace(ENCODER, encoder), CODE)


def test_the_sequence_is_of_another_object() -> None:
    assert_flagged(twin(IN_SEQUENCE, ("posterior.sample()", "posterior.rsample()")) + TRAINS_IT, CODE)


IN_SCRIPT = """
encoder = nn.Sequential(nn.Linear(12, 32), GaussianHead(32, 2))
decoder = nn.Linear(2, 12)
opt = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()])
unit = Independent(Normal(torch.zeros(2), torch.ones(2)), 1)
for x in torch.randn(100, 8, 12):
    q = encoder(x)
    loss = F.mse_loss(decoder(q.sample()), x) + kl_divergence(q, unit).mean()  # !
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


def test_the_sequence_of_a_script() -> None:
    assert_flagged(twin(IN_SEQUENCE, ("posterior.sample()", "posterior.rsample()")) + IN_SCRIPT, CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [("posterior.sample()", "posterior.rsample()")],
        [("posterior.sample()", "posterior.mean")],
        [("Independent(Normal(self.loc(hidden), F.softplus(self.raw(hidden))), 1)", "Categorical(self.loc(hidden))")],
        [("        posterior = ", "        with torch.no_grad(): posterior = ")],
        [("ELU(), GaussianHead(32, codes))\n", "ELU(), nn.Linear(32, codes))\n")],
        [("    def elbo", "    @torch.no_grad()\n    def elbo")],
        [(" - beta * kl_divergence(posterior, self.prior)", "")],
    ],
)  # fmt: skip
def test_look_alikes_of_a_sequence(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(IN_SEQUENCE, *edits), CODE)


PARTS = """
from dataclasses import dataclass
from torch.distributions import Categorical, Normal, kl_divergence

@dataclass
class Encoded:
    mean: torch.Tensor
    posterior: Normal

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(8, 8), nn.Linear(4, 8)

    def encode(self, x):
        mean, log_std = self.encoder(x).chunk(2, -1)
        {made}

    def loss(self, x):
        {taken}
        code = {q}.sample()  # !
        return F.mse_loss(self.decoder(code), x) + kl_divergence({q}, Normal(0.0, 1.0)).mean()

def fit(loader):
    model = Model()
    optimizer = torch.optim.Adam(model.parameters())
    for x in loader:
        optimizer.zero_grad()
        model.loss(x).backward()
        optimizer.step()
"""
WAYS = {
    "one of several": ("return mean, Normal(mean, log_std.exp())", "mean, q = self.encode(x)", "q"),
    "under a word": ('return {"q": Normal(mean, log_std.exp()), "mean": mean}', "out = self.encode(x)", 'out["q"]'),
    "a field": ("return Encoded(mean, Normal(mean, log_std.exp()))", "out = self.encode(x)", "out.posterior"),
    "a field by its name": (
        "q = Normal(mean, log_std.exp()); return Encoded(posterior=q, mean=mean)",
        "q = self.encode(x).posterior",
        "q",
    ),
    "an attribute": ("self.q = Normal(mean, log_std.exp())", "self.encode(x)", "self.q"),
}


def in_parts(way: str) -> str:
    made, taken, q = WAYS[way]
    return PARTS.replace("{made}", made).replace("{taken}", taken).replace("{q}", q)


@pytest.mark.parametrize("way", WAYS)
def test_the_distribution_is_a_part_of_what_a_method_gives(way: str) -> None:
    assert_flagged(in_parts(way), CODE)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "edits",
    [
        [(".sample()", ".rsample()")],
        [("Normal(mean, log_std.exp())", "Categorical(logits=mean)")],
        [("Normal(mean, log_std.exp())", "make(mean, log_std)")],  # of whatever kind
        [("self.decoder(code)", "self.decoder(x[:, :4])")],
        [("    def loss", "    @torch.no_grad()\n    def loss")],
        [("F.mse_loss(self.decoder(code), x)", "F.mse_loss(self.decoder(code), x).item()")],
    ],
)
def test_look_alikes_of_parts(way: str, edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(in_parts(way), *edits), CODE)


LOSSES = """
from torch.distributions import Normal

class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean, self.log_std = nn.Linear(4, 2), nn.Linear(4, 2)

    def forward(self, obs):
        return Normal(self.mean(obs), self.log_std(obs).clamp(-5, 2).exp())

class Learner:
    def __init__(self):
        self.actor, self.q1, self.q2 = Actor(), nn.Linear(6, 1), nn.Linear(6, 1)
        self.value = nn.Linear(4, 1)
        self.actor_opt = torch.optim.Adam(self.actor.parameters())

    def squashed(self, dist, raw):
        return (dist.log_prob(raw) - torch.log(1 - torch.tanh(raw) ** 2 + 1e-6)).sum(-1, keepdim=True)

    def actor_loss(self, batch, alpha):
        loss = torch.zeros(1)
        for obs in batch:
            dist = self.actor(obs)
            raw = dist.sample()  # !
            log_prob = self.squashed(dist, raw)
            action = torch.tanh(raw)
            both = torch.cat([obs, action], -1)
            q = torch.min(self.q1(both), self.q2(both))
            loss = loss + (alpha * log_prob - q).mean()
        return loss / len(batch)

    def improve(self, batch):
        loss = self.actor_loss(batch, 0.2)
        self.actor_opt.zero_grad()
        loss.backward()
        self.actor_opt.step()
"""


@pytest.mark.parametrize(
    "edits",
    [
        [("log_prob", "log_prob")],
        [
            ("log_prob = self.squashed(dist, raw)", "logp = dist.log_prob(raw).sum(-1)"),
            ("alpha * log_prob", "alpha * logp"),
        ],
        [("(alpha * log_prob - q).mean()", "(alpha * dist.log_prob(raw).sum(-1) - q).mean()")],
        [("(alpha * log_prob - q).mean()", "-(q - alpha * log_prob).mean()")],
        [
            ("return loss / len(batch)", "return loss / len(batch), log_prob.detach()"),
            ("loss = self.a", "loss, _ = self.a"),
        ],
    ],
)
def test_a_loss_that_a_caller_backpropagates(edits: list[tuple[str, str]]) -> None:
    snippet = LOSSES
    for old, new in edits:
        assert old in snippet
        snippet = snippet.replace(old, new)
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [("dist.sample()", "dist.rsample()")],
        [("(alpha * log_prob - q).mean()", "(log_prob * (alpha * log_prob - q).detach()).mean()")],
        [("(alpha * log_prob - q).mean()", "(-log_prob * q).mean()")],
        [("(alpha * log_prob - q).mean()", "(alpha * log_prob - q.detach()).mean()")],
        [("return loss / len(batch)", "return loss / len(batch), log_prob"), ("loss = self.a", "loss, _ = self.a")],
        # a target for something else: the state value, the critic
        [("(alpha * log_prob - q).mean()", "(self.value(obs) - (q - alpha * log_prob)).pow(2).mean()")],
        [
            (
                "loss = self.actor_loss(batch, 0.2)",
                "loss = (self.value(batch) - self.actor_loss(batch, 0.2).detach()).mean()",
            )
        ],
        [("loss = self.actor_loss(batch, 0.2)", "loss = (self.value(batch) - self.actor_loss(batch, 0.2)).mean()")],
        [("loss = self.actor_loss(batch, 0.2)", "loss = self.value(batch).mean(); print(self.actor_loss(batch, 0.2))")],
        [
            ("        loss = self.actor", "        with torch.no_grad(): target = self.actor"),
            ("loss.b", "self.value(target).b"),
        ],
        [("raw = dist.sample()", "raw = obs[:2]")],
    ],
)
def test_look_alikes_of_a_loss_of_callers(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(LOSSES, *edits), CODE)


ONE_HOT = """
    from torch.distributions import Categorical, OneHotCategorical, OneHotCategoricalStraightThrough, kl_divergence

    class Codes(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.decoder = nn.Linear(8, 16), nn.Linear(16, 8)

        def forward(self, x, prior):
            logits = self.encoder(x)
            posterior = OneHotCategorical(logits=logits)
            z = posterior.sample()  # !
            return self.decoder(z), kl_divergence(posterior, prior).mean()

    def train(model, optimizer, loader, prior):
        for x in loader:
            recon, kl = model(x, prior)
            loss = F.mse_loss(recon, x) + kl
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
"""


def test_a_one_hot_code_without_an_estimator() -> None:
    assert_flagged(ONE_HOT, CODE)
    inline = ("z = posterior.sample()  # !", "z = OneHotCategorical(logits=logits).sample().flatten(1)  # !")
    assert_flagged(ONE_HOT.replace(*inline), CODE)


@pytest.mark.parametrize(
    "edit",
    [
        ("z = posterior.sample()", "z = posterior.sample() + posterior.probs - posterior.probs.detach()"),
        ("z = posterior.sample()", "z = posterior.sample(); p = posterior.probs; z = z + p - p.detach()"),
        ("self.decoder(z)", "self.decoder(z + logits.softmax(-1) - logits.softmax(-1).detach())"),
        ("OneHotCategorical(logits=logits)", "OneHotCategoricalStraightThrough(logits=logits)"),
        ("posterior.sample()", "OneHotCategoricalStraightThrough(logits=logits).rsample()"),
        ("posterior.sample()", "posterior.probs"),
        ("OneHotCategorical(logits=logits)", "Categorical(logits=logits)"),
        ("self.decoder(z)", "self.decoder(logits)"),
        ("self.decoder(z), kl_divergence(posterior, prior).mean()", "self.decoder(z), posterior.log_prob(z)"),
        ("self.decoder(z), kl_divergence(posterior, prior).mean()", "self.decoder(z), 0.0"),
        ("logits = self.encoder(x)", "logits = torch.zeros(len(x), 16)"),
        ("        def forward", "        @torch.no_grad()\n        def forward"),
        ("posterior.sample()", "F.gumbel_softmax(logits, hard=True)"),
    ],
)
def test_a_one_hot_code_that_has_a_gradient_or_needs_none(edit: tuple[str, str]) -> None:
    assert_clean(twin(ONE_HOT, edit), CODE)


CALLED = """
from torch.distributions import Categorical, Independent, Normal

class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk, self.loc, self.raw_scale = nn.Linear(4, 16), nn.Linear(16, 2), nn.Linear(16, 2)

    def forward(self, obs):
        h = torch.relu(self.trunk(obs))
        dist = Independent(Normal(self.loc(h), F.softplus(self.raw_scale(h))), 1)
        u = dist.sample()  # !
        return torch.tanh(u), dist.log_prob(u) - torch.log(1 - torch.tanh(u) ** 2 + 1e-6).sum(-1)

class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(6, 1), nn.Linear(6, 1)

    def forward(self, obs, act):
        both = torch.cat([obs, act], -1)
        return self.one(both), self.two(both)

class Learner:
    def __init__(self):
        self.actor, self.critic = Actor(), Critic()
        self.actor_opt = torch.optim.Adam(self.actor.parameters())
        self.critic_opt = torch.optim.Adam(self.critic.parameters())
        self.alpha = 0.1

    def learn(self, obs, act, target):
        a, b = self.critic(obs, act)
        self.descend(self.critic_opt, F.mse_loss(a, target) + F.mse_loss(b, target))
        self.critic.requires_grad_(False)
        new, logp = self.actor(obs)
        value = torch.min(*self.critic(obs, new))
        loss = (self.alpha * logp - value).mean()
        self.descend(self.actor_opt, loss)
        self.critic.requires_grad_(True)
        return loss.item()

    def descend(self, opt, loss):
        opt.zero_grad()
        loss.backward()
        opt.step()
"""
LIVE = [
    ("        self.critic.requires_grad_(False)\n", ""),
    ("        self.critic.requires_grad_(True)\n", ""),
]
AS_LOOP = [
    (
        "self.critic.requires_grad_(False)",
        "for p in self.critic.parameters():\n            p.requires_grad = False",
    )
]


@pytest.mark.parametrize(
    "edits",
    [
        [],
        LIVE,
        AS_LOOP,
        [("loss = (self.alpha * logp - value).mean()", "loss = (self.alpha * logp).mean() + 0.5 * -value.mean()")],
        [("loss = (self.alpha * logp - value).mean()", "loss = -(value - self.alpha * logp).mean()")],
        [
            (
                "value = torch.min(*self.critic(obs, new))",
                "one, two = self.critic(obs, new); value = torch.min(one, two)",
            )
        ],
        [("self.descend(self.actor_opt, loss)", "self.actor_opt.zero_grad(); loss.backward(); self.actor_opt.step()")],
    ],
)
def test_a_policy_that_is_called(edits: list[tuple[str, str]]) -> None:
    snippet = CALLED
    for old, new in edits:
        assert old in snippet
        snippet = snippet.replace(old, new)
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [("dist.sample()", "dist.rsample()")],
        [("Independent(Normal(self.loc(h), F.softplus(self.raw_scale(h))), 1)", "Categorical(logits=self.loc(h))")],
        # the score function, in several ways
        [("(self.alpha * logp - value).mean()", "-(logp * value).mean()")],
        [("(self.alpha * logp - value).mean()", "-logp.mul(value).mean() + 0.1 * logp.mean()")],
        [("(self.alpha * logp - value).mean()", "-(logp * (value - value.mean())).mean()")],
        [("(self.alpha * logp - value).mean()", "score(logp, value) + logp.mean()")],
        [("(self.alpha * logp - value).mean()", "score(logp, advantage=value) + 0.1 * obs.mean()")],
        [("(self.alpha * logp - value).mean()", "(F.softmax(value, 0) * -logp).sum()")],
        [("(self.alpha * logp - value).mean()", "nll = -logp; loss = (nll * value).mean() + nll.mean()")],
        [("(self.alpha * logp - value).mean()", "torch.einsum('i,i->', logp, value) - logp.mean()")],
        # what the critic gives is only shown, or cut off
        [("(self.alpha * logp - value).mean()", "(self.alpha * logp).mean(); print(value - logp)")],
        [("(self.alpha * logp - value).mean()", "(self.alpha * logp - value.detach()).mean()")],
        [("torch.min(*self.critic(obs, new))", "torch.min(*self.critic(obs, act))")],
        [("        new, logp", "        with torch.no_grad(): new, logp")],
    ],
)
@pytest.mark.parametrize("frozen", [[], LIVE, AS_LOOP])
def test_look_alikes_of_a_policy_that_is_called(edits: list[tuple[str, str]], frozen: list[tuple[str, str]]) -> None:
    assert_clean(twin(CALLED, *frozen, *edits), CODE)


BASE = """
class LatentModel(nn.Module):
    def encode(self, x):
        raise NotImplementedError

    def decode(self, z):
        raise NotImplementedError

    def forward(self, x):
        posterior = self.encode(x)
        z = posterior.sample()  # !
        return Output(self.decode(z), posterior, z)

    def elbo(self, x, beta):
        out = self(x)
        kl = kl_divergence(out.posterior, Normal(torch.zeros_like(out.z), torch.ones_like(out.z)))
        return F.mse_loss(out.recon, x) + beta * kl.mean()
"""
HEIR = """
class SequenceModel(LatentModel):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(8, 8, batch_first=True)
        self.from_z = nn.Linear(4, 8)

    def encode(self, x):
        mean, log_var = self.rnn(x)[1][-1].chunk(2, dim=-1)
        return Independent(Normal(mean, torch.exp(0.5 * log_var)), 1)

    def decode(self, z):
        return torch.tanh(self.from_z(z))
"""
OUTPUT = """
from collections import namedtuple
from torch.distributions import Categorical, Independent, Normal, kl_divergence

Output = namedtuple("Output", "recon posterior z")
"""


def derived(*edits: tuple[str, str]) -> str:
    snippet = OUTPUT + BASE + HEIR
    for old, new in edits:
        assert old in snippet
        snippet = snippet.replace(old, new)
    return snippet


@pytest.mark.parametrize(
    "edits",
    [
        [],
        [("Output(self.decode(z), posterior, z)", "self.decode(z), posterior")],
        [("Output(self.decode(z), posterior, z)", "{'recon': self.decode(z), 'posterior': posterior, 'z': z}")],
        [("return Independent(Normal(mean, torch.exp(0.5 * log_var)), 1)", "return Normal(mean, F.softplus(log_var))")],
        [("raise NotImplementedError", "...")],
        [("def encode(self, x):\n        raise NotImplementedError\n\n    ", "")],
        [("posterior.sample()", "posterior.sample((1,)).squeeze(0)")],
    ],
)
def test_a_method_that_heirs_fill_in(edits: list[tuple[str, str]]) -> None:
    assert_flagged(derived(*edits), CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [("posterior.sample()", "posterior.rsample()")],
        [("posterior.sample()", "posterior.rsample() if self.training else posterior.sample()")],
        [("posterior.sample()", "posterior.mean")],
        [("Output(self.decode(z), posterior, z)", "Output(z, posterior, z)")],
        [("Output(self.decode(z), posterior, z)", "Output(self.decode(z), posterior.log_prob(z), z)")],
        [("Output(self.decode(z), posterior, z)", "self.decode(z)")],
        [("Independent(Normal(mean, torch.exp(0.5 * log_var)), 1)", "Categorical(logits=mean)")],
        [("Independent(Normal(mean, torch.exp(0.5 * log_var)), 1)", "distribution_of(mean, log_var)")],
        [("Independent(Normal(mean, torch.exp(0.5 * log_var)), 1)", "Normal(torch.zeros(4), torch.ones(4))")],
        [("    def forward", "    @torch.no_grad()\n    def forward")],
        [("class SequenceModel(LatentModel)", "class SequenceModel(nn.Module)")],
        [(HEIR, "")],
    ],
)
def test_look_alikes_of_what_heirs_fill_in(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(derived(), *edits), CODE)


GIVEN = """
from torch.distributions import Categorical, Normal

class Sampler:
    def draw(self, of, sizes=()):
        return of.sample(sizes)  # !

class Autoencoder(Sampler, nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(8, 8), nn.Linear(4, 8)

    def forward(self, x):
        mean, log_std = self.encoder(x).chunk(2, dim=-1)
        posterior = Normal(mean, log_std.exp())
        z = self.draw(posterior)
        return self.decoder(z), posterior
"""


@pytest.mark.parametrize(
    "edit",
    [
        ("self.draw(posterior)", "self.draw(of=posterior)"),
        ("self.draw(posterior)", "self.draw(Normal(mean, log_std.exp()))"),
        ("return of.sample(sizes)", "code = of.sample(sizes)\n        return code"),
    ],
)
def test_a_helper_that_is_given_the_distribution(edit: tuple[str, str]) -> None:
    assert_flagged(GIVEN, CODE)
    marked = GIVEN.replace("  # !", "").replace(*edit)
    assert_flagged(marked.replace("of.sample(sizes)", "of.sample(sizes)  # !"), CODE)


@pytest.mark.parametrize(
    "edit",
    [
        ("of.sample(sizes)", "of.rsample(sizes)"),
        ("of.sample(sizes)", "of.rsample(sizes) if of.has_rsample else of.sample(sizes)"),
        ("return of.sample(sizes)", "of = wrapped(of)\n        return of.sample(sizes)"),
        ("return of.sample(sizes)", "return of.log_prob(of.sample(sizes))"),
        ("return of.sample(sizes)", "of.sample(sizes)\n        return of.mean"),
        ("    def draw", "    @torch.no_grad()\n    def draw"),
        ("Normal(mean, log_std.exp())", "Categorical(logits=mean)"),
        ("Normal(mean, log_std.exp())", "make(mean, log_std)"),
        ("self.decoder(z), posterior", "z, posterior"),
        ("self.decoder(z), posterior", "self.decoder(z)"),
        ("self.decoder(z), posterior", "self.decoder(z), posterior.log_prob(z)"),
    ],
)
def test_look_alikes_of_such_a_helper(edit: tuple[str, str]) -> None:
    assert_clean(twin(GIVEN, edit), CODE)
