from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, findings, source, twin

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
