from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from tests.rules.snippets import HEADER, assert_clean, assert_flagged, lines_in_files

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


def element_by_element(following: str, *, behind: str = "pass", loss: str = "self.criterion(target, pred)") -> str:
    return f"""
        class Trainer:
            def train_step(self, states, actions, rewards, nexts, done):
                pred = self.model(states)
                target = pred.clone()
                for i in range(len(done)):
                    new = rewards[i]
                    if not done[i]:
                        new = rewards[i] + self.gamma * {following}
                    target[i][torch.argmax(actions[i]).item()] = new
                {behind}
                self.optimizer.zero_grad()
                loss = {loss}
                loss.backward()
                self.optimizer.step()
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
    "a loss that is made where it is used": learn(
        "target = reward + gamma * net(following).max(1).values  # !", loss="nn.MSELoss()(chosen, target)"
    ),
    "the target first": learn(
        "target = reward + gamma * net(following).max(1).values  # !", loss="criterion(target, chosen)"
    ),
    "squared by hand": learn(
        "target = reward + gamma * net(following).max(1).values  # !", loss="(target - chosen).pow(2).mean()"
    ),
    "squared by an operator": learn(
        "target = reward + gamma * net(following).max(1).values  # !", loss="((chosen - target) ** 2).mean()"
    ),
    "squared by a function": learn(
        "target = reward + gamma * net(following).max(1).values  # !",
        loss="0.5 * torch.square(target.unsqueeze(1) - chosen).mean()",
    ),
    "an error with a name": learn(
        "target = reward + gamma * net(following).max(1).values  # !",
        "error = target - chosen",
        loss="error.pow(2).mean()",
    ),
    "an error that is written out": """
        def learn(actor, critic, memory, optimizer, gamma=0.99):
            for state, log_prob, reward, following, done in memory:
                advantage = reward + (1 - done) * gamma * critic(following) - critic(state)  # !
                loss = advantage.pow(2).mean() - (log_prob * advantage.detach()).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """,
    "one element after the other": element_by_element("torch.max(self.model(nexts[i]))  # !"),
    "one element after the other, compared the other way around": element_by_element(
        "self.model(nexts[i]).max()  # !", loss="F.mse_loss(pred, target)"
    ),
    "one element after the other, into a copy without a graph": """
        def replay(model, memory, optimizer, discount):
            for state, action, reward, following, done in memory:
                target = model(state).detach().clone()
                target[action] = reward if done else reward + discount * model(following).max()  # !
                loss = F.mse_loss(model(state), target)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """,
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
    "a method gives it": """
        class Learner:
            def backup(self, reward, following, done):
                best = self.net(following).max(1).values
                return reward + self.gamma * (1 - done) * best

            def update(self, state, action, reward, following, done):
                value = self.net(state).gather(1, action).squeeze(1)
                target = self.backup(reward, following, done)  # !
                loss = F.smooth_l1_loss(value, target)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
    """,
    "a method gives it in the loss": """
        class Learner:
            def backup(self, reward, following, done):
                best = self.net(following).max(1).values
                return reward + self.gamma * (1 - done) * best

            def update(self, state, action, reward, following, done):
                value = self.net(state).gather(1, action).squeeze(1)
                pass
                loss = F.smooth_l1_loss(value, self.backup(reward, following, done))  # !
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
    """,
    "a function that only computes the loss": """
        class Learner:
            def loss(self, state, action, reward, following, done):
                value = self.net(state).gather(1, action)
                best = torch.max(self.net(following), 1)[0]
                target = reward + (1 - done) * self.config["gamma"] * best  # !
                return self.mse_loss(value, target)

            def update(self, *batch):
                loss = self.loss(*batch)
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
    "squared by hand, without a graph": learn(
        "target = reward + gamma * net(following).max(1).values.detach()", loss="(target - chosen).pow(2).mean()"
    ),
    "squared by hand, detached there": learn(
        "target = reward + gamma * net(following).max(1).values", loss="((chosen - target.detach()) ** 2).mean()"
    ),
    "a cube": learn("target = reward + gamma * net(following).max(1).values", loss="(target - chosen).pow(3).mean()"),
    "an error without a graph": learn(
        "with torch.no_grad():",
        "    target = reward + gamma * net(following).max(1).values",
        "error = target - chosen",
        loss="error.pow(2).mean()",
    ),
    "an error that is measured, of a loss that is another": learn(
        "with torch.no_grad():",
        "    error = (reward + gamma * net(following).max(1).values - chosen).pow(2)",
        loss="F.mse_loss(chosen, reward)",
    ),
    "one element after the other, without a graph": element_by_element("torch.max(self.model(nexts[i])).item()"),
    "one element after the other, of another network": element_by_element("torch.max(self.frozen(nexts[i]))"),
    "one element after the other, detached behind them": element_by_element(
        "torch.max(self.model(nexts[i]))", behind="target = target.detach()"
    ),
    "one element after the other, detached in the loss": element_by_element(
        "torch.max(self.model(nexts[i]))", loss="self.criterion(target.detach(), pred)"
    ),
    "momentum of a prediction": """
        def smooth(net, pairs, optimizer, decay):
            for x, y in pairs:
                error = net(x) - (decay * y + 0.1)
                loss = error.pow(2).mean() + net(y).pow(2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """,
    "a cycle": """
        def train(there, back, loader, optimizer, weight):
            for x, y in loader:
                loss = ((back(there(x)) - x) ** 2).mean() + weight * ((there(back(y)) - y) ** 2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """,
    "a residual of an equation": """
        def solve(net, points, optimizer, gamma):
            for x, y, source in points:
                residual = source + gamma * net(y) + net.slope(x)
                loss = residual.pow(2).mean() + (net(x) - source).pow(2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    """,
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
    "a flag that asks for another network": learn(
        "target = reward + gamma * net(following, target=True).max(1).values"
    ),
    "a word that asks for another network": learn(
        "target = reward + gamma * frozen(following, which='old').max(1).values",
        loss="F.mse_loss(frozen(state, which='new'), target)",
    ),
    "weights that are handed over": learn("target = reward + gamma * net(following, weights=old).max(1).values"),
    "a function that stops the gradient": learn(
        "pass", loss="F.mse_loss(chosen, stop_gradient(reward + gamma * net(following).max(1).values))"
    ),
    "a helper that gives a number": """
        def highest(q):
            return q.max().item()
    """
    + learn("target = torch.tensor(reward + gamma * highest(net(following)))"),
    "a context of the program": """
        import contextlib

        @contextlib.contextmanager
        def unchanged(net):
            net.requires_grad_(False)
            yield
            net.requires_grad_(True)
    """
    + learn("with unchanged(net):", "    target = reward + gamma * net(following).max(1).values"),
    "a share that is cut": learn(
        "best = net(following).max(1).values.detach()", "target = reward + gamma * (1 - done) * best"
    ),
    "a damping": learn("target = reward + (1 - gamma) * net(following)"),
    "a mixture": learn("target = (1 - gamma) * reward + gamma * net(following)"),
    "an error that is only logged": """
        def learn(net, memory, optimizer, writer, gamma=0.99):
            for state, outcome, reward, following in memory:
                loss = F.mse_loss(net(state), outcome)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                writer.add_scalar("td", F.mse_loss(net(state), reward + gamma * net(following)).item())
    """,
    "two networks of one registry": """
        class Learner:
            def update(self, state, reward, following):
                value = self.nets.get("now")(state)
                target = reward + self.gamma * self.nets.get("before")(following)
                self.optimizer.zero_grad()
                F.mse_loss(value, target).backward()
                self.optimizer.step()
    """,
    "a method that is told which": """
        class Learner:
            def value(self, state, old=False):
                net = self.frozen if old else self.net
                return net(state)

            def update(self, state, reward, following):
                target = reward + self.gamma * self.value(following, old=True)
                self.optimizer.zero_grad()
                F.mse_loss(self.value(state), target).backward()
                self.optimizer.step()
    """,
    "parameters that are switched off": """
        def toggle(net, on):
            for p in net.parameters():
                p.requires_grad = on

        def learn(net, memory, optimizer, gamma=0.99):
            for state, reward, following in memory:
                toggle(net, False)
                target = reward + gamma * net(following)
                toggle(net, True)
                optimizer.zero_grad()
                F.mse_loss(net(state), target).backward()
                optimizer.step()
    """,
    "a method that cuts it gives it": """
        class Learner:
            def backup(self, reward, following, done):
                best = self.net(following).max(1).values.detach()
                return reward + self.gamma * (1 - done) * best

            def update(self, state, action, reward, following, done):
                value = self.net(state).gather(1, action).squeeze(1)
                target = self.backup(reward, following, done)
                loss = F.smooth_l1_loss(value, target)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
    """,
    "a method gives it and it is cut": """
        class Learner:
            def backup(self, reward, following, done):
                best = self.net(following).max(1).values
                return reward + self.gamma * (1 - done) * best

            def update(self, state, action, reward, following, done):
                value = self.net(state).gather(1, action).squeeze(1)
                target = self.backup(reward, following, done).detach()
                loss = F.smooth_l1_loss(value, target)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
    """,
    "a method gives it under no_grad": """
        class Learner:
            def backup(self, reward, following, done):
                best = self.net(following).max(1).values
                return reward + self.gamma * (1 - done) * best

            def update(self, state, action, reward, following, done):
                value = self.net(state).gather(1, action).squeeze(1)
                with torch.no_grad(): target = self.backup(reward, following, done)
                loss = F.smooth_l1_loss(value, target)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
    """,
}


