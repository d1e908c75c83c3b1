from __future__ import annotations

import textwrap

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, twin

CODE = "GG226"


def update(*lines: str, end: str = "loss.backward()") -> str:
    body = "\n                ".join(lines)
    return f"""
        class Agent:
            def update(self, states, actions, returns):
                dist = self.actor(states)
                values = self.critic(states)
                log_probs = dist.log_prob(actions)
                {body}
                self.optimizer.zero_grad()
                {end}
                self.optimizer.step()
    """


VALUE_LOSS = "value_loss = F.mse_loss(values, returns)"
SUM = "loss = policy_loss + 0.5 * value_loss"

FLAGGED = {
    "a value by another name": """
        class Tours:
            def step(self, batch):
                self.optim.zero_grad()
                tour, guess, log_probs, _ = self.model(batch)
                reward = self.length(batch, tour)
                first = ((reward - guess) * log_probs).mean()  # !
                second = F.mse_loss(reward, guess)
                (first + second).backward()
                self.optim.step()
    """,
    "a difference with a name": update(
        "advantages = returns - values",
        "policy_loss = -(log_probs * advantages).mean()  # !",
        "value_loss = advantages.pow(2).mean()",
        SUM,
    ),
    "the log probability written out": update(
        "advantages = returns - values",
        "policy_loss = -(dist.log_prob(actions) * advantages).mean()  # !",
        VALUE_LOSS,
        SUM,
    ),
    "a difference in place": update("policy_loss = (-log_probs * (returns - values)).mean()  # !", VALUE_LOSS, SUM),
    "the other way round": update(
        "adv = returns - values.squeeze(-1)", "policy_loss = -(adv * log_probs).sum()  # !", VALUE_LOSS, SUM
    ),
    "normalized": update(
        "adv = returns - values",
        "adv = (adv - adv.mean()) / (adv.std() + 1e-8)",
        "policy_loss = -(log_probs * adv).mean()  # !",
        VALUE_LOSS,
        SUM,
    ),
    "a difference in time": update(
        "delta = returns + 0.99 * 2 - values", "policy_loss = -(log_probs * delta).mean()  # !", VALUE_LOSS, SUM
    ),
    "a ratio": update(
        "adv = returns - values",
        "ratio = (log_probs - self.old).exp()",
        "policy_loss = -(ratio * adv).mean()  # !",
        VALUE_LOSS,
        SUM,
    ),
    "written as one loss": update(
        "adv = returns - values", "loss = -(log_probs * adv).mean() + 0.5 * adv.pow(2).mean()  # !"
    ),
    "beside another backward": update(
        "advantages = returns - values",
        "policy_loss = -(log_probs * advantages).mean()  # !",
        VALUE_LOSS,
        "(-log_probs.mean()).backward(retain_graph=True)",
        end="(value_loss * 0.5 + policy_loss).backward()",
    ),
    "values of saved steps": """
        def finish(saved, returns, optimizer):
            policy_losses, value_losses = [], []
            for (log_prob, value), ret in zip(saved, returns):
                advantage = ret - value
                policy_losses.append(-log_prob * advantage)  # !
                value_losses.append(F.smooth_l1_loss(value, torch.tensor([ret])))
            optimizer.zero_grad()
            loss = torch.stack(policy_losses).sum() + torch.stack(value_losses).sum()
            loss.backward()
            optimizer.step()
    """,
    "a function that gives the loss": """
        def a2c_loss(net, states, actions, returns):
            dist, values = net(states)
            advantage = returns - values
            actor = -(dist.log_prob(actions) * advantage).mean()  # !
            critic = F.mse_loss(values, returns)
            return actor + 0.5 * critic
    """,
}

