from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, findings, lines_in_files, source, twin

CODE = "GG236"

JOINT = """
    def update(policy, q, log_alpha, states, optimizer, target):
        dist = policy(states)
        actions = dist.rsample()
        logp = dist.log_prob(actions).sum(1)
        alpha = log_alpha.exp()
        policy_loss = (alpha.detach() * logp - q(states, actions)).mean()
        alpha_loss = -(alpha * (logp + target)).mean()  # !
        optimizer.zero_grad()
        (policy_loss + alpha_loss).backward()
        optimizer.step()
"""
METHODS = """
    class Agent:
        @property
        def alpha(self):
            return self.log_alpha.exp()

        def actor_loss(self, states, actions, log_prob):
            return (self.alpha.detach() * log_prob - self.q(states, actions)).mean()

        def temperature_loss(self, log_prob):
            return -(self.log_alpha * (log_prob + self.target)).mean()  # !

        def train(self, loader):
            for states in loader:
                actions, log_prob = self.actor(states)
                loss = self.actor_loss(states, actions, log_prob)
                loss = loss + 0.5 * self.temperature_loss(log_prob)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
"""
CONSTRAINT = """
    net = nn.Linear(8, 2)
    multiplier = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([*net.parameters(), multiplier], lr=0.1)
    for x, y in loader:
        weight = F.softplus(multiplier).detach()
        out = net(x)
        excess = out.pow(2).mean() - 1.0
        total = F.mse_loss(out, y) + weight * excess
        total -= F.softplus(multiplier) * excess  # !
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
"""
IN_TURN = """
    def update(policy, q, log_alpha, states, policy_opt, alpha_opt, target):
        actions, logp = policy.act(states)
        alpha = log_alpha.exp().item()
        first = torch.mean(alpha * logp - q(states, actions))
        second = torch.mean(-log_alpha * (logp + target))  # !
        policy_opt.zero_grad()
        alpha_opt.zero_grad()
        first.backward(retain_graph=True)
        second.backward()
        policy_opt.step()
        alpha_opt.step()
"""


IN_ONE = """
    def update(policy, q, log_alpha, states, opt, target):
        actions, logp = policy.act(states)
        gain = (torch.exp(log_alpha.detach()) * logp - q(states, actions)).mean()
        loss = gain - (log_alpha.exp() * (logp + target)).mean()  # !
        opt.zero_grad()
        loss.backward()
        opt.step()
"""


TURNED = """
    def update(policy, q, log_alpha, states, opt, target):
        actions, logp = policy.act(states)
        alpha = log_alpha.exp()
        gain = (q(states, actions) - alpha.detach() * logp).mean()
        alpha_loss = (alpha * (-target - logp)).mean()  # !
        loss = -gain + 0.5 * alpha_loss
        opt.zero_grad()
        loss.backward()
        opt.step()
"""


@pytest.mark.parametrize("snippet", [JOINT, METHODS, CONSTRAINT, IN_TURN, IN_ONE, TURNED])
def test_a_multiplier_that_trains_what_it_multiplies(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "edits",
    [
        (("(logp + target)).mean()", "(logp.detach() + target)).mean()"),),
        (("(logp + target)).mean()", "(logp + target).detach()).mean()"),),
        (("alpha_loss = -(alpha *", "alpha_loss = -(alpha.detach() *"),),
        (("(alpha.detach() * logp", "(alpha * logp"),),
        (("(alpha.detach() * logp", "(0.2 * logp"),),
        (("(alpha.detach() * logp", "(beta.detach() * logp"),),
        (("(policy_loss + alpha_loss).backward()", "policy_loss.backward()"),),
        (("(policy_loss + alpha_loss).backward()", "policy_loss.backward(); log(alpha_loss.item())"),),
        (("(logp + target)", "(entropy + target)"),),
        (("logp = dist.log_prob(actions).sum(1)", "logp = dist.log_prob(actions).sum(1).item()"),),
        (("alpha_loss = -", "logp = logp.detach()\n        alpha_loss = -"),),
        (
            ("optimizer.zero_grad()\n", "optimizer.zero_grad()\n        alpha_loss.backward(retain_graph=True)\n"),
            ("(policy_loss + alpha_loss).backward()", "optimizer.zero_grad(); policy_loss.backward()"),
        ),
    ],
)
def test_a_joint_backward_that_is_right(edits: tuple[tuple[str, str], ...]) -> None:
    assert_clean(twin(JOINT, *edits), CODE)


