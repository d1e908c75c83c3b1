"""How long a collection may become, as far as its statement tells."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from gradguard.runtime.bounds import bound_of, keeps_the_last
from gradguard.runtime.source import Source, Sources

HEAD = """
class Memory:
    def __init__(self, capacity):
        self.rows, self.capacity, self.at, self.steps = [], capacity, 0, 0

    def put(self, row, most):
        self.at = (self.at + 1) % self.capacity
        self.steps += 1
"""


def bound(body: str, folder: Path) -> str | None:
    """The bound on ``rows`` that ``body`` of ``put`` has, as it is written."""
    file = folder / "memory.py"
    file.write_text(HEAD + "".join(f"        {line}\n" for line in body.splitlines()), encoding="utf-8")
    source = Sources().get(str(file))
    assert isinstance(source, Source)
    (stored,) = (n for n in ast.walk(source.tree) if isinstance(n, ast.Expr) and "rows.append" in ast.unparse(n))
    found = bound_of(source, stored, "rows")
    return None if found is None else ast.unparse(found)


BOUNDED = {
    "if len(self.rows) < self.capacity:\n    self.rows.append(row)": "self.capacity",
    "if self.capacity > len(self.rows):\n    self.rows.append(row)": "self.capacity",
    "if row and len(self.rows) < 500:\n    self.rows.append(row)": "500",
    "if not len(self.rows) >= most:\n    self.rows.append(row)": "most",
    "if len(self.rows) >= most:\n    self.rows[0] = row\nelse:\n    self.rows.append(row)": "most",
    "if len(self.rows) == most or not row:\n    return\nself.rows.append(row)": "most",
    "if self.at >= len(self.rows):\n    self.rows.append(row)": "self.at",
    "if self.at < 9:\n    self.rows.append(row)\nelse:\n    self.rows[self.at % 9] = row": "self.at % 9",
}

UNBOUNDED = [
    "self.rows.append(row)",
    "if len(row) < self.capacity:\n    self.rows.append(row)",
    "if len(self.rows) > 0:\n    self.rows.append(row)",
    "if len(self.rows) >= most:\n    self.rows.append(row)",
    "if row or len(self.rows) < most:\n    self.rows.append(row)",
    "if len(self.rows) >= most:\n    print(most)\nself.rows.append(row)",
    "if self.steps >= len(self.rows):\n    self.rows.append(row)",
    "if len(self.rows) % 100 == 0:\n    self.rows.append(row)",
]


@pytest.mark.parametrize("body", BOUNDED)
def test_what_bounds_a_collection(body: str, tmp_path: Path) -> None:
    assert bound(body, tmp_path) == BOUNDED[body]


@pytest.mark.parametrize("body", UNBOUNDED)
def test_what_bounds_none(body: str, tmp_path: Path) -> None:
    assert bound(body, tmp_path) is None


LAST_FEW = {
    "rows = [*rows[-3:], row]": True,
    "rows = rows[-3:] + [row]": True,
    "rows = [*rows, row][-3:]": True,
    "bank = joined[-512:]": False,
    "bank = torch.cat([bank[-9:], row])": False,
    "rows = [*rows, row]": False,
    "rows = [*rows[1:], row]": False,
    "rows += [row]": False,
}


@pytest.mark.parametrize("statement", LAST_FEW)
def test_what_keeps_the_last_few(statement: str) -> None:
    assert keeps_the_last(ast.parse(statement).body[0]) is LAST_FEW[statement]
