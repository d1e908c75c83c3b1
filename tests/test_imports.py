"""What may be imported by what: looking costs little, and rules load where LibCST is not."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import CHECKOUT, Shell

HEAVY = ("torch", "libcst", "rich", "click")


def loaded_after(shell: Shell, statement: str) -> set[str]:
    code = f"import sys\ntry:\n    {statement}\nexcept SystemExit:\n    pass\nprint(); print(*sys.modules)"
    done = shell("-c", code)
    assert done.returncode == 0, done.stderr.decode()
    return {name.split(".")[0] for name in done.stdout.decode().splitlines()[-1].split()}


def test_the_package_imports_nothing_heavy(shell: Shell) -> None:
    assert not loaded_after(shell, "import gradguard, gradguard.findings, gradguard.catalogue") & set(HEAVY)


def test_the_version_needs_neither_libcst_nor_rich(shell: Shell) -> None:
    loaded = loaded_after(shell, "from gradguard.cli import main; main(['--version'])")
    assert "click" in loaded
    assert not loaded & {"torch", "libcst", "rich"}


def test_help_needs_neither_libcst_nor_rich(shell: Shell) -> None:
    for words in (["--help"], ["check", "--help"]):
        assert not loaded_after(shell, f"from gradguard.cli import main; main({words})") & {"torch", "libcst", "rich"}


def test_a_check_that_finds_nothing_needs_neither_libcst_nor_rich(shell: Shell) -> None:
    clean = CHECKOUT / "fixtures" / "leaks" / "running_loss_sum" / "clean.py"
    loaded = loaded_after(shell, f"from gradguard.cli import _status; _status(['check', '--no-cache', {str(clean)!r}])")
    assert "gradguard" in loaded
    assert not loaded & {"torch", "libcst", "rich"}


def test_the_rules_load_without_libcst(shell: Shell) -> None:
    block = "sys.modules.update(dict.fromkeys(['torch', 'libcst', 'rich', 'click']))"
    done = shell("-c", f"import sys; {block}\nfrom gradguard import catalogue\nprint(len(list(catalogue.load())))")
    assert done.returncode == 0, done.stderr.decode()
    assert int(done.stdout) > 0


def test_checking_never_imports_torch(shell: Shell) -> None:
    block = "sys.modules['torch'] = None"
    assert "libcst" in loaded_after(shell, f"{block}; from gradguard.cli import main; main(['demo'])")


def test_watching_imports_neither_torch_nor_anything_of_the_other_half(shell: Shell) -> None:
    block = "sys.modules.update(dict.fromkeys(['libcst', 'rich', 'click']))"
    loaded = loaded_after(shell, f"{block}; import gradguard; gradguard.watch(report=False).__enter__()")
    assert not loaded & {"torch"}
    done = shell("-c", "import sys, gradguard.api; print(*sys.modules)")
    names = done.stdout.decode().split()
    assert not [name for name in names if name.startswith(("gradguard.static", "gradguard.cli", "gradguard.report"))]
    # What a watch loads while it starts moves the cyclic collector's clock: what is looked at on demand loads then.
    assert not {"gradguard.runtime.graph", "gradguard.runtime.snapshot"} & set(names)


def test_a_watch_reports_in_plain_lines_where_there_is_no_rich(shell: Shell) -> None:
    block = "sys.modules.update(dict.fromkeys(['libcst', 'rich', 'click']))"
    done = shell("-c", f"import sys; {block}; import gradguard\nwith gradguard.watch(): pass")
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr.decode().startswith("gradguard: Too short: 0 steps seen")


FORBIDDEN = {
    "static": ("torch", "gradguard.runtime", "gradguard.report", "gradguard.cli", "gradguard.join"),
    "runtime": ("libcst", "rich", "click", "gradguard.static", "gradguard.report", "gradguard.cli", "gradguard.join"),
    "report": ("torch", "libcst", "gradguard.runtime", "gradguard.static", "gradguard.cli", "gradguard.join"),
}
"""What no module of a folder imports when it is loaded: the halves meet after the run, and a report knows neither."""


@pytest.mark.parametrize("folder", FORBIDDEN)
def test_who_may_know_whom(folder: str) -> None:
    known = [
        f"{file.name}: {name}"
        for file in sorted((CHECKOUT / "gradguard" / folder).rglob("*.py"))
        for name in imported(file)
        if any(name == other or name.startswith(f"{other}.") for other in FORBIDDEN[folder])
    ]
    assert known == []


def imported(file: Path) -> Iterator[str]:
    """The modules that a file imports, but for those that are for types alone."""
    waiting: list[ast.AST] = [ast.parse(file.read_text(encoding="utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        waiting += ast.iter_child_nodes(node)


def test_the_api_is_listed() -> None:
    import gradguard

    assert set(gradguard.__all__) <= set(dir(gradguard))
