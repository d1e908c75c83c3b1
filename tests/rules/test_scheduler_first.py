from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files, twin

CODE = "GG261"


def fit(
    made: str = "MultiStepLR(optimizer, [30, 60])",
    before: str = "pass",
    first: str = "scheduler.step()  # !",
    last: str = "pass",
) -> str:
    return f"""
    from torch.optim import lr_scheduler
    from torch.optim.lr_scheduler import MultiStepLR, StepLR

    def fit(net, loader, epochs, epoch_0, schedules):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        scheduler = {made}
        {before}
        for epoch in range(epochs):
            {first}
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(net(x), y).backward()
                optimizer.step()
            {last}
    """


@pytest.mark.parametrize(
    "made",
    [
        "StepLR(optimizer, step_size=10)",
        "lr_scheduler.ExponentialLR(optimizer, gamma=0.9)",
        "torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)",
        "lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.9**epoch)",
    ],
)
def test_each_epoch_begins_with_it(made: str) -> None:
    assert_flagged(fit(made), CODE)
    assert_clean(twin(fit(made, first="pass", last="scheduler.step()")), CODE)


@pytest.mark.parametrize(
    "first",
    ["if scheduler: scheduler.step()  # !", "if scheduler is not None: scheduler.step()  # !"],
)
def test_it_is_asked_whether_there_is_one(first: str) -> None:
    assert_flagged(fit(first=first), CODE)


@pytest.mark.parametrize(
    "first",
    [
        "scheduler.step(epoch)",
        "scheduler.step(epoch=epoch)",
        "if epoch > 0: scheduler.step()",
        "if epoch: scheduler.step()",
        "print(scheduler.get_last_lr())",
    ],
)
def test_what_says_which_rate_is_meant(first: str) -> None:
    assert_clean(twin(fit(first=first)), CODE)


@pytest.mark.parametrize(
    "made",
    [
        "StepLR(optimizer, 10, last_epoch=epoch_0)",
        "schedules.warm_up(optimizer)",
        "schedules[0]",
    ],
)
def test_what_goes_on_or_is_not_known(made: str) -> None:
    assert_clean(twin(fit(made)), CODE)


@pytest.mark.parametrize(
    "before",
    [
        "optimizer.step()",
        "net(loader.dataset[0][0]).sum().backward(); optimizer.step()",
        "if torch.__version__ < '1.1': raise RuntimeError",
    ],
)
def test_what_comes_before(before: str) -> None:
    assert_clean(twin(fit(before=before)), CODE)


def test_it_steps_in_two_places() -> None:
    assert_clean(twin(fit(last="scheduler.step()")), CODE)


def test_each_batch_begins_with_it() -> None:
    snippet = """
    def fit(net, batches):
        opt = torch.optim.Adam(net.parameters())
        sched = torch.optim.lr_scheduler.LinearLR(opt, total_iters=100)
        while True:
            for x, y in batches:
                sched.step()  # !
                opt.zero_grad()
                F.mse_loss(net(x), y).backward()
                opt.step()
    """
    assert_flagged(snippet, CODE)
    assert_clean(twin(snippet, ("sched.step()", "pass"), ("opt.step()", "opt.step(); sched.step()")), CODE)


def test_it_comes_after_the_first_part_of_the_training() -> None:
    snippet = """
    def fit(net, head, batches):
        opt = torch.optim.Adam(net.parameters())
        sched = torch.optim.lr_scheduler.StepLR(opt, 10)
        for epoch in range(100):
            train(net, opt, batches)
            sched.step()
            for x, y in batches:
                F.mse_loss(head(x), y).backward()

    def train(net, opt, batches):
        for x, y in batches:
            opt.zero_grad()
            F.mse_loss(net(x), y).backward()
            opt.step()
    """
    assert_clean(snippet, CODE)


def test_a_function_trains() -> None:
    snippet = """
    def train(net, opt, batches):
        for x, y in batches:
            opt.zero_grad()
            F.mse_loss(net(x), y).backward()
            opt.step()

    def fit(net, batches):
        opt = torch.optim.Adam(net.parameters())
        sched = torch.optim.lr_scheduler.StepLR(opt, 10)
        for epoch in range(100):
            sched.step()  # !
            train(net, opt, batches)
            validate(net, batches)
    """
    assert_flagged(snippet, CODE)
    assert_clean(twin(snippet, ("            train(net, opt, batches)", "            report(net)")), CODE)


def test_an_object_makes_it() -> None:
    snippet = """
    class Trainer:
        def __init__(self, net):
            self.net = net
            self.optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 30)

        def train_epoch(self, loader):
            self.scheduler.step()  # !
            self.net.train()
            for x, y in loader:
                self.optimizer.zero_grad()
                F.cross_entropy(self.net(x), y).backward()
                self.optimizer.step()
    """
    assert_flagged(snippet, CODE)
    own = twin(snippet, ("torch.optim.lr_scheduler.StepLR(self.optimizer, 30)", "NoamSchedule(self.optimizer, 30)"))
    assert_clean(own, CODE)


def test_who_calls_it_makes_it(tmp_path: Path) -> None:
    loop = """
    import torch.nn.functional as F

    def run(net, optimizer, lr_scheduler, loader):
        while True:
            lr_scheduler.step()
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(net(x), y).backward()
                optimizer.step()
    """
    main = """
    import torch
    from loop import run

    def main(net, loader):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        plan = torch.optim.lr_scheduler.StepLR(optimizer, 30)
        run(net, optimizer, plan, loader)
    """
    other = main.replace("torch.optim.lr_scheduler.StepLR", "WarmUp")
    assert lines_in_files(tmp_path, {"loop.py": loop, "main.py": main}, CODE) == [("loop.py", 6)]
    assert lines_in_files(tmp_path, {"loop.py": loop, "main.py": other}, CODE) == []


def test_a_schedule_of_noise() -> None:
    snippet = """
    def fit(net, noise_scheduler, loader):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for x, y in loader:
            noise_scheduler.step()
            optimizer.zero_grad()
            F.mse_loss(net(x), y).backward()
            optimizer.step()
    """
    assert_clean(snippet, CODE)


def test_the_environment_steps() -> None:
    snippet = """
    def act(policy, env):
        optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
        for _ in range(1000):
            env.step()
            optimizer.zero_grad()
            policy(env.state).sum().backward()
            optimizer.step()
    """
    assert_clean(snippet, CODE)