CLEAN = {
    "a baseline that another loss trains": """
        class Tours:
            def step(self, batch):
                self.optim.zero_grad()
                tour, guess, log_probs, aim = self.model(batch)
                reward = self.length(batch, tour)
                first = ((reward - guess) * log_probs).mean()
                second = F.mse_loss(aim, reward)
                (first + second).backward()
                self.optim.step()
    """,
    "a value by another name, detached": """
        class Tours:
            def step(self, batch):
                self.optim.zero_grad()
                tour, guess, log_probs, _ = self.model(batch)
                reward = self.length(batch, tour)
                first = ((reward - guess.detach()) * log_probs).mean()
                second = F.mse_loss(reward, guess)
                (first + second).backward()
                self.optim.step()
    """,
    "detached": update(
        "advantages = returns - values",
        "policy_loss = -(log_probs * advantages.detach()).mean()",
        "value_loss = advantages.pow(2).mean()",
        SUM,
    ),
    "detached where it is computed": update(
        "advantages = (returns - values).detach()", "policy_loss = -(log_probs * advantages).mean()", VALUE_LOSS, SUM
    ),
    "the value detached": update(
        "advantages = returns - values.detach()", "policy_loss = -(log_probs * advantages).mean()", VALUE_LOSS, SUM
    ),
    "detached in between": update(
        "advantages = returns - values",
        "advantages = advantages.detach()",
        "policy_loss = -(log_probs * advantages).mean()",
        VALUE_LOSS,
        SUM,
    ),
    "a number": update(
        "advantages = returns - values.item()", "policy_loss = -(log_probs * advantages).mean()", VALUE_LOSS, SUM
    ),
    "under no_grad": update(
        "with torch.no_grad():",
        "    advantages = returns - values",
        "policy_loss = -(log_probs * advantages).mean()",
        VALUE_LOSS,
        SUM,
    ),
    "values of no graph": update(
        "with torch.no_grad():",
        "    old_values = self.critic(states)",
        "advantages = returns - old_values",
        "policy_loss = -(log_probs * advantages).mean()",
        VALUE_LOSS,
        SUM,
    ),
    "values of a buffer": update(
        "advantages = returns - self.memory.values", "policy_loss = -(log_probs * advantages).mean()", VALUE_LOSS, SUM
    ),
    "advantages that are given": """
        def update(net, states, actions, advantages, returns, optimizer):
            dist, values = net(states)
            loss = -(dist.log_prob(actions) * advantages).mean() + F.mse_loss(values, returns)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """,
    "each loss by itself": update(
        "advantages = returns - values",
        "policy_loss = -(log_probs * advantages).mean()",
        VALUE_LOSS,
        end="policy_loss.backward(retain_graph=True); value_loss.backward()",
    ),
    "two losses that are given apart": """
        def losses(net, states, actions, returns):
            dist, values = net(states)
            advantage = returns - values
            actor = -(dist.log_prob(actions) * advantage).mean()
            critic = F.mse_loss(values, returns)
            return actor, critic
    """,
    "an entropy": update(
        "policy_loss = -(log_probs * (returns - 1.0)).mean()",
        "value_loss = F.mse_loss(values, returns)",
        "loss = policy_loss + value_loss - (log_probs * log_probs.exp()).sum()",
    ),
    "the loss of the value alone": update("loss = (returns - values).pow(2).mean()"),
    "a soft value": """
        def update(policy, q, alpha, states, optimizer):
            actions, log_prob = policy.sample(states)
            loss = (alpha * log_prob - q(states, actions)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """,
    "a mean as the baseline": update(
        "advantages = returns - returns.mean()", "policy_loss = -(log_probs * advantages).mean()", VALUE_LOSS, SUM
    ),
    "a divergence": update("policy_loss = (log_probs.exp() * (log_probs - self.prior(states))).sum()", VALUE_LOSS, SUM),
}


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name: str) -> None:
    assert_flagged(textwrap.dedent(FLAGGED[name]), CODE)


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name: str) -> None:
    assert_clean(textwrap.dedent(CLEAN[name]), CODE)


def objective(*lines: str, end: str = "return policy + 0.5 * critic, policy.item()") -> str:
    body = "\n            ".join(lines)
    return f"""
        def objective(logp, values, returns):
            {body}
            {end}
    """


POLICY = "policy = -(logp * advantage).mean()"
SQUARES = ["critic = (values - returns).pow(2).mean()", "critic = ((returns - values) ** 2).mean()"]


@pytest.mark.parametrize("square", SQUARES)
def test_a_square_that_others_backpropagate(square: str) -> None:
    scaled = "advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-6)"
    assert_flagged(objective("advantage = returns - values", f"{POLICY}  # !", square), CODE)
    assert_flagged(objective("advantage = returns - values", scaled, f"{POLICY}  # !", square), CODE)


@pytest.mark.parametrize("square", SQUARES)
def test_look_alikes_of_a_square(square: str) -> None:
    assert_clean(objective("advantage = returns - values.detach()", POLICY, square), CODE)
    assert_clean(objective("advantage = (returns - values).detach()", POLICY, square), CODE)
    assert_clean(objective("advantage = returns - values", POLICY.replace("tage)", "tage.detach())"), square), CODE)
    assert_clean(objective("advantage = returns - old_values", POLICY, square), CODE)
    assert_clean(objective("advantage = returns - values", POLICY, square, end="return policy, critic"), CODE)
    assert_clean(objective("advantage = returns - values", "policy = advantage.mean()", square), CODE)
    assert_clean(objective("with torch.no_grad(): advantage = returns - values", POLICY, square), CODE)


