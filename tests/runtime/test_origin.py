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


WRAPPED = """\
kept = []

class Record:
    def __init__(self, step, loss):
        self.step, self.loss = step, loss

def put(row):
    kept.append(row)

def train(step, rate):
    loss = net(step)
    other = net(rate)
    put({given})
"""


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ("loss", 11),
        ("(step, loss)", 11),
        ("{'step': step, 'loss': loss}", 11),
        ("[loss, rate]", 11),
        ("Record(step, loss)", 11),
        ("Record(step, loss=loss)", 11),
        ("Record(step, {'loss': loss})", 11),
        ("(loss, other)", 13),  # which of them is not written there
        ("net(loss)", 13),  # makes another one
        ("loss * 2", 13),
        ("Record(step, net(loss))", 13),
    ],
)
def test_what_is_wrapped_was_made_before(
    given: str, made: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "wrapped.py"
    file.write_text(WRAPPED.replace("{given}", given), encoding="utf-8")
    sources = Sources()
    monkeypatch.setattr(sources, "all", lambda: iter([sources.get(str(file))]))
    place = made_at(sources, Line(str(file), 8, (str(file), 13)), "kept")
    assert place is not None
    assert place.line == made


@pytest.mark.parametrize(
    ("stored", "made"), [("(step, loss)", 5), ("{'at': step, 'loss': loss}", 5), ("(loss, other)", 7)]
)
def test_what_is_stored_with_other_things_was_made_before(stored: str, made: int, tmp_path: Path) -> None:
    file = tmp_path / "stored.py"
    file.write_text(
        "kept = []\n\ndef train():\n    for step in range(9):\n        loss = net(step)\n        other = net(step)\n"
        f"        kept.append({stored})\n",
        encoding="utf-8",
    )
    place = made_at(Sources(), Line(str(file), 7, None), "kept")
    assert place is not None
    assert place.line == made


@pytest.mark.parametrize("stored", ["recent[-1]", "recent[0].mean()"])
def test_an_empty_list_made_nothing(stored: str, tmp_path: Path) -> None:
    file = tmp_path / "beside.py"
    text = f"recent = []\nkept = []\nfor step in range(9):\n    recent.append(net(step))\n    kept.append({stored})\n"
    file.write_text(text, encoding="utf-8")
    place = made_at(Sources(), Line(str(file), 5, None), "kept")
    assert place is not None
    assert place.line == 5
