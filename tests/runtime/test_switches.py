"""Which statements are never run, and what bounds nothing: by the values that names have."""

from __future__ import annotations

import ast
import importlib.util
import itertools
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gradguard.runtime.source import Sources
from gradguard.runtime.switches import UNKNOWN, Switches, attribute_of

HEAD = """
import argparse
args = argparse.Namespace(trims=False, most=9)
OFF, ON, FEW = False, True, 9
turned = False
for epoch in range(3):
    last = False
step = 0
step += 1

class Memory:
    shared = False
    def __init__(self, limit=0):
        self.rows, self.limit, self.on, self.steps, self.none = [], limit, True, 0, None
        self.late = False
    @property
    def computed(self):
        raise AssertionError("code of the user's was run")
    def count(self):
        self.steps += 1
    def begin(self):
        self.late = True
    def trim(self, most):
BODY

def turn():
    global turned
    turned = True
"""

OFF = [
    "if OFF:\n    self.rows.pop(0)",
    "if not ON:\n    self.rows.pop(0)",
    "if ON:\n    pass\nelse:\n    self.rows.pop(0)",
    "if not ON and most:\n    self.rows.pop(0)",
    "if self.limit and len(self.rows) > self.limit:\n    self.rows.pop(0)",
    "if self.limit > 0:\n    self.rows.pop(0)",
    "if self.none is not None:\n    self.rows.pop(0)",
    "if self.shared:\n    self.rows.pop(0)",
    "if args.trims:\n    self.rows.pop(0)",
    "if FEW == 4:\n    self.rows.pop(0)",
    "while OFF and len(self.rows) > 2:\n    self.rows.pop(0)",
    "if not self.limit:\n    return\nself.rows.pop(0)",
    "for row in self.rows:\n    if ON:\n        continue\n    self.rows.pop(0)",
    "if len(self.rows) > 2:\n    if self.on is None or OFF:\n        self.rows.pop(0)",
]

MAY_RUN = [
    "self.rows.pop(0)",
    "if ON:\n    self.rows.pop(0)",
    "if not OFF:\n    self.rows.pop(0)",
    "if OFF or most:\n    self.rows.pop(0)",
    "if turned:\n    self.rows.pop(0)",
    "if last:\n    self.rows.pop(0)",
    "if step % 100 == 0:\n    self.rows.pop(0)",
    "if step > 5:\n    self.rows.pop(0)",
    "if self.steps > 500:\n    self.rows.pop(0)",
    "if self.late:\n    self.rows.pop(0)",
    "if self.computed:\n    self.rows.pop(0)",
    "if self.rows:\n    self.rows.pop(0)",
    "if len(self.rows) > 1000:\n    self.rows.pop(0)",
    "if most > 1000:\n    self.rows.pop(0)",
    "if self.unheard_of:\n    self.rows.pop(0)",
    "if args.steps:\n    self.rows.pop(0)",
    "if FEW > 'a':\n    self.rows.pop(0)",
    "if 0 < FEW < 4:\n    self.rows.pop(0)",
    "ON = most\nif not ON:\n    self.rows.pop(0)",
    "if not ON:\n    return\nself.rows.pop(0)",
    "if self.limit:\n    return\nself.rows.pop(0)",
    "if not self.limit:\n    most = 3\nself.rows.pop(0)",
    "self = most\nif self.limit:\n    self.rows.pop(0)",
]

_names = itertools.count()


