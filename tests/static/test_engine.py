from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gradguard import catalogue
from gradguard.config import Settings
from gradguard.findings import CheckResult, Confidence, Finding
from gradguard.static.engine import check
from gradguard.static.flow import Flow
from gradguard.static.model import Function
from gradguard.static.project import Module
from gradguard.static.source import Source
from tests.support import CHECKOUT, write

LEAK = """\
import torch
import torch.nn.functional as F

def train(model, loader, optimizer):
    total = 0
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss{comment}
"""


def run(folder: Path, files: dict[str, str], **settings: object) -> CheckResult:
    write(folder, files)
    paths = sorted(p for p in folder.rglob("*") if p.suffix in (".py", ".ipynb"))
    return check(paths, Settings(folder, **settings), catalogue.load())  # type: ignore[arg-type]


def codes(result: CheckResult) -> list[str]:
    return [f.code for f in result.findings]


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_findings_are_sorted_and_relative(tmp_path: Path) -> None:
    result = run(tmp_path, {"b/z.py": LEAK.format(comment=""), "a.py": LEAK.format(comment="") * 2})
    assert [(f.path, f.span.line) for f in result.findings] == [("a.py", 22), ("b/z.py", 11)]
    assert result.files == 2
    assert result.exit_status == 1


def test_suppressed_and_unused(tmp_path: Path) -> None:
    assert codes(run(tmp_path, {"a.py": LEAK.format(comment="  # gradguard: ignore[GG103]")})) == []
    assert codes(run(tmp_path, {"a.py": LEAK.format(comment=".item()  # gradguard: ignore[GG103]")})) == ["GG001"]


def test_selection_and_per_file_ignores(tmp_path: Path) -> None:
    files = {"a.py": LEAK.format(comment="")}
    assert codes(run(tmp_path, files, select=("GG2",))) == []
    assert codes(run(tmp_path, files, ignore=("GG10",))) == []
    assert codes(run(tmp_path, files, per_file_ignores=(("a.py", ("GG103",)),))) == []


def test_a_broken_file_does_not_stop_the_others(tmp_path: Path) -> None:
    result = run(tmp_path, {"a.py": "import torch\nloss.backward(\n", "b.py": LEAK.format(comment="")})
    assert [(e.path, e.line) for e in result.errors] == [("a.py", 2)]
    assert codes(result) == ["GG103"]
    assert result.exit_status == 2


def test_a_function_that_cannot_be_analysed_is_an_error_of_its_own(tmp_path: Path) -> None:
    deep = "def deep(x):\n    x.grad = " + " + ".join(["1"] * 400) + "\n"
    result = run(tmp_path, {"a.py": LEAK.format(comment="") + deep})
    assert [(e.line, "nested" in e.message) for e in result.errors] == [(12, True)]
    assert codes(result) == ["GG103"]


def test_a_finding_that_libcst_cannot_read_is_an_error(tmp_path: Path) -> None:
    unreadable = LEAK.format(comment="") + "    text = (" + "'a' " * 5_000 + ")\n"
    result = run(tmp_path, {"a.py": unreadable, "b.py": LEAK.format(comment="")})
    assert [(e.path, e.line, "LibCST" in e.message) for e in result.errors] == [("a.py", 12, True)]
    assert codes(result) == ["GG103"]
    assert result.exit_status == 2


def test_comments_of_a_broken_file_are_not_called_unused(tmp_path: Path) -> None:
    leak = LEAK.format(comment="  # gradguard: ignore[GG103]")
    assert codes(run(tmp_path, {"a.py": leak + "def broken(:\n"})) == []
    deep = "def deep(x):\n    x.grad = " + " + ".join(["1"] * 400) + "  # gradguard: ignore[GG103]\n"
    assert codes(run(tmp_path, {"b.py": LEAK.format(comment=".item()") + deep})) == []


def test_a_suppression_may_name_the_rule(tmp_path: Path) -> None:
    assert codes(run(tmp_path, {"a.py": LEAK.format(comment="  # gradguard: ignore[loss-accumulation]")})) == []
    (prefix,) = run(tmp_path, {"a.py": LEAK.format(comment=".item()  # gradguard: ignore[GG1]")}).findings
    assert "write whole codes" in prefix.message


