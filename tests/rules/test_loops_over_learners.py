"""A loop that steps another optimizer in each iteration goes over agents or models: there are few of them."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, findings, twin

UPDATE = """
    class Agents:
        def __init__(self, n):
            self.nets = [nn.Linear(4, 2) for _ in range(n)]
            self.optimizers = [torch.optim.Adam(net.parameters()) for net in self.nets]
            self.names = {{str(i): i for i in range(n)}}

        def update(self, batch, target):
            losses = []
            for {each}:
                {optimizer}.zero_grad()
                loss = F.mse_loss({net}(batch), target)
                loss.backward()
                {optimizer}.step()
                losses.append(loss)
            return losses
"""
LEARNERS = {
    "by number": ("i in range(len(self.nets))", "self.optimizers[i]", "self.nets[i]"),
    "both at once": ("net, optimizer in zip(self.nets, self.optimizers)", "optimizer", "net"),
    "numbered": ("i, net in enumerate(self.nets)", "self.optimizers[i]", "net"),
    "objects": ("agent in self.agents", "agent.optimizer", "agent.net"),
    "dicts": ("agent in self.agents", 'agent["optimizer"]', 'agent["net"]'),
    "by name": ("name in self.agents", 'self.agents[name]["optimizer"]', "self.nets[name]"),
    "items": ("name, agent in self.agents.items()", "agent.optimizer", "agent.net"),
}


@pytest.mark.parametrize(("each", "optimizer", "net"), LEARNERS.values(), ids=LEARNERS)
def test_one_loss_for_each_learner(each: str, optimizer: str, net: str) -> None:
    assert_clean(UPDATE.format(each=each, optimizer=optimizer, net=net))


CLEAN = {
    "a sum over them": """
        def update(agents, batch):
            total = 0.0
            for agent in agents:
                loss = agent.net(batch).pow(2).mean()
                agent.optimizer.zero_grad()
                loss.backward()
                agent.optimizer.step()
                total += loss
            return total / len(agents)
    """,
    "the optimizer has a name": """
        def update(nets, optimizers, batch):
            losses = []
            for i, net in enumerate(nets):
                optimizer = optimizers[i]
                optimizer.zero_grad()
                loss = net(batch).mean()
                loss.backward()
                optimizer.step()
                losses.append(loss)
            return losses
    """,
    "another function steps": """
        def descend(loss, optimizer):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

        def update(nets, optimizers, batch):
            losses = []
            for i, net in enumerate(nets):
                loss = net(batch).mean()
                descend(loss, optimizers[i])
                losses.append(loss)
            return losses
    """,
    "two of each": """
        def update(actors, critics, actor_optimizers, critic_optimizers, states, rewards):
            critic_losses, actor_losses = [], []
            for i in range(len(actors)):
                critic_optimizers[i].zero_grad()
                critic_loss = F.mse_loss(critics[i](states), rewards)
                critic_loss.backward()
                critic_optimizers[i].step()
                actor_optimizers[i].zero_grad()
                actor_loss = -critics[i](actors[i](states)).mean()
                actor_loss.backward()
                actor_optimizers[i].step()
                critic_losses.append(critic_loss)
                actor_losses.append(actor_loss)
            return critic_losses, actor_losses
    """,
}


@pytest.mark.parametrize("snippet", CLEAN.values(), ids=CLEAN)
def test_what_is_made_anew_for_some_learners(snippet: str) -> None:
    assert_clean(snippet)


FLAGGED = {
    "in every step": """
        def train(nets, optimizers, loader):
            losses = []
            for x, y in loader:
                for net, optimizer in zip(nets, optimizers):
                    optimizer.zero_grad()
                    loss = F.cross_entropy(net(x), y)
                    loss.backward()
                    optimizer.step()
                    losses.append(loss)  # !
            return losses
    """,
    "all steps of each": """
        def train(nets, optimizers, loader):
            losses = []
            for net, optimizer in zip(nets, optimizers):
                for x, y in loader:
                    optimizer.zero_grad()
                    loss = F.cross_entropy(net(x), y)
                    loss.backward()
                    optimizer.step()
                    losses.append(loss)  # !
            return losses
    """,
    "one optimizer": """
        def train(self, steps):
            losses = []
            for i in range(steps):
                self.optimizer.zero_grad()
                loss = F.cross_entropy(self.nets[i](self.x), self.y)
                loss.backward()
                self.optimizer.step()
                losses.append(loss)  # !
            return losses
    """,
    "in turn": """
        def train(net, optimizers, x, y, steps):
            losses = []
            for i in range(steps):
                optimizer = optimizers[i % 2]
                optimizer.zero_grad()
                loss = F.cross_entropy(net(x), y)
                loss.backward()
                optimizer.step()
                losses.append(loss)  # !
            return losses
    """,
    "one of each and one of all": """
        def train(self, steps):
            losses = []
            for i in range(steps):
                loss = F.cross_entropy(self.net(self.x), self.y)
                loss.backward()
                self.optimizers[i].step()
                self.optimizer.step()
                self.optimizer.zero_grad()
                losses.append(loss)  # !
            return losses
    """,
}


@pytest.mark.parametrize("snippet", FLAGGED.values(), ids=FLAGGED)
def test_what_every_step_adds_to(snippet: str) -> None:
    assert_flagged(snippet, "GG104")


BESIDE = """
    class Agents:
        def update(self, loader):
            for x, y in loader:
                for {resetting}:
                    {reset}.zero_grad()
                    STATE
                for {stepping}:
                    {net}(x).pow(2).mean().backward(){mark}
                    {step}.step()