@pytest.mark.parametrize("snippet", FLAGGED.values(), ids=FLAGGED)
def test_flagged(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize("snippet", CLEAN.values(), ids=CLEAN)
def test_clean(snippet: str) -> None:
    assert_clean(snippet, CODE)


NETWORKS = """
        import copy

        class Branch(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.encoder, self.projector = nn.Linear(8, width), nn.Linear(width, width)

            def forward(self, x):
                return self.projector(torch.relu(self.encoder(x)))

        def negative(p, z):
            return -F.cosine_similarity(p, z, dim=1).mean()

        def cut(p, z):
            return -F.cosine_similarity(p, z.detach(), dim=1).mean()

        class Byol(nn.Module):
            def __init__(self, width=16, momentum=0.99):
                super().__init__()
                self.online = Branch(width)
                self.target = {copied}
                self.predictor, self.momentum = nn.Linear(width, width), momentum
                {then}

            def forward(self, a, b):
                qa, qb = self.predictor(self.online(a)), self.predictor(self.online(b))
                {targets}
                return {loss}

            @torch.no_grad()
            def update(self):
                {update}
"""
TRAINS = """
        def train(loader, steps):
            model = Byol()
            {before}
            optimizer = torch.optim.Adam({parameters}, lr=0.1)
            for a, b in loader:
                loss = model(a, b)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                model.update()
"""
BYOL = {
    "copied": "copy.deepcopy(self.online)",
    "then": "pass",
    "targets": "za, zb = self.target(a), self.target(b)  # !",
    "loss": "2 - F.cosine_similarity(qa, zb).mean() - F.cosine_similarity(qb, za).mean()",
    "update": "for slow, fast in zip(self.target.parameters(), self.online.parameters()):\n"
    "                    slow.lerp_(fast, 1 - self.momentum)",
    "before": "pass",
    "parameters": "model.parameters()",
}
OTHERS = "for p, q in zip(self.online.parameters(), self.target.parameters()):\n                    "


def byol(**parts: str) -> str:
    return (NETWORKS + TRAINS).format(**(BYOL | parts))


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"loss": "negative(qa, zb) + negative(qb, za)"},
        {"loss": "(qa - zb).pow(2).mean() + (qb - za).pow(2).mean()"},
        {"copied": "Branch(width)", "then": "self.target.load_state_dict(self.online.state_dict())"},
        {"update": OTHERS + "q.data = self.momentum * q.data + (1 - self.momentum) * p.data"},
        {"update": OTHERS + "q.data.mul_(self.momentum).add_(p.data, alpha=1 - self.momentum)"},
        {"update": OTHERS + "q.mul_(self.momentum); q.add_((1 - self.momentum) * p)"},
        {"update": OTHERS + "q.copy_(self.momentum * q + (1 - self.momentum) * p)"},
        {"update": OTHERS + "q.data += (1 - self.momentum) * (p.data - q.data)"},
        {
            "update": OTHERS.replace("p, q", "(_, p), (_, q)").replace("parameters", "named_parameters")
            + "q.lerp_(p, 0.1)"
        },
        {"parameters": "[*model.parameters()]"},
    ],
)
def test_a_network_that_follows_another_one_is_trained(parts: dict[str, str]) -> None:
    assert_flagged(byol(**parts), CODE)


