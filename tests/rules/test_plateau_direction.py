from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, findings, lines_in_files, twin

CODE = "GG255"


def fit(mode: str, told: str = "val_loss", before: str = "pass", step: str = "scheduler.step({})  # !") -> str:
    """A training whose scheduler is told something."""
    return f"""
    import numpy as np
    from torch.optim import lr_scheduler
    from torch.optim.lr_scheduler import ReduceLROnPlateau, StepLR

    def fit(net, loader, optimizer, args, meter, history, results):
        kwargs = dict(patience=3)
        scheduler = {mode}
        for epoch in range(args.epochs):
            train_loss, train_acc = train(net, loader, optimizer)
            val_loss, val_acc, dice, score = evaluate(net, loader)
            {before}
            {step.format(told)}
    """


HIGHEST = 'ReduceLROnPlateau(optimizer, mode="max", patience=3)'
LOWEST = "ReduceLROnPlateau(optimizer)"


@pytest.mark.parametrize(
    "told",
    [
        "val_loss",
        "train_loss.item()",
        "np.mean(history.val_losses)",
        'history["val_loss"][-1]',
        "metrics=val_loss",
        "total_loss / len(loader)",
        "float(epoch_loss)",
        "validLoss",
        "meter.loss.avg",
        "rmse",
        'results.get("val_loss")',
    ],
)
def test_the_highest_loss(told: str) -> None:
    assert_flagged(fit(HIGHEST, told), CODE)
    assert_clean(twin(fit(LOWEST, told)), CODE)


@pytest.mark.parametrize(
    "told", ["val_acc", "dice", "valAccuracy", "mean_iou", "mIoU", "f1", "val_f1.mean()", 'results["auc"]', "meter.acc"]
)
def test_the_lowest_accuracy(told: str) -> None:
    assert_flagged(fit(LOWEST, told), CODE)
    assert_clean(twin(fit(HIGHEST, told)), CODE)


@pytest.mark.parametrize(
    "made",
    [
        'lr_scheduler.ReduceLROnPlateau(optimizer, "max")',
        'torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, mode="max")',
        'ReduceLROnPlateau(optimizer, "max") if args.plateau else StepLR(optimizer, 10)',
    ],
)
def test_however_it_is_made(made: str) -> None:
    assert_flagged(fit(made), CODE)
    assert_clean(twin(fit(made), ('"max"', '"min"')), CODE)


@pytest.mark.parametrize(
    "told", ["score", "metric", "results[0]", "dice_acc_error", "neg_loss", "1 - dice", "-val_loss", "value"]
)
def test_names_that_do_not_tell(told: str) -> None:
    assert_clean(twin(fit(HIGHEST, told)), CODE)
    assert_clean(twin(fit(LOWEST, told)), CODE)


@pytest.mark.parametrize(
    ("made", "told", "before"),
    [
        (HIGHEST, "val_loss", "val_loss = -val_loss"),
        (HIGHEST, "val_loss", "val_loss = 1 - dice"),
        (HIGHEST, "val_loss", "val_loss = accuracy(net, loader)"),
        (LOWEST, "dice", "dice = dice_loss(net, loader)"),
        (LOWEST, "val_acc", "val_acc = 100 - val_acc"),
        ("ReduceLROnPlateau(optimizer, mode=args.mode)", "val_acc", "pass"),
        ("ReduceLROnPlateau(optimizer, **kwargs)", "val_acc", "pass"),
        ('ReduceLROnPlateau(optimizer, mode="min" if args.low else "max")', "val_acc", "pass"),
        ("StepLR(optimizer, 10)", "val_acc", "pass"),
        ("make_scheduler(optimizer)", "val_acc", "pass"),
    ],
)
def test_what_cannot_be_told(made: str, told: str, before: str) -> None:
    assert_clean(twin(fit(made, told, before)), CODE)


def test_one_of_several_steps() -> None:
    step = "scheduler.step(val_loss) if args.low else scheduler.step(val_acc)"
    assert_clean(fit(LOWEST, step=step), CODE)


