"""Torch's own names that come by ``from x import *``, through a file that only the scripts beside it can import."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradguard.static.project import Project
from tests.rules.snippets import lines_in_files

CODE = "GG201"

FILES = {
    "utils.py": """
        import re
        FROM
    """,
    "pointer/settings.py": """
        import torch
        import torch.nn as nn
        import torch.nn.functional as F
        RATE = 0.1
    """,
    "pointer/search.py": """
        import torch
        from utils import *
    """,
    "pointer/pointer_parts.py": """
        from utils import *

        class parts(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(4, 4)
    """,
    "pointer/pointer.py": """
        from utils import *
        from pointer_parts import *

        class pointer(nn.Module):
            def __init__(self):
                super().__init__()
                self.enc, self.dec = parts(), parts()

            def forward(self, x, y):
                RESET
                return F.mse_loss(self.dec(self.enc(x)), y)
    """,
    "pointer/train.py": """
        from utils import *
        from pointer import *

        def train(batches):
            model = pointer()
            enc_optim = torch.optim.Adam(model.enc.parameters(), lr=RATE)
            dec_optim = torch.optim.Adam(model.dec.parameters(), lr=RATE)
            for x, y in batches:
                loss = model(x, y)
                loss.backward()
                enc_optim.step()
                dec_optim.step()
    """,
}


def lines(folder: Path, reset: str, imported: str = "from settings import *") -> list[tuple[str, int]]:
    (folder / "pointer").mkdir()
    files = {name: text.replace("RESET", reset).replace("FROM", imported) for name, text in FILES.items()}
    return lines_in_files(folder, files, CODE)


def test_the_model_resets_itself(tmp_path: Path) -> None:
    assert lines(tmp_path, "self.zero_grad()") == []


def test_nothing_resets(tmp_path: Path) -> None:
    assert lines(tmp_path, "print(x.shape)") == [("train.py", 11)]


@pytest.mark.parametrize("imported", ["from math import *", "from tensorflow import *"])
def test_the_names_are_of_no_torch(tmp_path: Path, imported: str) -> None:
    """A star import that leads to another library tells nothing of ``nn``."""
    (tmp_path / "train.py").write_text(f"import torch\n{imported}\n")
    module = Project([tmp_path / "train.py"]).module(tmp_path / "train.py")
    assert module is not None
    assert module.resolve("nn") is None
