from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, findings, lines_in_files, source, twin

CODE = "GG258"

GRPO = """
    class Trainer:
        def compute_loss(self, inputs):
            logps = per_token_logps(self.model, inputs["ids"])
            old_logps = logps if inputs["old_logps"] is None else inputs["old_logps"]  # !
            coef = torch.exp(logps - old_logps)
            clipped = torch.clamp(coef, 0.8, 1.2)
            return -torch.min(coef * inputs["advantages"], clipped * inputs["advantages"]).mean()
"""

PPO = """
    def learn(policy, optimizer, states, actions, advantages):
        for _ in range(4):
            log_prob = policy(states).log_prob(actions)
            old_log_prob = log_prob  # !
            ratio = (log_prob - old_log_prob).exp()
            loss = -(ratio * advantages).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
"""

DEFAULT = """
    def policy_loss(model, batch, old_logprobs=None, eps=0.2):
        logprobs = model(batch["ids"]).log_softmax(-1).gather(-1, batch["actions"])
        if old_logprobs is None:
            old_logprobs = logprobs.clone()  # !
        log_ratio = logprobs - old_logprobs
        ratio = torch.exp(log_ratio)
        return -torch.min(ratio * batch["adv"], ratio.clamp(1 - eps, 1 + eps) * batch["adv"]).mean()
"""

DIVIDED = """
    class Agent:
        def update(self, states, actions, returns):
            prob = self.actor(states).gather(1, actions)
            self.old_prob = prob  # !
            ratio = prob / self.old_prob
            loss = -(ratio * returns).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
"""

BRANCHES = """
    def loss_of(model, batch):
        new_logp = model(batch.states).log_prob(batch.actions)
        if batch.logp is not None:
            old_logp = batch.logp
        else:
            old_logp = new_logp  # !
        return -(torch.exp(new_logp - old_logp) * batch.adv).mean()
"""

UNDER_NO_GRAD = """
    def loss_of(model, batch):
        logp = model(batch.states).log_prob(batch.actions)
        with torch.no_grad():
            prev_logp = logp  # !
        return -(torch.exp(logp - prev_logp) * batch.adv).mean()
"""

ALL = [GRPO, PPO, DEFAULT, DIVIDED, BRANCHES, UNDER_NO_GRAD]


