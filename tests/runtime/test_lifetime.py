"""What empties a collection, by reading the source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from gradguard.runtime.lifetime import emptied_in_a_loop, emptied_in_its_loop
from gradguard.runtime.source import Source, Sources


class Files(Sources):
    """The files of a folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def all(self) -> Iterator[Source]:
        for file in sorted(self.folder.glob("*.py")):
            found = self.get(str(file))
            assert found is not None
            yield found


def emptied(folder: Path, outlived: frozenset[tuple[str, int]] = frozenset(), **files: str) -> int | None:
    """The line that empties `pending`, an attribute that lives in `home.py`."""
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    found = emptied_in_a_loop(Files(folder), "pending", "attribute", str(folder / "home.py"), outlived)
    return found.line if found is not None else None


IN_A_LOOP = "def run(self):\n    for step in range(9):\n        {}\n"

EMPTYING = [
    "self.pending.clear()",
    "del self.pending[:]",
    "self.pending = []",
    "self.pending.pop(0)",
    "self.pending.popitem()",
    "while self.pending: self.pending.pop(next(iter(self.pending)))",
    "if len(self.pending) > 9: del self.pending[next(iter(self.pending))]",
]

OF_ONE_KEY = ["self.pending.pop(step)", "del self.pending[step]", "self.rows.append(self.pending.pop(step)())"]


@pytest.mark.parametrize("statement", EMPTYING)
def test_what_empties_a_collection(statement: str, tmp_path: Path) -> None:
    assert emptied(tmp_path, home=IN_A_LOOP.format(statement)) == 3


BEGUN_ONCE = [
    "for part in self.parts: self.pending[part] = []",
    "for name, part in self.parts.items(): self.pending[name, 0] = []",
    "for index, part in enumerate(self.parts):\n            if part: self.pending[f'{index}'] = []",
]


@pytest.mark.parametrize("loop", BEGUN_ONCE)
@pytest.mark.parametrize("again", [False, True])
def test_a_loop_that_begins_each_key_empties_none_unless_it_runs_again(loop: str, again: bool, tmp_path: Path) -> None:
    text = f"class Traces:\n    def attach(self):\n        {loop}\n"
    call = "for epoch in range(9):\n    Traces().attach()\n" if again else "Traces().attach()\n"
    assert (emptied(tmp_path, home=text, run=f"from home import Traces\n{call}") is not None) is again


def test_a_loop_over_something_else_empties_one_key_again(tmp_path: Path) -> None:
    text = "def run(self):\n    for step in range(9):\n        self.pending['train'] = []\n"
    assert emptied(tmp_path, home=text) == 3


BEGINNING = [
    "if step not in self.pending: self.pending[step] = []",
    "if step in self.pending.keys(): pass\n        else: self.pending[step] = []",
    "if self.pending is None: self.pending = []",
    "if not hasattr(self, 'pending'): self.pending = []",
    "if getattr(self, 'pending', None) is None: self.pending = {}",
    "if not self.pending.get(step): self.pending[step] = []",
    "if self.keeps and not self.pending: self.pending = []",
    "if step == 0: self.pending = []",
]


@pytest.mark.parametrize("statement", BEGINNING)
def test_what_begins_where_there_is_nothing_empties_nothing(statement: str, tmp_path: Path) -> None:
    assert emptied(tmp_path, home=IN_A_LOOP.format(statement)) is None


AGAIN = [
    "if step in self.pending: self.pending[step] = []",
    "if self.pending is not None: self.pending = []",
    "if self.pending: self.pending = []",
    "if self.keeps or not self.pending: self.pending = []",
    "if step % 9 == 0: self.pending = []",
    "if self.done not in self.rows: self.pending = []",
    "for part in range(3):\n            if part == 0: self.pending = []",
]


@pytest.mark.parametrize("statement", AGAIN)
def test_what_begins_anew_under_another_condition(statement: str, tmp_path: Path) -> None:
    assert emptied(tmp_path, home=IN_A_LOOP.format(statement)) in (3, 4)


OF_EACH = [
    "for rows in (self.done, self.pending): rows.clear()",
    "for rows in [self.pending, self.done]: del rows[:]",
    "for rows in self.pending.values(): rows.clear()",
]
IN_A_METHOD = """\
class Memory:
    def wipe(self):
        {}

def run(memory):
    for step in range(9):
        {}
"""


