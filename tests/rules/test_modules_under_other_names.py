"""GG301: a module is evaluated, or frozen, whatever variable it is run by: ``net = self.net.to(device)``."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, twin

CODE = "GG301"

EPOCH = """
class Trainer:
    def train(self, epochs):
        for epoch in range(epochs):
            self._epoch(self.batches, epoch, "train")
            with torch.no_grad():
                self._epoch(self.val_batches, epoch, "val")
        final = self._epoch(self.val_batches, -1, "val")  # !
        print(final)

    def _epoch(self, batches, epoch, mode):
        if mode == "train":
            self.model.train()
        else:
            self.model.eval()
        total = 0
        for x, y in batches:
            net = self.model.to(self.device)
            loss = F.cross_entropy(net(x), y)
            total += loss.item()
            if mode == "train":
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
        return total
"""


@pytest.mark.parametrize(
    "moved", ["self.model.to(self.device)", "self.model.cuda()", "self.model", "self.model.float().to(self.device)"]
)
def test_run_by_a_variable(moved: str) -> None:
    assert_flagged(EPOCH.replace("self.model.to(self.device)", moved), CODE)


def test_evaluated_by_a_variable() -> None:
    edits = [("self.model.eval()", "model.eval()"), ("self.model.train()", "model.train()"), ("net(x)", "model(x)")]
    text = EPOCH.replace("        if mode ==", "        model = self.model\n        if mode ==", 1)
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    assert_flagged(text.replace("            net = self.model.to(self.device)\n", ""), CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [('        final = self._epoch(self.val_batches, -1, "val")', "        final = 0")],
        [('final = self._epoch(self.val_batches, -1, "val")', 'final = self._epoch(self.val_batches, -1, "train")')],
        [
            (
                '        final = self._epoch(self.val_batches, -1, "val")',
                '        with torch.no_grad():\n            final = self._epoch(self.val_batches, -1, "val")',
            )
        ],
        [("self.model.eval()", "self.other.eval()")],
        [("self.model.to(self.device)", "self.made(self.device)")],
        [("self.model.to(self.device)", "self.other.to(self.device)")],
        [
            (
                "            net = self.model.to(self.device)",
                "            net = self.model if epoch else self.other\n            net = net.cuda()",
            )
        ],
        [("self.model.eval()", "self.model.eval().requires_grad_(False)")],
        [
            (
                "        for x, y in batches",
                '        torch.set_grad_enabled(mode == "train")\n        for x, y in batches',
            )
        ],
        [("loss = F.cross_entropy(net(x), y)", "with torch.no_grad(): loss = F.cross_entropy(net(x), y)")],
    ],
)
def test_lookalikes(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(EPOCH, *edits), CODE)


FROZEN = """
def evaluate(self, val_batches):
    for p in self.teacher.parameters():
        p.requires_grad_(False)
    guide = self.teacher.cuda()
    for x in val_batches:
        print(guide(x).argmax(1))
"""


def test_frozen_by_another_name() -> None:
    assert_clean(FROZEN, CODE)
    assert_flagged(FROZEN.replace("requires_grad_(False)", "clamp_(0)").replace("argmax(1))", "argmax(1))  # !"), CODE)
