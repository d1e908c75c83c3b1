from __future__ import annotations

from gradguard.static.files.outline import Extent
from gradguard.static.source import Source


def test_outline_names_what_stands_at_the_top() -> None:
    source = Source(
        "x.py",
        "import torch as th\nfrom .a import b\n@dec\ndef f():\n    pass\nclass C: pass\nx = 1\nif x:\n    y = 2\n",
    )
    outline = source.outline
    assert outline.imports == {"th": "torch", "b": ".a.b"}
    assert outline.functions["f"] == Extent(3, 5)
    assert set(outline.classes) == {"C"}
    assert set(outline.variables) == {"x", "y"}
    assert outline.imported_roots == {"torch"}