def test_a_large_table_costs_nothing(tmp_path: Path) -> None:
    table = "TABLE = [" + ", ".join(map(str, range(5000))) + "]\n"
    result = run(tmp_path, {"a.py": table + LEAK.format(comment="")})
    assert codes(result) == ["GG103"]
    assert not result.errors


def test_one_finding_for_each_place(tmp_path: Path) -> None:
    code = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)
        self.seen = []

    def forward(self, x):
        y = self.fc(x)
        self.seen.append(y)
        return y

def train(loader):
    net = Net()
    opt = torch.optim.SGD(net.parameters(), 0.1)
    for x in loader:
        opt.zero_grad()
        net(x).sum().backward()
        opt.step()
"""
    result = run(tmp_path, {"a.py": code})
    assert [(f.code, f.span.line) for f in result.findings] == [("GG104", 13)]


def test_a_unit_test_is_not_an_evaluation(tmp_path: Path) -> None:
    body = "    for x in loader:\n        print(miner(x))\n    miner.parameters()\n"
    code = "import torch\n\ndef test_miner(miner, loader):\n" + body
    assert codes(run(tmp_path, {"test_miner.py": f"import pytest\n{code}"})) == []
    assert codes(run(tmp_path, {"train.py": code})) == ["GG301"]


def test_files_without_torch_are_silent(tmp_path: Path) -> None:
    other = (
        LEAK.format(comment="")
        .replace("torch.nn.functional as F", "numpy as F")
        .replace("import torch\n", "import jax\n")
    )
    assert codes(run(tmp_path, {"a.py": "# not torch\n" + other})) == []


def test_torch_through_a_star_import(tmp_path: Path) -> None:
    body = LEAK.format(comment="").replace(
        "import torch\nimport torch.nn.functional as F\n", "from common import *  # torch\n"
    )
    result = run(tmp_path, {"common.py": "import torch\nimport torch.nn.functional as F\n", "a.py": body})
    assert codes(result) == ["GG103"]


def test_over_several_files(tmp_path: Path) -> None:
    result = run(
        tmp_path,
        {
            "pkg/__init__.py": "from .meters import Meter\n",
            "pkg/meters.py": "class Meter:\n    def __init__(self):\n        self.sum = 0\n"
            "    def add(self, value):\n        self.sum += value\n",
            "pkg/base.py": "class Base:\n    def fit(self, loader):\n        for batch in loader:\n"
            "            self.optimizer.zero_grad()\n            loss = self.compute(batch)\n"
            "            loss.backward()\n            self.optimizer.step()\n            self.after(loss)\n",
            "train.py": "import torch\nfrom torch import nn\nfrom pkg import Meter\nfrom pkg.base import Base\n\n"
            "class Trainer(Base):\n    def __init__(self):\n        self.net = nn.Linear(2, 2)\n"
            "        self.optimizer = torch.optim.SGD(self.net.parameters(), 0.1)\n        self.meter = Meter()\n\n"
            "    def compute(self, batch):\n        return self.net(batch).sum()\n\n"
            "    def after(self, loss):\n        self.meter.add(loss)\n",
        },
    )
    (finding,) = result.findings
    assert finding.code == "GG107"
    assert any(r.path == "pkg/meters.py" and r.line == 5 for r in finding.related)


def test_notebooks(tmp_path: Path) -> None:
    body = LEAK.format(comment="").splitlines(keepends=True)
    cells = [{"cell_type": "code", "source": body[:3]}, {"cell_type": "markdown", "source": []},
             {"cell_type": "code", "source": body[3:]}]  # fmt: skip
    result = run(tmp_path, {"n.ipynb": json.dumps({"cells": cells, "nbformat": 4})})
    assert [(f.cell, f.span.line) for f in result.findings] == [(2, 8)]


def test_low_confidence_waits(tmp_path: Path) -> None:
    code = "import torch\n\ndef f(model, n, x):\n    out = []\n    for _ in range(n):\n        out.append(model(x))\n"
    files = {"a.py": code + "    print(out[0].mean().item())\n\noptimizer.zero_grad()\n"}
    assert codes(run(tmp_path, files)) == []
    low = run(tmp_path, files, min_confidence=Confidence.LOW)
    assert [(f.code, f.confidence) for f in low.findings] == [("GG104", Confidence.LOW)]


@pytest.mark.parametrize("comment", ["", "  # gradguard: ignore[GG302]"])
def test_a_rule_of_low_confidence_is_not_asked_by_default(tmp_path: Path, comment: str) -> None:
    """And a comment that silences it is of use all the same."""
    code = f"import torch\n\ndef f(x):\n    net = torch.nn.Linear(2, 2)\n    return net(x).numpy(){comment}\n"
    assert codes(run(tmp_path, {"a.py": code})) == []
    low = run(tmp_path, {"a.py": code}, min_confidence=Confidence.LOW)
    assert [(f.code, f.confidence) for f in low.findings] == ([] if comment else [("GG302", Confidence.LOW)])


def test_a_comment_for_a_rule_that_is_asked_and_finds_nothing_is_unused(tmp_path: Path) -> None:
    assert codes(run(tmp_path, {"a.py": "import torch\nx = 1  # gradguard: ignore[GG103]\n"})) == ["GG001"]


def test_the_screen_skips_nothing_that_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Screened and unscreened runs find the same in every fixture."""
    monkeypatch.chdir(CHECKOUT)
    files = sorted((CHECKOUT / "fixtures").rglob("*.py"))
    settings = Settings(CHECKOUT, min_confidence=Confidence.LOW)
    screened = check(files, settings, catalogue.load())
    assert check(files, settings, catalogue.load(), screened=False).findings == screened.findings
    assert screened.findings