"""
THE_SAME = [
    ("k in self.nets", "self.opts[k]", "k in self.nets", "self.nets[k]", "self.opts[k]"),
    ("i in range(len(self.nets))", "self.opts[i]", "i in range(len(self.nets))", "self.nets[i]", "self.opts[i]"),
    ("k in self.opts.keys()", "self.opts[k]", "k in self.nets", "self.nets[k]", "self.opts[k]"),
    ("opt in self.opts", "opt", "net, opt in zip(self.nets, self.opts)", "net", "opt"),
    ("opt in self.opts.values()", "opt", "k, net in self.nets.items()", "net", "self.opts[k]"),
    ("i, opt in enumerate(self.opts)", "opt", "i, net in enumerate(self.nets)", "net", "self.opts[i]"),
    ("agent in self.agents", "agent.opt", "agent in self.agents", "agent.net", "agent.opt"),
    ("agent in self.agents", "agent.opt", "i, agent in enumerate(self.agents)", "agent.net", "agent.opt"),
    ("k in ('a', 'b')", "self.opts[k]", "k in ('a', 'b')", "self.nets[k]", "self.opts[k]"),
    ("opt in self.opts[1:]", "opt", "opt in self.opts[1:]", "self.net", "opt"),
]
OTHERS = [
    ("opt in self.opts[1:]", "opt", "net, opt in zip(self.nets, self.opts)", "net", "opt"),
    ("k in ('a',)", "self.opts[k]", "k in ('a', 'b')", "self.nets[k]", "self.opts[k]"),
    ("k in [k for k in self.nets if k]", "self.opts[k]", "k in self.nets", "self.nets[k]", "self.opts[k]"),
    ("opt in self.others", "opt", "net, opt in zip(self.nets, self.opts)", "net", "opt"),
    ("agent in self.critics", "agent.opt", "agent in self.agents", "agent.net", "agent.opt"),
    ("k in self.nets", "self.others[k]", "k in self.nets", "self.nets[k]", "self.opts[k]"),
    ("k in self.nets", "self.opt", "step in range(8)", "self.net", "self.opt"),
    ("k in self.nets", "self.opts['a']", "k in self.nets", "self.nets['a']", "self.opts['a']"),
]


@pytest.mark.parametrize("given", THE_SAME)
def test_a_loop_beside_it_resets_each(given: tuple[str, ...]) -> None:
    assert_clean(beside(*given, mark=""), "GG201")


@pytest.mark.parametrize("given", OTHERS)
def test_a_loop_beside_it_resets_others(given: tuple[str, ...]) -> None:
    assert_flagged(beside(*given, mark="  # !"), "GG201")


def test_a_loop_before_all_batches_that_resets_each() -> None:
    snippet = beside(*THE_SAME[0], mark="  # !")
    batches, rest = "            for x, y in loader:\n", "    class Agents:\n        def update(self, loader):\n"
    reset = "            for k in self.nets:\n                self.opts[k].zero_grad()\n"
    inside = snippet.split(batches)[1].split("pass\n")[1]
    assert_flagged(f"\n{rest}{reset}{batches}{inside}", "GG201")


@pytest.mark.parametrize("state", ["if k == 'a': break", "if x is None: return"])
def test_a_loop_beside_it_that_does_not_reset_all(state: str) -> None:
    assert_flagged(beside(*THE_SAME[0], mark="  # !").replace("pass", state), "GG201")


def beside(resetting: str, reset: str, stepping: str, net: str, step: str, mark: str) -> str:
    filled = BESIDE.format(resetting=resetting, reset=reset, stepping=stepping, net=net, step=step, mark=mark)
    return filled.replace("STATE", "pass")


TOGETHER = """
    class Trainer:
        def __init__(self, nets):
            self.nets = nets
            self.optimizers = [torch.optim.Adam(net.parameters()) for net in nets]

        def reset(self):
            for optimizer in self.optimizers:
                optimizer.zero_grad()

        def train(self, loader):
            for x in loader:
                loss = sum(net(x).mean() for net in self.nets)
                loss.backward()  # !
                for opt in self.optimizers:
                    opt.step()
"""


@pytest.mark.parametrize("each", ["opt in self.optimizers", "i, opt in enumerate(self.optimizers)", "opt in (a, b)"])
def test_one_backward_and_a_step_of_each(each: str) -> None:
    snippet = TOGETHER.replace("opt in self.optimizers", each)
    assert_flagged(snippet, "GG201")
    (finding,) = findings(snippet, "GG201")
    assert "`opt.step()`" in finding.message
    assert finding.help == "call `opt.zero_grad()` after each `opt.step()`"


STEP, LOSS, PAD = "opt.step()", "                loss = ", "\n" + 16 * " "


@pytest.mark.parametrize(
    "edit",
    [
        (LOSS, f"{16 * ' '}self.reset()\n{LOSS}"),
        (LOSS, f"{16 * ' '}[opt.zero_grad() for opt in self.optimizers]\n{LOSS}"),
        (LOSS, f"{16 * ' '}for net in self.nets:{PAD}    net.zero_grad()\n{LOSS}"),
        (STEP, f"{STEP}{PAD}    opt.zero_grad()"),
        (STEP, f"{STEP}{PAD}for o in self.optimizers:{PAD}    o.zero_grad()"),
        (STEP, f"{STEP}{PAD}for p in self.parameters():{PAD}    p.grad = None"),
        (STEP, "opt.state_dict()"),
        (f"opt in self.optimizers:{PAD}    {STEP}", f"epoch in range(3):{PAD}    self.plan.step()"),
    ],
)
def test_a_step_of_each_that_is_reset(edit: tuple[str, str]) -> None:
    assert_clean(twin(TOGETHER, edit), "GG201")
