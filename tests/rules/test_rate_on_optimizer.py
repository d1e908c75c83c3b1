from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files, twin

CODE = "GG262"


def fit(made: str = "torch.optim.SGD(net.parameters(), lr=0.1)", sets: str = "opt.lr = rate  # !") -> str:
    return f"""
    def fit(net, batches, rate, schedule, opt_class):
        opt = {made}
        for epoch in range(90):
            {sets}
            for x, y in batches:
                opt.zero_grad()
                F.mse_loss(net(x), y).backward()
                opt.step()
    """


@pytest.mark.parametrize("made", ["torch.optim.SGD(net.parameters(), lr=0.1)", "torch.optim.AdamW(net.parameters())"])
def test_the_rate_of_each_epoch(made: str) -> None:
    assert_flagged(fit(made), CODE)


@pytest.mark.parametrize(
    "sets",
    [
        "opt.learning_rate = rate * 0.9**epoch  # !",
        "opt.momentum = 0.9 if epoch > 3 else 0.5  # !",
        "opt.weight_decay = 0.0  # !",
        "opt.lr = rate; print(opt.lr)  # !",
    ],
)
def test_other_options(sets: str) -> None:
    assert_flagged(fit(sets=sets), CODE)


@pytest.mark.parametrize(
    "sets",
    [
        "opt.param_groups[0]['lr'] = rate",
        "opt.lr = rate; opt.param_groups[0]['lr'] = opt.lr",
        "opt.lr = rate; schedule(opt.lr)",
        "schedule.lr = rate",
        "net.lr = rate",
        "opt.steps = epoch",
        "opt.lr == rate",
    ],
)
def test_what_is_carried_on_or_is_no_option(sets: str) -> None:
    assert_clean(twin(fit(sets=sets)), CODE)


@pytest.mark.parametrize(
    "made", ["opt_class(net.parameters())", "ScheduledAdam(net.parameters())", "schedule.optimizer", "net"]
)
def test_what_may_have_one(made: str) -> None:
    assert_clean(twin(fit(made)), CODE)


def test_an_optimizer_of_its_own() -> None:
    snippet = """
    class Warm(torch.optim.SGD):
        def step(self):
            for group in self.param_groups:
                group.update(lr=self.lr)
            super().step()

    def fit(net):
        opt = Warm(net.parameters(), lr=0.1)
        opt.lr = 0.01
        return opt
    """
    assert_clean(snippet, CODE)


def test_an_attribute_of_the_trainer() -> None:
    snippet = """
    class Trainer:
        def __init__(self, net):
            self.optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)

        def decay(self, epoch):
            self.optimizer.lr = 1e-3 * 0.1 ** (epoch // 30)  # !
    """
    assert_flagged(snippet, CODE)
    assert_clean(twin(snippet, ("torch.optim.Adam(", "NoamOpt(")), CODE)


def test_a_variable_of_the_script() -> None:
    snippet = """
    net, opt = None, None
    if args.kind == "sgd":
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
    else:
        opt = torch.optim.Adam(net.parameters())

    def train(epoch):
        opt.lr = 0.1 * 0.5**epoch  # !
        opt.zero_grad()
    """
    assert_flagged(snippet, CODE)
    assert_clean(twin(snippet, ("torch.optim.Adam(net.parameters())", "make(net)")), CODE)


def test_what_a_function_is_given(tmp_path: Path) -> None:
    adjust = """
    import torch

    def adjust(optimizer, epoch):
        optimizer.lr = 0.1 * 0.5 ** (epoch // 20)
    """
    main = """
    import torch
    from adjust import adjust

    def main(net):
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        for epoch in range(90):
            adjust(opt, epoch)
    """
    assert lines_in_files(tmp_path, {"adjust.py": adjust, "main.py": main}, CODE) == [("adjust.py", 5)]
    other = main.replace("torch.optim.SGD", "Noam")
    assert lines_in_files(tmp_path, {"adjust.py": adjust, "main.py": other}, CODE) == []


@pytest.mark.parametrize(
    "sets",
    [
        "opt.defaults['lr'] = rate * 0.9**epoch  # !",
        "opt.defaults['weight_decay'] *= 0.5  # !",
        "opt.defaults.update(lr=rate)  # !",
        "opt.defaults.update({'momentum': 0.5})  # !",
        "opt.defaults['lr'] = rate; print(opt.defaults['lr'])  # !",
    ],
)
def test_defaults(sets: str) -> None:
    assert_flagged(fit(sets=sets), CODE)


@pytest.mark.parametrize(
    "sets",
    [
        "opt.defaults['lr'] = rate; opt.param_groups[0]['lr'] = rate",
        "opt.defaults['lr'] = rate; opt.param_groups[0].update(lr=rate)",
        "opt.defaults['lr'] = rate; opt.param_groups[0].update({'lr': rate})",
        "opt.defaults['lr'] = rate; opt.add_param_group({'params': schedule})",
        "opt.defaults['lr'] = rate; schedule(opt.defaults['lr'])",
        "opt.defaults['lr'] = rate; schedule(**opt.defaults)",
        "opt.defaults['lr'] = rate; opt.param_groups[0].update(opt.defaults)",
        "opt.defaults['warmup'] = rate",
        "opt.defaults['lr'] == rate",
        "schedule.defaults['lr'] = rate",
        "net.defaults['lr'] = rate",
        "defaults = {}; defaults['lr'] = rate",
        "opt.defaults.update(schedule)",
        "opt.state['lr'] = rate",
    ],
)
def test_defaults_that_are_read_or_no_optimizers(sets: str) -> None:
    assert_clean(twin(fit(sets=sets)), CODE)


@pytest.mark.parametrize("made", ["opt_class(net.parameters())", "ScheduledAdam(net.parameters())"])
def test_defaults_of_what_may_read_them(made: str) -> None:
    assert_clean(twin(fit(made, "opt.defaults['lr'] = rate  # !")), CODE)


POLICY = """
    @dataclass
    class Policy:
        peak: float

        def apply(self, optimizer, step):
            optimizer.defaults["lr"] = self.peak * min(1, step / 100)  # !

    def main(net, steps):
        policy = Policy(0.1)
        opt = torch.optim.AdamW(net.parameters(), lr=0.1)
        for step in range(steps):
            policy.apply(opt, step)
"""


def test_what_a_method_is_given() -> None:
    assert_flagged(POLICY, CODE)


@pytest.mark.parametrize(
    "change",
    [
        ('optimizer.defaults["lr"] =', "optimizer.warm ="),
        ("torch.optim.AdamW(", "make("),
        ("policy = Policy(0.1)", "policy = net"),
        ("policy.apply(opt, step)", "policy.apply(net, step)"),
        ("policy.apply(opt, step)", "policy.apply(opt, step); policy.apply(net.opt, step)"),
        ("def main(net", "def read(group, opt):\n        group.update(opt.defaults)\n\n    def main(net"),
    ],
)
def test_a_method_that_is_given_something_else(change: tuple[str, str]) -> None:
    assert_clean(twin(POLICY, change), CODE)
