"""GG250: what is said to raise is run, and raises there; what is not told of is run where torch has no other error."""

from __future__ import annotations

import textwrap
import traceback
from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files, marked, source

CODE = "GG250"

DEEP = "nn.Sequential(nn.Linear({0}, 8), nn.ReLU(), nn.Linear(8, {1}))"

AGENT = """
    def mlp(n, out):
        return nn.Sequential(nn.Linear(n, 8), nn.ReLU(), nn.Linear(8, out))

    class Twin(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.one, self.two = mlp(n, 1), mlp(n, 1)

        def forward(self, s, a):
            x = torch.cat([s, a], 1)
            return self.one(x), self.two(x)

        def first(self, s, a):
            return self.one(torch.cat([s, a], 1))

    class Critic(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.fc1 = nn.Linear(n, 8)
            self.fc2 = nn.Linear(8, 1)

        def forward(self, s, a):
            x = F.relu(self.fc1(torch.cat([s, a], 1)))
            return self.fc2(x)

    class Line(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.fc = nn.Linear(n, 1)

        def forward(self, s, a):
            return self.fc(torch.cat([s, a], 1))

    class Scaled(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(1, n))
            self.scale = 0.1

        def forward(self, s, a):
            return F.linear(torch.cat([s, a], 1), self.weight * self.scale)

    class Agent:
        def __init__(self):
            self.actor = mlp(3, 2)
            self.critic = Critic(5)
            self.target = Critic(5)
            self.actor_optimizer = torch.optim.Adam(self.actor.parameters())
            self.critic_optimizer = torch.optim.Adam(self.critic.parameters())

        def q_loss(self, s, a, y):
            return F.mse_loss(self.critic(s, a), y)

        def policy_loss(self, s):
            return -self.critic(s, self.actor(s)).mean()

        def minimize(self, loss, optimizer):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

        def update_critic(self, loss):
            self.critic_optimizer.zero_grad()
            loss.backward()
            self.critic_optimizer.step()

        def update(self, s, a, y, train=True):
            {update}
"""
DRIVE_AGENT = (
    "agent = Agent()\nfor _ in range(3): agent.update(torch.randn(5, 3), torch.randn(5, 2), torch.randn(5, 1))"
)

LOSSES = """
q_loss = F.mse_loss(self.critic(s, a), y)
policy_loss = -self.critic(s, self.actor(s)).mean()
"""
UPDATES = """
self.critic_optimizer.zero_grad()
q_loss.backward()
self.critic_optimizer.step()
self.actor_optimizer.zero_grad()
policy_loss.backward()  # !
self.actor_optimizer.step()
"""
TWIN = ("Critic(5)", "Twin(5)")


def lines(text: str) -> str:
    return textwrap.dedent(text)


def agent(update: str, *edits: tuple[str, str]) -> str:
    """An agent, with the body of its ``update``; a few words of all of it replaced."""
    text = AGENT.replace("{update}", textwrap.indent(update.strip(), " " * 12).strip())
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    return text


def raised_by(snippet: str, drive: str) -> Exception | None:
    pytest.importorskip("torch")
    code = compile(source(snippet) + "\n" + textwrap.dedent(drive), "<snippet>", "exec")
    try:
        exec(code, {"__name__": "snippet"})
    except RuntimeError as error:
        return error
    return None


def assert_raises_where_told(snippet: str, drive: str) -> None:
    assert_flagged(snippet, CODE)
    error = raised_by(snippet, drive)
    assert "modified by an inplace operation" in str(error)
    frames = traceback.extract_tb(error.__traceback__) if error is not None else []
    assert any(frame.lineno in marked(snippet) for frame in frames if frame.filename == "<snippet>")


def assert_runs(snippet: str, drive: str) -> None:
    assert_clean(snippet, CODE)
    assert raised_by(snippet, drive) is None


