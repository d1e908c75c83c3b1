"""The wheel holds the tree, the whole tree, and nothing but the tree."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.Path:
    """Built from a copy: what an earlier build left in the checkout must not get in."""
    tree = tmp_path_factory.mktemp("tree")
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(CHECKOUT / name, tree)
    for name in ("gradguard", "rules"):
        shutil.copytree(CHECKOUT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    command = ["-m", "pip", "wheel", ".", "--no-deps", "--no-build-isolation", "--no-index", "-w", "out"]
    done = subprocess.run([sys.executable, *command], cwd=tree, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (file,) = (tree / "out").glob("*.whl")
    return zipfile.Path(file)


def test_the_wheel_holds_the_tree(wheel: zipfile.Path) -> None:
    packed = {name for name in wheel.root.namelist() if ".dist-info/" not in name and name[-1] != "/"}
    assert packed == sources("gradguard", "gradguard") | sources("rules", "gradguard/rules")


def sources(folder: str, installed_as: str) -> set[str]:
    """The files of ``folder`` by their place in the wheel."""
    top = CHECKOUT / folder
    files = (p.relative_to(top) for p in top.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    return {f"{installed_as}/{path.as_posix()}" for path in files}


def test_the_wheel_says_who_made_it_and_what_it_needs(wheel: zipfile.Path) -> None:
    (metadata,) = (n for n in wheel.root.namelist() if n.endswith(".dist-info/METADATA"))
    lines = wheel.root.read(metadata).decode().splitlines()
    required = {line.removeprefix("Requires-Dist: ") for line in lines if line.startswith("Requires-Dist: ")}
    assert "License-Expression: Apache-2.0" in lines
    assert "Requires-Python: >=3.10" in lines
    assert not any(need.startswith("torch") and "extra ==" not in need for need in required)