@pytest.mark.parametrize(
    "parts",
    [
        {"targets": "with torch.no_grad():\n                    za, zb = self.target(a), self.target(b)"},
        {"targets": "za, zb = self.target(a).detach(), self.target(b).detach()"},
        {"loss": "cut(qa, zb) + cut(qb, za)"},
        {"loss": "2 - F.cosine_similarity(qa, zb.detach()).mean() - F.cosine_similarity(qb, za.detach()).mean()"},
        {"copied": "copy.deepcopy(self.online).requires_grad_(False)"},
        {"then": "self.target.requires_grad_(False)"},
        {"then": "for p in self.target.parameters():\n                    p.requires_grad = False"},
        {"then": "for p in self.target.parameters():\n                    p.requires_grad_(False)"},
        {"before": "model.target.requires_grad_(False)"},
        {"before": "for p in model.target.parameters():\n                p.requires_grad = False"},
        {"parameters": "model.online.parameters()"},
        {"parameters": "[*model.online.parameters(), *model.predictor.parameters()]"},
        {"update": "pass"},
        {"update": OTHERS + "q.copy_(p)"},
        {"update": OTHERS + "q.data = p.data.clone()"},
        {"update": OTHERS + "print((p - q).norm())"},
        {"update": OTHERS + "self.far = (p - q).norm()"},
        {"targets": "za, zb = self.online(a), self.online(b)"},
    ],
)
def test_a_network_that_follows_another_one_is_not_trained(parts: dict[str, str]) -> None:
    clean = {"targets": BYOL["targets"].removesuffix("  # !")}
    assert_clean(byol(**(clean | parts)), CODE)