@pytest.mark.parametrize(
    "snippet",
    [
        agent(LOSSES + UPDATES),
        agent(LOSSES + UPDATES, ("Critic(5)", "Line(5)")),  # what it is given has a graph
        agent(LOSSES + UPDATES, ("Adam", "SGD"), (".parameters())", ".parameters(), lr=0.1)")),
        agent(
            LOSSES + UPDATES,
            ("self.critic(s, a)", "self.critic(torch.cat([s, a], 1))"),
            ("self.critic(s, self.actor(s))", "self.critic(torch.cat([s, self.actor(s)], dim=1))"),
            ("Critic(5)", "mlp(5, 1)"),
        ),
        agent(
            lines("""
            one, two = self.critic(s, a)
            q_loss = F.mse_loss(one, y) + F.mse_loss(two, y)
            policy_loss = -self.critic.first(s, self.actor(s)).mean()
            """)
            + UPDATES,
            TWIN,
        ),
        agent(
            lines("""
            one, two = self.critic(s, a)
            q_loss = F.mse_loss(one, y) + F.mse_loss(two, y)
            policy_loss = -torch.min(*self.critic(s, self.actor(s))).mean()
            """)
            + UPDATES,
            TWIN,
        ),
        agent(
            lines("""
            q_loss, policy_loss = self.q_loss(s, a, y), self.policy_loss(s)
            """)
            + UPDATES
        ),
        agent(
            lines("""
            q_loss = self.q_loss(s, a, y)
            policy_loss = self.policy_loss(s)
            self.minimize(q_loss, self.critic_optimizer)
            self.minimize(policy_loss, self.actor_optimizer)  # !
            """)
        ),
        agent(
            lines("""
            q_loss = self.q_loss(s, a, y)
            policy_loss = self.policy_loss(s)
            self.update_critic(q_loss)
            self.actor_optimizer.zero_grad()
            policy_loss.backward()  # !
            self.actor_optimizer.step()
            """)
        ),
        agent(
            lines("""
            losses = {"q": self.q_loss(s, a, y), "policy": self.policy_loss(s)}
            self.critic_optimizer.zero_grad()
            losses["q"].backward()
            self.critic_optimizer.step()
            self.actor_optimizer.zero_grad()
            losses["policy"].backward()  # !
            """)
        ),
        agent("if train:" + textwrap.indent(LOSSES + UPDATES, "    ")),
        agent(LOSSES + UPDATES.replace("policy_loss.backward()", "if train: policy_loss.backward()")),
        agent(
            "policy_loss = self.policy_loss(s)\nself.update_critic(self.q_loss(s, a, y))\npolicy_loss.backward()  # !"
        ),
        agent(
            "q_loss = self.q_loss(s, a, y)\nfor i in range(3):\n    self.critic_optimizer.zero_grad()\n"
            "    q_loss.backward(retain_graph=True)  # !\n    self.critic_optimizer.step()"
        ),
        agent(
            "q_loss = self.q_loss(s, a, y)\nq_loss.backward(retain_graph=True)\nself.critic_optimizer.step()\n"
            "q_loss.backward()  # !"
        ),
    ],
)
def test_agents(snippet: str) -> None:
    assert_raises_where_told(snippet, DRIVE_AGENT)


ONCE = UPDATES.replace("  # !", "")


