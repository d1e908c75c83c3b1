"""A method of a class whose base comes from a package that cannot be read: that may call it under ``no_grad``."""

from __future__ import annotations

import pytest

from gradguard.findings import Confidence
from tests.rules.snippets import assert_clean, assert_flagged, twin

CODE = "GG301"

TRAINER = """
from firelab.base_trainer import BaseTrainer
from sklearn.base import BaseEstimator
from pytorch_lightning import LightningModule
import abc
import firelab

class Translator(BASE):
    def __init__(self, config, model, val_dataloader):
        super().__init__(config)
        self.model, self.val_dataloader = nn.Linear(4, 4), val_dataloader

    def validate(self):
        losses = []
        for x, y in self.val_dataloader:
            loss = F.mse_loss(self.model(x), y)  # !
            losses.append(loss.item())
        print(sum(losses))
"""

FOREIGN = ["BaseTrainer", "firelab.base_trainer.BaseTrainer", "abc.ABC, BaseTrainer"]
KNOWN = ["abc.ABC", "object", "BaseEstimator", "nn.Module", "LightningModule", "torch.utils.data.Dataset"]

CALLS = [
    "def main(model, loader):\n    Translator(None, model, loader).validate()\n",
    "def main(translator: Translator):\n    translator.validate()\n",
    "def main(kind, loader):\n    made = kinds[kind](loader)\n    made.validate()\n",
]


def trainer(base: str, more: str = "") -> str:
    return TRAINER.replace("BASE", base) + more


@pytest.mark.parametrize("base", FOREIGN)
def test_nobody_else_calls_it(base: str) -> None:
    assert_clean(twin(trainer(base)), CODE)
    assert_flagged(trainer(base), CODE, Confidence.LOW)


@pytest.mark.parametrize("base", KNOWN)
def test_no_base_may_call_it(base: str) -> None:
    assert_flagged(trainer(base), CODE)


@pytest.mark.parametrize("call", CALLS)
def test_somebody_calls_it(call: str) -> None:
    assert_flagged(trainer("BaseTrainer", call), CODE)


HELPER = """
from firelab.base_trainer import BaseTrainer

class Translator(BaseTrainer):
    def CALLER(self):
        self.losses()

    def losses(self):
        self.model.eval()
        for x, y in self.val_dataloader:
            loss = F.mse_loss(self.model(x), y)  # !
            print(loss.item())
"""


def test_only_such_a_method_calls_it() -> None:
    snippet = HELPER.replace("CALLER", "validate")
    assert_clean(twin(snippet), CODE)
    assert_flagged(snippet, CODE, Confidence.LOW)


def test_a_caller_has_a_caller() -> None:
    assert_flagged(HELPER.replace("CALLER", "validate") + CALLS[0], CODE)


def test_a_method_of_another_class_of_the_same_name_is_called() -> None:
    other = "class Server:\n    def validate(self):\n        return 1\n\ndef main():\n    Server().validate()\n"
    assert_clean(twin(trainer("BaseTrainer", other)), CODE)
