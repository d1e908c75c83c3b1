"""Which files are looked at."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from gradguard.config import Settings
from gradguard.findings import FileError
from gradguard.static.discover import Discovery, discover, is_excluded, shown
from gradguard.static.files.patterns import ignored_codes


def create(folder: Path, *names: str, **texts: str) -> None:
    """Empty files by name; with ``gitignore="..."`` also that one."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    for name, text in texts.items():
        (folder / f".{name}").write_text(text)


def repository(folder: Path) -> None:
    (folder / ".git").mkdir(parents=True)


def found(folder: Path, *paths: str | Path, exclude: tuple[str, ...] = (), force_exclude: bool = False) -> list[str]:
    named = [folder / p for p in paths or (".",)]
    result = discover(named, Settings(folder, exclude=exclude), force_exclude=force_exclude)
    assert result.errors == ()
    return [p.relative_to(folder).as_posix() for p in result.files]


# --- walking ------------------------------------------------------------------------------------------------------


def test_a_folder_gives_its_python_files_and_notebooks_in_order(tmp_path: Path) -> None:
    create(tmp_path, "b.py", "a.ipynb", "sub/c.py", "notes.txt", "sub/data.pyc", "z.pyi")
    assert found(tmp_path) == ["a.ipynb", "b.py", "sub/c.py"]


def test_each_file_comes_once(tmp_path: Path) -> None:
    create(tmp_path, "sub/a.py")
    assert found(tmp_path, ".", "sub", "sub/a.py", "sub/../sub/a.py") == ["sub/a.py"]


def test_other_peoples_folders_are_left_out(tmp_path: Path) -> None:
    create(tmp_path, "a.py", "node_modules/x.py", ".tox/x.py", "lib/site-packages/x.py", ".ipynb_checkpoints/a.ipynb")
    create(tmp_path, "__pycache__/x.py", ".git/hooks/x.py", ".hidden/b.py")
    assert found(tmp_path) == [".hidden/b.py", "a.py"]


def test_an_environment_is_known_by_what_is_in_it(tmp_path: Path) -> None:
    create(tmp_path, "venv/train.py", "myenv/pyvenv.cfg", "myenv/x.py", "conda/conda-meta/history", "conda/x.py")
    assert found(tmp_path) == ["venv/train.py"]


def test_build_is_left_out_unless_it_is_a_package(tmp_path: Path) -> None:
    create(tmp_path, "build/lib/x.py", "dist/x.py", "model/build/__init__.py", "model/build/x.py")
    assert found(tmp_path) == ["model/build/__init__.py", "model/build/x.py"]


def test_a_named_folder_is_entered_whatever_it_is_called(tmp_path: Path) -> None:
    repository(tmp_path)
    create(tmp_path, "build/x.py", "build/skip.py", "out/y.py", gitignore="build/\nskip.py\nout\n")
    assert found(tmp_path, "build", "out") == ["build/x.py", "out/y.py"]


def test_links_to_folders_are_not_followed_and_links_to_files_do_not_hide_them(tmp_path: Path) -> None:
    create(tmp_path, "sub/real.py")
    (tmp_path / "sub" / "loop").symlink_to(tmp_path)
    (tmp_path / "a_link.py").symlink_to(tmp_path / "sub" / "real.py")
    (tmp_path / "dangling.py").symlink_to(tmp_path / "nowhere.py")
    (tmp_path / "itself.py").symlink_to(tmp_path / "itself.py")
    assert found(tmp_path) == ["sub/real.py"]


def test_a_named_link_is_followed(tmp_path: Path) -> None:
    create(tmp_path, "elsewhere/a.py")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    assert found(tmp_path, "link") == ["link/a.py"]


def test_folders_may_be_nested_deeper_than_python_recurses(tmp_path: Path) -> None:
    folders = [tmp_path]
    while len(folders) < sys.getrecursionlimit() + 100:
        folders.append(folders[-1] / "d")
        folders[-1].mkdir()
    file = folders[-1] / "x.py"
    file.touch()
    try:
        assert len(discover([tmp_path], Settings(tmp_path)).files) == 1
    finally:  # pytest's own cleaning recurses
        file.unlink()
        for folder in reversed(folders[1:]):
            folder.rmdir()