@pytest.mark.usefixtures("as_written")
def test_an_internal_fault_is_reported_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRADGUARD_DEBUG", raising=False)
    monkeypatch.setattr(Flow, "run", lambda self: 1 / 0)
    result = run(tmp_path, {"a.py": LEAK.format(comment="")})
    assert result.errors
    assert "internal error" in result.errors[0].message


@pytest.mark.usefixtures("as_written")
@pytest.mark.parametrize("wrong", [RecursionError, AttributeError])
@pytest.mark.parametrize("place", ["flow", "rule", "file"])
def test_a_fault_in_one_file_costs_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, wrong: type[Exception]
) -> None:
    """It is an error of that file, which ends in status 2; what the other rules and files say stands."""

    def fails(source: Source) -> None:
        if source.path == "b.py":
            raise wrong

    def runs(flow: Flow, before: Callable[[Flow], None] = Flow.run) -> None:
        fails(flow.module.source)
        before(flow)

    def uses_torch(module: Module) -> bool:
        fails(module.source)
        return True

    def finds(function: Function) -> Iterator[Finding]:
        if function.site is not None:
            fails(function.site.chunk.source)
        return iter(())

    monkeypatch.delenv("GRADGUARD_DEBUG", raising=False)
    loaded = catalogue.load()
    if place == "flow":
        monkeypatch.setattr(Flow, "run", runs)
    elif place == "file":
        monkeypatch.setattr(Module, "uses_torch", property(uses_torch))
    else:
        rule = next(rule for rule in loaded.rules if rule.code == "GG104")
        monkeypatch.setattr(rule, "source_check", finds)
    files = {name: LEAK.format(comment="") for name in ("a.py", "b.py", "c.py")}
    result = run(tmp_path, files)
    found = [finding.path for finding in result.findings]
    assert found == (["a.py", "b.py", "c.py"] if place == "rule" else ["a.py", "c.py"])
    assert {error.path for error in result.errors} == {"b.py"}
    assert result.exit_status == 2


def test_a_file_without_torch_that_a_program_with_torch_imports(tmp_path: Path) -> None:
    """A callback needs no torch of its own; the same file beside a program that does not import it is nobody's."""
    callback = (
        "import copy\n\nclass Best:\n    def __init__(self):\n        self.kept = []\n\n"
        "    def on_epoch_end(self, trainer):\n        self.kept.append(copy.deepcopy(trainer.model.state_dict()))\n"
    )
    strangers = run(tmp_path, {"callbacks.py": callback, "train.py": "import torch\nimport numpy\n"})
    assert not strangers.findings
    found = run(tmp_path, {"train.py": "import torch\nfrom callbacks import Best\n"}).findings
    assert [(f.path, f.code, f.span.line) for f in found] == [("callbacks.py", "GG406", 8)]


