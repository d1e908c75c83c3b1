"""Which files make a program, by the names in their import statements."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from gradguard import catalogue
from gradguard.config import Settings
from gradguard.static.discover import shown
from gradguard.static.engine import check
from gradguard.static.program.file_links import FileLinks
from gradguard.static.project import Project
from tests.support import write


def links(folder: Path, files: dict[str, str]) -> FileLinks:
    write(folder, files)
    paths = sorted(folder / name for name in files)
    return FileLinks(Project(paths, shown, paths))


@pytest.mark.parametrize(
    ("statement", "files", "meant"),
    [
        ("import models", ("a/models.py", "b/models.py"), ["a/models.py"]),
        ("from models import Net", ("a/models.py", "b/models.py"), ["a/models.py"]),
        ("from .models import Net", ("a/models.py", "b/models.py"), ["a/models.py"]),
        ("import models", ("b/models.py", "c/models.py"), ["b/models.py", "c/models.py"]),
        ("from b.models import Net", ("a/models.py", "b/models.py"), ["a/models.py", "b/models.py"]),
        ("from b import models", ("a/models.py", "b/models.py", "c/models.py"), ["a/models.py", "b/models.py"]),
        ("import models", ("a/models/__init__.py", "b/models.py"), ["a/models/__init__.py"]),
        ("from models import Net", ("a/models/__init__.py", "models/__init__.py"), ["a/models/__init__.py"]),
        ("import nets", ("a/models.py", "b/models.py"), []),
    ],
)
def test_which_file_of_a_name_is_meant(
    tmp_path: Path, statement: str, files: tuple[str, ...], meant: list[str]
) -> None:
    found = links(tmp_path, {"a/train.py": statement, **dict.fromkeys(files, "x = 1")})
    imported = [tmp_path / file for file in files if tmp_path / "a/train.py" in found.importers(tmp_path / file)]
    assert [path.relative_to(tmp_path).as_posix() for path in imported] == meant


TRAIN = dedent("""\
    import torch
    import torch.nn.functional as F
    from models import D, G

    def train(loader):
        g_opt = torch.optim.Adam(G.parameters(), lr=1e-3)
        d_opt = torch.optim.Adam(D.parameters(), lr=1e-3)
        for x in loader:
            fake = G(torch.randn(len(x), 8))
            d_loss = F.softplus(-D(x)).mean() + F.softplus(D(fake.detach())).mean()
            d_loss.backward()
            d_opt.step()
            d_opt.zero_grad()
            F.softplus(-D(G(torch.randn(len(x), 8)))).mean().backward()
            g_opt.step()
            g_opt.zero_grad()
""")
NETS = "import torch.nn as nn\nG, D = nn.Linear(8, 4), nn.Linear(4, 1)\n"
FREEZES = NETS + "def freeze(net, on):\n    for p in net.parameters():\n        p.requires_grad = on\n"


@pytest.mark.parametrize(("own", "found"), [(NETS, ["GG214"]), (FREEZES, [])])
def test_what_a_program_of_another_folder_does_is_nothing_to_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str, found: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    use = "from models import freeze\nimport torch\n"
    files = {"one/train.py": TRAIN, "one/models.py": own, "two/main.py": use, "two/models.py": FREEZES}
    write(tmp_path, files)
    paths = sorted(tmp_path / name for name in files)
    result = check(paths, Settings(tmp_path, select=("GG214",)), catalogue.load())
    assert [finding.code for finding in result.findings] == found
    assert all(finding.path == "one/train.py" for finding in result.findings)