@pytest.mark.parametrize(
    "snippet",
    [
        agent(  # computed anew
            "q_loss = self.q_loss(s, a, y)\npolicy_loss = self.policy_loss(s)\n"
            + ONCE.replace(
                "self.critic_optimizer.step()", "self.critic_optimizer.step()\npolicy_loss = self.policy_loss(s)"
            )
        ),
        agent(
            LOSSES
            + "q_loss.backward()\npolicy_loss.backward()\nself.critic_optimizer.step()\nself.actor_optimizer.step()"
        ),
        agent(LOSSES + ONCE, ("-self.critic(s, self.actor(s))", "-self.target(s, self.actor(s))")),
        agent(LOSSES + ONCE, ("-self.critic(s, self.actor(s)).mean()", "-self.actor(s).mean()")),
        agent(LOSSES + ONCE, ("-self.critic(s, self.actor(s))", "-(self.actor(s) * self.critic(s, a).detach())")),
        agent(
            "with torch.no_grad():\n    value = self.critic(s, a)\nq_loss = self.q_loss(s, a, y)\n"
            "policy_loss = -(self.actor(s) * (y - value)).mean()\n" + ONCE
        ),
        agent(  # the weight of a single layer is not needed for its own gradient
            LOSSES + ONCE,
            ("Critic(5)", "Line(5)"),
            ("self.critic(s, self.actor(s)).mean()", "(self.actor(s) * self.critic(s, a)).mean()"),
        ),
        agent(LOSSES + ONCE, ("Critic(5)", "Scaled(5)")),
        agent(LOSSES + ONCE, ("self.critic.parameters()", "self.critic.parameters(), fused=True")),
        agent(LOSSES + ONCE, ("self.critic_optimizer.step()", "self.critic_optimizer.zero_grad()")),
        agent(LOSSES + ONCE.replace("q_loss.backward()\n", "")),  # without gradients it changes nothing
        agent(LOSSES + ONCE.replace("q_loss.backward()\n", "q_loss.backward()\nself.critic_optimizer.zero_grad()\n")),
        agent(
            "with torch.autocast('cpu', dtype=torch.bfloat16):" + textwrap.indent(LOSSES, "    ") + ONCE,
            (", y)\n", ", y.bfloat16())\n"),
        ),
        agent(
            lines("""
            if train:
                q_loss = self.q_loss(s, a, y)
            else:
                policy_loss = self.policy_loss(s)
            if train:
                q_loss.backward()
                self.critic_optimizer.step()
            else:
                policy_loss.backward()
                self.actor_optimizer.step()
            """)
        ),
        agent(
            LOSSES
            + lines("""
            if not train:
                q_loss.backward()
                self.critic_optimizer.step()
                return
            policy_loss.backward()
            """)
        ),
        agent(
            lines("""
            for i in range(2):
                loss = self.q_loss(s, a, y) if i == 0 else self.policy_loss(s)
                loss.backward()
                self.critic_optimizer.step()
            """)
        ),
        agent("for i in range(3):\n    self.minimize(self.q_loss(s, a, y), self.critic_optimizer)"),
        agent(
            LOSSES
            + "self.critic_optimizer.zero_grad()\nself.actor_optimizer.zero_grad()\nq_loss.backward()\n"
            + "self.actor_optimizer.step()\npolicy_loss.backward()"
        ),
        agent(
            "other = self.target(s, a).mean()\nq_loss = self.q_loss(s, a, y)\n"
            "self.update_critic(q_loss)\nother.backward()"
        ),
        agent(
            "loss = self.target(s, a).mean()\nfor i in range(3):\n    self.update_critic(self.q_loss(s, a, y))\n"
            "    loss.backward(retain_graph=True)"
        ),
    ],
)
def test_agents_that_run(snippet: str) -> None:
    assert_runs(snippet, DRIVE_AGENT)


def test_forwards_that_the_backward_repeats() -> None:
    snippet = agent(
        LOSSES.replace(
            "self.critic(s, self.actor(s))", "checkpoint(self.critic, s, self.actor(s), use_reentrant=False)"
        )
        + ONCE
    )
    assert_runs("    from torch.utils.checkpoint import checkpoint\n" + snippet, DRIVE_AGENT)


@pytest.mark.parametrize(
    "elsewhere",
    [
        "self.critic = nn.DataParallel(self.critic)",  # several devices have copies
        "for p in self.target.parameters(): p.requires_grad = train",
        "tuned = [p for n, p in self.critic.named_parameters() if 'bias' in n]",
    ],
)
def test_programs_that_are_not_told_of(elsewhere: str) -> None:
    more = f"""
        def prepare(self, train):
            {elsewhere}
    """
    assert_clean(agent(LOSSES + ONCE) + more, CODE)


PLAIN = """
    def train(actor, critic, actor_opt, critic_opt, s, a, y):
        q_loss = F.mse_loss(critic(torch.cat([s, a], 1)), y)
        policy_loss = -critic(torch.cat([s, actor(s)], 1)).mean()
        critic_opt.zero_grad()
        q_loss.backward()
        critic_opt.step()
        actor_opt.zero_grad()
        policy_loss.backward()  # !
        actor_opt.step()
"""
DRIVE_PLAIN = f"""
actor, critic = {DEEP.format(3, 2)}, {DEEP.format(5, 1)}
optimizers = [torch.optim.Adam(net.parameters()) for net in (actor, critic)]
train(actor, critic, *optimizers, torch.randn(5, 3), torch.randn(5, 2), torch.randn(5, 1))
"""


def plain(*edits: tuple[str, str]) -> str:
    text = PLAIN
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize(
    "snippet",
    [
        plain(),
        plain(("critic_opt", "critic_optimizer")),
        plain(("critic_opt", "optim_critic")),
        plain(("critic_opt", "optimizerC"), ("critic", "netC")),
        plain() + "    " + DRIVE_PLAIN.replace("\n", "\n    "),
    ],
)
def test_functions(snippet: str) -> None:
    assert_raises_where_told(snippet, DRIVE_PLAIN)