@pytest.mark.parametrize(
    ("snippet", "edit"),
    [
        (METHODS, ("self.temperature_loss(log_prob)", "self.temperature_loss(log_prob.detach())")),
        (METHODS, ("(log_prob + self.target)", "(log_prob + self.target).detach()")),
        (METHODS, ("loss + 0.5 * self.temperature_loss(log_prob)", "loss + 0.5 * self.other_loss(log_prob)")),
        (METHODS, ("self.alpha.detach()", "self.alpha")),
        (CONSTRAINT, ("softplus(multiplier) * excess", "softplus(multiplier) * excess.detach()")),
        (CONSTRAINT, ("out = net(x)", "out = net(x).detach()")),
        (CONSTRAINT, ("+ weight * excess", "+ 2.0 * excess")),
        (CONSTRAINT, ("total -= F.softplus(multiplier) * excess", "total -= F.softplus(multiplier)")),
        (CONSTRAINT, ("total -= F.soft", "total += F.soft")),  # no other direction: both train it
        (TURNED, ("loss = -gain +", "loss = gain +")),
        (TURNED, ("(-target - logp)", "(target + logp)")),
        (IN_TURN, ("first.backward(retain_graph=True)", "first.backward(retain_graph=True); policy_opt.step()")),
        (IN_TURN, ("second.backward()", "policy_opt.zero_grad(); second.backward()")),
        (IN_TURN, ("(logp + target)", "(logp.detach() + target)")),
    ],
)
def test_multipliers_that_are_right(snippet: str, edit: tuple[str, str]) -> None:
    assert_clean(twin(snippet, edit), CODE)


def test_other_products() -> None:
    assert_clean(
        """
    def distill(student, teacher, gate, x, optimizer):
        weights = torch.sigmoid(gate)
        logits = student(x)
        soft = (weights.detach() * (logits - teacher(x)).pow(2)).mean()
        value = logits.mean() + (weights * logits - weights.detach() * logits).mean()
        loss = soft + value
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """,
        CODE,
    )


def test_a_loss_in_another_file(tmp_path: Path) -> None:
    losses = """
    def temperature(log_alpha, logp, target):
        return -(log_alpha * (logp + target)).mean()
    """
    main = source(
        twin(JOINT, ("-(alpha * (logp + target)).mean()", "temperature(log_alpha, logp, target)")).replace(
            "\n    def update", "\n    from losses import temperature\n\n    def update"
        )
    )
    assert lines_in_files(tmp_path, {"main.py": main, "losses.py": "import torch\n" + source(losses)}, CODE) == [
        ("losses.py", 8)
    ]


def test_what_it_says() -> None:
    (finding,) = findings(JOINT, CODE)
    assert "`log_alpha`" in finding.message
    assert finding.fix is not None
    assert [edit.text for edit in finding.fix.edits] == ["logp.detach()"] or finding.fix.edits


