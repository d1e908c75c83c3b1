"""Which part of what is handed on in a dict, a tuple or by ``map`` has a graph, and which has none."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged

ROLLOUT = """
        class Statistics(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("mean", torch.zeros(()))

            def restore(self, x):
                return x + self.mean

            def update(self, x):
                self.mean.mul_(0.9).add_(x.mean(), alpha=0.1)

        class Learner:
            def __init__(self):
                self.critic, self.statistics = nn.Linear(4, 1), Statistics()
                self.optimizer = torch.optim.Adam(self.critic.parameters())

            def collect(self, env):
                rows = []
                for _ in range(5):
                    seen = env.observe()
                    rows.append((seen, self.statistics.restore(self.critic(seen)), torch.randn(8)))
                {batch}
                {after}
                return batch

            def learn(self, batch):
                self.statistics.update({given}){mark}
                loss = (self.critic(batch["seen"]) - batch["values"].detach()).square().mean()
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()

        def train(env, steps):
            learner = Learner()
            for _ in range(steps):
                learner.learn(learner.collect(env))
"""
BATCHES = [
    'batch = dict(zip(("seen", "values", "rewards"), map(torch.stack, zip(*rows))))',
    'names = ["seen", "values", "rewards"]\n                batch = dict(zip(names, map(torch.stack, zip(*rows))))',
    "seen, values, rewards = map(torch.stack, zip(*rows))\n"
    '                batch = {"seen": seen, "values": values, "rewards": rewards}',
    "seen, values, rewards = zip(*rows)\n                batch = dict(\n"
    "                    seen=torch.stack(seen), values=torch.stack(values), rewards=torch.stack(rewards)\n"
    "                )",
]
RETURNS = 'batch["returns"] = batch["rewards"] + batch["values"]'


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize(("after", "given"), [("pass", 'batch["values"]'), (RETURNS, 'batch["returns"]')])
def test_the_part_with_a_graph_is_kept(batch: str, after: str, given: str) -> None:
    assert_flagged(ROLLOUT.format(batch=batch, after=after, given=given, mark="  # !"), "GG107")


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize(
    ("after", "given"),
    [
        ("pass", 'batch["rewards"]'),
        ("pass", 'batch["values"].detach()'),
        (RETURNS, 'batch["seen"]'),
        (RETURNS + '.detach(); batch["values"] = batch["values"].detach()', 'batch["returns"]'),
    ],
)
def test_the_parts_without_a_graph_are_kept(batch: str, after: str, given: str) -> None:
    assert_clean(ROLLOUT.format(batch=batch, after=after, given=given, mark=""))


MAPPED = """
        def train(net, loader, optimizer):
            kept = []
            for pair in loader:
                MAPPED
                loss = (one - other).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                kept.append(KEPT)  # !
"""


@pytest.mark.parametrize("kept", ["one.mean()", "(one - other).norm()", "{'loss': loss, 'one': float(one.mean())}"])
def test_what_a_module_gives_for_each_element(kept: str) -> None:
    assert_flagged(MAPPED.replace("MAPPED", "one, other = map(net, pair)").replace("KEPT", kept), "GG104")


@pytest.mark.parametrize(
    ("mapped", "kept"),
    [
        ("one, other = map(net, pair)", "one.detach().mean()"),
        ("one, other = map(net, pair)", "len(one)"),
        ("one, other = pair; a, b = map(net, pair); one = a", "other.mean()"),
        ("one, other = map(torch.detach, map(net, pair)); other = other * net.weight.sum()", "one"),
    ],
)
def test_what_a_module_gives_and_is_cut(mapped: str, kept: str) -> None:
    assert_clean(MAPPED.replace("MAPPED", mapped).replace("KEPT", kept).replace("  # !", ""), "GG104")


SPIKES = """
        class Spike(torch.autograd.Function):
            @staticmethod
            def forward(ctx, v):
                ctx.save_for_backward(v)
                return RETURNED

            @staticmethod
            def backward(ctx, gradient):
                (v,) = ctx.saved_tensors
                return gradient / (10 * v.abs() + 1) ** 2

        class Neurons(nn.Module):
            def __init__(self):
                super().__init__()
                self.inputs = nn.Linear(4, 4)
                self.register_buffer("threshold", torch.ones(4))

            def forward(self, x):
                spikes = Spike.apply(GIVEN)
                self.follow(spikes.mean(0))  # !
                return spikes

            def follow(self, rate):
                self.threshold = 0.9 * self.threshold + 0.1 * rate

        def train(loader):
            net = Neurons()
            optimizer = torch.optim.Adam(net.parameters())
            for x, y in loader:
                loss = F.mse_loss(net(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
"""
INPUTS = "self.inputs(x) - self.threshold.detach()"


@pytest.mark.parametrize("returned", ["(v > 0).float()", "v.detach().clone()", "v.sign()"])
def test_what_a_function_of_ones_own_gives_has_a_graph(returned: str) -> None:
    assert_flagged(SPIKES.replace("RETURNED", returned).replace("GIVEN", INPUTS), "GG107")


@pytest.mark.parametrize(
    ("returned", "given"),
    [
        ("(v > 0).float()", "x - self.threshold.detach()"),
        ("(v > 0).float()", "self.inputs(x).detach()"),
    ],
)
def test_what_a_function_of_ones_own_gives_of_data_has_none(returned: str, given: str) -> None:
    assert_clean(SPIKES.replace("RETURNED", returned).replace("GIVEN", given).replace("  # !", ""), "GG107")