@pytest.mark.parametrize(
    "snippet",
    [
        plain(("  # !", ""), ("critic_opt", "optimizer")),  # it may have something else
        plain(("  # !", ""), ("torch.cat([s, actor(s)], 1)).mean()", "torch.cat([s, a], 1)).mean() * actor(s).mean()")),
    ],
)
def test_functions_that_cannot_be_told(snippet: str) -> None:
    """A critic that is given data may have one layer."""
    assert_clean(snippet, CODE)


GAN = """
    def train(loader):
        G, D = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 4)), {judge}
        opt_g = torch.optim.Adam(G.parameters())
        opt_d = torch.optim.Adam(D.parameters())
        for real in loader:
            fake = G(torch.randn(5, 2))
            {losses}
"""
TOGETHER = """
d_fake = D(fake)
d_loss = d_fake.mean() - D(real).mean()
g_loss = -d_fake.mean()
opt_d.zero_grad()
d_loss.backward(retain_graph=True)
opt_d.step()
opt_g.zero_grad()
g_loss.backward()  # !
opt_g.step()
"""
DRIVE_GAN = "train([torch.randn(5, 4) for _ in range(3)])"
JUDGE = "nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))"


def gan(losses: str = TOGETHER, judge: str = JUDGE) -> str:
    return GAN.replace("{judge}", judge).replace("{losses}", textwrap.indent(losses.strip(), " " * 12).strip())


@pytest.mark.parametrize(
    "snippet",
    [
        gan(),
        gan(judge="nn.Linear(4, 1)"),
        gan(TOGETHER.replace("D(fake)", "D(fake.detach())")),
        gan(TOGETHER.replace("d_fake.mean() - D", "d_fake.detach().mean() - D").replace("retain_graph=True", "")),
        gan(TOGETHER.replace("D(real)", "D(real.requires_grad_())")),
    ],
)
def test_opponents(snippet: str) -> None:
    assert_raises_where_told(snippet, DRIVE_GAN)


RIGHT = TOGETHER.replace("  # !", "")


@pytest.mark.parametrize(
    "snippet",
    [
        gan(RIGHT.replace("D(fake)", "D(fake.detach())"), judge="nn.Linear(4, 1)"),
        gan(
            RIGHT.replace("opt_g.zero_grad()", "g_loss = -D(fake).mean()\nopt_g.zero_grad()").replace(
                "opt_d.zero", "opt_g.zero"
            )
        ),
        gan(RIGHT.replace("D(fake)", "D(fake.detach())").replace("g_loss = -d_fake", "g_loss = -fake")),
    ],
)
def test_opponents_that_run(snippet: str) -> None:
    assert_runs(snippet, DRIVE_GAN)


SHARED = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = {body}
            self.policy = nn.Linear(8, 2)
            self.value = nn.Linear(8, 1)

        def forward(self, s):
            h = self.body(s)
            return self.policy(h).log_softmax(-1), self.value(h)

    def train(batches):
        net = Net()
        actor = torch.optim.Adam([*net.body.parameters(), *net.policy.parameters()])
        critic = torch.optim.Adam([*net.body.parameters(), *net.value.parameters()])
        for s in batches:
            scores, value = net(s)
            policy_loss, value_loss = -scores.mean(), value.pow(2).mean()
            {updates}
