"""Where imports lead is told from text as it would be told from the parsed file."""

from pathlib import Path

import libcst
import pytest

from gradguard import catalogue
from gradguard.config import Settings
from gradguard.static.engine import check
from gradguard.static.program.import_statements import imported_from
from gradguard.static.source import Source

TEXTS = {
    "plain": "import torch\nimport numpy as np\nfrom a.b import c as d, e\n",
    "relative": "from . import a\nfrom .. import b\nfrom ..pkg.mod import c\n",
    "stars": "from a import *\nfrom .b import *\n",
    "parentheses": "from a import (  # these\n    b,\n    c as d,\n)\nimport e.f.g\n",
    "continued": "from a import b, \\\n    c\nimport d\n",
    "two in a line": "import a; import b\n",
    "in a try": "try:\n    import a\nexcept ImportError:\n    from b import c\n",
    "under conditions": "if x:\n    import d\nelse:\n    import e\n",
    "in a with": "with lazy():\n    from a import b\n",
    "in functions": "import a\n\n\ndef f():\n    import b\n\n\n@dec\ndef g():\n    import c\n",
    "in classes": "@dec\nclass C:\n    import a\n\n    def g(self):\n        import b\n\n\nimport c\n",
    "behind functions": "def f():\n    import a\n\n\nimport b\nif x:\n    import c\n",
    "asynchronous": "async def f():\n    import a\nfrom b import c\n",
    "in a docstring": '"""\nimport a\nfrom b import c\n"""\nimport d\n',
    "in comments": "# import a\nimport b  # import c\n",
    "as a part of a word": "important = 1\nfrom_a = 2\nimport a\n",
    "over the lines of a call": "x = f(\n    1,\n)\nimport a\n",
    "none": "x = 1\n",
    "empty": "",
}


def of_outline(text: str) -> set[str]:
    outline = Source("x.py", text).outline
    return {*outline.imports.values(), *outline.star_imports}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_what_the_text_tells_is_what_the_outline_tells(text: str) -> None:
    assert set(imported_from(text.encode()) or ()) == of_outline(text)


def test_files_of_a_library() -> None:
    files = sorted(Path(libcst.__file__).parent.rglob("*.py"))
    assert len(files) > 50
    for path in files:
        told = imported_from(path.read_bytes())
        assert told is None or set(told) == of_outline(path.read_text()), path


@pytest.mark.parametrize("text", ["from a import (b,\n", "from a import (b, # )\n  c)\n", "import \n"])
def test_a_statement_that_is_not_understood_by_itself(text: str) -> None:
    assert imported_from(text.encode()) is None


HANDLE = """
import torch
from torch import nn

class Watched:
    def __init__(self, net):
        self.net, self.seen = net, {}

    def look(self, module, args, output):
        self.seen["out"] = output.detach()

    def enable(self):
        self.handle = self.net.register_forward_hook(self.look)

    def disable(self):
        self.handle.remove()

def train(loader):
    net = nn.Linear(4, 2)
    watched = Watched(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for batch in loader:
        watched.enable()
        optimizer.zero_grad()
        net(batch).mean().backward()
        optimizer.step()
    watched.disable()
"""


def found(folder: Path) -> list[str]:
    result = check(sorted(folder.glob("*.py")), Settings(folder), catalogue.load())
    return [finding.code for finding in result.findings]


@pytest.mark.usefixtures("as_written")
def test_where_imports_lead_is_not_asked_where_no_text_would_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bytes] = []

    def imported(data: bytes) -> tuple[str, ...] | None:
        asked.append(data)
        return imported_from(data)

    monkeypatch.setattr("gradguard.static.program.file_links.imported_from", imported)
    (tmp_path / "a.py").write_text("from b import train\nhandle = 3\n")
    (tmp_path / "b.py").write_text(HANDLE)
    assert found(tmp_path) == ["GG401"]
    assert not asked
    (tmp_path / "a.py").write_text("from b import train\ndef stop(w):\n    w.handle.remove()\n")
    found(tmp_path)
    assert asked
