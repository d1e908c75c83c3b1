from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, twin

CODE = "GG244"

UPDATE = """
    def update(policy, optimizer, obs, act, adv, epochs):
        {before}
        for epoch in range(epochs):
            {old}
            for idx in torch.randperm(len(obs)).chunk(4):
                {new}
                loss = -torch.min(ratio * adv[idx], ratio.clamp(0.8, 1.2) * adv[idx]).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
"""
OLD = ("with torch.no_grad():", "    old = policy(obs).log_prob(act)  # !")
NEW = ("ratio = (policy(obs[idx]).log_prob(act[idx]) - old[idx]).exp()",)


def update(old: tuple[str, ...] = OLD, new: tuple[str, ...] = NEW, before: str = "pass") -> str:
    return UPDATE.format(old="\n            ".join(old), new="\n                ".join(new), before=before)


AGENT = """
    class Agent:
        def __init__(self, net, lr):
            self.net = net
            self.optimizer = torch.optim.Adam(net.parameters(), lr=lr)

        def logp(self, obs, act):
            return torch.distributions.Categorical(logits=self.net(obs)).log_prob(act)

        def loss(self, logp, before, adv):
            ratio = torch.exp(logp - before)
            return -torch.min(ratio * adv, torch.clamp(ratio, 0.8, 1.2) * adv).mean()

        def learn(self, batch, epochs=4):
            for _ in range(epochs):
                before = self.logp(batch["obs"], batch["act"]).detach()  # !
                for start in range(0, len(batch["obs"]), 64):
                    part = slice(start, start + 64)
                    logp = self.logp(batch["obs"][part], batch["act"][part])
                    loss = self.loss(logp, before[part], batch["adv"][part])
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()
"""

ZIPPED = """
    def optimise(actor, opt, states, actions, gains):
        for sweep in range(8):
            with torch.inference_mode():
                dist = torch.distributions.Normal(actor(states), 0.1)
                base = dist.log_prob(actions).sum(-1)  # !
            for s, a, b, g in zip(states.split(32), actions.split(32), base.split(32), gains.split(32)):
                now = torch.distributions.Normal(actor(s), 0.1).log_prob(a).sum(-1)
                weight = torch.exp(now - b)
                loss = -(weight.clamp(0.9, 1.1) * g).mean()
                opt.zero_grad(); loss.backward(); opt.step()
"""

GRPO = """
    def token_logps(model, ids):
        logits = model(ids)[:, :-1]
        return torch.gather(logits.log_softmax(-1), 2, ids[:, 1:].unsqueeze(-1)).squeeze(-1)

    def train(model, ref_model, optimizer, prompts, sample, reward, size):
        for prompt in prompts:
            ids = sample(model, prompt)
            advantages = reward(ids)
            for _ in range(4):
                with torch.no_grad():
                    old_logps = token_logps(model, ids)  # !
                for i in range(0, len(ids), size):
                    mb = ids[i:i + size]
                    log_ratio = token_logps(model, mb) - old_logps[i:i + size]
                    ratio = torch.exp(log_ratio)
                    loss = -(ratio * advantages[i:i + size, None]).mean()
                    loss.backward()
                    optimizer.step()
                    optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    "snippet",
    [
        update(),
        update(("old = policy(obs).log_prob(act).detach()  # !",)),
        update(
            ("with torch.no_grad():", "    dist = policy(obs)", "    old = dist.log_prob(act)  # !"),
            ("dist = policy(obs[idx])", "log_ratio = dist.log_prob(act[idx]) - old[idx]", "ratio = log_ratio.exp()"),
        ),
        update(
            ("with torch.no_grad():", "    _, old, _ = policy.evaluate(obs, act)  # !"),
            (
                "entropy, logp, value = policy.evaluate(obs[idx], act[idx])", "before = old[idx]",
                "ratio = torch.exp(logp - before)",
            ),
        ),
        update(
            ("old = policy(obs).log_prob(act)  # !",),
            ("ratio = (policy(obs[idx]).log_prob(act[idx]) - old[idx].detach()).sum(-1).exp()",),
        ),
        AGENT,
        ZIPPED,
        GRPO,
    ],
)  # fmt: skip
def test_old_values_of_each_epoch(snippet: str) -> None:
    assert_flagged(snippet, CODE)


ONCE = "old = policy(obs).log_prob(act).detach()"
COLLECTED = """
    def run(policy, optimizer, env, buffer, iterations):
        for iteration in range(iterations):
            {fill}
            with torch.no_grad():
                old = policy(obs).log_prob(act)
            for idx in torch.randperm(len(obs)).chunk(4):
                ratio = (policy(obs[idx]).log_prob(act[idx]) - old[idx]).exp()
                loss = -torch.min(ratio * adv[idx], ratio.clamp(0.8, 1.2) * adv[idx]).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
