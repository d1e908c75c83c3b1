"""The hooks that a trainer calls within its evaluation loop, which records no graph; and those outside of it."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, twin

IN_EVALUATION = (
    "on_validation_start", "on_validation_epoch_start", "on_validation_epoch_end", "on_validation_end",
    "on_test_start", "on_test_epoch_start", "on_test_epoch_end", "on_test_end",
    "on_predict_start", "on_predict_epoch_end", "validation_epoch_end", "test_epoch_end",
)  # fmt: skip
OUTSIDE = (
    "on_train_start", "on_train_epoch_start", "on_train_epoch_end", "on_fit_start", "on_sanity_check_start",
    "validate_all", "start_validation", "on_validation", "on_save_checkpoint", "on_evaluation_started",
)  # fmt: skip

BANK = """
    import pytorch_lightning as pl

    class Base:
        pass

    class Lit(pl.LightningModule):
        def HOOK(self, *outputs):
            self.net.eval()
            features = []
            for x, _ in self.trainer.datamodule.bank_loader():
                features.append(self.net(x))  # !
            self.bank = torch.cat(features)
"""
CALLBACK = """
    from lightning.pytorch.callbacks import Callback

    class Probe(Callback):
        def HOOK(self, trainer, module):
            module.eval()
            for x, y in self.loader:
                self.hits += (module(x).argmax(1) == y).sum()  # !
"""


@pytest.mark.parametrize("hook", IN_EVALUATION)
def test_within_the_evaluation_loop(hook: str) -> None:
    assert_clean(twin(BANK, ("HOOK", hook)))
    assert_clean(twin(CALLBACK, ("HOOK", hook)))


@pytest.mark.parametrize("hook", OUTSIDE)
def test_outside_of_it(hook: str) -> None:
    assert_flagged(BANK.replace("HOOK", hook), "GG301")
    assert_flagged(CALLBACK.replace("HOOK", hook), "GG301")


@pytest.mark.parametrize("hook", IN_EVALUATION)
def test_of_a_class_that_no_framework_calls(hook: str) -> None:
    assert_flagged(BANK.replace("HOOK", hook).replace("pl.LightningModule", "Base"), "GG301")


def test_a_hook_that_switches_gradients_on() -> None:
    wanted = "torch.set_grad_enabled(True); module.eval()"
    assert_flagged(CALLBACK.replace("HOOK", "on_validation_start").replace("module.eval()", wanted), "GG301")
