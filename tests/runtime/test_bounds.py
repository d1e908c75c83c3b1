"""How long a collection may become, as far as its statement tells."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from gradguard.runtime.bounds import bound_of, index_of_ring, keeps_the_last, trimmed_at
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
    "if len(self.keys) < self.capacity:\n    self.keys.append(1)\n    self.rows.append(row)": "self.capacity",
    "if len(self.keys) < 9:\n    self.rows.append(row)\n    self.keys.append(1)\nelse:\n    self.keys[0] = 1": "9",
    "if len(self.keys) >= most:\n    return\nself.keys.append(1)\nself.rows.append(row)": "most",
    "if len(self.keys) < most:\n    self.keys.append(1)\n    self.rows.append(row)\n"
    "elif row:\n    self.keys.clear()\n    self.rows.clear()": "most",
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
    "if len(self.keys) < self.capacity:\n    self.rows.append(row)",
    "if len(self.keys) < self.capacity:\n    self.keys[0] = 1\n    self.rows.append(row)",
    "if len(self.keys) < most:\n    self.keys.append(1)\n    self.rows.append(row)\nelse:\n    self.keys.pop(0)",
    "if len(self.keys) < most:\n    self.keys.append(1)\n    self.rows.append(row)\nelse:\n    self.keys = []",
    "if len(self.keys) < most:\n    self.keys.append(1)\n    for each in row:\n        self.rows.append(each)",
    "if len(self.keys) < most:\n    self.keys.append(1)\nself.rows.append(row)",
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


TRIMMED = {
    "rows.append(row)\nif len(rows) > 9:\n    rows.pop(0)": "9",
    "rows.append(row)\nwhile len(rows) > most:\n    rows.popleft()": "most",
    "rows.append(row)\nif most < len(rows):\n    del rows[0]": "most",
    "rows.append(row)\nif len(rows) > 9:\n    rows = rows[1:]": "9",
    "rows.append(row)\nrows = rows[-most:]": "most",
    "rows.append(row)\nrows[:] = rows[-9:]": "9",
    "rows.append(row)\nrows.sort()\ndel rows[9:]": "9",
    "rows.append(row)\ndel rows[:-9]": "9",
    "rows.append(row)\nrows = sorted(rows, key=len)[:9]": "9",
    "rows.append(row)\nrows = heapq.nlargest(9, rows)": "9",
    "rows.append(row)\nif len(rows) > 9:\n    heapq.heappop(rows)": "9",
    "rows[step] = row\nif len(rows) > 9:\n    del rows[min(rows)]": "9",
}

NOT_TRIMMED = [
    "rows.append(row)",
    "rows.append(row)\nif len(rows) > 9:\n    print(len(rows))",
    "rows.append(row)\nif len(rows) > 9:\n    others.pop(0)",
    "rows.append(row)\nif len(others) > 9:\n    rows.pop(0)",
    "rows.append(row)\nlast = rows[-9:]",
    "rows.append(row)\nrows = rows[9:] + rows[:9]",
    "rows.append(row)\nrows = rows[:-9]",
    "rows.append(row)\nrows = others[-9:]",
    "rows.append(row)\ndel others[9:]",
    "rows.append(row)\nif len(rows) > count:\n    rows.pop(0)\ncount += 1",
    "rows.append(row)\nif len(rows) > 9:\n    rows[0] = None",
]


def trimmed(body: str, folder: Path, after: str = "", key: str | None = None) -> str | None:
    """The length to which a loop with ``body`` keeps ``rows``, or what it has under ``key``, as it is written."""
    file = folder / "loop.py"
    lines = "".join(f"        {line}\n" for line in body.splitlines())
    file.write_text(f"def run(rows, others, most, steps, count):\n    for step, row in steps:\n{lines}{after}")
    source = Sources().get(str(file))
    assert isinstance(source, Source)
    first = min((n for n in ast.walk(source.tree) if isinstance(n, ast.Expr | ast.Assign)), key=lambda n: n.lineno)
    found = trimmed_at(source, first, "rows", key)
    return None if found is None else ast.unparse(found[1])


@pytest.mark.parametrize("body", TRIMMED)
def test_what_keeps_a_collection_short(body: str, tmp_path: Path) -> None:
    assert trimmed(body, tmp_path) == TRIMMED[body]


@pytest.mark.parametrize("body", NOT_TRIMMED)
def test_what_does_not(body: str, tmp_path: Path) -> None:
    assert trimmed(body, tmp_path) is None


KEYED = {
    'rows["b"].append(row)\nrows["a"] = rows["a"][-9:]': None,
    'rows["b"].append(row)\nif len(rows["a"]) > 9:\n    rows["a"].pop(0)': None,
    'rows["b"].append(row)\ndel rows["a"][9:]': None,
    'rows["b"].append(row)\nrows["b"] = rows["b"][-9:]': "9",
    'rows["b"].append(row)\nif len(rows["b"]) > 9:\n    rows["b"].pop(0)': "9",
    'rows["b"].append(row)\nif len(rows["a"]) > 9:\n    rows["a"].pop(0)\n    rows["b"].pop(0)': "9",
    'rows["b"].append(row)\nif len(rows["a"]) > 9:\n    rows["a"].pop(0)\n    rows[most].pop(0)': "9",
    'rows["b"].append(row)\nrows[most] = rows[most][-9:]': "9",
    'rows["b"].append(row)\nrows["a"], rows["b"] = rows["b"], rows["a"]\ndel rows["b"][9:]': "9",
}


@pytest.mark.parametrize("body", KEYED)
def test_what_keeps_another_entry_of_a_dict_short(body: str, tmp_path: Path) -> None:
    assert trimmed(body, tmp_path, key="b") == KEYED[body]


def test_what_is_cut_after_the_loop_grew_in_it(tmp_path: Path) -> None:
    assert trimmed("rows.append(row)", tmp_path, after="    rows = rows[-9:]\n") is None


@pytest.mark.parametrize(
    ("statement", "places"),
    [
        ("ring[step % 100] = loss", "100"),
        ("self.ring[self.at % self.size] = loss", "self.size"),
        ("ring[step] = loss", None),
        ("other[step % 100] = loss", None),
        ("ring[step // 100] = loss", None),
    ],
)
def test_a_ring_has_as_many_places_as_its_index(statement: str, places: str | None) -> None:
    found = index_of_ring(ast.parse(statement).body[0], "ring")
    assert (ast.unparse(found) if found is not None else None) == places