"""
BOTH = """
critic.zero_grad()
value_loss.backward(retain_graph=True)
critic.step()
actor.zero_grad()
policy_loss.backward()  # !
actor.step()
"""
BODY = "nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU())"
SHALLOW = "nn.Sequential(nn.Linear(4, 8), nn.ReLU())"
DRIVE_SHARED = "train([torch.randn(5, 4) for _ in range(3)])"


def shared(updates: str = BOTH, body: str = BODY) -> str:
    return SHARED.replace("{body}", body).replace("{updates}", textwrap.indent(updates.strip(), " " * 12).strip())


ALL = [("critic", "both"), ("actor", "both"), ("[*net.body.parameters(), *net.value.parameters()]", "net.parameters()")]


def of_one(text: str) -> str:
    for old, new in ALL:
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize(
    "snippet",
    [
        shared(),
        of_one(shared()),
        shared(body="nn.GRUCell(4, 8)").replace("self.body(s)", "self.body(s, self.body(s))"),
        shared(body="nn.Sequential(nn.Unflatten(1, (1, 4)), nn.Conv1d(1, 2, 1), nn.Flatten(), nn.Linear(8, 8))"),
        shared(body="nn.Sequential(*[nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8)])"),
    ],
)
def test_two_heads(snippet: str) -> None:
    assert_raises_where_told(snippet, DRIVE_SHARED)


@pytest.mark.parametrize(
    "snippet",
    [
        shared(BOTH.replace("  # !", ""), SHALLOW),  # its only weight is not needed; that of a head was not changed
        of_one(shared(BOTH.replace("  # !", ""), SHALLOW)),
        of_one(shared("(value_loss + policy_loss).backward()\nboth.step()\nboth.zero_grad()")),
        shared("value_loss.backward(retain_graph=True)\npolicy_loss.backward()\ncritic.step()\nactor.step()"),
        shared(BOTH.replace("  # !", "")).replace("self.policy(h)", "self.policy(h.detach())"),
        shared(BOTH.replace("  # !", "")).replace("self.value(h)", "self.value(h.detach())"),
    ],
)
def test_two_heads_that_run(snippet: str) -> None:
    assert_runs(snippet, DRIVE_SHARED)


def test_losses_of_several_networks_in_a_list() -> None:
    assert_runs(
        """
        def train(x):
            nets = [nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)) for _ in range(3)]
            optimizers = [torch.optim.SGD(net.parameters(), lr=0.1) for net in nets]
            losses = [net(x).mean() for net in nets]
            for loss, optimizer in zip(losses, optimizers):
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

        def two(x):
            a, b = (nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)) for _ in range(2))
            of_a, of_b = torch.optim.SGD(a.parameters(), lr=0.1), torch.optim.SGD(b.parameters(), lr=0.1)
            losses = []
            losses.append(a(x).mean())
            losses.append(b(x).mean())
            losses[0].backward()
            of_a.step()
            losses[1].backward()
            of_b.step()
        """,
        "train(torch.randn(5, 4)); two(torch.randn(5, 4))",
    )


AGAIN = """
    class Policy:
        def __init__(self):
            self.net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
            self.optimizer = torch.optim.Adam(self.net.parameters(), lr=1e-3)

        def update(self, s, weights, batches):
            {before}
            for x in batches:
                {loss}
                self.optimizer.zero_grad()
                loss.backward(retain_graph=True)  # !
                self.optimizer.step()
                {after}
"""
DRIVE_AGAIN = "Policy().update(torch.randn(4, 3), torch.randn(4, 2), [torch.randn(4, 3) for _ in range(3)])"


def again(before: str, loss: str = "pass", after: str = "pass", iterable: str = "batches") -> str:
    text = AGAIN.replace("{before}", before).replace("{loss}", loss).replace("{after}", after)
    return text.replace("in batches", f"in {iterable}")


@pytest.mark.parametrize(
    "snippet",
    [
        again("scores = self.net(s).log_softmax(-1)", "loss = -(scores * weights).mean()"),
        again("scores = self.net(s).log_softmax(-1)", "loss = -(scores * weights).mean() + self.net(x).mean()"),
        again("loss = self.net(s).mean()"),
        again("scores = self.net(s)", "loss = x", iterable="(scores.mean(), scores.sum())"),
        again("losses = list(self.net(s).mean(1))", "loss = x", iterable="losses"),
    ],
)
def test_losses_of_before_a_loop(snippet: str) -> None:
    assert_raises_where_told(snippet, DRIVE_AGAIN)


@pytest.mark.parametrize(
    "snippet",
    [
        again("loss = self.net(s).mean()", after="loss = self.net(x).mean()"),  # the next one
        again("scores = self.net(s).detach()", "loss = (self.net(s) * scores).mean()"),
        again("scores = self.net(s)", "scores = self.net(x); loss = scores.mean()"),
        again("loss = self.net(s).mean()", iterable="batches[:1]"),
        again("losses = [self.net(s).mean()]", "loss = losses.pop() if losses else self.net(x).mean()"),
    ],
)
def test_loops_that_run(snippet: str) -> None:
    snippet = snippet.replace("  # !", "")
    if "[:1]" in snippet:
        snippet = snippet.replace("for x in batches[:1]", "for x in range(1)")
    assert_runs(snippet, DRIVE_AGAIN)


def test_losses_of_a_list_of_networks() -> None:
    assert_runs(
        """
        def train(x):
            nets = [nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)) for _ in range(3)]
            optimizer = torch.optim.SGD([p for net in nets for p in net.parameters()], lr=0.1)
            losses = [net(x).mean() for net in nets]
            for loss in losses:
                optimizer.zero_grad()
                loss.backward(retain_graph=True)
                optimizer.step()
        """,
        "train(torch.randn(5, 4))",
    )


OBJECTS = """
    def mlp(n, out):
        return nn.Sequential(nn.Linear(n, 8), nn.ReLU(), nn.Linear(8, out))

    class Agent:
        def __init__(self):
            self.actor, self.critic = mlp(3, 2), mlp(5, 1)
            self.params = list(self.critic.parameters())
            self.optimizer = torch.optim.SGD(self.params, lr=0.1)

    class Team:
        def __init__(self):
            self.agents = [Agent(), Agent()]
            self.critic = mlp(5, 1)

        def update(self, s, a):
            for agent in self.agents:
                loss = agent.critic(torch.cat([s, a], 1)).mean()
                policy_loss = -{critic}(torch.cat([s, agent.actor(s)], 1)).mean()
                agent.optimizer.zero_grad()
                loss.backward()
                agent.optimizer.step()
                policy_loss.backward()  # !
