"""GG301 and GG103 where the model is one that has nothing to train: its constructor froze it, or what it wraps is."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged

FEATURES = """
    from torchvision import models

    class Features(nn.Module):
        def __init__(self, {parameters}):
            super().__init__()
            layers = models.vgg16(pretrained=True).features
            self.low, self.high = nn.Sequential(*layers[:9]), nn.Sequential(*layers[9:23])
            {freezing}

        def forward(self, x):
            low = self.low(x)
            return low, self.high(low)

    class Distance(nn.Module):
        def __init__(self, kind="vgg", scale=1.0):
            super().__init__()
            self.scale = scale
            self.shift = torch.Tensor([0.48, 0.45, 0.40]).view(1, 3, 1, 1)
            {wrapping}

        def forward(self, a, b):
            pairs = zip(self.net(a + self.shift), self.net(b + self.shift))
            return sum(((x - y) ** 2).mean() for x, y in pairs) * self.scale
"""
DIRECT = """
    def score(loader):
        net = {made}
        net.eval()
        for x in loader:
            print(net(x)[0].mean().item()){mark}
"""
WRAPPED = """
    def distance(a, b, net):
        return net(a * 2 - 1, b * 2 - 1)

    def score(loader):
        metric = Distance().to("cuda")
        metric.eval()
        for a, b in loader:
            print(metric(a, b).item()){mark}

    def score_by(loader):
        metric = Distance().to("cuda")
        metric.eval()
        for a, b in loader:
            print(distance(a, b, metric).item()){mark}
"""
IF_NOT = """if not requires_grad:
                for param in self.parameters():
                    param.requires_grad = False"""
IF = IF_NOT.replace("if not requires_grad", "if freeze")
ONE = "self.net = Features(requires_grad=False)"
SEVERAL = """if kind == 'vgg':
                self.net = Features(requires_grad=False)
            else:
                self.net = Other()"""

FROZEN = [
    ("requires_grad=False, pretrained=True", IF_NOT, "Features()"),
    ("requires_grad=True", IF_NOT, "Features(requires_grad=False)"),
    ("requires_grad=True", IF_NOT, "Features(False)"),
    ("freeze=True", IF, "Features()"),
    ("freeze=False", IF, "Features(freeze=True).cuda()"),
    ("freeze=True", "if freeze:\n                self.requires_grad_(False)", "Features().to('cpu').eval()"),
    ("requires_grad=False", "self.requires_grad_(requires_grad)", "Features()"),
]
LEARNING = [
    ("requires_grad=True", IF_NOT, "Features()"),
    ("requires_grad=False", IF_NOT, "Features(requires_grad=True)"),
    ("requires_grad=False", IF_NOT, "Features(True).eval()"),
    ("requires_grad", IF_NOT, "Features(options.learn)"),
    ("requires_grad=False", IF_NOT, "Features(requires_grad=options.learn)"),
    ("freeze=False", IF, "Features()"),
    ("freeze=True", IF.replace("if freeze", "if not freeze"), "Features()"),
    ("freeze=True", IF.replace("self.parameters", "self.low.parameters"), "Features()"),
    ("requires_grad=False", "self.pretrained = requires_grad", "Features()"),
]
WRAPPING = [
    ONE,
    "self.net = Features()",
    "self.net = Features(requires_grad=False).cuda()",
    "self.net, self.pool = Features(), nn.MaxPool2d(2)",
    SEVERAL,
]
LEARNING_WRAPPERS = [
    "self.net = Features(requires_grad=True)",
    "self.net, self.heads = Features(), nn.Linear(8, 1)",
    "self.net, self.weight = Features(), nn.Parameter(torch.ones(3))",
    "self.net = Features(); self.register_parameter('weight', nn.Parameter(torch.ones(3)))",
    "self.net = nn.Sequential(Features(), nn.Linear(8, 1))",
    "self.net, self.other = Features(), kind",
]


def code(parameters: str, freezing: str, wrapping: str = ONE) -> str:
    return FEATURES.format(parameters=parameters, freezing=freezing, wrapping=wrapping)


@pytest.mark.parametrize(("parameters", "freezing", "made"), FROZEN)
def test_frozen_by_its_constructor(parameters: str, freezing: str, made: str) -> None:
    assert_clean(code(parameters, freezing) + DIRECT.format(made=made, mark=""))


@pytest.mark.parametrize(("parameters", "freezing", "made"), LEARNING)
def test_that_does_not_freeze_itself(parameters: str, freezing: str, made: str) -> None:
    assert_flagged(code(parameters, freezing) + DIRECT.format(made=made, mark="  # !"), "GG301")


@pytest.mark.parametrize("wrapping", WRAPPING)
def test_wrapped_in_another(wrapping: str) -> None:
    assert_clean(code("requires_grad=False", IF_NOT, wrapping) + WRAPPED.format(mark=""))


@pytest.mark.parametrize("wrapping", LEARNING_WRAPPERS)
def test_wrapped_in_one_that_learns(wrapping: str) -> None:
    assert_flagged(
        code("requires_grad=False", IF_NOT, wrapping.replace("kind", "build(kind)")) + WRAPPED.format(mark="  # !"),
        "GG301",
    )


def test_what_goes_into_a_frozen_module_may_still_have_a_graph() -> None:
    training = """
    def train(net, loader, optimizer):
        criterion, total = Distance(), 0
        for x, y in loader:
            loss = criterion(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss  # !
        return total.item()
    """
    assert_flagged(code("requires_grad=False", IF_NOT) + training, "GG103")