FACTORIZATION = """
import torch

class Factors(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(9, 4)

    def losses(self, items):
        return self.table(items).pow(2).mean(), self.table(items).abs().mean()
"""
RUNNER = """
import torch

class Runner:
    def __init__(self, model, optimizer):
        self.model, self.optimizer, self.history = model, optimizer, []

    def fit(self, loader):
        for items in loader:
            loss, spread = self.model.losses(items)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.history.append(spread)
"""
PROGRAM = "from {package}factors import Factors\nfrom {package}runner import Runner\n\nRunner({model}, None).fit([])\n"


@pytest.mark.parametrize("package", ["", "parts."])
def test_a_script_that_imports_no_torch_says_what_its_program_is_made_of(tmp_path: Path, package: str) -> None:
    """What is handed to the runner is told by the script, which names the files of its program only."""
    folder = package.replace(".", "/")
    files = {f"{folder}factors.py": FACTORIZATION, f"{folder}runner.py": RUNNER, f"{folder}__init__.py": ""}
    found = run(tmp_path, {**files, "main.py": PROGRAM.format(package=package, model="Factors()")}).findings
    assert [(f.path, f.code, f.span.line) for f in found] == [(f"{folder}runner.py", "GG104", 14)]
    another = PROGRAM.format(package=package, model="Table()")
    assert not run(tmp_path, {"main.py": another}).findings


LOOP = """
\"\"\"A loop around a model of torch.\"\"\"
from .parts import Average, step

def train(model, loader, optimizer):
    loss = Average()
    for batch in loader:
        loss.add(step(model, batch, optimizer))
    return loss
"""
PARTS = """
\"\"\"What a training with torch is made of.\"\"\"
from .losses import error

class Average:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def add(self, value):
        self.total += value
        self.count += 1

def step(model, batch, optimizer):
    loss = error(model, batch)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss
"""
LOSSES = "import torch\n\ndef error(model, batch):\n    return torch.nn.functional.mse_loss(model(batch), batch)\n"


def test_a_program_uses_torch_whose_parts_do(tmp_path: Path) -> None:
    """Neither the loop nor what imports it names torch: a file two steps away does. Not where others compute too."""
    files = {"core/__init__.py": "from .loop import train\n", "core/loop.py": LOOP, "core/parts.py": PARTS}
    found = run(tmp_path, {**files, "core/losses.py": LOSSES, "main.py": "from core import train\n"}).findings
    assert [(f.path, f.code, f.span.line) for f in found] == [("core/loop.py", "GG107", 8)]
    (tmp_path / "core/losses.py").write_text("import tensorflow\n" + LOSSES)
    assert not run(tmp_path, {}).findings


def test_a_program_whose_files_have_the_names_of_another_one(tmp_path: Path) -> None:
    """Each import leads to one file: beside a program with torch, what has the same names is no part of it."""
    files = {"core/__init__.py": "from .loop import train\n", "core/loop.py": LOOP, "core/parts.py": PARTS}
    written = "import numpy\n\ndef error(model, batch):\n    return model(batch)\n"
    other = {"net/losses.py": LOSSES, "net/loop.py": "import torch\nfrom .losses import error\n", "net/parts.py": ""}
    assert not run(tmp_path, {**files, **other, "core/losses.py": written, "net/__init__.py": ""}).findings


LEARNER = """
import torch

class {name}:
    def __init__(self):
        self.net = torch.nn.Linear(4, 1)
        self.opt = torch.optim.SGD(self.net.parameters(), 0.1)

    def observe(self, sample):
        self.opt.zero_grad()
        error = self.net(sample).pow(2).mean()
        {last}
        return error
"""
CALLER = """
import torch
from {module} import Learner

def main():
    learner, seen = Learner(), []
    for _ in range(100):
        seen.append(learner.observe(torch.randn(2, 4)))
    return seen
"""


