"""Torch's own names that come by ``from x import *``, through a file that only the scripts beside it can import."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from gradguard.static.project import Project
from gradguard.static.values import Kind
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


TRAINING = """
    def train(model, optimizer, batches):
        total = 0
        for x, y in batches:
            optimizer.zero_grad()
            loss = ((model(x) - y) ** 2).mean()
            loss.backward()
            optimizer.step()
            plt.figure()
            total += loss
        return total
"""

CYCLES = {
    "two files": {"a.py": "from c import *", "c.py": "from a import *\n"},
    "three files": {"a.py": "from b import *", "b.py": "from c import *", "c.py": "from a import *\n"},
    "a file and itself": {"c.py": "from c import *\n"},
    "two ways round": {
        "a.py": "from b import *\nfrom c import *",
        "b.py": "from c import *",
        "c.py": "from a import *\n",
    },
}


@pytest.mark.parametrize("cycle", CYCLES)
@pytest.mark.parametrize("torch", [None, "a.py", "b.py", "c.py", "user.py"])
def test_files_that_import_everything_of_each_other(tmp_path: Path, cycle: str, torch: str | None) -> None:
    """They use torch where one of them does, or one that imports them, whichever is read first."""
    files = {**CYCLES[cycle], "user.py": "import a, c"}
    files["c.py"] += textwrap.dedent(TRAINING)
    if torch in files:
        files[torch] = f"import torch\n{files[torch]}"
    line = files["c.py"].splitlines().index("        total += loss") + 1
    assert lines_in_files(tmp_path, files, "GG103") == ([("c.py", line)] if torch in files else [])


@pytest.mark.parametrize("first", ["a.py", "b.py", "c.py"])
@pytest.mark.parametrize("cycle", list(CYCLES)[:2])
def test_whichever_is_asked_first(tmp_path: Path, cycle: str, first: str) -> None:
    """What a file answers on the way from another is not all that it knows."""
    for name, text in {**CYCLES[cycle], "d.py": "class Net: ..."}.items():
        (tmp_path / name).write_text(text)
    with (tmp_path / "a.py").open("a") as file:
        file.write("\nfrom d import *\n")
    project = Project(sorted(tmp_path.iterdir()))
    names = sorted(CYCLES[cycle], key=lambda name: name != first)
    modules = [project.module(tmp_path / name) for name in names]
    found = [(module.resolve("Net"), module.uses_torch) for module in modules if module is not None]
    assert len(found) == len(names)
    assert all(value is not None and value.kind is Kind.CLASS and not torch for value, torch in found)


def test_names_that_two_files_import_from_each_other(tmp_path: Path) -> None:
    files = {"a.py": "import torch\nfrom c import f, g\nx = g\n", "c.py": "from a import g, x\nf = x\n"}
    files["b.py"] = (
        "import torch\nfrom a import *\nfrom c import *\ndef h(xs):\n    for x in xs:\n        f(g(x)).backward()\n"
    )
    assert lines_in_files(tmp_path, files) == []


def test_classes_of_two_files_that_derive_from_each_other(tmp_path: Path) -> None:
    files = {
        "a.py": "import torch\nfrom c import *\nclass A(C):\n    def forward(self, x):\n        self.kept.append(x)\n",
        "c.py": "from a import *\nclass C(A):\n    def forward(self, x):\n        self.kept.append(x)\n",
    }
    assert lines_in_files(tmp_path, files) == []