@pytest.mark.parametrize("statement", OF_EACH)
def test_what_empties_several_collections(statement: str, tmp_path: Path) -> None:
    assert emptied(tmp_path, home=IN_A_METHOD.format(statement, "memory.wipe()")) == 3


@pytest.mark.parametrize("statement", OF_EACH)
def test_several_collections_that_are_emptied_once(statement: str, tmp_path: Path) -> None:
    assert emptied(tmp_path, home=IN_A_METHOD.format(statement, "pass")) is None


@pytest.mark.parametrize(
    "statement",
    [
        "for rows in (self.done, self.late): rows.clear()",
        "for rows in (self.done, self.pending): rows.append(1)",
        "for rows in (self.done, self.pending): self.other.clear()",
        "for rows in (self.done, self.pending): rows.pop(self.key)",
        "for rows in self.pending: rows.clear()",
    ],
)
def test_a_loop_over_collections_that_leaves_this_one(statement: str, tmp_path: Path) -> None:
    assert emptied(tmp_path, home=IN_A_METHOD.format(statement, "memory.wipe()")) is None


@pytest.mark.parametrize("statement", OF_ONE_KEY)
def test_one_key_of_many_is_no_emptying(statement: str, tmp_path: Path) -> None:
    assert emptied(tmp_path, home=IN_A_LOOP.format(statement)) is None


def test_a_line_that_ran_and_emptied_nothing_does_not_empty_it(tmp_path: Path) -> None:
    home = str(tmp_path / "home.py")
    assert emptied(tmp_path, frozenset({(home, 3)}), home=IN_A_LOOP.format("self.pending.clear()")) is None
    assert emptied(tmp_path, frozenset({(home, 2)}), home=IN_A_LOOP.format("self.pending.clear()")) == 3


def test_a_line_with_a_condition_on_it_may_run_without_emptying(tmp_path: Path) -> None:
    home = str(tmp_path / "home.py")
    body = IN_A_LOOP.format("if step % 50 == 0: self.pending.clear()")
    assert emptied(tmp_path, frozenset({(home, 3)}), home=body) == 3


FUNCTION = "def flush(tap):\n    tap.pending.clear()\n"
METHOD = "class Tap:\n    def flush(self):\n        self.pending.clear()\n"
OTHER = (
    "class Other:\n    def flush(self):\n        pass\n    def run(self):\n        for _ in range(9):\n            {}\n"
)


@pytest.mark.parametrize(
    ("home", "other", "line"),
    [
        (FUNCTION, "from home import flush\nfor _ in range(9):\n    flush(tap)\n", 2),
        (FUNCTION, "import home as h\nfor _ in range(9):\n    h.flush(tap)\n", 2),
        (FUNCTION, "def flush():\n    pass\nfor _ in range(9):\n    flush()\n", None),
        (FUNCTION, "import sys\nfor _ in range(9):\n    sys.stdout.flush()\n", None),
        (METHOD, "for _ in range(9):\n    tap.flush()\n", 3),
        (METHOD, OTHER.format("self.tap.flush()"), 3),
        (METHOD, OTHER.format("self.flush()"), None),
        (METHOD, OTHER.replace("Other", "Other(Tap)").format("self.flush()"), 3),
        (METHOD, "def flush():\n    pass\nfor _ in range(9):\n    flush()\n", None),
    ],
)
def test_a_call_counts_that_may_be_one_of_the_function(home: str, other: str, line: int | None, tmp_path: Path) -> None:
    assert emptied(tmp_path, home=home, other=other) == line


WHOLE = "class Net:\n    def flush(self):\n        for tap in self.taps:\n            tap.flush()\n"


@pytest.mark.parametrize(
    ("calls", "line"),
    [
        ("", None),
        ("net.flush()\n", None),
        ("for _ in range(9):\n    net.flush()\n", 3),
        ("def end(net):\n    net.flush()\nwhile True:\n    end(net)\n", 3),
    ],
)
def test_a_method_that_hands_on_to_the_parts_must_be_called_in_a_loop_itself(
    calls: str, line: int | None, tmp_path: Path
) -> None:
    assert emptied(tmp_path, home=METHOD, other=WHOLE + calls) == line