# --- .gitignore ---------------------------------------------------------------------------------------------------


def test_gitignore_is_read_up_to_the_repository_and_no_further(tmp_path: Path) -> None:
    create(tmp_path, "repo/pkg/a.py", "repo/pkg/gen.py", "repo/pkg/b.py", gitignore="b.py\n")
    repository(tmp_path / "repo")
    create(tmp_path / "repo", gitignore="gen.py\n")
    assert found(tmp_path, "repo/pkg") == ["repo/pkg/a.py", "repo/pkg/b.py"]


def test_a_nested_gitignore_overrules_the_outer_one(tmp_path: Path) -> None:
    repository(tmp_path)
    create(tmp_path, "a_gen.py", "keep/b_gen.py", gitignore="*_gen.py\n")
    create(tmp_path / "keep", gitignore="!b_gen.py\n")
    assert found(tmp_path) == ["keep/b_gen.py"]


def test_what_is_in_an_ignored_folder_cannot_be_brought_back(tmp_path: Path) -> None:
    repository(tmp_path)
    create(tmp_path, "out/a.py", gitignore="out/\n!out/a.py\n")
    assert found(tmp_path) == []


def test_a_repository_within_a_repository_has_its_own_rules(tmp_path: Path) -> None:
    repository(tmp_path)
    repository(tmp_path / "module")
    create(tmp_path, "a.py", "module/a.py", gitignore="/a.py\n*.py\n!module/\n")
    assert found(tmp_path) == ["module/a.py"]


def test_the_repositorys_own_exclude_file_counts(tmp_path: Path) -> None:
    repository(tmp_path)
    create(tmp_path, "a.py", "local.py", ".git/info/exclude")
    (tmp_path / ".git" / "info" / "exclude").write_text("local.py\n")
    assert found(tmp_path) == ["a.py"]


def test_an_unreadable_line_of_gitignore_is_skipped(tmp_path: Path) -> None:
    repository(tmp_path)
    create(tmp_path, "a.py", "b.py")
    (tmp_path / ".gitignore").write_bytes(b"\xef\xbb\xbfb.py\r\n!\n\xff\n")
    assert found(tmp_path) == ["a.py"]


PATTERNS = (
    "* */ /* /*/ !*/ !*.py *.py foo foo/ /foo foo/* !foo/ !foo a/b a/b/ **/b b/** a/**/x.py !a/ !/a/b/ !x.py x.py "
    "/x.py ?.py [xy].py [!x].py !b/x.py *.ipynb !*.ipynb foo* # !a/** ** !**/ \\#a a\\ b".split()
)


