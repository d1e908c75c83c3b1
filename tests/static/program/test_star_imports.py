"""What star imports cost: where each leads is looked up once, not for each name that is asked for."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pytest

from gradguard import catalogue
from gradguard.config import Settings
from gradguard.static.engine import check
from gradguard.static.program.imports import Imports
from tests.support import write

PARTS = 30
NAMES = 40
TRAINING = """\
import torch
from nets import *

def train(model, loader, optimizer):
    total = 0
    for x, y in loader:
        optimizer.zero_grad()
        loss = model(x).sub(y).pow(2).mean()
        loss.backward()
        optimizer.step()
        total += loss
"""


@pytest.mark.usefixtures("as_written")
def test_a_package_of_many_parts_is_looked_through_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    stars = "".join(f"from .part{n} import *\n" for n in range(PARTS))
    files = {"nets/__init__.py": stars}
    files |= {f"nets/part{n}.py": f"import torch\n\ndef make{n}(x):\n    return x\n" for n in range(PARTS)}
    uses = "".join(f"        log{n}(unknown{n}(loss.item()))\n" for n in range(NAMES))
    write(tmp_path, files | {"train.py": TRAINING + uses})
    with patch.object(Imports, "place", autospec=True, side_effect=Imports.place) as place:
        result = check(sorted(tmp_path.rglob("*.py")), Settings(tmp_path), catalogue.load())
    assert [finding.code for finding in result.findings] == ["GG103"]
    assert PARTS < place.call_count < PARTS * NAMES / 4
