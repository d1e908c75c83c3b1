"""A name that a package binds to the class in its file of that name: ``from .Net import Net`` in ``__init__.py``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import lines_in_files

CODE = "GG301"

OF_PACKAGE = {
    "__init__.py": "from .Decoder import Decoder\n",
    "Decoder.py": """
        import torch.nn as nn

        class Decoder(nn.Module):
            def __init__(self):
                super().__init__()
                self.out = nn.Linear(3, 3)

            def forward(self, x):
                return self.out(x)
    """,
}

SCRIPT = """
import torch
from parts import Decoder

def main(val_batches):
    dec = Decoder()
    dec.load_state_dict(torch.load("best.pt"))
    for x in val_batches:
        print(dec(x).argmax(1))
"""


def _lines(tmp_path: Path, package: dict[str, str], script: str = SCRIPT) -> list[tuple[str, int]]:
    (tmp_path / "parts").mkdir()
    files = {f"parts/{name}": text for name, text in package.items()}
    found = lines_in_files(tmp_path, files | {"script.py": script}, CODE)
    return [each for each in found if each[0] == "script.py"]


@pytest.mark.parametrize(
    "binds",
    [
        "from .Decoder import Decoder\n",
        "from .Decoder import *\n",
        "from parts.Decoder import Decoder\n",
        "from .Decoder import Other, Decoder as Decoder\n",
    ],
)
def test_a_package_binds_the_name_of_its_file(tmp_path: Path, binds: str) -> None:
    assert _lines(tmp_path, OF_PACKAGE | {"__init__.py": binds}) == [("script.py", 9)]


@pytest.mark.parametrize(
    "binds", ["", "from . import Decoder\n", "from .Decoder import Decoder as Dec\n", "Decoder = None\n"]
)
def test_a_package_that_leaves_the_name_to_its_file(tmp_path: Path, binds: str) -> None:
    assert _lines(tmp_path, OF_PACKAGE | {"__init__.py": binds}) == []


@pytest.mark.parametrize("binds", ["", "from . import Decoder\n"])
def test_the_class_of_a_file_that_has_its_name(tmp_path: Path, binds: str) -> None:
    script = SCRIPT.replace("Decoder()", "Decoder.Decoder()")
    assert _lines(tmp_path, OF_PACKAGE | {"__init__.py": binds}, script) == [("script.py", 9)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("print(dec(x).argmax(1))", "dec(x).sum().backward()"),
        ("def main", "@torch.no_grad()\ndef main"),
        ("print(dec(x).argmax(1))", "print(dec)"),
    ],
)
def test_lookalikes(tmp_path: Path, old: str, new: str) -> None:
    assert old in SCRIPT
    assert _lines(tmp_path, OF_PACKAGE, SCRIPT.replace(old, new)) == []


def test_a_class_that_records_nothing(tmp_path: Path) -> None:
    text = OF_PACKAGE["Decoder.py"].replace("self.out = nn.Linear(3, 3)", "self.out = nn.ReLU()")
    assert _lines(tmp_path, OF_PACKAGE | {"Decoder.py": text}) == []