@pytest.mark.parametrize(
    ("files", "module"),
    [
        pytest.param({"learner.py": "Learner"}, "learner", id="from a file"),
        pytest.param({"parts/learner.py": "Learner", "parts/__init__.py": "from .learner import Learner"}, "parts"),
        pytest.param({"parts/learner.py": "Learner", "parts/__init__.py": "from .learner import *"}, "parts"),
    ],
)
def test_a_loop_trains_that_calls_what_another_file_trains(tmp_path: Path, files: dict[str, str], module: str) -> None:
    """Nothing in the file with the loop speaks of training; which method trains is only seen where it is written."""
    for last, expected in (("error.backward(); self.opt.step()", [("main.py", 8)]), ("error = error.detach()", [])):
        texts = {p: LEARNER.format(name=t, last=last) if t.isidentifier() else t for p, t in files.items()}
        result = run(tmp_path, {**texts, "main.py": CALLER.format(module=module)})
        assert [(f.path, f.span.line) for f in result.findings if f.code == "GG104"] == expected


def test_a_file_that_was_read_on_demand_is_the_same_module(tmp_path: Path) -> None:
    """The caller comes first in the alphabet, and holds no_grad: the callee is read once, not twice."""
    callee = (
        "import torch\n\ndef validate(net, loader):\n    net.eval()\n    for x, y in loader:\n        print(net(x))\n"
    )
    caller = "import torch\nfrom {} import validate\n\ndef run(net, loader):\n    {}\n        validate(net, loader)\n"
    held = caller.format("validation", "with torch.no_grad():")
    assert not run(tmp_path, {"a_run.py": held, "validation.py": callee}).findings
    free = caller.format("validation", "if net:")
    assert codes(run(tmp_path, {"a_run.py": free, "validation.py": callee})) == ["GG301"]


def test_a_file_without_torch_that_a_package_hands_on(tmp_path: Path) -> None:
    """``from parts import tap``, where the package's ``__init__`` has it from a file of its own."""
    package = tmp_path / "parts"
    package.mkdir()
    (package / "__init__.py").write_text("from .taps import tap\n")
    (package / "taps.py").write_text(
        "def tap(act):\n    act.register_hook(lambda grad, act=act: print((grad * act).sum()))\n    return act\n"
    )
    (tmp_path / "model.py").write_text("import torch\nfrom parts import tap\n")
    (tmp_path / "other.py").write_text("from elsewhere import model\n")
    files = sorted(tmp_path.rglob("*.py"))
    found = check(files, Settings(tmp_path), catalogue.load()).findings
    assert [(Path(finding.path).name, finding.code) for finding in found] == [("taps.py", "GG109")]
    (tmp_path / "model.py").write_text("import torch\n")
    assert not check(files, Settings(tmp_path), catalogue.load()).findings


@pytest.mark.usefixtures("as_written")
def test_what_empties_a_collection_is_looked_for_only_where_a_rule_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It means to search all files: not for what holds nothing that a rule is about, nor for a callee's own stores."""
    from gradguard.static.kept import memory

    asked: list[str] = []
    cleared = memory.cleared
    monkeypatch.setattr(memory, "cleared", lambda flow, store: asked.append(flow.facts.name) or cleared(flow, store))
    log = (
        "import torch\n\nclass Log:\n    def __init__(self):\n        self.rows = []\n\n"
        "    def keep(self, out):\n        self.rows.append(out.detach(){part})\n"
    )
    train = (
        "import torch\nfrom log import Log\n\ndef train(model: torch.nn.Module, loader, log: Log, optimizer):\n"
        "    for x in loader:\n        out = model(x.cuda())\n        out.sum().backward()\n        log.keep(out)\n"
        "        optimizer.step()\n        optimizer.zero_grad()\n"
    )
    run(tmp_path, {"log.py": log.format(part=".sum().item()"), "train.py": train})
    assert asked == []
    result = run(tmp_path, {"log.py": log.format(part=""), "train.py": train})
    assert codes(result) == ["GG409"]
    assert asked == ["train"]