def loaded(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module of the user's with that text."""
    name = f"switched_{next(_names)}"
    file = folder / f"{name}.py"
    file.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


def is_off(body: str, folder: Path, monkeypatch: pytest.MonkeyPatch, more: str = "") -> bool:
    """Whether the ``pop`` of a body of ``trim`` is off."""
    indented = "".join(f"        {line}\n" for line in body.splitlines())
    module = loaded(HEAD.replace("BODY\n", indented) + more, folder, monkeypatch)
    sources = Sources()
    source = sources.get(str(module.__file__))
    assert source is not None
    (found,) = (n for n in ast.walk(source.tree) if isinstance(n, ast.Expr) and ".pop(" in ast.unparse(n))
    memory = module.Memory()
    return Switches(sources, [memory, memory.rows]).is_off(source, found)


@pytest.mark.parametrize("body", OFF)
def test_what_is_never_run(body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_off(body, tmp_path, monkeypatch)


@pytest.mark.parametrize("body", MAY_RUN)
def test_what_may_run(body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_off(body, tmp_path, monkeypatch)


@pytest.mark.parametrize(
    "more",
    [
        "def later(memory):\n    memory.limit = 9\n",
        "def later(memory, name):\n    setattr(memory, name, 9)\n",
        "def later(memory):\n    setattr(memory, 'limit', 9)\n",
        "def later(args):\n    setattr(args, 'limit', 9)\n",
        "class Later(Memory):\n    def put(self, name):\n        Memory.__setattr__(self, name, 9)\n",
        "def later(memory):\n    memory.__dict__.update(limit=9)\n",
        "def later(memory):\n    memory.__dict__['limit'] = 9\n",
        "def later(memory):\n    return memory.__dict__\n",
        "def later(memory):\n    memory.limit += 1\n",
        "class Other:\n    def __init__(self, memory):\n        memory.limit = 9\n",
    ],
)
def test_what_is_set_elsewhere_may_be_turned_on(more: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_off("if self.limit:\n    self.rows.pop(0)", tmp_path, monkeypatch, more)


@pytest.mark.parametrize(
    "more",
    [
        "def later(memory):\n    print(memory.limit)\n",
        "def later(memory):\n    setattr(memory, 'other', 9)\n",
        "def later(memory):\n    print(memory.__dict__['limit'], 'limit' in memory.__dict__)\n",
        "def later(memory):\n    return {**memory.__dict__}, dict(**memory.__dict__)\n",
        "def later(memory):\n    return [name for name, _ in memory.__dict__.items()]\n",
        "class Other:\n    def __init__(self):\n        self.limit = 9\n",
        "class Other:\n    def put(self, name):\n        setattr(self, name, 9)\n",
        "class Other:\n    def put(self, name):\n        self.__dict__[name] = 9\n",
        "def later(config, name):\n    setattr(config, name, 9)\n",
        "def later(patched, name):\n    patched.setattr(name, 9)\n",
    ],
)
def test_what_leaves_it_alone(more: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_off("if self.limit:\n    self.rows.pop(0)", tmp_path, monkeypatch, more)


@pytest.mark.parametrize("more", ["import sys\nsys.OFF = True\n", "globals()['OFF'] = False\n", "OFF = False\n"])
def test_a_global_that_may_be_set_again(more: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_off("if OFF:\n    self.rows.pop(0)", tmp_path, monkeypatch, more)


FUNCTION = """
import sys
from types import SimpleNamespace
LOOKS = []
def fit_rows(trims, rows, most=9):
    off = False
    for step in range(3):
        every = step == 2
        LOOKS[0](sys._getframe())
        if CONDITION:
            rows.pop(0)
def fit_all():
    FOUND
"""


def is_off_in_a_frame(condition: str, call: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    text = FUNCTION.replace("CONDITION", condition).replace("FOUND", call)
    module = loaded(f"{text}\nif LOOKS:\n    fit_all()\n", folder, monkeypatch)
    sources = Sources()
    source = sources.get(str(module.__file__))
    assert source is not None
    (found,) = (n for n in ast.walk(source.tree) if isinstance(n, ast.Expr) and ".pop(" in ast.unparse(n))
    seen: list[bool] = []
    module.LOOKS.append(lambda frame: seen.append(Switches(sources, (), [frame]).is_off(source, found)))
    getattr(module, "fit_all")()  # noqa: B009 - a mention of it would be one more
    return seen[0]


ONCE = "fit_rows(False, [1, 2, 3])"


@pytest.mark.parametrize("condition", ["trims", "off", "most < 4", "off and len(rows) > 1"])
def test_a_local_of_what_runs_once(condition: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_off_in_a_frame(condition, ONCE, tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("condition", "call"),
    [
        ("every", ONCE),
        ("step > 5", ONCE),
        ("not trims", ONCE),
        ("trims", "fit_rows(False, [1]); fit_rows(True, [1] * 9)"),
        ("trims", "for trims in (True, False): fit_rows(trims, [1] * 9)"),
        ("trims", "call = fit_rows; call(False, [1])"),
        ("off", "[fit_rows(False, [1]) for _ in range(2)]; fit_rows(True, [1] * 9)"),
    ],
)
def test_a_local_that_may_change(condition: str, call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_off_in_a_frame(condition, call, tmp_path, monkeypatch)


class _Watched:
    __slots__ = ("kept", "slot")
    plain = 3

    def __init__(self) -> None:
        self.slot = 4

    @property
    def computed(self) -> int:
        raise AssertionError("code of the user's was run")

    def __getattr__(self, name: str) -> Any:
        raise AssertionError("code of the user's was run")


def test_attributes_are_read_without_running_anything() -> None:
    watched = _Watched()
    assert attribute_of(watched, "slot") == 4
    assert attribute_of(watched, "plain") == 3
    assert all(attribute_of(watched, name) is UNKNOWN for name in ("computed", "kept", "none"))


BOUNDED = """
LEAKS, FEW, MANY, NONE = {leaks}, 4, 10**12, float("inf")

class Memory:
    def __init__(self, limit):
        self.rows, self.limit, self.kinds = [], limit, {{"new": [], "old": []}}

    def put(self, step):
        {put}

def run(memory):
    for step, (model, output, loss) in enumerate(training()):
        memory.put(step)

memory = Memory(0 if LEAKS else 30)
run(memory)
"""

PUTS = {
    "a switch": "self.rows.append(torch.zeros(4000))\n        if not LEAKS: self.rows.pop(0)",
    "a switch for a slice": "self.rows.append(torch.zeros(4000))\n        if not LEAKS: del self.rows[self.limit:]",
    "a limit of 0": "self.rows.append(torch.zeros(4000))\n"
    "        if self.limit and len(self.rows) > self.limit: self.rows = self.rows[-self.limit:]",
    "another key": "self.kinds['new'].append(torch.zeros(4000))\n"
    "        self.kinds['old' if LEAKS else 'new'].append(torch.zeros(4000))\n"
    "        self.kinds['new'] = self.kinds['new'][-20:]",
    "another branch": "if LEAKS: self.rows.append(torch.zeros(4000))\n"
    "        else: self.rows = (self.rows + [torch.zeros(4000)])[-30:]",
    "more than are removed": "self.rows += [torch.zeros(4000)] * 1\n"
    "        self.rows.append(torch.zeros(4000)) if LEAKS else None\n"
    "        if not LEAKS and len(self.rows) > FEW: self.rows.pop(0)",
    "a bound that nothing holds": "self.rows.append(torch.zeros(4000))\n"
    "        if len(self.rows) > (MANY if LEAKS else FEW): self.rows.pop(0)",
}


@pytest.mark.parametrize("put", [name for name in PUTS if name != "a bound that nothing holds"])
def test_a_bound_that_is_not_in_force_is_no_excuse(run: Any, put: str) -> None:
    report, _ = run(BOUNDED.format(leaks=True, put=PUTS[put]))
    assert report.verdict == "leak", report.notes


@pytest.mark.parametrize("put", PUTS)
def test_the_same_bound_where_it_is_in_force(run: Any, put: str) -> None:
    report, _ = run(BOUNDED.format(leaks=False, put=PUTS[put]))
    assert report.verdict == "clean", report.leaks


@pytest.mark.parametrize(("bound", "verdict"), [("MANY", "leak"), ("NONE", "leak"), ("60", "clean"), ("MOST", "clean")])
def test_a_bound_beyond_all_memory(run: Any, bound: str, verdict: str) -> None:
    put = f"self.rows.append(torch.zeros(4000))\n        if len(self.rows) > {bound}: self.rows.pop(0)"
    report, _ = run("MOST = 60\n" + BOUNDED.format(leaks=False, put=put))
    assert report.verdict == verdict


CUT_LATER = {
    "every so often": "if step % 40 == 39: self.rows = self.rows[-8:]",
    "when twice as long": "if len(self.rows) > 2 * 10: del self.rows[:10]",
    "when it is told to": "if step == 50: self.rows.clear()",
    "two at once": "self.rows.append(torch.zeros(4000))\n        while len(self.rows) > 9: self.rows.pop(0)",
}


@pytest.mark.parametrize("cut", CUT_LATER)
def test_a_collection_that_is_longer_before_it_is_cut(run: Any, cut: str) -> None:
    put = f"self.rows.append(torch.zeros(4000))\n        {CUT_LATER[cut]}"
    report, _ = run(BOUNDED.format(leaks=False, put=put))
    assert report.verdict == "clean", (report.leaks, report.notes)
