"""A graph from before the loop would need ``retain_graph=True``: which attributes and settings can bring one."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged

CODE = "GG101"

NOISING = """
        from schedules import prepared

        class Schedule:
            def __init__(self, steps, net):
                self.betas = torch.linspace(0.0001, 0.02, steps)
                self.alphas = {alphas}
                self.levels = steps // 2

            def cumulated(self):
                self.alphas = torch.cumprod(1 - self.betas, 0)
                return self.alphas

            def take(self, alphas):
                {take}

        class Noising:
            def __init__(self, schedule: Schedule):
                self.schedule = schedule

            def noise(self, x, t):
                alpha = self.schedule.alphas[t].view(-1, 1, 1, 1)
                noise = torch.randn(x.shape)
                return prepared(alpha) * x + torch.sqrt(1 - prepared(alpha)) * noise, noise

        class Diffusion:
            def __init__(self, net: nn.Module, steps, loader):
                self.net, self.loader = net, loader
                self.noising = Noising(Schedule(steps, net))
                self.optimizer = torch.optim.Adam(self.net.parameters())

            def train(self, schedule: Schedule):
                noising = Noising(schedule)
                for x, t in self.loader:
                    noised, noise = noising.noise(x, t)
                    loss = F.mse_loss(self.net(noised, t), noise)
                    self.optimizer.zero_grad()
                    loss.backward(retain_graph=True){mark}
                    self.optimizer.step()

        def outside(diffusion, x):
            {more}
"""


def noising(alphas: str = "self.cumulated()", take: str = "pass", more: str = "pass", mark: str = "") -> str:
    return NOISING.format(alphas=alphas, take=take, more=more, mark=mark)


@pytest.mark.parametrize("alphas", ["self.cumulated()", "torch.cumprod(1 - self.betas, 0)", "torch.rand(steps)"])
def test_data_that_an_object_is_made_with(alphas: str) -> None:
    assert_flagged(noising(alphas, mark="  # !"), CODE)


@pytest.mark.parametrize(
    ("alphas", "take", "more"),
    [
        ("net(self.betas)", "pass", "pass"),
        ("prepared(self.betas)", "pass", "pass"),
        ("torch.cumprod(1 - self.more, 0)", "pass", "pass"),
        ("self.cumulated()", "self.alphas = alphas", "pass"),
        ("self.cumulated()", "self.betas = alphas", "pass"),
        ("self.cumulated()", "pass", "diffusion.noising.schedule.alphas = diffusion.net(x)"),
        ("self.cumulated()", "pass", "diffusion.noising.schedule.alphas, _ = diffusion.net(x), 1"),
    ],
)
def test_what_something_may_put_a_graph_into(alphas: str, take: str, more: str) -> None:
    assert_clean(noising(alphas, take, more), CODE)


WEIGHTED = """
        class Trainer:
            def __init__(self, net, args, scale, optimizer):
                self.net, self.args, self.optimizer = net, args, optimizer
                self.weight = {weight}

            def train(self, loader, opt):
                for x, y in loader:
                    losses = {{}}
                    loss = {factor} * F.mse_loss(self.net(x), y)
                    losses["fit"] = loss
                    self.optimizer.zero_grad()
                    loss.backward(retain_graph=True){mark}
                    self.optimizer.step()
                    self.log(losses=losses, step=opt.step)
"""
FACTORS = ["opt.weight", "self.args.weight", "self.args.train.weight", "self.weight", "(1 - opt.weight) / opt.scale"]
WEIGHTS = ["args.weight", "args.loss.weight", "(args.weight + 1) * 0.5", "x if args.flat else 2", "args.n // scale"]


@pytest.mark.parametrize("factor", FACTORS)
def test_a_setting_brings_no_graph(factor: str) -> None:
    assert_flagged(WEIGHTED.format(weight="args.weight", factor=factor, mark="  # !"), CODE)


@pytest.mark.parametrize("weight", [weight for weight in WEIGHTS if not weight.startswith("x")])
def test_an_attribute_that_is_a_setting(weight: str) -> None:
    assert_flagged(WEIGHTED.format(weight=weight, factor="self.weight", mark="  # !"), CODE)


@pytest.mark.parametrize(
    "weight", ["scale", "x if args.flat else 2", "args.weight * scale", "net(args.start)", "scale.value"]
)
def test_an_attribute_that_may_be_more(weight: str) -> None:
    assert_clean(WEIGHTED.format(weight=weight, factor="self.weight", mark=""), CODE)


ADJOINT = """
        from solvers import Adjoint

        class Flow(nn.Module):
            def __init__(self, func, tolerance=1e-3):
                super().__init__()
                self.func, self.tolerance = func, tolerance

            def forward(self, z, t):
                out = Adjoint.apply(z, t, self.func, self.tolerance)
                return out

            def restart(self, x):
                {restart}

        flow = Flow(nn.Linear(2, 2))
        optimizer = torch.optim.Adam(flow.parameters())
        for step in range(100):
            x, t = torch.randn(8, 2), torch.rand(8)
            loss = F.mse_loss(flow(x, t), x)
            optimizer.zero_grad()
            loss.backward(retain_graph=True){mark}
            optimizer.step()
"""


def test_a_module_that_computes_by_a_function_of_its_own() -> None:
    assert_flagged(ADJOINT.format(restart="pass", mark="  # !"), CODE)
    for restart in ("self.func = self.func(x)", "self.func = x", "self.tolerance = self.func(x).norm()"):
        assert_clean(ADJOINT.format(restart=restart, mark=""), CODE)


META = """
        def train(net, criterion, optimizer, loader, opt):
            for x, y in loader:
                fast = None
                losses = torch.zeros(opt.inner)
                for i in range(opt.inner):
                    fast = net.inner_step(x[i], y[i], opt.task, fast, criterion)
                    losses[i] = net.outer_loss(x, y, fast)
                optimizer.zero_grad()
                loss = torch.mean(losses)
                loss.backward(retain_graph=True){mark}
                if opt.again:
                    loss = {again}
                    loss.backward()
                optimizer.step()
"""


def test_a_second_loss_that_is_computed_anew() -> None:
    assert_flagged(META.format(again="net.outer_loss(x, y)", mark="  # !"), CODE)
    for again in ("net.outer_loss(x, y, fast)", "torch.mean(losses) * 2", "net.penalty()", "net.left"):
        assert_clean(META.format(again=again, mark=""), CODE)
