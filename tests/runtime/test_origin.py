"""Where what is kept comes from, told from the source."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradguard.runtime.origin import calls_with
from gradguard.runtime.source import Sources


def test_a_text_that_speaks_of_a_call_calls_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "spoken.py"
    file.write_text("print('tee(x)')\nhelp('it\\'s tee(x)', \"tee(x)\")\nstream = tee(batches)\n", encoding="utf-8")
    sources = Sources()
    monkeypatch.setattr(sources, "all", lambda: iter([sources.get(str(file))]))
    assert [statement.lineno for _, statement in calls_with(sources, r"\btee\(")] == [3]
