from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files

CODE = "GG235"

TRAINING = """
    def clip(model, bound):
        for p in model.parameters():
            p.data.clamp_(-bound, bound)

    def project(model):
        for layer in model.modules():
            if isinstance(layer, nn.Linear):
                layer.weight.data.clamp_(min=0.0)

    def replace(model):
        for p in model.parameters():
            p.data = p.data.clamp(min=0.0)

    def watched(model):
        with torch.no_grad():
            for p in model.parameters():
                p.clamp_(min=0.0)

    def clip_gradients(model):
        for p in model.parameters():
            p.grad.data.clamp_(-1, 1)

    def biases(model):
        for name, p in model.named_parameters():
            if "bias" in name:
                p.data.zero_()

    class Net(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(n, n), nn.Tanh(), nn.Linear(n, 1))

        def forward(self, x):
            return self.body(x)

        def shrink(self):
            for p in self.parameters():
                p.data *= 0.99

    def train(loader, criterion, other):
        net = Net(8)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        clip(net, 1.0)
        for i, (x, y) in enumerate(loader):
            {before}
            loss = criterion(net(x), y)
            optimizer.zero_grad()
            {between}
            loss.backward()
            {behind}
            optimizer.step()
            {after}
"""


def training(between: str = "pass", *, before: str = "pass", behind: str = "pass", after: str = "pass") -> str:
    return TRAINING.format(before=before, between=between, behind=behind, after=after)


EACH = "for p in net.parameters(): "


@pytest.mark.parametrize(
    "snippet",
    [
        training("clip(net, 0.1)  # !"),
        training("project(net)  # !"),
        training("project(model=net)  # !"),
        training("net.shrink()  # !"),
        training("if i % 10 == 0: project(net)  # !"),
        training(EACH + "p.data.mul_(0.9)  # !"),
        training("for name, p in net.named_parameters(): p.data.div_(p.data.norm())  # !"),
        training("for p in list(net.parameters()): p.data -= 0.01 * p.data  # !"),
        training("with torch.no_grad(): clip(net, 0.1)  # !"),
        """
        class Fit:
            def __init__(self):
                self.net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
                self.optimizer = torch.optim.Adam(self.net.parameters())

            def positive(self):
                for p in self.net.parameters():
                    p.data.clamp_(min=0)

            def loss(self, x):
                return self.net(x).mean()

            def step(self, x):
                loss = self.loss(x)
                self.positive()  # !
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
        """,
    ],
)
def test_weights_that_change_between(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "snippet",
    [
        training(before="clip(net, 0.1)"),
        training(behind="project(net)"),
        training(after="net.shrink()"),
        training("clip(other, 0.1)"),
        training("for p in other.parameters(): p.data.mul_(0.9)"),
        training("replace(net)"),  # the backward has the old ones
        training("watched(net)"),  # which raises
        training("clip_gradients(net)"),
        training("biases(net)"),  # no backward computes with them
        training(EACH + "p.grad = None"),
        training(EACH + "total = p.data.norm()"),
        training(EACH + "p.data.mul_(0.9)", before=EACH + "p.data.mul_(1.1)"),  # and put back
        training("net.shrink(); loss = criterion(net(x), y)"),  # of the weights as they are
        training("loss = other(x).mean(); project(net)"),  # which this backward does not go through
        training("with torch.no_grad(): seen = net(x)", behind="project(net)"),
        """
        def critic(net, loader):
            net = nn.Linear(4, 1)
            optimizer = torch.optim.RMSprop(net.parameters())
            for x in loader:  # its only layer has none before it that would need its weight
                loss = net(x).mean()
                for p in net.parameters():
                    p.data.clamp_(-0.01, 0.01)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        """,
        """
        def critic(D, G, loader, opt_d, opt_g):
            for x in loader:
                fake = G(torch.randn(8, 4))
                opt_d.zero_grad()
                (D(fake.detach()) - D(x)).mean().backward()
                opt_d.step()
                for p in D.parameters():
                    p.data.clamp_(-0.01, 0.01)
                opt_g.zero_grad()
                (-D(fake)).mean().backward()
                opt_g.step()
        """,
    ],
)
def test_look_alikes(snippet: str) -> None:
    assert_clean(snippet, CODE)


def test_a_projection_of_another_file(tmp_path: Path) -> None:
    files = {
        "limits.py": """
            import torch.nn as nn

            def positive(module):
                for layer in module.modules():
                    if isinstance(layer, (nn.Linear, nn.Conv2d)):
                        layer.weight.data.clamp_(min=0)
        """,
        "main.py": """
            import torch
            from limits import positive

            def fit(net, loader):
                optimizer = torch.optim.Adam(net.parameters())
                for x in loader:
                    loss = net(x).mean()
                    positive(net)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
        """,
    }
    assert lines_in_files(tmp_path, files, CODE) == [("main.py", 9)]