TWO_CLASSES = """\
class Memory:
    def keep(self, row):
        self.pending.append(row)

class {}:
    def wipe(self):
        self.pending.clear()

def run(memory, other):
    for step in range(9):
        memory.keep(step)
        other.wipe()
"""
TWO_FUNCTIONS = """\
def first():
    pending = []
    def keep(row):
        pending.append(row)
    {}

def second():
    pending = []
    def keep(row):
        pending.append(row)
        {}
    return keep

def run(keep):
    for step in range(9):
        keep(step)
"""


def emptied_after(text: str, scope: str, folder: Path) -> int | None:
    """The line that empties what the first ``append`` of a text fills."""
    file = folder / "home.py"
    file.write_text(text)
    files = Files(folder)
    source = files.get(str(file))
    assert source is not None
    stored = next(n for n in ast.walk(source.tree) if isinstance(n, ast.Expr) and "append" in ast.unparse(n))
    found = emptied_in_a_loop(files, "pending", scope, str(file), stored=(str(file), stored))
    return found.line if found is not None else None


@pytest.mark.parametrize(("other", "line"), [("Other", None), ("Longer(Memory)", 7), ("Memory", 7)])
def test_another_class_empties_its_own(other: str, line: int | None, tmp_path: Path) -> None:
    assert emptied_after(TWO_CLASSES.format(other), "attribute", tmp_path) == line


@pytest.mark.parametrize(
    ("here", "there", "line"), [("pass", "pending.clear()", None), ("return pending", "pass", None)]
)
def test_another_function_empties_its_own(here: str, there: str, line: int | None, tmp_path: Path) -> None:
    assert emptied_after(TWO_FUNCTIONS.format(here, there), "closure", tmp_path) == line


def test_a_function_empties_what_it_fills(tmp_path: Path) -> None:
    text = TWO_FUNCTIONS.replace("        pending.append(row)\n    {}", "        pending.append(row)\n        {}", 1)
    assert emptied_after(text.format("pending.clear()", "pass"), "closure", tmp_path) == 5


OF_EACH_OWNER = [
    "for layer in layers: layer.pending.clear()",
    "for layer in layers: layer.pending = []",
    "for name, layer in layers.items():\n        if isinstance(layer, Block): del layer.pending[:]",
    "for layer in layers:\n        layer.pending.clear()\n        layer.reset()",
]


@pytest.mark.parametrize("loop", OF_EACH_OWNER)
@pytest.mark.parametrize("called", ["pass\n", "import home\nhome.reset_all(layers)\n"])
def test_one_loop_over_objects_empties_each_of_them_once(loop: str, called: str, tmp_path: Path) -> None:
    assert emptied(tmp_path, home=f"def reset_all(layers):\n    {loop}\n", main=called) is None


@pytest.mark.parametrize("loop", OF_EACH_OWNER)
def test_a_loop_over_objects_that_is_run_again_empties_them(loop: str, tmp_path: Path) -> None:
    called = "import home\nfor epoch in range(9):\n    home.reset_all(layers)\n"
    assert emptied(tmp_path, home=f"def reset_all(layers):\n    {loop}\n", main=called) is not None


@pytest.mark.parametrize("loop", OF_EACH_OWNER)
def test_a_loop_over_objects_in_another_loop_empties_them(loop: str, tmp_path: Path) -> None:
    text = f"def run(layers):\n    for epoch in range(9):\n     {loop}\n"
    assert emptied(tmp_path, home=text) is not None


@pytest.mark.parametrize(
    "body", ["train(task); task.pending.clear()", "loader.next(); task.pending = []", "self.pending.clear()"]
)
def test_a_loop_that_does_more_than_that_runs_again_and_again(body: str, tmp_path: Path) -> None:
    assert emptied(tmp_path, home=f"def run(tasks, self):\n    for task in tasks:\n        {body}\n") == 3


IN_ITS_LOOP = """
def train(steps):
    rows = []
    for epoch in range(9):
        {}
        for step in range(steps):
            rows.append(step)
            if step % 50 == 0:
                {}
"""


