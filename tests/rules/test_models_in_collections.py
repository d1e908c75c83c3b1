"""Models that a trainer has in a dict, and those that it loads whole: who puts them into evaluation mode, evaluates."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, twin

CODE = "GG301"

IN_A_DICT = """
        class Trainer:
            def __init__(self, model, optimizer, data_loader, criterion):
                self.model, self.optimizer = model, optimizer
                self.data_loader, self.criterion = data_loader, criterion
                self.total = {}

            def train_step(self, batch):
                x, y = batch
                loss = self.criterion(self.model["generator"](x), y)
                self.optimizer["generator"].zero_grad()
                loss.backward()
                self.optimizer["generator"].step()

            def eval_step(self, batch):
                x, y = batch
                made = self.model["generator"](x)
                self.total["loss"] += self.criterion(made, y).item()

            def eval_epoch(self):
                for key in self.model.keys():
                    self.model[key].eval()
                for batch in self.data_loader["dev"]:
                    self.eval_step(batch)  # !
                for key in self.model.keys():
                    self.model[key].train()

            def run(self):
                while True:
                    for batch in self.data_loader["train"]:
                        self.train_step(batch)
                    self.eval_epoch()
"""
BY_VALUE = IN_A_DICT.replace("for key in self.model.keys():", "for net in self.model.values():").replace(
    "self.model[key].", "net."
)


@pytest.mark.parametrize("snippet", [IN_A_DICT, BY_VALUE, IN_A_DICT.replace("self.model", "self.networks")])
def test_models_in_a_dict(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "changes",
    [
        (("def eval_epoch", "@torch.no_grad()\n            def eval_epoch"),),
        (("def eval_step", "@torch.no_grad()\n            def eval_step"),),
        (("self.model[key].eval()", "self.model[key].train()"), ('["dev"]', '["more"]'), ("eval_", "next_")),
        (("self.model[key].eval()", "self.model[key].requires_grad_(False)"), ('["dev"]', '["more"]')),
        (("self.eval_step(batch)", "self.train_step(batch)"),),
        (('for batch in self.data_loader["dev"]', 'self.model["generator"].train()\n'
          '                for batch in self.data_loader["more"]'), ("self.eval_step", "self.train_step")),
    ],
)  # fmt: skip
def test_look_alikes_of_models_in_a_dict(changes: tuple[tuple[str, str], ...]) -> None:
    assert_clean(twin(IN_A_DICT, *changes), CODE)


LOADED = """
        class Points:
            def __init__(self, name, loss):
                self.intensity_model = getattr(zoo, name)(3)
                self.loss = loss

            def load(self, path):
                self.intensity_model = torch.load(path)

            def validation(self, loader):
                self.intensity_model.eval()
                total = 0
                for x, y in loader:
                    out = self.intensity_model(x)  # !
                    total += self.loss(out, y).item()
                return total / len(loader)
"""


@pytest.mark.parametrize("made", ["getattr(zoo, name)(3)", "torch.load(name)", "zoo.build(name)", "zoo.Model(name)"])
def test_models_that_are_loaded_whole(made: str) -> None:
    assert_flagged(LOADED.replace("getattr(zoo, name)(3)", made), CODE)


@pytest.mark.parametrize(
    "changes",
    [
        (("def validation", "@torch.no_grad()\n            def validation"),),
        (("self.intensity_model.eval()", "pass"), ("self.intensity_model(x)", "self.table[x]")),
        (("intensity_model", "weights"), ("self.weights.eval()", "pass")),
    ],
)
def test_look_alikes_of_models_that_are_loaded(changes: tuple[tuple[str, str], ...]) -> None:
    snippet = LOADED
    for old, new in changes:
        snippet = snippet.replace(old, new)
    assert_clean(snippet.replace("  # !", ""), CODE)
