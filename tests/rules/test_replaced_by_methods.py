"""Objects that make their network anew, and go on with the optimizer of the first one."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged

CODE = "GG210"


def learner(
    restart: str,
    *,
    made: str = "self.opt = torch.optim.Adam(self.net.parameters(), lr=lr)",
    lazy: str = "pass",
    after: str = "pass",
    outside: str = "pass",
    base: str = "",
) -> str:
    return f"""
        from functools import cached_property

        def classifier():
            return nn.Sequential(nn.Linear(10, 48), nn.ReLU(), nn.Linear(48, 3))

        class Learner{base}:
            def __init__(self, lr=5e-3):
                self.lr = lr
                self.net = classifier()
                {made}

            {lazy}

            def restart(self):
                {restart}
                {after}

            def fit(self, x, y, passes):
                for _ in range(passes):
                    loss = F.cross_entropy(self.net(x), y)
                    self.opt.zero_grad()
                    loss.backward()
                    self.opt.step()

        def main(pools):
            learner = Learner()
            for x, y in pools:
                learner.restart()
                {outside}
                learner.fit(x, y, 100)
    """


LAZY = """@cached_property
            def opt(self):
                return torch.optim.Adam(self.net.parameters(), lr=self.lr)"""


@pytest.mark.parametrize(
    "code",
    [
        learner("self.net = classifier()  # !"),
        learner("self.net = nn.Linear(10, 3)  # !"),
        learner("self.net = nn.Linear(10, 3).to(self.device)  # !"),
        learner("self.net[2] = nn.Linear(48, 5)  # !"),
        learner("self.net = classifier()  # !", after="self.lr = 0.1"),
        learner("self.net = classifier()  # !", made="pass", lazy=LAZY),
    ],
)
def test_the_optimizer_has_the_parameters_of_the_first_one(code: str) -> None:
    assert_flagged(code, CODE)


@pytest.mark.parametrize(
    "code",
    [
        learner("self.net = classifier()", after="self.opt = torch.optim.Adam(self.net.parameters(), lr=self.lr)"),
        learner("self.net = classifier()", after="self.opt.add_param_group({'params': self.net.parameters()})"),
        learner("self.net = classifier()", after="self.opt = None"),
        learner("self.net = classifier()", outside="learner.opt = torch.optim.Adam(learner.net.parameters())"),
        learner("self.net = classifier()", outside="learner.opt.add_param_group({'params': learner.net.parameters()})"),
        learner("self.net = classifier()", made="pass", lazy=LAZY, after="self.__dict__.pop('opt', None)"),
        learner("self.net = classifier()", made="pass", lazy=LAZY, after="del self.opt"),
        learner("self.net = classifier()", made="pass", lazy=LAZY.replace("cached_property", "property")),
        learner("self.net = torch.compile(self.net)"),
        learner("self.net = nn.DataParallel(self.net)"),
        learner("self.net = self.net.to('cuda')"),
        learner("self.net.load_state_dict(self.start)"),
        learner("self.other = classifier()"),
        learner("self.best = nn.Linear(10, 3)"),
        learner("if self.net is None: self.net = classifier()"),
        learner("self.net.apply(initialize)"),
        learner(
            "self.net = classifier()",
            made="self.restart(); self.opt = torch.optim.Adam(self.net.parameters(), lr=lr)",
        ),
        learner("self.net[1] = nn.Identity()"),
    ],
)
def test_what_goes_on_is_right(code: str) -> None:
    assert_clean(code, CODE)


def test_an_optimizer_that_does_not_step() -> None:
    code = learner("self.net = classifier()").replace("self.opt.step()", "pass")
    assert_clean(code, CODE)


def test_another_class_makes_the_optimizer_of_what_it_is_derived_from() -> None:
    base = """
        class Base:
            def prepare(self):
                self.opt = torch.optim.Adam(self.net.parameters())
    """
    assert_clean(base + learner("self.net = classifier()", base="(Base)"), CODE)
