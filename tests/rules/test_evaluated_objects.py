"""What is put into evaluation mode is a module, whatever its name, its class or a folder of the program says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files, twin

CODE = "GG301"

BY_ITS_NAME_A_LOADER = """
class Trainer:
    def __init__(self, generator):
        self._gen = generator.cuda()

    def matrix(self, loader):
        USE
        for x, y in loader:
            mask = to_mask(self._gen(x.cuda())).numpy()  # !
            print(mask, y)

def to_mask(prediction):
    _, indices = torch.max(prediction, 0, False)
    return torch.zeros(prediction.size()).index_fill(0, indices, 1)
"""


def test_a_generator_that_is_evaluated() -> None:
    assert_flagged(BY_ITS_NAME_A_LOADER.replace("USE", "self._gen.eval()"), CODE)


@pytest.mark.parametrize("use", ["print(len(self._gen))", "self.reset()"])
def test_a_generator_of_which_nothing_tells_that_it_is_a_module(use: str) -> None:
    assert_clean(twin(BY_ITS_NAME_A_LOADER.replace("USE", use)), CODE)


OF_A_BASE = """
class Base(nn.Module):
    def __init__(self):
        super().__init__()

    FORWARD

def load(path) -> Base:
    return build(path)

def run(path, loader):
    model = load(path)
    model.eval()
    for x, y in loader:
        out = model(x)  # !
        print(out.sum().item())
"""


@pytest.mark.parametrize(
    "forward", ["def parts(self): return 3", "def forward(self, x):\n        raise NotImplementedError"]
)
def test_an_heir_is_run_of_a_class_that_runs_nothing(forward: str) -> None:
    assert_flagged(OF_A_BASE.replace("FORWARD", forward), CODE)


def test_a_class_without_parameters_is_run() -> None:
    snippet = OF_A_BASE.replace("FORWARD", "def forward(self, x): return x.sigmoid()")
    assert_clean(twin(snippet, ("model = load(path)", "model = Base()")), CODE)


PREDICT = """
import torch
from torch.nn import Module
from torch.utils.data.dataloader import DataLoader

def predict(dataset, model: Module):
    model.eval()
    features = []
    for batch in DataLoader(dataset, batch_size=16):
        features.append(model(batch).detach().cpu())
    return torch.cat(features)
"""


def test_a_folder_of_the_program_is_called_torch(tmp_path: Path) -> None:
    (tmp_path / "dec" / "torch").mkdir(parents=True)
    files = {"dec/__init__.py": "", "dec/torch/__init__.py": "", "dec/torch/loops.py": PREDICT}
    assert lines_in_files(tmp_path, files, CODE) == [("loops.py", 10)]
