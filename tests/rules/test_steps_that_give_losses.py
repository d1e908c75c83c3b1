"""A step of training that an object of unknown class does, given nothing, and that hands out its losses."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, findings

AGENT = """
        class Agent:
            def __init__(self, actor, critic, buffer):
                self.actor, self.critic, self.buffer = actor, critic, buffer
                self.actor_optim = torch.optim.Adam(actor.parameters())
                self.critic_optim = torch.optim.Adam(critic.parameters())

            def fit_batch(self):
                if len(self.buffer) < 9:
                    return None, None
                states, actions, targets = self.buffer.sample(9)
                {first}
                self.actor_optim.zero_grad()
                self.critic_optim.zero_grad()
                loss = F.mse_loss(self.critic(states, actions), targets)
                loss.backward()
                self.critic_optim.step()
                policy_loss = -self.critic(states, self.actor(states)).mean()
                policy_loss.backward()
                self.actor_optim.step()
                return {returns}

            def choose(self):
                return self.actor(self.state)
{more}
        class Trainer:
            def __init__(self, agent, steps):
                self.agent, self.steps = agent, steps

            def train(self, epochs):
                for epoch in range(epochs):
                    losses, total = [], 0
                    for step in range(self.steps):
                        critic_loss, actor_loss = self.agent.fit_batch()
                        if critic_loss is not None:
                            losses.append({kept}){mark}
                    print(sum(losses))
"""


def agent(
    *,
    kept: str = "critic_loss",
    returns: str = "loss, policy_loss",
    mark: str = "",
    first: str = "pass",
    more: str = "",
) -> str:
    return AGENT.format(kept=kept, returns=returns, mark=mark, first=first, more=more)


@pytest.mark.parametrize("kept", ["critic_loss", "actor_loss", "critic_loss + actor_loss"])
def test_what_the_step_hands_out_has_its_graph(kept: str) -> None:
    assert_flagged(agent(kept=kept, mark="  # !"), "GG104")


def test_backward_freed_what_the_graph_saved() -> None:
    (finding,) = findings(agent(), "GG104")
    assert "backward freed the activations" in finding.message


@pytest.mark.parametrize(
    "returns",
    [
        "loss.item(), policy_loss.item()",
        "loss.detach(), policy_loss.detach()",
        "loss.data, policy_loss",
        "float(loss), policy_loss.data[0]",
        "loss.detach().cpu().numpy(), policy_loss",
    ],
)
def test_what_the_step_hands_out_has_none(returns: str) -> None:
    assert_clean(agent(returns=returns))


@pytest.mark.parametrize("kept", ["critic_loss.item()", "actor_loss.detach()", "float(critic_loss)", "step"])
def test_only_a_number_is_kept(kept: str) -> None:
    assert_clean(agent(kept=kept))


def test_another_class_has_such_a_step_which_is_called_otherwise() -> None:
    more = """
        class Curiosity:
            def fit_batch(self, state, action):
                return self.net(state)
"""
    assert_flagged(agent(mark="  # !", more=more), "GG104")


@pytest.mark.parametrize("body", ["return 1, 2", "return self.log.read(), 0", "return self.history"])
def test_one_of_those_it_may_be_trains_nothing(body: str) -> None:
    more = f"""
        class Replay:
            def fit_batch(self):
                {body}
"""
    assert_clean(agent(more=more))


def test_what_is_asked_for_nothing_and_trains_nothing() -> None:
    assert_clean(agent(kept="self.agent.choose().argmax()"))


VOLATILE = "new_states = Variable(torch.cat(states), volatile=True)"


def test_what_is_backpropagated_was_recorded_whatever_else_is_volatile() -> None:
    assert_flagged(agent(first=VOLATILE, mark="  # !"), "GG104")
    assert_clean(agent(first=VOLATILE, returns="loss.data, policy_loss"))


HERE = """
        def train(net, target, loader):
            scores = []
            for x in loader:
                guess = target(Variable(x, volatile=True)).mean()
                loss = F.mse_loss(net(Variable(x)), guess)
                loss.backward()
                scores.append({kept})
"""


def test_a_value_that_no_backward_goes_over_may_be_volatile() -> None:
    for kept in ("guess", "loss.data", "loss.data[0]"):
        assert_clean(HERE.format(kept=kept), "GG104")
