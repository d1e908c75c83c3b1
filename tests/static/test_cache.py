"""A run after another gives what a first one would give, and reads only what may have another answer."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gradguard import catalogue
from gradguard.config import Settings
from gradguard.findings import CheckResult
from gradguard.static.cache import Cache, cache_for
from gradguard.static.discover import discover
from gradguard.static.engine import check
from gradguard.static.last_run import Part
from gradguard.static.reader import Reader
from tests.support import write

TRAIN = """\
import torch
from helpers import report

def train(model, loader, optimizer, criterion):
    history = []
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        report(history, loss)
"""
KEEPS = "def report(history, loss):\n    history.append(loss)\n"
KEEPS_NUMBERS = "def report(history, loss):\n    history.append(loss.item())\n"
OTHER = """\
import torch

def validate(net, val_loader):
    total = 0
    net.eval()
    for x in val_loader:
        total += net(x).mean()
    return total.item()
"""

Checked = Callable[[], tuple[CheckResult, list[str]]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "code").mkdir()
    monkeypatch.chdir(tmp_path / "code")
    return tmp_path / "code"


@pytest.fixture
def checked(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_written: None) -> Checked:
    """Check the folder with a cache: what is found, and which files were read; it must be what a first run finds."""
    read: list[str] = []
    part = Reader._part

    def noted(reader: Reader, path: Path) -> Part:
        read.append(path.name)
        return part(reader, path)

    monkeypatch.setattr(Reader, "_part", noted)

    def run() -> tuple[CheckResult, list[str]]:
        settings = Settings(folder)
        files = discover([folder], settings).files
        store = cache_for(tmp_path / "cache", [folder], settings, catalogue.load())
        read.clear()
        result, names = check(files, settings, catalogue.load(), store=store), sorted(read)
        assert result == check(files, settings, catalogue.load())
        return result, names

    return run


def found(result: CheckResult) -> list[tuple[str, str, int]]:
    return [(f.code, f.path, f.span.line) for f in result.findings]


def test_nothing_is_read_twice(folder: Path, checked: Checked) -> None:
    write(folder, {"train.py": TRAIN, "helpers.py": KEEPS, "other.py": OTHER})
    first, read = checked()
    assert {code for code, _, _ in found(first)} >= {"GG301"}
    assert read == ["other.py", "train.py"]
    assert checked() == (first, [])


def test_what_uses_a_changed_file_is_read_again(folder: Path, checked: Checked) -> None:
    write(folder, {"train.py": TRAIN, "helpers.py": KEEPS, "other.py": OTHER})
    assert [path for _, path, _ in found(checked()[0])].count("train.py") == 1
    write(folder, {"helpers.py": KEEPS_NUMBERS})
    result, read = checked()
    assert read == ["train.py"]
    assert [path for _, path, _ in found(result)].count("train.py") == 0


def test_what_changed_alone_is_read_alone(folder: Path, checked: Checked) -> None:
    write(folder, {"train.py": TRAIN, "helpers.py": KEEPS, "other.py": OTHER})
    first, _ = checked()
    write(folder, {"other.py": OTHER.replace("    net.eval()\n", "    net.eval()\n\n")})
    result, read = checked()
    assert read == ["other.py"]
    assert len(result.findings) == len(first.findings)


def test_a_module_that_came_is_what_an_import_means_now(folder: Path, checked: Checked) -> None:
    write(folder, {"train.py": TRAIN, "other.py": OTHER})
    assert [path for _, path, _ in found(checked()[0])].count("train.py") == 0
    write(folder, {"helpers.py": KEEPS})
    result, read = checked()
    assert "train.py" in read
    assert [path for _, path, _ in found(result)].count("train.py") == 1


def test_a_module_that_went_is_no_longer_what_an_import_means(folder: Path, checked: Checked) -> None:
    write(folder, {"train.py": TRAIN, "helpers.py": KEEPS, "other.py": OTHER})
    checked()
    (folder / "helpers.py").unlink()
    result, read = checked()
    assert read == ["train.py"]
    assert [path for _, path, _ in found(result)].count("train.py") == 0


def test_a_package_in_the_place_of_a_module(folder: Path, checked: Checked) -> None:
    write(folder, {"train.py": TRAIN, "helpers/__init__.py": "from helpers.keeping import report\n"})
    checked()
    write(folder, {"helpers/keeping.py": KEEPS})
    result, read = checked()
    assert "train.py" in read
    assert [path for _, path, _ in found(result)].count("train.py") == 1


def test_a_caller_that_turns_gradients_off(folder: Path, checked: Checked) -> None:
    main = "import torch\nfrom other import validate\n\ndef main(net, loader):\n    print(validate(net, loader))\n"
    write(folder, {"other.py": OTHER, "main.py": main})
    assert "GG301" in [code for code, _, _ in found(checked()[0])]
    write(folder, {"main.py": main.replace("    print(", "    with torch.no_grad():\n        print(")})
    result, read = checked()
    assert "other.py" in read
    assert "GG301" not in [code for code, _, _ in found(result)]


def test_a_file_that_empties_what_another_fills(folder: Path, checked: Checked) -> None:
    kept = """\
