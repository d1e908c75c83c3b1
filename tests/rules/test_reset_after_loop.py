"""``for opt in optimizers: opt.step()`` and a reset behind the loop: it is that of the last optimizer."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged

PROGRAM = """
class Engine:
    def __init__(self, model, scaler, schedulers):
        self.model, self.scaler, self.schedulers = model, scaler, schedulers
        self.body = torch.optim.AdamW(model.body.parameters())
        self.head = torch.optim.AdamW(model.head.parameters())
        self.optimizers = [self.body, self.head]
        self.named = {"body": self.body, "head": self.head}

    def fit(self, loader):
        for x, y in loader:
            F.mse_loss(self.model(x), y).backward()
            UPDATE
"""

ONLY_THE_LAST = {
    "behind the loop": """
        for opt in self.optimizers:
            opt.step()
        opt.zero_grad()  # !
    """,
    "of named ones, to None": """
        for name, opt in self.named.items():
            opt.step()
        opt.zero_grad(set_to_none=True)  # !
    """,
    "with their schedules": """
        for opt, schedule in zip(self.optimizers, self.schedulers):
            opt.step()
            schedule.step()
        opt.zero_grad()  # !
    """,
    "two that are written out": """
        for each in (self.body, self.head):
            nn.utils.clip_grad_norm_(each.param_groups[0]["params"], 1.0)
            each.step()
        each.zero_grad()  # !
    """,
    "by a scaler": """
        for optimizer in self.optimizers:
            self.scaler.step(optimizer)
        self.scaler.update()
        optimizer.zero_grad()  # !
    """,
}

ALL = {
    "in the loop": """
        for opt in self.optimizers:
            opt.step()
            opt.zero_grad()
    """,
    "in a loop of its own": """
        for opt in self.optimizers:
            opt.step()
        for opt in self.optimizers:
            opt.zero_grad()
    """,
    "of the model": """
        for opt in self.optimizers:
            opt.step()
        self.model.zero_grad()
    """,
    "of the model, too": """
        for opt in self.optimizers:
            opt.step()
        opt.zero_grad()
        self.model.zero_grad()
    """,
    "each by itself": """
        for opt in self.optimizers:
            opt.step()
        self.body.zero_grad()
        self.head.zero_grad()
    """,
    "of one": """
        for opt in [self.body]:
            opt.step()
        opt.zero_grad()
    """,
    "the one that was found": """
        for opt in self.optimizers:
            if opt.param_groups[0]["lr"] > 0:
                opt.step()
                break
        opt.zero_grad()
    """,
    "of all gradients": """
        for opt in self.optimizers:
            opt.step()
        for p in self.model.parameters():
            p.grad = None
    """,
    "another name": """
        opt = self.head
        for each in self.optimizers:
            each.step()
        opt.zero_grad()
        self.body.zero_grad()
    """,
}


def _program(update: str) -> str:
    lines = [line[8:] for line in update.strip("\n").splitlines()]
    return PROGRAM.replace("UPDATE", ("\n" + " " * 12).join(lines))


@pytest.mark.parametrize("update", ONLY_THE_LAST.values(), ids=ONLY_THE_LAST)
def test_a_reset_behind_the_loop_is_of_the_last(update: str) -> None:
    assert_flagged(_program(update), "GG201")


@pytest.mark.parametrize("update", ALL.values(), ids=ALL)
def test_resets_of_all_are_clean(update: str) -> None:
    assert_clean(_program(update), "GG201")


def test_a_reset_by_the_caller_is_seen() -> None:
    program = """
    def update(optimizers):
        for opt in optimizers:
            opt.step()
        opt.zero_grad()

    def fit(model, loader, optimizers):
        for x, y in loader:
            model.zero_grad()
            F.mse_loss(model(x), y).backward()
            update(optimizers)
    """
    assert_clean(program, "GG201")
    assert_flagged(
        program.replace("            model.zero_grad()\n", "").replace("opt.zero_grad()", "opt.zero_grad()  # !"),
        "GG201",
    )