@pytest.mark.parametrize("seed", range(25))
def test_random_trees_are_read_as_git_reads_them(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    folders = [tmp_path]
    for _ in range(6):
        folder = rng.choice(folders) / rng.choice(["a", "b", "foo", "bar"])
        folder.mkdir(exist_ok=True)
        folders.append(folder)
    for folder in dict.fromkeys(folders):
        create(folder, *(n for n in ("x.py", "y.py", "z.ipynb", "foo.py") if rng.random() < 0.7))
        if folder == tmp_path or rng.random() < 0.3:
            create(folder, gitignore="\n".join(rng.choices(PATTERNS, k=rng.randint(1, 4))))
    command = ["git", "-C", str(tmp_path), "-c", "core.excludesFile=", "ls-files", "-o", "--exclude-standard", "-z"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\0")
    assert found(tmp_path) == sorted(n for n in listed if n.endswith((".py", ".ipynb")))


# --- exclude ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("exclude", "left"),
    [
        ((), ["a.py", "gen/b.py", "src/gen/c.py"]),
        (("gen",), ["a.py"]),
        (("/gen/",), ["a.py", "src/gen/c.py"]),
        (("src/**",), ["a.py", "gen/b.py"]),
        (("*.py", "!a.py"), ["a.py"]),
        (("!dist",), ["a.py", "dist/d.py", "gen/b.py", "src/gen/c.py"]),
    ],
)
def test_exclude_is_written_as_gitignore_is(tmp_path: Path, exclude: tuple[str, ...], left: list[str]) -> None:
    create(tmp_path, "a.py", "gen/b.py", "src/gen/c.py", "dist/d.py")
    assert found(tmp_path, exclude=exclude) == left


def test_exclude_is_relative_to_the_settings_not_to_the_path(tmp_path: Path) -> None:
    create(tmp_path, "src/gen/c.py", "src/a.py")
    assert found(tmp_path, "src", exclude=("src/gen",)) == ["src/a.py"]


def test_a_named_file_is_checked_unless_exclusion_is_forced(tmp_path: Path) -> None:
    repository(tmp_path)
    create(tmp_path, "gen/a.py", "site-packages/b.py", "ignored.py", "c.py", gitignore="ignored.py\n")
    names = ("gen/a.py", "site-packages/b.py", "ignored.py", "c.py")
    assert found(tmp_path, *names, exclude=("gen",)) == sorted(names)
    # What git ignores stays: pre-commit names tracked files only.
    assert found(tmp_path, *names, exclude=("gen",), force_exclude=True) == ["c.py", "ignored.py"]
    assert found(tmp_path, "gen", exclude=("gen",), force_exclude=True) == []


def test_folders_above_the_project_exclude_nothing(tmp_path: Path) -> None:
    root = tmp_path / "build" / "project"
    create(root, "a.py")
    assert not is_excluded(root / "a.py", Settings(root))
    assert not is_excluded(tmp_path / "build" / "b.py", Settings(root))


# --- what cannot be looked at -------------------------------------------------------------------------------------


def test_a_path_that_is_missing_or_of_another_kind_is_an_error(project: Path) -> None:
    create(project, "ok.py", "data.csv")
    result = discover([Path("ok.py"), Path("gone.py"), Path("gone"), Path("data.csv")], Settings(project))
    assert result == Discovery(
        (project / "ok.py",),
        (
            FileError("data.csv", None, "neither a Python file (.py) nor a notebook (.ipynb)"),
            FileError("gone", None, "no such file or folder"),
            FileError("gone.py", None, "no such file or folder"),
        ),
    )


def test_a_path_that_no_system_takes_is_an_error(project: Path) -> None:
    (error,) = discover([Path("x" * 5000)], Settings(project)).errors
    assert "too long" in error.message


def test_an_unreadable_folder_is_reported_and_the_rest_checked(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create(project, "a.py", "locked/b.py")
    scandir = os.scandir

    def refuse(path: Path) -> object:
        if Path(path).name == "locked":
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    result = discover([project], Settings(project))
    assert result.files == (project / "a.py",)
    assert result.errors == (FileError("locked", None, "permission denied"),)


def test_paths_are_shown_from_the_working_directory(project: Path) -> None:
    assert shown(project / "a" / ".." / "b.py") == "b.py"
    assert shown(Path("b.py")) == "b.py"
    assert shown(project.parent / "other.py") == (project.parent / "other.py").as_posix()


# --- per-file-ignores ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("glob", "path", "hit"),
    [
        ("tests/*", "tests/a.py", True),
        ("tests/*", "tests/deep/a.py", True),
        ("tests/", "tests/deep/a.py", True),
        ("tests/*", "src/tests/a.py", False),
        ("*_test.py", "src/a_test.py", True),
        ("a.py", "b.py", False),
    ],
)
def test_per_file_ignores_hold_for_files_and_all_below_a_folder(
    tmp_path: Path, glob: str, path: str, hit: bool
) -> None:
    settings = Settings(tmp_path, per_file_ignores=((glob, ("GG1", "GG301")), ("nothing", ("GG2",))))
    assert ignored_codes(tmp_path / path, settings) == (("GG1", "GG301") if hit else ())