import torch

class Trainer:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer
        self.losses = []

    def step(self, x):
        self.optimizer.zero_grad()
        loss = self.model(x).mean()
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss)
"""
    main = """\
import torch
from kept import Trainer

def main(model, loader, optimizer):
    trainer = Trainer(model, optimizer)
    for x in loader:
        trainer.step(x)
"""
    write(folder, {"kept.py": kept, "main.py": main})
    assert "GG104" in [code for code, _, _ in found(checked()[0])]
    write(folder, {"main.py": main + "        trainer.losses.clear()\n"})
    result, read = checked()
    assert "kept.py" in read
    assert "GG104" not in [code for code, _, _ in found(result)]


def test_a_file_that_is_imported_by_one_about_torch_now(folder: Path, checked: Checked) -> None:
    meter = "class Meter:\n    def __init__(self):\n        self.sum = 0\n\n    def update(self, loss):\n"
    meter += "        self.sum += loss\n"
    train = TRAIN.replace("history = []", "history = Meter()").replace("report(history, loss)", "history.update(loss)")
    write(folder, {"meter.py": meter, "train.py": train})
    checked()
    write(folder, {"train.py": train.replace("from helpers import report", "from meter import Meter")})
    assert len(checked()[0].findings) == 1


def test_a_file_whose_loop_calls_what_another_trains_now(folder: Path, checked: Checked) -> None:
    see = "        y = torch.nn.Linear(4, 1)(x).sum()\n{}        return y\n"
    agent = "import torch\n\nclass Agent:\n    def see(self, x):\n" + see
    loop = "for x in torch.randn(9, 2, 4):\n    seen.append(agent.see(x))\n"
    write(folder, {"agent.py": agent.format("")})
    write(folder, {"loop.py": "import torch\nfrom agent import Agent\n\nagent, seen = Agent(), []\n" + loop})
    assert not checked()[0].findings
    write(folder, {"agent.py": agent.format("        y.backward()\n")})
    assert found(checked()[0]) == [("GG104", "loop.py", 6)]


def test_what_was_written_again_and_is_the_same(folder: Path, checked: Checked) -> None:
    write(folder, {"train.py": TRAIN, "helpers.py": KEEPS})
    first, _ = checked()
    os.utime(folder / "train.py")
    assert checked() == (first, [])


@pytest.mark.usefixtures("as_written")
def test_a_file_outside_of_what_is_checked(folder: Path, tmp_path: Path) -> None:
    write(folder, {"train.py": TRAIN, "helpers.py": KEEPS, ".git/HEAD": ""})
    settings, files = Settings(folder), [folder / "train.py"]
    store = cache_for(tmp_path / "cache", files, settings, catalogue.load())
    assert len(check(files, settings, catalogue.load(), store=store).findings) == 1
    write(folder, {"helpers.py": KEEPS_NUMBERS})
    assert check(files, settings, catalogue.load(), store=store).findings == ()


def test_errors_and_comments_stay(folder: Path, checked: Checked) -> None:
    write(folder, {"broken.py": "import torch\nfor loss.backward(\n", "used.py": "x = 1  # gradguard: ignore[GG103]\n"})
    first, _ = checked()
    assert [e.path for e in first.errors] == ["broken.py"]
    assert found(first) == [("GG001", "used.py", 1)]
    write(folder, {"other.py": OTHER})
    result, read = checked()
    assert read == ["other.py"]
    assert result.errors == first.errors
    assert ("GG001", "used.py", 1) in found(result)


def test_a_file_that_links_others_went_and_came_back(folder: Path, checked: Checked) -> None:
    fills = TRAIN.replace("from helpers import report\n", "").replace("def train(", "def train(self, ")
    fills = fills.replace("report(history, loss)", "self.losses.append(loss)")
    main = "import torch\nimport fills, empties\n"
    write(folder, {"fills.py": fills, "empties.py": "def on_epoch_end(t):\n    t.losses.clear()\n", "main.py": main})
    first, _ = checked()
    (folder / "main.py").unlink()
    assert checked()[0] != first
    write(folder, {"main.py": main})
    assert checked()[0] == first


def test_a_file_above_all_others_came(folder: Path, checked: Checked) -> None:
    write(folder, {"a/b/train.py": TRAIN, "a/b/x.py": "import torch\n"})
    assert checked()[0].findings == ()
    write(folder, {"helpers.py": KEEPS})
    assert len(checked()[0].findings) == 1


def test_a_file_of_the_same_size_and_time(folder: Path, checked: Checked) -> None:
    write(folder, {"train.py": TRAIN, "helpers.py": KEEPS})
    checked()
    time = (folder / "helpers.py").stat().st_mtime_ns
    write(folder, {"helpers.py": KEEPS.replace("append(loss)", "append(None)")})
    os.utime(folder / "helpers.py", ns=(time, time))
    assert checked()[0].findings == ()


@pytest.mark.usefixtures("as_written")
def test_a_file_outside_that_could_not_be_read(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder, {"train.py": TRAIN, "helpers.py": KEEPS})
    settings, files = Settings(folder), [folder / "train.py"]
    store = cache_for(tmp_path / "cache", files, settings, catalogue.load())
    read = Path.read_bytes

    def refused(path: Path) -> bytes:
        if path.name == "helpers.py":
            raise PermissionError(13, "Permission denied")
        return read(path)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_bytes", refused)
        assert check(files, settings, catalogue.load(), store=store).findings == ()
    assert len(check(files, settings, catalogue.load(), store=store).findings) == 1


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'{"paths": 3}', b"\xff\xfe", b"[" * 100_000])
def test_a_cache_that_cannot_be_read_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "run.json").write_bytes(content)
    assert Cache(tmp_path / "run.json").load() is None


def test_a_cache_that_was_changed_is_none(folder: Path, tmp_path: Path) -> None:
    write(folder, {"other.py": OTHER})
    store, settings = Cache(tmp_path / "run.json"), Settings(folder)
    result = check([folder / "other.py"], settings, catalogue.load(), store=store)
    last = store.load()
    assert last is not None
    assert last.result == result
    store.file.write_bytes(store.file.read_bytes().replace(b'"time":1', b'"time":"1"'))
    assert store.load() is None


def test_only_what_no_run_has_used_for_long_is_deleted(folder: Path, tmp_path: Path) -> None:
    cache, settings, files = tmp_path / "cache", Settings(folder), [folder / "other.py"]
    write(folder, {"other.py": OTHER, "more.py": OTHER})
    write(cache, {"metrics.json": "{}", "gradguard-check-left.part": ""})
    used, unused = (cache_for(cache, [folder / name], settings, catalogue.load()) for name in ("other.py", "more.py"))
    for store in (used, unused):
        check(files, settings, catalogue.load(), store=store)
    for file in cache.iterdir():
        os.utime(file, (0, 0))
    assert used.load() is not None
    check(files, settings, catalogue.load(), store=cache_for(cache, [folder], settings, catalogue.load()))
    assert {"metrics.json", used.file.name} < {file.name for file in cache.iterdir()}
    assert not unused.file.exists()
    assert not (cache / "gradguard-check-left.part").exists()


def test_a_cache_that_cannot_be_written_is_done_without(folder: Path, tmp_path: Path) -> None:
    write(folder, {"other.py": OTHER})
    (tmp_path / "file").write_text("")
    files, settings = [folder / "other.py"], Settings(folder)
    store = Cache(tmp_path / "file" / "run.json")
    assert check(files, settings, catalogue.load(), store=store).findings
    assert str(tmp_path / "file") in str(store.problem)


def test_another_way_of_calling_is_another_run(folder: Path, tmp_path: Path) -> None:
    settings, rules = Settings(folder), catalogue.load()
    here = cache_for(tmp_path, [folder], settings, rules).file
    assert here == cache_for(tmp_path, [folder], settings, rules).file
    assert here != cache_for(tmp_path, [folder / "a.py"], settings, rules).file
    assert here != cache_for(tmp_path, [folder], Settings(folder, ignore=("GG1",)), rules).file


def test_a_method_that_a_class_has_now(folder: Path, checked: Checked) -> None:
    train = TRAIN.replace("from helpers import report\n", "").replace("report(history, loss)", "notes.keep_one(loss)")
    train = train.replace("def train(model,", "def train(notes, model,")
    notes = "class Notes:\n    def __init__(self):\n        self.kept = []\n"
    main = "import torch\nfrom notes import Notes\nfrom train import train\n\ntrain(Notes(), *torch.load('a.pt'))\n"
    write(folder, {"train.py": train, "notes.py": notes, "main.py": main})
    assert checked()[0].findings == ()
    write(folder, {"notes.py": notes + "\n    def keep_one(self, loss):\n        self.kept.append(loss)\n"})
    result, read = checked()
    assert "train.py" in read
    assert [code for code, _, _ in found(result)] == ["GG107"]
    write(folder, {"notes.py": notes})
    assert checked()[0].findings == ()