def test_an_average_that_nobody_trains_and_two_that_learn_from_each_other() -> None:
    snippet = """
        import copy

        def average(slow, fast, share=0.01):
            for p, q in zip(slow.parameters(), fast.parameters()):
                p.data.lerp_(q.data, share)

        def train(net, other, loader):
            mean = copy.deepcopy(net)
            optimizer = torch.optim.Adam(list(net.parameters()) + list(other.parameters()))
            for x, y in loader:
                ours, theirs = net(x), other(x)
                loss = F.cross_entropy(ours, y) + F.cross_entropy(theirs, y) + F.mse_loss(ours, theirs)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                average(mean, net)
    """
    assert_clean(snippet, CODE)


def test_a_mixture_with_what_another_optimizer_trains() -> None:
    snippet = """
        def personal(local, shared, loader):
            inner = torch.optim.SGD(local.parameters(), lr=0.1)
            outer = torch.optim.SGD(shared.parameters(), lr=0.1)
            for x, y in loader:
                loss = F.cross_entropy(local(x) + shared(x), y)
                inner.zero_grad()
                outer.zero_grad()
                loss.backward()
                inner.step()
                outer.step()
                for p, q in zip(local.parameters(), shared.parameters()):
                    p.data = 0.5 * p.data + 0.5 * q.data
    """
    assert_clean(snippet, CODE)


def test_a_helper_that_averages_networks_of_an_object() -> None:
    snippet = """
        import copy

        def follow(fast, slow, momentum):
            with torch.no_grad():
                for p, q in zip(fast.parameters(), slow.parameters()):
                    q.data.mul_(momentum).add_((1 - momentum) * p.data)

        class Trainer:
            def __init__(self, net):
                self.online, self.target = net, copy.deepcopy(net)
                self.opt = torch.optim.SGD([*self.online.parameters(), *self.target.parameters()], lr=0.1)

            def step(self, a, b):
                loss = F.mse_loss(self.online(a), self.target(b))  # !
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                follow(self.online, self.target, 0.99)
    """
    assert_flagged(snippet, CODE)
    assert_clean(snippet.replace("self.target(b))  # !", "self.target(b).detach())"), CODE)
    assert_clean(snippet.replace(", *self.target.parameters()]", "]").replace("  # !", ""), CODE)


def test_the_network_is_of_another_file(tmp_path: Path) -> None:
    networks = NETWORKS.format(**BYOL)
    files = {
        "networks.py": HEADER + dedent(networks),
        "train.py": HEADER + "from networks import Byol\n" + dedent(TRAINS.format(**BYOL)),
    }
    line = next(n for n, text in enumerate(files["networks.py"].splitlines(), 1) if text.endswith("# !"))
    assert lines_in_files(tmp_path, files, CODE) == [("networks.py", line)]
    files["networks.py"] = (
        files["networks.py"].replace("def update(self)", "def update_nothing(self)").replace("lerp_", "sub")
    )
    assert lines_in_files(tmp_path, files, CODE) == []
