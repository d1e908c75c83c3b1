"""``gradguard fix`` as a user meets it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.test_check import CLEAN, LEAK
from tests.support import Outcome, Run, Shell, write

FIXED = CLEAN.replace("loss.item()", "loss.detach()")
UNSAFE = CLEAN.replace("        optimizer.zero_grad()\n", "")


@pytest.fixture
def files(project: Path) -> Path:
    """Two files that leak and one that does not."""
    write(project, {"leak.py": LEAK, "sub/other.py": LEAK, "sub/clean.py": CLEAN})
    return project


def test_the_edits_are_made_and_told(files: Path, gradguard: Run) -> None:
    done = gradguard("fix")
    assert (files / "leak.py").read_text() == (files / "sub" / "other.py").read_text() == FIXED
    assert (files / "sub" / "clean.py").read_text() == CLEAN
    assert done.out.splitlines() == [
        "fixed: leak.py:11 GG103 detach `loss`",
        "fixed: sub/other.py:11 GG103 detach `loss`",
        "",
        "Fixed 2 problems in 2 files.",
    ]
    assert (done.status, done.err) == (0, "")


def test_nothing_to_do_is_0(files: Path, gradguard: Run) -> None:
    assert gradguard("fix", "sub/clean.py") == Outcome(0, "Nothing to fix.\n", "")


def test_what_is_left_is_1_and_shown(project: Path, gradguard: Run) -> None:
    write(project, {"train.py": UNSAFE.replace("loss.item()", "loss")})
    done = gradguard("fix")
    assert done.status == 1
    assert "fixed: train.py:10 GG103" in done.out
    assert " GG201 missing-zero-grad" in done.out
    assert "can change what the program computes: 1 (--unsafe-fixes)" in " ".join(done.out.split())
    assert gradguard("fix", "--unsafe-fixes").status == 0
    assert gradguard("check").status == 0


def test_a_diff_changes_nothing_and_is_1(files: Path, gradguard: Run) -> None:
    done = gradguard("fix", "--diff", "leak.py")
    assert (files / "leak.py").read_text() == LEAK
    assert done.status == 1
    assert done.out.splitlines()[:3] == ["--- a/leak.py", "+++ b/leak.py", "@@ -8,5 +8,5 @@"]
    assert "-        running += loss\n+        running += loss.detach()\n" in done.out
    assert done.err == "Would fix 1 problem in 1 file.\n"
    assert gradguard("fix", "--diff", "sub/clean.py") == Outcome(0, "", "Nothing to fix.\n")


def test_a_diff_can_be_applied(files: Path, gradguard: Run) -> None:
    (files / "leak.py").write_text(LEAK.rstrip("\n"))  # without an end of its last line
    diff = gradguard("fix", "--diff").out
    subprocess.run(["git", "apply", "-"], input=diff.encode(), cwd=files, check=True)
    assert (files / "leak.py").read_text() == FIXED.rstrip("\n")
    assert (files / "sub" / "other.py").read_text() == FIXED


def test_standard_input_is_fixed_on_standard_output(project: Path, shell: Shell) -> None:
    done = shell("-m", "gradguard", "fix", "-", input=LEAK.replace("\n", "\r\n").encode())
    assert done.stdout == FIXED.replace("\n", "\r\n").encode()
    assert done.stderr.decode().endswith("Fixed 1 problem in 1 file.\n")
    assert done.returncode == 0
    assert shell("-m", "gradguard", "fix", "-", input=CLEAN.encode()).stdout == CLEAN.encode()
    broken = shell("-m", "gradguard", "fix", "-", input=(LEAK + "def (").encode())
    assert (broken.stdout, broken.returncode) == ((LEAK + "def (").encode(), 2)


def test_a_diff_of_standard_input(project: Path, shell: Shell) -> None:
    done = shell("-m", "gradguard", "fix", "--diff", "--stdin-filename", "src/train.py", input=LEAK.encode())
    assert done.stdout.decode().startswith("--- a/src/train.py\n")
    assert done.returncode == 1


def test_only_what_is_selected_is_fixed(files: Path, gradguard: Run) -> None:
    assert gradguard("fix", "--select", "GG2", "leak.py").status == 0
    assert gradguard("fix", "--ignore", "GG103", "leak.py").status == 0
    assert (files / "leak.py").read_text() == LEAK


def test_suppressed_and_excluded_stay(project: Path, gradguard: Run) -> None:
    text = LEAK.replace("+= loss", "+= loss  # gradguard: ignore[GG103] on purpose")
    write(project, {"leak.py": text, "old/leak.py": LEAK})
    assert gradguard("fix", "--exclude", "old").status == 0
    assert (project / "leak.py").read_text() == text
    assert (project / "old" / "leak.py").read_text() == LEAK


def test_a_missing_path_is_2_and_the_others_are_fixed(files: Path, gradguard: Run) -> None:
    done = gradguard("fix", "gone.py", "leak.py")
    assert done.status == 2
    assert "error: gone.py: no such file or folder" in done.out
    assert (files / "leak.py").read_text() == FIXED


def test_a_file_that_cannot_be_written_is_2(
    files: Path, gradguard: Run, monkeypatch: pytest.MonkeyPatch, as_written: None
) -> None:
    replace = os.replace

    def refuse(source: str, target: Path) -> None:
        if target.name == "leak.py":
            raise PermissionError(13, "Permission denied")
        replace(source, target)

    monkeypatch.setattr(os, "replace", refuse)
    done = gradguard("fix")
    assert done.status == 2
    assert "error: leak.py: cannot be written: permission denied" in done.out
    assert "fixed: leak.py" not in done.out
    assert "leak.py:11:9 GG103" in done.out  # it is still there
    assert "11 |         running += loss\n" in done.out
    assert (files / "leak.py").read_text() == LEAK
    assert sorted(path.name for path in files.iterdir()) == ["leak.py", "sub"]
    assert "Fixed 1 problem in 1 file." in done.out
    assert (files / "sub" / "other.py").read_text() == FIXED


def test_the_mode_of_a_file_and_a_link_stay(files: Path, gradguard: Run) -> None:
    os.chmod(files / "leak.py", 0o755)
    os.symlink(files / "leak.py", files / "link.py")
    assert gradguard("fix", "link.py").status == 0
    assert (files / "link.py").is_symlink()
    assert (files / "leak.py").read_text() == FIXED
    assert (files / "leak.py").stat().st_mode & 0o777 == 0o755


def test_a_file_with_two_names_keeps_them(files: Path, gradguard: Run) -> None:
    os.link(files / "leak.py", files / "other_name.py")
    assert gradguard("fix", "leak.py").status == 0
    assert (files / "other_name.py").read_text() == FIXED


def test_a_diff_tells_what_could_not_be_checked(files: Path, gradguard: Run) -> None:
    done = gradguard("fix", "--diff", "gone.py")
    assert (done.status, done.out) == (2, "")
    assert done.err == "error: gone.py: no such file or folder\nNothing to fix.\n"


def test_a_diff_from_elsewhere_and_of_a_name_with_a_space(files: Path, gradguard: Run) -> None:
    write(files, {"my file.py": LEAK, "below/x.py": CLEAN})
    assert gradguard("fix", "--diff", "my file.py").out.startswith("--- a/my file.py\t\n+++ b/my file.py\t\n")
    os.chdir(files / "below")
    outside = (files / "leak.py").as_posix()
    assert gradguard("fix", "--diff", "../leak.py").out.startswith(f"--- a{outside}\n+++ b{outside}\n")


def test_the_next_check_sees_what_was_fixed(files: Path, gradguard: Run) -> None:
    assert gradguard("check").status == 1
    assert gradguard("fix").status == 0
    assert gradguard("check").status == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--format", "json"], "No such option"),
        (["--select", "GG999"], "GG999"),
        (["-", "leak.py"], "Standard input"),
        ([""], "A path is empty"),
    ],
)
def test_wrong_usage_is_2(files: Path, gradguard: Run, words: list[str], message: str) -> None:
    done = gradguard("fix", *words)
    assert done.status == 2
    assert message in done.err
    assert (files / "leak.py").read_text() == LEAK


def test_colours_of_a_diff(files: Path, gradguard: Run) -> None:
    assert "\x1b[" not in gradguard("fix", "--diff", "leak.py").out
    assert "\x1b[32m+        running += loss.detach()" in gradguard("fix", "--diff", "--color", "always", "leak.py").out
