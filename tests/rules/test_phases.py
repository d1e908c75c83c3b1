"""One function for training and validation, told by a word: what belongs to one word does not meet the other's."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged

FIT = """
    def fit(net, loaders, optimizer):
        train_loss, valid_loss{before} = [], []{zero}
        for epoch in range(10):
            for phase in ("train", "valid"):
                {start}
                for x, y in loaders[phase]:
                    if {trains}:
                        optimizer.zero_grad()
                        loss = F.cross_entropy(net(x), y)
                        loss.backward()
                        optimizer.step()
                    else:
                        with torch.no_grad():
                            loss = F.cross_entropy(net(x), y)
                    running = running + loss * len(x)
                mean = running / len(loaders[phase])
                {keeps}
        return train_loss, valid_loss
"""
EXPRESSION = "train_loss.append(mean.item()) if {} else valid_loss.append(mean)"
STATEMENT = """if {}:
                    valid_loss.append(mean){mark}"""


def fit(trains: str, keeps: str, *, start: str = "running = 0", zero: str = "", before: str = "") -> str:
    return FIT.format(trains=trains, keeps=keeps, start=start, zero=zero, before=before)


BOTH = {"start": "pass", "zero": ", 0", "before": ", running"}

APART = {
    "in an expression": fit("phase == 'train'", EXPRESSION.format("phase == 'train'")),
    "in a statement": fit("phase == 'train'", STATEMENT.format("phase != 'train'", mark="")),
    "by the other word": fit("phase == 'train'", STATEMENT.format("phase == 'valid'", mark="")),
    "what trains is the rest": fit("phase != 'valid'", STATEMENT.format("phase == 'valid'", mark="")),
    "in a list": fit("phase in ['train']", STATEMENT.format("phase not in ['train']", mark="")),
}
TOGETHER = {
    "for the same word": fit("phase == 'train'", STATEMENT.format("phase == 'train'", mark="  # !")),
    "for every word": fit("phase == 'train'", "valid_loss.append(mean)  # !"),
    "for all words but the other": fit("phase == 'train'", STATEMENT.format("phase != 'valid'", mark="  # !")),
    "another variable": fit("phase == 'train'", STATEMENT.format("split != 'train'", mark="  # !")),
    "another condition": fit("len(x) > 4", STATEMENT.format("phase != 'train'", mark="  # !")),
    "a sum over both": fit("phase == 'train'", STATEMENT.format("phase != 'train'", mark="  # !"), **BOTH),
}


@pytest.mark.parametrize("name", APART)
def test_apart(name: str) -> None:
    assert_clean(APART[name], "GG104")


@pytest.mark.parametrize("name", TOGETHER)
def test_together(name: str) -> None:
    assert_flagged(TOGETHER[name], "GG104")


STEP = """
    import pytorch_lightning as pl

    class Lit(pl.LightningModule):
        def __init__(self, net):
            super().__init__()
            self.net, self.seen = net, None

        def training_step(self, batch, _):
            return self._step(batch, {given}){mark}

        def validation_step(self, batch, _):
            return self._step(batch, "val")

        def _step(self, batch, mode):
            x, y = batch
            logits = self.net(x)
            if {asks}:
                self._note(logits){inside}
            return F.cross_entropy(logits, y)

        def _note(self, logits):
            if self.seen is None:
                self.seen = logits.softmax(-1).sum(0)
            else:
                self.seen += logits.softmax(-1).sum(0)
"""
OTHERS = [
    'mode in ["val", "test"]',
    'mode in ("val", "test")',
    'mode in {"val", "test"}',
    'mode not in ("train", "warm up")',
    'mode == "val" or mode == "test"',
    'mode != "train"',
    'mode.startswith("val")',
    'not mode.startswith("train")',
    '"val" in mode',
    '"train" not in mode',
    'mode.endswith("al")',
]
ITS_OWN = [
    'mode in ["train", "val"]',
    'mode not in ("val", "test")',
    'mode.startswith("tr")',
    '"val" not in mode',
    '"rain" in mode',
    "mode in self.noted",
    "self.noted.startswith(mode)",
    'self.mode in ["val", "test"]',
    'mode in ["val", self.noted]',
]


@pytest.mark.parametrize("asks", OTHERS)
def test_what_a_method_does_for_another_word(asks: str) -> None:
    assert_clean(STEP.format(given='"train"', asks=asks, mark="", inside=""))


@pytest.mark.parametrize("asks", ITS_OWN)
def test_what_a_method_does_for_its_own_word(asks: str) -> None:
    found = STEP.format(given='"train"', asks=asks, mark="", inside="  # !")
    assert_flagged(found, "GG107")


@pytest.mark.parametrize("given", ["self.mode", '"val"', '"train" if batch else "val"'])
def test_what_is_given_is_not_the_other_word(given: str) -> None:
    assert_flagged(STEP.format(given=given, asks='mode in ["val", "test"]', mark="", inside="  # !"), "GG107")


TRACKED = """
    class Tracker:
        def __init__(self):
            self.level = torch.tensor(1.0)

        def observe(self, x):
            self.level = torch.lerp(self.level, {seen}, 0.05)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 3)
            self.tracker = Tracker()

        def forward(self, x):
            h = self.layer(x)
            {when}
                self.tracker.observe(h){mark}
            return h

    def evaluate(net, loader):
        {mode}
        with torch.no_grad():
            for x, y in loader:
                print(F.mse_loss(net(x), y).item())
        net.train()

    def main(net, loader, optimizer):
        net = Net()
        for step, (x, y) in enumerate(loader):
            optimizer.zero_grad()
            F.mse_loss(net(x), y).backward()
            optimizer.step()
            evaluate(net, loader)
"""


def tracked(
    *, seen: str = "x.mean()", when: str = "if self.training:", mode: str = "net.eval()", mark: str = ""
) -> str:
    return TRACKED.format(seen=seen, when=when, mode=mode, mark=mark)


def test_what_a_forward_does_in_training_mode_only() -> None:
    assert_flagged(tracked(mark="  # !"), "GG107")


@pytest.mark.parametrize(
    "snippet",
    [
        tracked(seen="x.mean().detach()"),
        tracked(seen="x.mean().item() * torch.ones(())"),
        tracked(when="with torch.no_grad():"),
    ],
)
def test_what_an_evaluation_does_without_a_graph(snippet: str) -> None:
    assert_clean(snippet, "GG107")