GIVEN_APART = """
    class Learner:
        def losses(self, states, actions, returns):
            dist = self.actor(states)
            values = self.critic(states)
            advantage = returns - values
            policy_loss = -(dist.log_prob(actions) * advantage).mean()  # !
            value_loss = advantage.pow(2).mean()
            return policy_loss, value_loss, dist.entropy().mean()

        def update(self, batch):
            policy_loss, value_loss, entropy = self.losses(*batch)
            loss = policy_loss + 0.5 * value_loss - 0.01 * entropy
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
"""
IN_A_DICT = """
    def terms(net, batch):
        probs, state_values = net(batch.states)
        delta = batch.returns - state_values
        logp = probs.log_prob(batch.actions)
        actor = (-logp * delta).sum()  # !
        critic = F.smooth_l1_loss(state_values, batch.returns)
        return {"actor": actor, "critic": critic}

    def fit(net, batches, optimizer):
        for batch in batches:
            parts = terms(net, batch)
            total = parts["actor"] + 0.5 * parts["critic"]
            optimizer.zero_grad()
            total.backward()
            optimizer.step()
"""
UNNAMED = """
    def both(net, x, actions, returns):
        dist, value = net(x)
        adv = returns - value
        return -(dist.log_prob(actions) * adv).mean(), adv.pow(2).mean()  # !

    def step(net, x, actions, returns, optimizer):
        first, second = both(net, x, actions, returns)
        optimizer.zero_grad()
        sum([first, second]).backward()
        optimizer.step()
"""
BY_HELPER = """
    def policy_gradient(log_probs, weights):
        return -(log_probs * weights.squeeze(-1)).mean()

    def step(net, x, actions, returns, optimizer):
        dist, values = net(x)
        logp = dist.log_prob(actions)
        adv = returns - values
        loss = policy_gradient(logp, adv) + 0.5 * F.mse_loss(values, returns)  # !
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    "snippet",
    [
        GIVEN_APART,
        IN_A_DICT,
        IN_A_DICT.replace('parts["actor"] + 0.5 * parts["critic"]', "sum(parts.values())"),
        UNNAMED,
        BY_HELPER,
    ],
)
def test_losses_that_others_add_up(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "snippet",
    [
        twin(GIVEN_APART, ("actions) * advantage)", "actions) * advantage.detach())")),
        twin(GIVEN_APART, ("advantage = returns - values", "advantage = returns - values.detach()")),
        twin(GIVEN_APART, ("loss.backward()", "policy_loss.backward(retain_graph=True)"), (" + 0.5 * value_loss", "")),
        twin(GIVEN_APART, (" + 0.5 * value_loss", ""), ("loss.backward()", "loss.backward(); value_loss.backward()")),
        twin(GIVEN_APART, (" + 0.5 * value_loss", "")),  # another method trains the value
        twin(GIVEN_APART, ("def update", "def other"), ("self.losses(", "self.other_losses(")),
        twin(IN_A_DICT, ("-logp * delta", "-logp * delta.detach()")),
        twin(IN_A_DICT, ('parts["actor"] + 0.5 * parts["critic"]', 'parts["actor"] - parts["actor"].mean()')),
        twin(IN_A_DICT, ('parts["actor"] + 0.5 * parts["critic"]', "sum(parts.values())"), ("logp * delta", "logp")),
        twin(
            UNNAMED, ("returns - value\n", "(returns - value).detach()\n"), ("adv.pow(2)", "(value - returns).pow(2)")
        ),
        twin(UNNAMED, ("sum([first, second]).backward()", "first.backward()")),
        twin(UNNAMED, ("sum([first, second])", "sum([first, x.mean()])")),
        twin(BY_HELPER, ("weights.squeeze(-1)", "weights.detach()")),
        twin(BY_HELPER, ("return -(", "weights = weights.detach()\n        return -(")),
        twin(BY_HELPER, ("(logp, adv)", "(logp, adv.detach())")),
        twin(BY_HELPER, ("log_probs * weights", "weights * weights")),
    ],
)
def test_losses_that_are_right(snippet: str) -> None:
    assert_clean(snippet, CODE)


DIFFERENCE_BY_HELPER = """
    def advantage(returns, values):
        adv = returns - values
        return adv

    class Agent:
        def update(self, states, actions, returns):
            dist, values = self.actor(states), self.critic(states)
            logps = [dist.log_prob(action) for action in actions]
            adv = advantage(returns, values)
            policy_loss = -(torch.stack(logps) * adv).mean()  # !
            value_loss = (returns - values).pow(2).mean()
            loss = policy_loss + 0.5 * value_loss
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
"""


def test_a_difference_that_a_function_gives() -> None:
    assert_flagged(DIFFERENCE_BY_HELPER, CODE)
    assert_flagged(
        DIFFERENCE_BY_HELPER.replace("adv = returns - values\n        return adv", "return returns - values"), CODE
    )


@pytest.mark.parametrize(
    "change",
    [
        ("return adv", "return adv.detach()"),
        ("adv = returns - values", "adv = returns - values.detach()"),
        ("= advantage(returns, values)", "= advantage(returns, values.detach())"),
        ("torch.stack(logps) * adv)", "torch.stack(logps) * adv.detach())"),
        ("torch.stack(logps) * adv)", "torch.stack(states) * adv)"),
        ("def advantage", "@torch.no_grad()\n    def advantage"),
        ("adv = returns - values", "adv = values - returns"),
    ],
)
def test_a_difference_without_a_graph(change: tuple[str, str]) -> None:
    assert_clean(twin(DIFFERENCE_BY_HELPER, change), CODE)


BY_ANOTHER_NAME = """
    from collections import namedtuple

    Row = namedtuple("Row", "logp value reward")

    class Memory:
        def __init__(self):
            self.rows = []

        def add(self, *items):
            self.rows.append(Row(*items))

        def collect(self, last):
            total, targets = last, []
            for row in reversed(self.rows):
                total = row.reward + 0.99 * total
                targets.append(total)
            guesses = torch.stack([row.value for row in self.rows])
            lp = torch.stack([row.logp for row in self.rows])
            self.rows = []
            return torch.stack(targets[::-1]), guesses, lp

    class Learner:
        def __init__(self, net):
            self.net = net
            self.optimizer = torch.optim.Adam(net.parameters())

        def learn(self, memory, state):
            with torch.no_grad():
                _, last = self.net(state)
            targets, vals, lp = memory.collect(last)
            adv = targets - vals
            actor = -(lp * adv).mean()  # !
            critic = F.mse_loss(vals, targets)
            loss = actor + 0.5 * critic
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

    def main(net, env):
        memory, learner = Memory(), Learner(net)
        for state in env:
            for _ in range(5):
                dist, value = net(state)
                action = dist.sample()
                state, reward = env.step(action)
                memory.add(dist.log_prob(action), value, reward)
            learner.learn(memory, state)
