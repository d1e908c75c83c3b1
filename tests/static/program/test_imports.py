"""Which file an import leads to."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradguard.static.program.imports import Imports
from tests.rules.snippets import lines_in_files


def imports_of(root: Path, *files: str) -> Imports:
    """The search among some empty files below a folder that is the root of a project."""
    for name in (".git/HEAD", *files):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("")
    return Imports([root / name for name in files])


def place(root: Path, importer: str, dotted: str, *files: str) -> str | None:
    found = imports_of(root, importer, *files).place(dotted, root / importer)
    return found[0].relative_to(root).as_posix() if found is not None else None


@pytest.mark.parametrize(
    ("importer", "file"),
    [
        ("tools/train.py", "lib/core/engine.py"),
        ("tools/train.py", "src/core/engine.py"),
        ("train.py", "lib/core/engine.py"),
        ("detect/tools/train.py", "detect/lib/core/engine.py"),
        ("src/train.py", "src/lib/core/engine.py"),
        ("lib/models/net.py", "lib/core/engine.py"),
    ],
)
def test_a_folder_of_sources_beside_the_scripts(tmp_path: Path, importer: str, file: str) -> None:
    """Scripts put `lib` or `src` on their path: `import _init_paths`."""
    assert place(tmp_path, importer, "core.engine.validate", file) == file


@pytest.mark.parametrize(
    ("importer", "files", "expected"),
    [
        ("tools/train.py", ("core/engine.py", "lib/core/engine.py"), "core/engine.py"),
        ("tools/train.py", ("tools/core/engine.py", "lib/core/engine.py"), "tools/core/engine.py"),
        ("detect/tools/train.py", ("detect/lib/core/engine.py", "lib/core/engine.py"), "detect/lib/core/engine.py"),
    ],
)
def test_what_is_nearer_comes_first(tmp_path: Path, importer: str, files: tuple[str, ...], expected: str) -> None:
    assert place(tmp_path, importer, "core.engine.validate", *files) == expected


@pytest.mark.parametrize("file", ["other/core/engine.py", "other/lib/core/engine.py", "lib/core/machine.py"])
def test_what_is_elsewhere_is_not_meant(tmp_path: Path, file: str) -> None:
    assert place(tmp_path, "tools/train.py", "core.engine.validate", file) is None


ENGINE = """
    def validate(model, loader):
        model.eval()
        for x in loader:
            print(model(x).sum())
"""
SCRIPT = """
    import _paths
    import torch
    from core.engine import validate

    def main(model, loader):
        with {context}:
            validate(model, loader)
"""


@pytest.mark.parametrize(("context", "found"), [("torch.no_grad()", 0), ("torch.autograd.profiler.profile()", 1)])
def test_a_caller_that_finds_it_beside_itself(tmp_path: Path, context: str, found: int) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "lib" / "core").mkdir(parents=True)
    (tmp_path / "tools").mkdir()
    files = {"lib/core/engine.py": "import torch\n" + ENGINE.replace("\n    ", "\n"), "tools/train.py": SCRIPT}
    files["tools/train.py"] = SCRIPT.format(context=context)
    assert len(lines_in_files(tmp_path, files, "GG301")) == found