@pytest.mark.parametrize("snippet", ALL)
def test_an_old_one_that_is_the_new_one_is_flagged(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "snippet",
    [
        twin(GRPO, ("= logps if", "= logps.detach() if")),
        twin(GRPO, ("torch.exp(logps - old_logps)", "torch.exp(logps.detach() - old_logps)")),
        twin(GRPO, ("old_logps = logps if", "old_logps = ref_logps if")),
        twin(GRPO, ("torch.exp(logps - old_logps)", "torch.exp(logps - ref_logps)")),
        twin(GRPO, ("coef =", "old_logps = old_logps.detach()\n            coef =")),
        # a reference that is the policy itself, for a KL of zero
        twin(GRPO, ("old_logps = logps if", "ref_logps = logps if"),
             ("torch.exp(logps - old_", "torch.exp(logps - ref_")),
        twin(GRPO, ("logps = per_token_logps(self.model, inputs[\"ids\"])", "logps = inputs[\"logps\"].detach()")),
        twin(GRPO, ("        def compute", "        @torch.no_grad()\n        def compute")),
        twin(PPO, ("= log_prob\n", "= log_prob.data\n")),
        twin(PPO, ("= log_prob\n", "= log_prob.detach().clone()\n")),
        twin(PPO, ("= log_prob\n", "= old_policy(states).log_prob(actions)\n")),
        twin(PPO, ("            old_log_prob = log_prob\n", ""),
             ("optimizer.step()", "optimizer.step(); old_log_prob = log_prob")),
        twin(PPO, ("            old_log_prob = log_prob\n", "            if old_log_prob is None:\n"
                   "                old_log_prob = log_prob.detach()\n")),
        twin(PPO, ("            ratio", "            log_prob = policy(states).log_prob(states)\n            ratio")),
        twin(DEFAULT, ("logprobs.clone()", "logprobs.clone().detach()")),
        twin(DEFAULT, ("            old_logprobs = logprobs.clone()", "            with torch.no_grad():\n"
                       "                old_logprobs = logprobs.clone()")),
        twin(DEFAULT, ("ratio = torch.exp(log_ratio)", "ratio = 1 + log_ratio")),
        twin(DIVIDED, ("ratio = prob / self.old_prob", "ratio = prob / prob.detach()")),
        twin(DIVIDED, ("ratio = prob / self.old_prob\n", "ratio = prob / stored\n")),
        twin(DIVIDED, ("self.old_prob = prob\n", "self.old_prob = prob.item()\n")),
        twin(BRANCHES, ("old_logp = new_logp", "old_logp = new_logp.detach()")),
        twin(BRANCHES, ("        return", "        old_logp = old_logp.detach()\n        return")),
        twin(UNDER_NO_GRAD, ("prev_logp = logp\n", "prev_logp = model(batch.states).log_prob(batch.actions)\n")),
        """
            def learn(policy, optimizer, batch):
                logp = policy(batch.states).log_prob(batch.actions)
                old_logp = logp
                for _ in range(4):
                    logp = policy(batch.states).log_prob(batch.actions)
                    loss = -(torch.exp(logp - old_logp) * batch.adv).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
        """,
        """
            def walk(x, f):
                old_x = x
                x = f(x)
                return torch.exp(x - old_x)
        """,
        twin(DIVIDED, ("self.old_prob", "self.old_size"), ("prob", "size")),
        """
            import numpy as np

            def scale(prices):
                old = prices
                return np.exp(prices - old)
        """,
    ],
)  # fmt: skip
def test_what_has_no_graph_or_is_another_one_is_not(snippet: str) -> None:
    assert_clean(snippet, CODE)


def test_the_finding_brings_the_cut() -> None:
    (finding,) = findings(PPO, CODE)
    assert finding.fix is not None
    (edit,) = finding.fix.edits
    assert edit.text == "log_prob.detach()"
    assert "ratio = (log_prob - old_log_prob)" in source(PPO).splitlines()[finding.related[0].line - 1]


AGAIN = """
    class Learner:
        def __init__(self, net, lr=3e-3):
            self.net = net
            self.opt = torch.optim.Adam(self.net.parameters(), lr=lr)

        def surrogate(self, obs, act, logp, adv):
            dist = self.net.dist(obs)
            new_logp = dist.log_prob(act)
            old_logp = self.net.dist(obs).log_prob(act)  # !
            ratio = torch.exp(new_logp - old_logp)
            return -torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()
"""

IN_LOOP = """
    def update(policy, optimizer, memory, clip=0.2):
        for _ in range(10):
            for states, actions, advantages in memory:
                old_log_probs, _ = policy.evaluate(states, actions)  # !
                log_probs, entropy = policy.evaluate(states, actions)
                ratios = (log_probs - old_log_probs).exp()
                surr = torch.min(ratios * advantages, ratios.clamp(1 - clip, 1 + clip) * advantages)
                loss = -surr.mean() - 0.01 * entropy.mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
"""

TOKENS = """
    def policy_loss(model, batch):
        logits = model(batch["ids"], attention_mask=batch["mask"]).logits
        logprobs = F.log_softmax(logits, -1).gather(-1, batch["labels"])
        logits_prev = model(batch["ids"], attention_mask=batch["mask"]).logits
        prev_logprobs = F.log_softmax(logits_prev, -1).gather(-1, batch["labels"])  # !
        delta = logprobs - prev_logprobs
        ratio = torch.exp(delta)
        return -(ratio * batch["adv"]).mean()
"""