"""


def test_optimizers_of_objects() -> None:
    drive = "Team().update(torch.randn(4, 3), torch.randn(4, 2))"
    assert_raises_where_told(OBJECTS.replace("{critic}", "agent.critic"), drive)
    assert_runs(OBJECTS.replace("{critic}", "self.critic").replace("  # !", ""), drive)


LISTED = """
    class Net(nn.Module):
        def __init__(self, *sizes):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(a, b) for a, b in zip(sizes[:-1], sizes[1:])])

        def forward(self, x):
            for layer in self.layers:
                x = torch.tanh(layer(x))
            return x

    class Heads(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Linear(4, 8)
            self.heads = nn.ModuleList([nn.Linear(8, 1) for _ in range(2)])

        def forward(self, x):
            h = F.relu(self.body(x))
            return [head(h) for head in self.heads]

        def one(self, x, i):
            return self.heads[i](F.relu(self.body(x)))

    def layers(s, a):
        actor, critic = Net(3, 8, 2), Net(5, 8, 1)
        optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)
        loss = critic(torch.cat([s, a], 1)).mean()
        policy_loss = -critic(torch.cat([s, actor(s)], 1)).mean()
        loss.backward()
        optimizer.step()
        policy_loss.backward()  # !

    def heads(x):
        net = Heads()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        one, two = net(x)
        one.mean().backward(retain_graph=True)
        optimizer.step()
        two.mean().backward()

    def each(x):
        net = Heads()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        outputs = net(x)
        outputs[0].mean().backward(retain_graph=True)
        optimizer.step()
        outputs[1].mean().backward()

    def one_by_one(x):
        net = Heads()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        one, two = net.one(x, 0), net.one(x, 1)
        one.mean().backward(retain_graph=True)
        optimizer.step()
        two.mean().backward()
"""


def test_layers_of_lists() -> None:
    assert_raises_where_told(LISTED, "layers(torch.randn(4, 3), torch.randn(4, 2))")
    x = "(torch.randn(4, 4))"
    assert raised_by(LISTED, f"heads{x}; each{x}; one_by_one{x}") is None


def test_networks_of_another_file(tmp_path: Path) -> None:
    files = {
        "nets.py": """
            import torch.nn as nn

            class Critic(nn.Module):
                def __init__(self, n):
                    super().__init__()
                    self.body = nn.Linear(n, 8)
                    self.head = nn.Linear(8, 1)

                def forward(self, x):
                    return self.head(self.body(x).relu())
        """,
        "agent.py": """
            import torch
            from nets import Critic

            class Agent:
                def __init__(self, actor):
                    self.actor, self.critic = actor, Critic(5)
                    self.optimizer = torch.optim.Adam(self.critic.parameters())

                def update(self, s, x, y):
                    policy_loss = -self.critic(self.actor(s)).mean()
                    self.optimizer.zero_grad()
                    (self.critic(x) - y).pow(2).mean().backward()
                    self.optimizer.step()
                    policy_loss.backward()
        """,
    }
    assert lines_in_files(tmp_path, files, CODE) == [("agent.py", 15)]