"""
BY_ANOTHER_NAME_HERE = """
    def learn(net, states, actions, targets, optimizer):
        dist, vals = net(states)
        lp = dist.log_prob(actions).sum(-1)
        adv = targets - vals
        loss = -(lp * adv).mean() + 0.5 * F.mse_loss(vals, targets)  # !
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    "snippet",
    [
        BY_ANOTHER_NAME,
        BY_ANOTHER_NAME.replace("-(lp * adv)", "(adv * -lp)"),
        BY_ANOTHER_NAME.replace("row.logp for row", "row.log_prob(row.action) for row"),
        BY_ANOTHER_NAME.replace("torch.stack([row.logp for row in self.rows])", "torch.cat(self.log_probs)"),
        BY_ANOTHER_NAME_HERE,
        BY_ANOTHER_NAME_HERE.replace("lp * adv", "lp.squeeze(-1) * adv"),
    ],
)
def test_a_log_probability_by_another_name(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "snippet",
    [
        twin(BY_ANOTHER_NAME, ("lp * adv", "lp * adv.detach()")),
        twin(BY_ANOTHER_NAME, ("targets - vals", "targets - vals.detach()")),
        twin(BY_ANOTHER_NAME, ("row.logp for row", "row.weight for row")),
        twin(BY_ANOTHER_NAME, ("[row.logp for row in self.rows])", "[row.logp for row in self.rows]).detach()")),
        twin(BY_ANOTHER_NAME, ("[row.value for row in self.rows])", "[row.value for row in self.rows]).detach()")),
        twin(BY_ANOTHER_NAME, ("lp\n", "torch.ones_like(lp)\n")),
        twin(BY_ANOTHER_NAME, ("targets, vals, lp = m", "targets, lp, vals = m")),
        twin(BY_ANOTHER_NAME, ("loss.backward()", "actor.backward(retain_graph=True); critic.backward()")),
        twin(BY_ANOTHER_NAME, ("F.mse_loss(vals, targets)", "F.mse_loss(self.net(state)[1], targets)")),
        twin(BY_ANOTHER_NAME, ("+ 0.5 * critic", "+ 0.5 * F.mse_loss(self.net(state)[1], targets)")),
        twin(BY_ANOTHER_NAME_HERE, ("lp * adv", "lp * adv.detach()")),
        twin(BY_ANOTHER_NAME_HERE, ("dist.log_prob(actions).sum(-1)", "dist.log_prob(actions).sum(-1).detach()")),
        twin(BY_ANOTHER_NAME_HERE, ("dist.log_prob(actions).sum(-1)", "dist.mean.sum(-1)")),
        twin(BY_ANOTHER_NAME_HERE, ("targets - vals", "targets - targets.mean()")),
    ],
)
def test_what_is_no_log_probability(snippet: str) -> None:
    assert_clean(snippet, CODE)
