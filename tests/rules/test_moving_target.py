from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged

CODE = "GG218"


def learn(*lines: str, loss: str = "F.mse_loss(chosen, target)") -> str:
    body = "\n                ".join(lines)
    return f"""
        def learn(net, frozen, memory, optimizer, criterion, gamma=0.99):
            for state, action, reward, following, done in memory:
                chosen = net(state).gather(1, action)
                {body}
                loss = {loss}
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """


FLAGGED = {
    "the best of the next": learn("target = reward + gamma * net(following).max(1).values  # !"),
    "where it goes on": learn("target = reward + gamma * net(following).max(1)[0] * (1 - done)  # !"),
    "the share first": learn("target = net(following).max(1)[0] * gamma + reward  # !"),
    "by a name": learn("best = net(following).max(1).values", "target = reward + gamma * best * (1 - done)  # !"),
    "in another shape": learn("target = reward.unsqueeze(1) + gamma * net(following).max(1, keepdim=True)[0]  # !"),
    "of a function": learn("target = reward + gamma * torch.max(net(following), dim=1)[0]  # !"),
    "another distance": learn(
        "target = reward + gamma * net(following).max(1).values  # !", loss="F.smooth_l1_loss(chosen, target)"
    ),
    "a criterion": learn(
        "target = reward + gamma * net(following).max(1).values  # !", loss="criterion(chosen, target)"
    ),
    "written out in the loss": learn(
        "pass", loss="F.mse_loss(chosen.squeeze(1), reward + gamma * net(following).max(1).values)  # !"
    ),
    "both written out": learn(
        "pass", loss="F.mse_loss(net(state).gather(1, action), reward + gamma * net(following).max(1)[0])  # !"
    ),
    "shaped in the loss": learn(
        "target = reward + gamma * net(following).max(1).values  # !", loss="F.mse_loss(chosen, target.unsqueeze(1))"
    ),
    "by keyword": learn(
        "target = reward + gamma * net(following).max(1).values  # !", loss="F.mse_loss(input=chosen, target=target)"
    ),
    "a value": """
        class Critic:
            def update(self, batch):
                value = self.critic(batch.state)
                wanted = batch.reward + self.gamma * self.critic(batch.following) * batch.mask  # !
                loss = self.loss(value, wanted)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
    """,
}

CLEAN = {
    "without a graph": learn("with torch.no_grad():", "    target = reward + gamma * net(following).max(1).values"),
    "the next one without a graph": learn(
        "with torch.no_grad():",
        "    best = net(following).max(1).values",
        "target = reward + gamma * best",
    ),
    "detached": learn("target = reward + gamma * net(following).max(1).values.detach()"),
    "detached as a whole": learn("target = (reward + gamma * net(following).max(1).values).detach()"),
    "detached in the loss": learn(
        "target = reward + gamma * net(following).max(1).values", loss="F.mse_loss(chosen, target.detach())"
    ),
    "written out, and detached": learn(
        "pass", loss="F.mse_loss(chosen, reward + gamma * net(following).max(1)[0].detach())"
    ),
    "written out, of what has no graph": learn(
        "with torch.no_grad():",
        "    best = net(following).max(1)[0]",
        loss="F.mse_loss(chosen, reward + gamma * best)",
    ),
    "written out, of another network": learn(
        "pass", loss="F.mse_loss(chosen, reward + gamma * frozen(following).max(1)[0])"
    ),
    "its data": learn("target = reward + gamma * net(following).data.max(1)[0]"),
    "a number": learn("target = torch.full_like(chosen, reward + gamma * net(following).max().item())"),
    "a network that is frozen": learn("target = reward + gamma * frozen(following).max(1).values"),
    "the return": learn("target = reward + gamma * done"),
    "two views": learn("target = net(following).gather(1, action)"),
    "a mixture of outputs": learn("target = gamma * net(following) + (1 - gamma) * net(state)"),
    "an output that is moved": learn("target = net(following) + reward * gamma"),
    "the input of another one": learn("target = reward + gamma * frozen(state)", loss="F.mse_loss(chosen, reward)"),
    "a step in time of an equation": """
        def solve(net, points, optimizer, dt):
            for x, t in points:
                predicted = net(x, t + dt)
                target = x + dt * net(x, t)
                loss = F.mse_loss(predicted, target)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """,
    "a loss that is a sum": """
        def train(net, pairs, optimizer, weight):
            for x, y, z in pairs:
                loss = F.mse_loss(net(x), y) + weight * F.mse_loss(net(z), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """,
    "a regression": """
        def train(net, loader, optimizer, noise):
            for x, y in loader:
                wanted = y + noise * torch.randn_like(y)
                loss = F.mse_loss(net(x), wanted)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """,
}


@pytest.mark.parametrize("snippet", FLAGGED.values(), ids=FLAGGED)
def test_flagged(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize("snippet", CLEAN.values(), ids=CLEAN)
def test_clean(snippet: str) -> None:
    assert_clean(snippet, CODE)
