"""An object that has a model is none of the optimizers, whatever its name says."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged

METRICS = """
        class Metrics:
            def __init__(self):
                self.loss, self.variance = 0.0, 0.0

            def add(self, loss, logvar):
                self.loss += loss.item()
                self.variance += {added}

        class Training:
            def __init__(self, {owner}):
                self.{owner} = {owner}

            def step(self, metrics, x):
                self.{owner}.optimizer.zero_grad()
                decoded, mu, logvar, z = self.{owner}.{model}(x)
                loss, fit, divergence = self.{owner}.{model}.loss_function(decoded, x, mu, logvar)
                loss.backward()
                self.{owner}.optimizer.step()
                metrics.add(loss, logvar){mark}

            def train(self, metrics, loader):
                for x in loader:
                    self.step(metrics, x)

        class Solver:
            def run(self, loader):
                training = Training(self)
                for epoch in range(9):
                    metrics = Metrics()
                    training.train(metrics, loader)
                    print(metrics.variance)
"""


@pytest.mark.parametrize("owner", ["solver", "system"])
@pytest.mark.parametrize("model", ["model", "net"])
def test_what_the_model_of_a_solver_gives_has_a_graph(owner: str, model: str) -> None:
    added = "torch.mean(torch.exp(logvar))"
    assert_flagged(METRICS.format(owner=owner, model=model, added=added, mark="  # !"), "GG107")


@pytest.mark.parametrize("added", ["torch.mean(torch.exp(logvar)).item()", "logvar.exp().mean().detach()", "1"])
def test_a_number_of_it_has_none(added: str) -> None:
    assert_clean(METRICS.format(owner="solver", model="model", added=added, mark=""))


NOTHING_RESETS = """
        def train(net, {name}, loader):
            for x, y in loader:
                loss = F.mse_loss(net(x), y)
                loss.backward(){mark}
                {name}.step()
"""


def test_what_steps_and_has_no_model_is_an_optimizer() -> None:
    for name in ("solver", "optimizer", "opt"):
        assert_flagged(NOTHING_RESETS.format(name=name, mark="  # !"), "GG201")