"""


@pytest.mark.parametrize(
    "snippet",
    [
        update((), before=ONCE),
        update(("pass",), before="with torch.no_grad(): old = policy(obs).log_prob(act)"),
        update(("if epoch == 0:", "    with torch.no_grad():", "        old = policy(obs).log_prob(act)")),
        update(("with torch.no_grad():", "    old = reference(obs).log_prob(act)")),
        update(
            ("with torch.no_grad():", "    old = frozen(obs).log_prob(act)"), before="frozen = copy.deepcopy(policy)"
        ),
        # Of the same input, right before it: the ratio is 1 on purpose.
        update(("pass",), ("logp = policy(obs[idx]).log_prob(act[idx])", "ratio = (logp - logp.detach()).exp()")),
        update(
            ("pass",),
            (
                "with torch.no_grad():", "    old = policy(obs[idx]).log_prob(act[idx])",
                "ratio = (policy(obs[idx]).log_prob(act[idx]) - old).exp()",
            ),
        ),
        # The data is drawn anew, too.
        update(("obs, act, adv = collect(policy)", "with torch.no_grad():", "    old = policy(obs).log_prob(act)")),
        update(
            (
                "with torch.no_grad():", "    dist = policy(obs)", "    act = dist.sample()",
                "    old = dist.log_prob(act)",
            )
        ),
        update(("fill(obs, act)", "with torch.no_grad():", "    old = policy(obs).log_prob(act)")),
        update(("obs[epoch] = act[epoch]", "with torch.no_grad():", "    old = policy(obs).log_prob(act)")),
        # A distance, and no ratio that weighs something.
        update(
            ("with torch.no_grad():", "    old = policy(obs).log_prob(act)"),
            (
                "logp = policy(obs[idx]).log_prob(act[idx])", "kl = ((logp - old[idx]).exp() - 1).mean() + 0 * logp",
                "ratio = torch.ones(1)",
            ),
        ),
        COLLECTED.format(fill="obs, act, adv = rollout(env, policy)"),
        COLLECTED.format(fill="batch = rollout(env, policy); obs, act, adv = batch.obs, batch.act, batch.adv"),
        COLLECTED.format(fill="buffer.collect(env, policy); obs, act, adv = buffer.obs, buffer.act, buffer.adv"),
        COLLECTED.format(fill="obs, act, adv = buffer.get()"),
        COLLECTED.replace("policy(obs)", "policy(buffer.obs)").format(fill="env.play(policy, buffer)"),
        COLLECTED.replace("policy(obs)", "policy(buffer.obs)").format(fill="reward = play(env, policy, buffer)"),
        twin(AGENT, ("range(epochs)", "range(1)")),
        twin(AGENT, ("for _ in range(epochs)", "for batch in self.batches")),
        twin(AGENT, ("before = self.logp", "batch = self.collect()\n                before = self.logp")),
        twin(AGENT, ("before = self.logp", "before = self.target.logp")),
        twin(AGENT, (".detach()", "")),
        twin(ZIPPED, ("Normal(actor(states)", "Normal(teacher(states)")),
        twin(ZIPPED, ("for sweep in range(8)", "for states, actions, gains in batches")),
        twin(GRPO, ("old_logps = token_logps(model, ids)", "old_logps = token_logps(ref_model, ids)")),
        twin(GRPO, ("for _ in range(4):\n", "for _ in range(4):\n                ids = sample(model, prompt)\n")),
        # Steps of the epochs come between, in a loop of their own: another policy for each round is meant.
        """
        def improve(policy, optimizer, obs, act, adv):
            for round in range(20):
                with torch.no_grad():
                    old = policy(obs).log_prob(act)
                for epoch in range(4):
                    for idx in torch.randperm(len(obs)).chunk(4):
                        ratio = (policy(obs[idx]).log_prob(act[idx]) - old[idx]).exp()
                        loss = -(ratio.clamp(0.8, 1.2) * adv[idx]).mean()
                        optimizer.zero_grad()
                        loss.backward()
                        optimizer.step()
        """,
        """
        def improve(policy, optimizer, obs, act, adv):
            for round in range(20):
                with torch.no_grad():
                    old = policy(obs).log_prob(act)
                for epoch in range(4):
                    ratio = (policy(obs).log_prob(act) - old).exp()
                    loss = -(ratio.clamp(0.8, 1.2) * adv).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
        """,
    ],
)  # fmt: skip
def test_look_alikes(snippet: str) -> None:
    assert_clean(snippet, CODE)