def emptied_in_place(
    outer: str,
    inner: str,
    folder: Path,
    outlived: frozenset[tuple[str, int]] = frozenset(),
    key: str | None = None,
) -> bool:
    file = folder / "home.py"
    file.write_text(IN_ITS_LOOP.format(outer, inner), encoding="utf-8")
    source = Sources().get(str(file))
    assert source is not None
    (stored,) = [n for n in ast.walk(source.tree) if isinstance(n, ast.Expr) and "append" in ast.dump(n)]
    return emptied_in_its_loop(source, stored, "rows", outlived, key) is not None


@pytest.mark.parametrize(
    ("inner", "is_emptied"),
    [
        ('rows["a"] = []', False),
        ('rows["a"].clear()', False),
        ('rows["b"] = []', True),
        ('rows["b"].clear()', True),
        ("rows[step].clear()", True),
        ("rows.clear()", True),
    ],
)
def test_what_empties_another_entry_of_a_dict(inner: str, is_emptied: bool, tmp_path: Path) -> None:
    assert emptied_in_place("pass", inner, tmp_path, key="b") is is_emptied


@pytest.mark.parametrize("inner", ["rows = []", "rows.clear()", "del rows[:]", "rows: list[int] = []"])
def test_what_empties_a_list_in_the_loop_that_fills_it(inner: str, tmp_path: Path) -> None:
    assert emptied_in_place("pass", inner, tmp_path)
    assert not emptied_in_place("pass", inner, tmp_path, frozenset({(str(tmp_path / "home.py"), 9)}))


@pytest.mark.parametrize(
    ("outer", "inner"),
    [("rows = []", "print(rows)"), ("pass", "others = []"), ("pass", "rows = rows + [1]"), ("pass", "rows.pop(step)")],
)
def test_what_does_not(outer: str, inner: str, tmp_path: Path) -> None:
    """Once an epoch is the classic leak: the list is local to it."""
    assert not emptied_in_place(outer, inner, tmp_path)


OF_A_LOCAL = """
class Memory:
    def keep(self, loss):
        rows = self.pending
        rows.append(loss)

class Other:
    pass

{}
"""

TOLD = [
    ("def run(held: Other):\n    for _ in range(9): held.pending.clear()", {"Memory"}, False),
    ("def run(held: Memory):\n    for _ in range(9): held.pending.clear()", {"Memory"}, True),
    ("def run(held: Memory):\n    for _ in range(9): held.pending.clear()", {"Longer", "Memory"}, True),
    ("def run(held):\n    for _ in range(9): held.pending.clear()", {"Memory"}, True),
    ("def run():\n    held = Other()\n    for _ in range(9): held.pending.clear()", {"Memory"}, False),
    ("def run():\n    held = Memory()\n    for _ in range(9): held.pending.clear()", {"Memory"}, True),
    ("def run():\n    held = made()\n    for _ in range(9): held.pending.clear()", {"Memory"}, True),
    ("def run(held: Other):\n    held = held.memory\n    for _ in range(9): held.pending.clear()", {"Memory"}, True),
    ("def run(held: nn.Module):\n    for _ in range(9): held.pending = []", {"Own", "Optimizer"}, False),
    ("def run(held: nn.Module):\n    for _ in range(9): held.pending = []", {"Own", "Module"}, True),
    ("class Net(nn.Module):\n    def f(self):\n        for _ in range(9): self.pending = []", {"Own", "Module"}, False),
    ("class Own(nn.Module):\n    def f(self):\n        for _ in range(9): self.pending = []", {"Own", "Module"}, True),
    ("class Net(Own):\n    def f(self):\n        for _ in range(9): self.pending = []", {"Own", "Module"}, True),
    ("def run(held: Kept):\n    for _ in range(9): held.pending = []", {"Memory"}, True),
    ("def run(held: Other):\n    for _ in range(9): held.pending.clear()", set(), True),
]


@pytest.mark.parametrize(("text", "kinds", "found"), TOLD)
def test_what_is_said_to_be_of_another_class_is_another_s(
    text: str, kinds: set[str], found: bool, tmp_path: Path
) -> None:
    (tmp_path / "home.py").write_text(OF_A_LOCAL.format(text))
    home = str(tmp_path / "home.py")
    place = emptied_in_a_loop(Files(tmp_path), "pending", "attribute", home, kinds=frozenset(kinds))
    assert (place is not None) is found
