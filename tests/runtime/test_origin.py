"""Where what is kept comes from, told from the source."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradguard.runtime.origin import calls_with, made_at, storing_statements
from gradguard.runtime.source import Sources
from gradguard.runtime.tracer import Line


def test_a_text_that_speaks_of_a_call_calls_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "spoken.py"
    file.write_text("print('tee(x)')\nhelp('it\\'s tee(x)', \"tee(x)\")\nstream = tee(batches)\n", encoding="utf-8")
    sources = Sources()
    monkeypatch.setattr(sources, "all", lambda: iter([sources.get(str(file))]))
    assert [statement.lineno for _, statement in calls_with(sources, r"\btee\(")] == [3]


OTHERS = """\
def own():
    kept = []
    kept.append(1)

def shared():
    global kept
    kept = kept + [2]

def given(kept):
    kept.append(3)

def of_an_object(self):
    kept = self.kept
    self.kept.append(4)

kept = []
kept.append(5)
"""


@pytest.mark.parametrize(("scope", "lines"), [("global", [7, 10, 14, 17]), ("attribute", [3, 7, 10, 13, 14, 17])])
def test_a_function_s_own_variable_is_no_global(
    scope: str, lines: list[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "others.py"
    file.write_text(OTHERS, encoding="utf-8")
    sources = Sources()
    monkeypatch.setattr(sources, "all", lambda: iter([sources.get(str(file))]))
    found = storing_statements(sources, "kept", None, str(file), scope)
    assert sorted(statement.lineno for _, statement in found) == lines


@pytest.mark.parametrize(
    ("call", "made"),
    [("handler(value)", 7), ("handler(value=value)", 7), ("handler(*args)", None), ("handler(**kwargs)", None)],
)
def test_what_a_call_hands_on_was_not_made_there(call: str, made: int | None, tmp_path: Path) -> None:
    file = tmp_path / "handed.py"
    file.write_text(
        "kept = []\n\ndef handler(value):\n    kept.append(value)\n\ndef fire(*args, **kwargs):\n"
        f"    value = args[0]\n    {call}\n",
        encoding="utf-8",
    )
    place = made_at(Sources(), Line(str(file), 4, (str(file), 8)), "kept")
    assert (place.line if place is not None else None) == made
