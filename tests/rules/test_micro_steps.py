"""Schedulers that are laid out for updates, and step with each of the batches that are accumulated."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files, twin

CODE = "GG231"

SCRIPT = """
    from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, LinearLR, OneCycleLR
    from transformers import get_linear_schedule_with_warmup

    def fit(net, loader, args):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        updates = len(loader) * args.epochs // args.accumulate
        scheduler = CosineAnnealingLR(optimizer, T_max=updates)
        for epoch in range(args.epochs):
            for i, (x, y) in enumerate(loader):
                (F.cross_entropy(net(x), y) / args.accumulate).backward()
                if (i + 1) % args.accumulate == 0:
                    optimizer.step()
                    optimizer.zero_grad()
                scheduler.step()  # !
"""
ENGINE = """
    @dataclass
    class Recipe:
        steps: int = 240
        accumulate: int = 4

        @property
        def updates(self):
            return max(1, self.steps // self.accumulate)

    class Engine:
        def __init__(self, recipe, net):
            self.recipe, self.net, self.micro = recipe, net, 0
            self.optimizer = torch.optim.AdamW(net.parameters())
            self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, self.factor)

        def factor(self, update):
            return 1 - min(update / self.recipe.updates, 1.0)

        def micro_step(self, x, y):
            F.cross_entropy(self.net(x), y).backward()
            self.micro += 1
            if self.micro % self.recipe.accumulate == 0:
                self.optimizer.step()
                self.optimizer.zero_grad()
            self.scheduler.step()  # !
"""
MADE = "CosineAnnealingLR(optimizer, T_max=updates)"
STEP = "                scheduler.step()"


@pytest.mark.parametrize(
    "change",
    [
        (MADE, MADE),
        (MADE, "LinearLR(optimizer, 1.0, 0.0, total_iters=len(loader) // args.accumulate)"),
        (MADE, "OneCycleLR(optimizer, 0.1, total_steps=updates)"),
        (MADE, "OneCycleLR(optimizer, 0.1, epochs=9, steps_per_epoch=math.ceil(len(loader) / args.accumulate))"),
        (MADE, "get_linear_schedule_with_warmup(optimizer, 100, updates)"),
        (MADE, "LambdaLR(optimizer, lambda step: max(0.0, 1 - step / updates))"),
        ("% args.accumulate == 0:", "% args.accumulate == 0 or i + 1 == len(loader):"),
        ("args.accumulate", "accumulate"),
    ],
)
def test_a_script(change: tuple[str, str]) -> None:
    assert_flagged(SCRIPT.replace(*change), CODE)


@pytest.mark.parametrize(
    "change",
    [
        (STEP, "                    scheduler.step()"),
        (STEP, "                if (i + 1) % args.accumulate == 0:\n                    scheduler.step()"),
        (STEP, "                scheduler.step((i + 1) // args.accumulate)"),
        (MADE, "CosineAnnealingLR(optimizer, T_max=len(loader) * args.epochs)"),
        (MADE, "CosineAnnealingLR(optimizer, T_max=updates * args.accumulate)"),
        (MADE, "OneCycleLR(optimizer, args.lr / args.accumulate, total_steps=len(loader) * args.epochs)"),
        (MADE, "LambdaLR(optimizer, lambda i: max(0.0, 1 - i // args.accumulate / updates))"),
        (MADE, "LambdaLR(optimizer, lambda i: 1 / (1 + i / args.accumulate))"),
        (MADE, "CosineAnnealingLR(other, T_max=updates)"),
        (MADE, "make_scheduler(optimizer, updates)"),
        (MADE, "CosineAnnealingLR(optimizer, T_max=updates)\n        scheduler = args.accelerator.prepare(scheduler)"),
        ("// args.accumulate", "// args.world_size"),
        ("% args.accumulate == 0:", "% args.log_every == 0:"),
        ("                    optimizer.step()\n", "                    print(i)\n"),
        ("if (i + 1) % args.accumulate == 0:", "if args.accumulate:"),
    ],
)
def test_schedulers_that_count_as_they_step(change: tuple[str, str]) -> None:
    old, new = change
    snippet = twin(SCRIPT)
    assert old in snippet
    changed = snippet.replace(old, new)
    if "updates * args" in new:
        changed = changed.replace("updates = len(loader) * args.epochs // args.accumulate", "updates = args.updates")
    assert_clean(changed, CODE)


@pytest.mark.parametrize(
    "change",
    [
        ("self.factor)", "self.factor)"),
        ("self.factor)", "lambda update: 1 - update / recipe.updates)"),
        ("LambdaLR(self.optimizer, self.factor)", "PolynomialLR(self.optimizer, recipe.updates)"),
    ],
)
def test_an_object(change: tuple[str, str]) -> None:
    assert_flagged(ENGINE.replace(*change), CODE)


@pytest.mark.parametrize(
    "change",
    [
        ("            self.scheduler.step()", "                self.scheduler.step()"),
        ("self.steps // self.accumulate", "self.steps"),
        ("update / self.recipe.updates", "update // self.recipe.accumulate / self.recipe.updates"),
        ("self.recipe.accumulate == 0", "self.recipe.print_every == 0"),
        ("LambdaLR(self.optimizer, self.factor)", "StepLR(self.optimizer, 30)"),
        ("self.scheduler.step()", "self.schedulers.step()"),
        ("    class Engine", "    class Other:\n        def updates(self):\n            return 3\n\n    class Engine"),
    ],
)
def test_objects_that_are_right(change: tuple[str, str]) -> None:
    assert_clean(twin(ENGINE, change), CODE)


def test_a_factor_of_another_file(tmp_path: Path) -> None:
    factors = "def of_updates(args):\n    return args.total // args.accumulate\n"
    header = "import torch\nimport torch.nn.functional as F\nfrom factors import of_updates\n"
    script = SCRIPT.replace("\n    ", "\n").replace("T_max=updates", "T_max=of_updates(args)")
    files = {"factors.py": factors, "main.py": header + script}
    assert [name for name, _ in lines_in_files(tmp_path, files, CODE)] == ["main.py"]
    other = {**files, "factors.py": factors.replace(" // args.accumulate", "")}
    assert lines_in_files(tmp_path, other, CODE) == []