AS_WELL = """
    class Learner:
        def update(self, states):
            actions, logp = self.policy(states)
            alpha = self.log_alpha.exp()
            policy_loss = (alpha * logp - self.q(states, actions)).mean()  # !
            alpha_loss = -(self.log_alpha * (logp + self.target).detach()).mean()
            self.optimizer.zero_grad()
            (policy_loss + alpha_loss).backward()
            self.optimizer.step()
"""
DUAL = """
    net = nn.Linear(8, 2)
    multiplier = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([*net.parameters(), multiplier], lr=0.1)
    for x, y in loader:
        out = net(x)
        excess = out.pow(2).mean() - 1.0
        total = F.mse_loss(out, y) + F.softplus(multiplier) * excess  # !
        total -= F.softplus(multiplier) * excess.detach()
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
"""
AS_WELL_BY_METHODS = """
    class Agent:
        @property
        def alpha(self):
            return self.log_alpha.exp()

        def actor_loss(self, states, actions, log_prob):
            return (self.alpha * log_prob - self.q(states, actions)).mean()  # !

        def temperature_loss(self, log_prob):
            error = (log_prob + self.target).detach()
            return -(self.log_alpha * error).mean()

        def train(self, loader):
            for states in loader:
                actions, log_prob = self.actor(states)
                self.optimizer.zero_grad()
                self.actor_loss(states, actions, log_prob).backward()
                self.temperature_loss(log_prob).backward()
                self.optimizer.step()
"""
AS_WELL_IN_TURN = """
    def update(policy, q, log_alpha, states, policy_opt, alpha_opt, target):
        actions, logp = policy.act(states)
        first = torch.mean(log_alpha.exp() * logp - q(states, actions))  # !
        second = log_alpha * (-target - logp.mean()).detach()
        policy_opt.zero_grad()
        alpha_opt.zero_grad()
        first.backward()
        second.backward()
        policy_opt.step()
        alpha_opt.step()
"""


@pytest.mark.parametrize("snippet", [AS_WELL, DUAL, AS_WELL_BY_METHODS, AS_WELL_IN_TURN])
def test_a_multiplier_that_is_trained_by_the_other_loss_as_well(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    ("snippet", "edit"),
    [
        (AS_WELL, ("self.log_alpha.exp()", "self.log_alpha.exp().detach()")),
        (AS_WELL, ("self.log_alpha.exp()", "self.log_alpha.detach().exp()")),
        (AS_WELL, ("self.log_alpha.exp()", "self.log_alpha.exp().item()")),
        (AS_WELL, ("self.log_alpha.exp()", "float(self.log_alpha.exp())")),
        (AS_WELL, ("alpha = self", "with torch.no_grad():\n                alpha = self")),
        (AS_WELL, ("(alpha * logp", "(alpha.detach() * logp")),
        (AS_WELL, ("(alpha * logp", "(self.weight * logp")),
        (AS_WELL, ("-(self.log_alpha *", "-(self.log_beta *")),
        (AS_WELL, ("-(self.log_alpha *", "(self.log_alpha *")),  # no other direction
        (AS_WELL, ("(logp + self.target)", "(entropy + self.target)")),
        (AS_WELL, ("(policy_loss + alpha_loss)", "policy_loss")),
        (AS_WELL, ("alpha = self", "logp = logp.detach()\n            alpha = self")),
        (AS_WELL, ("-(self.log_alpha * (logp + self.target).detach()).mean()", "self.log_alpha.pow(2).mean()")),
        (
            AS_WELL,
            ("(policy_loss + alpha_loss).b", "policy_loss.backward(); self.optimizer.zero_grad(); alpha_loss.b"),
        ),
        (AS_WELL_IN_TURN, ("second.backward()", "alpha_opt.zero_grad(); second.backward()")),
        (AS_WELL_IN_TURN, ("first.backward()", "first.backward(); policy_opt.step()")),
        (AS_WELL_IN_TURN, ("torch.mean(log_alpha.exp()", "torch.mean(log_alpha.exp().detach()")),
        (AS_WELL_BY_METHODS, ("(self.alpha *", "(self.alpha.detach() *")),
        (AS_WELL_BY_METHODS, ("return self.log_alpha.exp()", "return self.log_alpha.exp().detach()")),
        (AS_WELL_BY_METHODS, ("@property\n", "@property\n        @torch.no_grad()\n")),
        (DUAL, ("softplus(multiplier) * excess\n", "softplus(multiplier).detach() * excess\n")),
        (DUAL, ("total -= F.soft", "total += F.soft")),
    ],
)
def test_a_multiplier_that_is_trained_by_its_own_loss(snippet: str, edit: tuple[str, str]) -> None:
    assert_clean(twin(snippet.replace("  # !", ""), edit), CODE)


def test_what_it_says_of_a_multiplier() -> None:
    (finding,) = findings(AS_WELL, CODE)
    assert "this loss trains `self.log_alpha` as well" in finding.message
    assert finding.fix is not None
    assert [edit.text for edit in finding.fix.edits] == ["alpha.detach()"]