QUOTIENT = """
    def step(actor, optimizer, s, a, adv):
        mean, std = actor(s)
        prob = actor.density(s).prob(a)
        behaviour_prob = actor.density(s).prob(a)  # !
        loss = -(prob / behaviour_prob * adv).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize("snippet", [AGAIN, IN_LOOP, TOKENS, QUOTIENT])
def test_an_old_one_that_is_computed_again(snippet: str) -> None:
    assert_flagged(snippet, CODE)
    (finding,) = findings(snippet, CODE)
    assert finding.fix is None


def test_one_of_another_file(tmp_path: Path) -> None:
    network = """\
        import torch
        from torch import nn
        from torch.distributions import Categorical

        class Policy(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = nn.Linear(4, 2)

            def log_prob(self, x, a):
                return Categorical(logits=self.body(x)).log_prob(a)
    """
    train = """\
        import torch
        from network import Policy

        def run(batches):
            policy = Policy()
            opt = torch.optim.Adam(policy.parameters())
            for x, a, adv, logp in batches:
                logp_now = policy.log_prob(x, a)
                logp_old = policy.log_prob(x, a)
                loss = -(torch.exp(logp_now - logp_old) * adv).mean()
                opt.zero_grad()
                loss.backward()
                opt.step()
    """
    files = {"network.py": network, "train.py": train}
    assert lines_in_files(tmp_path, files, CODE) == [("train.py", 9)]
    files["train.py"] = train.replace("logp_old = policy.log_prob(x, a)", "logp_old = logp")
    assert lines_in_files(tmp_path, files, CODE) == []


@pytest.mark.parametrize(
    "snippet",
    [
        twin(AGAIN, ("old_logp = self.net.dist(obs).log_prob(act)", "old_logp = logp")),
        twin(AGAIN, ("dist(obs).log_prob(act)", "dist(obs).log_prob(act).detach()")),
        twin(AGAIN, ("old_logp = self.net.", "old_logp = self.old_net.")),
        twin(AGAIN, ("old_logp = self.net.dist(obs)", "old_logp = self.net.dist(obs[1:])")),
        twin(AGAIN, ("old_logp = self.net.dist(obs).log_prob(act)", "old_logp = self.net.dist(obs).log_prob(obs)")),
        twin(AGAIN, ("old_logp", "ref_logp")),
        twin(AGAIN, ("            old_logp = ", "            with torch.no_grad():\n                old_logp = ")),
        twin(AGAIN, ("            old_logp = ", "            self.opt.step()\n            old_logp = ")),
        twin(AGAIN, ("            old_logp = ", "            obs = self.augment(obs)\n            old_logp = ")),
        twin(AGAIN, ("            old_logp = ", "            done = self.load_old()\n            old_logp = ")),
        twin(AGAIN, ("        def surrogate", "        @torch.no_grad()\n        def surrogate")),
        twin(AGAIN, ("torch.exp(new_logp - old_logp)", "torch.exp(new_logp - old_logp.detach())")),
        twin(AGAIN, ("ratio = torch.exp(new_logp - old_logp)", "ratio = new_logp - old_logp")),
        twin(AGAIN, ("log_prob(act)", "log_prob(dist.sample())")),  # of two draws
        twin(IN_LOOP, ("old_log_probs, _ = policy", "old_log_probs, _ = behaviour")),
        twin(IN_LOOP, ("old_log_probs, _ =", "_, old_log_probs =")),
        twin(IN_LOOP, ("            for states, actions", "            old_log_probs, _ = policy.evaluate(memory)\n"
                       "            for states, actions"),
             ("                old_log_probs, _ = policy.evaluate(states, actions)\n", "")),
        twin(IN_LOOP, ("ratios = (", "old_log_probs = memory.log_probs\n                ratios = (")),
        twin(TOKENS, ("logits_prev = model(", "logits_prev = frozen(")),
        twin(TOKENS, ("batch[\"adv\"]).mean()", "batch[\"adv\"]).mean()"), ("logits_prev = model(batch[\"ids\"]",
             "logits_prev = model(batch[\"old_ids\"]")),
        twin(QUOTIENT, ("behaviour_prob = actor", "behaviour_prob = collector")),
        twin(QUOTIENT, ("prob(a)", "prob(a).item()")),
    ],
)  # fmt: skip
def test_an_old_one_that_is_computed_otherwise(snippet: str) -> None:
    assert_clean(snippet, CODE)