def test_modes_that_differ() -> None:
    snippet = """
    from torch.optim.lr_scheduler import ReduceLROnPlateau

    def fit(net, loader, optimizer, args):
        if args.monitor == "loss":
            scheduler = ReduceLROnPlateau(optimizer, mode="min")
        else:
            scheduler = ReduceLROnPlateau(optimizer, mode="max")
        for epoch in range(args.epochs):
            scheduler.step(validate_loss(net, loader))
    """
    assert_clean(snippet, CODE)


METHODS = """
    from torch.optim.lr_scheduler import ReduceLROnPlateau

    class Trainer:
        def __init__(self, net):
            self.net = net
            self.optimizer = torch.optim.Adam(net.parameters())
            self.scheduler = ReduceLROnPlateau(self.optimizer, "max")

        def epoch(self, loader):
            val_loss = self.validate(loader)
            self.scheduler.step(val_loss)  # !
"""


def test_in_another_method() -> None:
    assert_flagged(METHODS, CODE)
    assert_clean(twin(METHODS, ('"max"', '"min"')), CODE)


HANDED = """
    from torch.optim.lr_scheduler import ReduceLROnPlateau

    def make(optimizer):
        return ReduceLROnPlateau(optimizer, mode="max", patience=5)

    class Trainer:
        def __init__(self, net, schedule):
            self.net, self.schedule = net, schedule

        def after(self, loss):
            self.schedule.step(loss)  # !

    def main(net, optimizer):
        scheduler = make(optimizer)
        Trainer(net, scheduler).after(1.0)
"""


def test_handed_to_an_object() -> None:
    assert_flagged(HANDED, CODE)
    assert_clean(twin(HANDED, ('"max"', '"min"')), CODE)


LIGHTNING = """
    from torch.optim.lr_scheduler import ReduceLROnPlateau

    class Net(nn.Module):
        def configure_optimizers(self):
            optimizer = torch.optim.Adam(self.parameters())
            scheduler = ReduceLROnPlateau(optimizer, mode="min")
            return {
                "optimizer": optimizer,
                "lr_scheduler": {
                    "scheduler": scheduler,
                    "monitor": "val_acc",  # !
                },
            }
"""


def test_what_lightning_monitors() -> None:
    assert_flagged(LIGHTNING, CODE)
    assert_clean(twin(LIGHTNING, ("val_acc", "val_loss")), CODE)
    assert_clean(twin(LIGHTNING, ('"min"', '"max"')), CODE)


def test_the_edit() -> None:
    (found,) = findings(METHODS, CODE)
    assert found.fix is not None
    assert [edit.text for edit in found.fix.edits] == ['"min"']
    (found,) = findings(fit(LOWEST, "dice"), CODE)
    assert found.fix is None


def test_two_files(tmp_path: Path) -> None:
    files = {
        "schedules.py": """
            from torch.optim.lr_scheduler import ReduceLROnPlateau

            def make(optimizer):
                return ReduceLROnPlateau(optimizer, mode="max")
        """,
        "main.py": """
            from schedules import make

            def fit(net, loader, optimizer):
                scheduler = make(optimizer)
                for epoch in range(10):
                    val_loss = evaluate(net, loader)
                    scheduler.step(val_loss)
        """,
    }
    assert lines_in_files(tmp_path, files, CODE) == [("main.py", 8)]
    files["schedules.py"] = files["schedules.py"].replace("max", "min")
    assert lines_in_files(tmp_path, files, CODE) == []


TURNED = """
        from torch.optim.lr_scheduler import ReduceLROnPlateau

        def fit(net, loader, optimizer):
            scheduler = ReduceLROnPlateau(optimizer)
            for epoch in range(9):
                accuracy = evaluate(net, loader)
                pass
                scheduler.step(accuracy)  # !
"""


def test_what_is_turned_round_in_place() -> None:
    assert_flagged(TURNED, CODE)
    for line in (
        "accuracy *= -1",
        "accuracy -= 1",
        "accuracy = operator.neg(accuracy)",
        "accuracy = torch.neg(accuracy)",
    ):
        assert_clean(twin(TURNED, ("                pass", f"                {line}")), CODE)
