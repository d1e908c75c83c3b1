from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files, twin

CODE = "GG256"


def fit(made: str = "StepLR(optimizer, 10)", in_epoch: str = "pass", after: str = "pass", before: str = "pass") -> str:
    return f"""
    from torch.optim import lr_scheduler
    from torch.optim.lr_scheduler import ChainedScheduler, CosineAnnealingLR, StepLR

    def fit(net, loader, epochs, trainer, accelerator, callbacks):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        {before}
        scheduler = {made}  # !
        for epoch in range(epochs):
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(net(x), y).backward()
                optimizer.step()
            {in_epoch}
        {after}
    """


@pytest.mark.parametrize(
    "made",
    [
        "StepLR(optimizer, 10)",
        "lr_scheduler.ExponentialLR(optimizer, gamma=0.9)",
        "torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 10)",
        'lr_scheduler.ReduceLROnPlateau(optimizer, "min")',
    ],
)
def test_nothing_steps_it(made: str) -> None:
    assert_flagged(fit(made), CODE)
    assert_flagged(fit(made, in_epoch="print(scheduler.get_last_lr())"), CODE)
    assert_flagged(fit(made, after="torch.save(scheduler.state_dict(), 's.pt')"), CODE)
    assert_clean(twin(fit(made, in_epoch="scheduler.step()")), CODE)


@pytest.mark.parametrize(
    "after",
    [
        "trainer.fit(scheduler)",
        "return net, scheduler",
        "trainer.scheduler = scheduler",
        "schedulers = [scheduler]",
        'state = {"scheduler": scheduler}',
        "advance = scheduler.step",
        "update = lambda: scheduler.step()",
        "callbacks.append(scheduler)",
        "getattr(scheduler, 'step')()",
        "optimizer, scheduler = accelerator.prepare(optimizer, scheduler)",
        "trainer(**locals())",
        "trainer.add(ChainedScheduler([scheduler, CosineAnnealingLR(optimizer, 10)]))",
        "other = scheduler; other.step()",
    ],
)
def test_handed_on(after: str) -> None:
    assert_clean(twin(fit(after=after)), CODE)


def test_what_is_no_scheduler_of_torch() -> None:
    assert_clean(twin(fit("make_scheduler(optimizer)")), CODE)
    assert_clean(twin(fit("trainer.WarmLR(optimizer)")), CODE)


def test_a_function_of_its_own_steps_it() -> None:
    snippet = """
    from torch.optim.lr_scheduler import StepLR

    def advance(schedule):
        schedule.get_last_lr()

    def fit(net, loader):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        scheduler = StepLR(optimizer, 10)  # !
        for x, y in loader:
            F.cross_entropy(net(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()
            advance(scheduler)
    """
    assert_flagged(snippet, CODE)
    assert_clean(twin(snippet, ("schedule.get_last_lr()", "schedule.step()")), CODE)


METHODS = """
    from torch.optim.lr_scheduler import StepLR

    class Trainer:
        def __init__(self, net):
            self.net = net
            self.optimizer = torch.optim.Adam(net.parameters())
            self.scheduler = StepLR(self.optimizer, 10)  # !

        def fit(self, loader, epochs):
            for epoch in range(epochs):
                for x, y in loader:
                    self.optimizer.zero_grad()
                    F.cross_entropy(self.net(x), y).backward()
                    self.optimizer.step()
                pass
"""


def test_methods() -> None:
    assert_flagged(METHODS, CODE)
    assert_clean(twin(METHODS, ("            pass", "            self.scheduler.step()")), CODE)
    assert_clean(twin(METHODS, ("            pass", "            callback(self)")), CODE)


def test_a_class_that_others_train() -> None:
    assert_clean(twin(METHODS, (".backward()", ".item()")), CODE)


def test_another_file_steps_it(tmp_path: Path) -> None:
    files = {
        "trainer.py": "import torch.nn.functional as F\nimport torch\n" + METHODS.replace("\n    ", "\n"),
        "main.py": """
            from trainer import Trainer

            def main(net, loader):
                trainer = Trainer(net)
                for _ in range(10):
                    trainer.fit(loader, 1)
                    print(trainer.net)
        """,
    }
    assert lines_in_files(tmp_path, files, CODE) == [("trainer.py", 10)]
    files["main.py"] = files["main.py"].replace("print(trainer.net)", "trainer.scheduler.step()")
    assert lines_in_files(tmp_path, files, CODE) == []


def test_a_file_that_no_import_leads_to_steps_it(tmp_path: Path) -> None:
    files = {
        "trainer.py": "import torch.nn.functional as F\nimport torch\n" + METHODS.replace("\n    ", "\n"),
        "notebook.py": "import torch\nfrom elsewhere import Trainer\n\nagent = Trainer()\nagent.other.step()\n",
    }
    assert lines_in_files(tmp_path, files, CODE) == [("trainer.py", 10)]
    files["notebook.py"] = files["notebook.py"].replace("agent.other", "agent.scheduler")
    assert lines_in_files(tmp_path, files, CODE) == []
