"""``gradguard check`` as a user meets it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.support import CHECKOUT, Outcome, Run, Shell, write

CLEAN = """\
import torch


def train(model, loader, optimizer, criterion):
    running = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        running += loss.item()
    return running
"""
LEAK = CLEAN.replace("loss.item()", "loss")
WHERE = "leak.py:11:9"


@pytest.fixture
def files(project: Path) -> Path:
    """A file that leaks and one that does not."""
    write(project, {"leak.py": LEAK, "sub/clean.py": CLEAN})
    return project


# --- exit status and outputs --------------------------------------------------------------------------------------


def test_a_leak_is_1_and_named(files: Path, gradguard: Run) -> None:
    done = gradguard("check")
    assert (done.status, done.err) == (1, "")
    assert done.out.startswith(f"{WHERE} GG103 loss-accumulation")
    assert "running += loss\n" in done.out
    assert " in 2 files.\n" in done.out


def test_nothing_found_is_0(files: Path, gradguard: Run) -> None:
    assert gradguard("check", "sub") == Outcome(0, "Nothing found in 1 file.\n", "")


def test_a_missing_path_is_2_and_the_others_are_checked(files: Path, gradguard: Run) -> None:
    done = gradguard("check", "gone.py", "leak.py", "--format", "concise")
    assert done.status == 2
    lines = done.out.splitlines()
    assert lines[0].startswith(f"{WHERE}: GG103 ")
    assert lines[-1] == "error: gone.py: no such file or folder"


def test_a_file_that_cannot_be_parsed_is_2(files: Path, gradguard: Run) -> None:
    write(files, {"broken.py": LEAK + "def (:\n"})
    done = gradguard("check", "--format", "concise")
    assert done.status == 2
    assert "error: broken.py:13: " in done.out
    assert WHERE in done.out


def test_exit_zero_hides_findings_but_not_errors(files: Path, gradguard: Run) -> None:
    assert gradguard("check", "--exit-zero").status == 0
    assert gradguard("check", "--exit-zero", "gone.py").status == 2


def test_the_concise_form_keeps_the_summary_off_stdout(files: Path, gradguard: Run) -> None:
    done = gradguard("check", "--format", "concise")
    assert done.out.count("\n") == 1
    assert done.err.startswith("Found 1 problem")


def test_json_is_the_contract(files: Path, gradguard: Run) -> None:
    document = json.loads(gradguard("check", "--format", "json").out)
    jsonschema.validate(document, schema())
    assert document["files"] == 2
    (finding,) = document["findings"]
    assert (finding["path"], finding["line"], finding["column"]) == ("leak.py", 11, 9)


def schema() -> dict[str, Any]:
    file = CHECKOUT.parent / "shared" / "schema" / "check.schema.json"
    if not file.exists() and not os.environ.get("CI"):
        pytest.skip("the schema lies beside the checkout in CI only")
    loaded: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return loaded


def test_the_report_can_go_to_a_file(files: Path, gradguard: Run) -> None:
    done = gradguard("check", "--output", "report.txt", "--color", "always")
    assert (done.status, done.out) == (1, "")
    report = (files / "report.txt").read_text(encoding="utf-8")
    assert report.startswith(WHERE)
    assert "\x1b" not in report


def test_a_folder_without_python_is_said(project: Path, gradguard: Run) -> None:
    done = gradguard("check")
    assert done.status == 0
    assert done.err == "warning: no Python files or notebooks in .\n"


def test_a_notebook_is_checked_cell_by_cell(project: Path, gradguard: Run) -> None:
    cells = [("markdown", "# title"), ("code", "import torch\n%matplotlib inline"), ("code", LEAK)]
    notebook = {"cells": [{"cell_type": k, "source": s.splitlines(keepends=True)} for k, s in cells], "nbformat": 4}
    write(project, {"train.ipynb": json.dumps(notebook)})
    done = gradguard("check")
    assert done.status == 1
    assert done.out.startswith("train.ipynb:cell 2:11:9 GG103")
    assert "  11 |         running += loss\n" in done.out


# --- options ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "status"),
    [
        (["--select", "GG2,GG3"], 0),
        (["--select", "GG2", "--extend-select", "loss-accumulation"], 1),
        (["--select", "gg1"], 1),
        (["--ignore", "GG103"], 0),
        (["--ignore", "GG1", "--extend-select", "GG103"], 1),
        (["--exclude", "leak.*"], 0),
        (["--force-exclude", "--exclude", "leak.*", "leak.py"], 0),
        (["--exclude", "leak.*", "leak.py"], 1),
        (["--min-confidence", "low"], 1),
    ],
)
def test_what_is_checked_can_be_chosen(files: Path, gradguard: Run, options: list[str], status: int) -> None:
    assert gradguard("check", *options).status == status


def test_the_configuration_holds_and_options_override_it(files: Path, gradguard: Run) -> None:
    write(files, {"pyproject.toml": "[tool.gradguard]\nignore = ['GG103']\nselect = ['GG1']"})
    assert gradguard("check").status == 0
    assert gradguard("check", "--ignore", "GG2").status == 1
    assert gradguard("check", "--isolated").status == 1


def test_per_file_ignores_hold(files: Path, gradguard: Run) -> None:
    write(files, {"pyproject.toml": "[tool.gradguard.per-file-ignores]\n'leak.py' = ['GG1']"})
    assert gradguard("check").status == 0


def test_a_configuration_can_be_named(files: Path, gradguard: Run) -> None:
    write(files, {"conf/other.toml": "[tool.gradguard]\nexclude = ['leak.py']"})
    assert gradguard("check", "--config", "conf/other.toml").status == 0


def test_exclude_is_relative_to_where_one_is(files: Path, gradguard: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    write(files, {"pyproject.toml": "[tool.gradguard]", "sub/gen/leak.py": LEAK, "gen/clean.py": CLEAN})
    monkeypatch.chdir(files / "sub")
    assert gradguard("check").status == 1
    assert gradguard("check", "--exclude", "gen/*.py").status == 0


def test_suppressions_hold_and_unused_ones_are_found(files: Path, gradguard: Run) -> None:
    write(files, {"leak.py": LEAK.replace("+= loss", "+= loss  # gradguard: ignore[GG103]")})
    assert gradguard("check").status == 0
    write(files, {"leak.py": CLEAN.replace("loss.item()", "loss.item()  # gradguard: ignore[GG103]")})
    done = gradguard("check")
    assert done.status == 1
    assert done.out.startswith("leak.py:11:33 GG001 unused-suppression [warning]")


# --- standard input -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "path"),
    [(["-"], "-"), (["--stdin-filename", "a/b.py"], "a/b.py"), (["--stdin-filename", "b.py", "-"], "b.py")],
)
def test_standard_input_is_checked(shell: Shell, options: list[str], path: str) -> None:
    done = shell("-m", "gradguard", "check", *options, input=LEAK.encode())
    assert done.returncode == 1, done.stderr
    assert done.stdout.decode().startswith(f"{path}:11:9 GG103")
    assert b"running += loss" in done.stdout


def test_standard_input_that_is_no_text_is_an_error(shell: Shell) -> None:
    done = shell("-m", "gradguard", "check", "-", input=b"\xff\xfe\x00")
    assert done.returncode == 2
    assert done.stdout.startswith(b"error: -: cannot be decoded")


def test_standard_input_can_be_excluded(shell: Shell) -> None:
    options = ["--stdin-filename", "gen/a.py", "--exclude", "gen"]
    assert shell("-m", "gradguard", "check", *options, input=LEAK.encode()).returncode == 1
    assert shell("-m", "gradguard", "check", *options, "--force-exclude", input=LEAK.encode()).returncode == 0


# --- mistakes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["check", "--selct", "GG1"], "No such option"),
        (["check", "--select", "GG1O3"], "error: --select: unknown code `GG1O3`; did you mean `GG103`?"),
        (["check", "--ignore", "los-accumulation"], "did you mean `loss-accumulation`?"),
        (["check", "--format", "xml"], "'xml' is not one of"),
        (["check", ""], "A path is empty"),
        (["check", "-", "leak.py"], "Standard input cannot be checked together with other paths"),
        (["check", "--config", "gone.toml"], "error: gone.toml: cannot be read"),
        (["check", "--config", "x.toml", "--isolated"], "--config and --isolated exclude each other"),
        (["check", "--output", "gone/report.txt"], "--output: cannot write"),
        (["check", "--output", "sub"], "is a directory"),
        (["leak.py"], "did you mean `gradguard check leak.py`?"),
        (["chek"], "No such command 'chek'"),
        (["mend"], "No such command 'mend'"),
    ],
)
def test_a_mistake_is_2_and_said_without_a_traceback(files: Path, gradguard: Run, words: list[str], says: str) -> None:
    done = gradguard(*words)
    assert done.status == 2
    assert done.out == ""
    assert says in " ".join(done.err.split())


def test_a_mistake_in_the_configuration_is_one_line(files: Path, gradguard: Run) -> None:
    write(files, {"pyproject.toml": "[tool.gradguard]\nselekt = []"})
    done = gradguard("check")
    assert done.status == 2
    assert (
        done.err == f"error: {files / 'pyproject.toml'}: [tool.gradguard] has no key `selekt`; did you mean `select`?\n"
    )


# --- terminals and pipes ------------------------------------------------------------------------------------------


def test_a_pipe_gets_no_colour_unless_it_is_asked_for(files: Path, shell: Shell) -> None:
    check = ("-m", "gradguard", "check")
    assert b"\x1b" not in shell(*check).stdout
    assert b"\x1b[" in shell(*check, "--color", "always").stdout
    assert b"\x1b[" in shell(*check, env={"FORCE_COLOR": "1"}).stdout
    assert b"\x1b[31m" not in shell(*check, env={"FORCE_COLOR": "1", "NO_COLOR": "1"}).stdout
    assert b"\x1b" not in shell(*check, "--color", "never", env={"FORCE_COLOR": "1"}).stdout


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8"])
def test_every_encoding_of_stdout_will_do(project: Path, shell: Shell, encoding: str) -> None:
    write(project, {"漢.py": LEAK.replace("running", "計")})
    for style in ("console", "concise", "json"):
        done = shell("-m", "gradguard", "check", "--format", style, env={"PYTHONIOENCODING": encoding})
        assert (done.returncode, b"Traceback" in done.stderr) == (1, False), done.stderr
        assert done.stdout.decode(encoding)


def test_sixty_columns_are_enough(files: Path, shell: Shell) -> None:
    out = shell("-m", "gradguard", "check", env={"COLUMNS": "60"}).stdout.decode()
    assert max(map(len, out.splitlines())) <= 60


def test_a_reader_that_has_seen_enough_is_no_error(project: Path) -> None:
    write(project, {f"leak{n}.py": LEAK for n in range(300)})
    for style in ("console", "concise", "json"):
        command = [sys.executable, "-m", "gradguard", "check", "--format", style]
        environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
        with subprocess.Popen(
            command, cwd=project, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.read(1)
            process.stdout.close()
            errors = process.stderr.read()
        assert process.returncode == 1
        assert b"Traceback" not in errors
        assert b"Exception ignored" not in errors


def test_an_interrupt_is_130_and_silent(files: Path, gradguard: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from gradguard.static import engine

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(engine, "check", interrupted)
    done = gradguard("check")
    assert (done.status, done.out, done.err.strip()) == (130, "", "")


def test_a_disk_that_is_full_is_said(files: Path, gradguard: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from gradguard.report import json as reporter

    def full(_: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(reporter, "render", full)
    done = gradguard("check", "--format", "json")
    assert (done.status, done.err) == (2, "error: [Errno 28] No space left on device\n")


def test_every_run_says_the_same(shell: Shell) -> None:
    demo = str(CHECKOUT / "gradguard" / "demo" / "leaky.py")
    seeds = [str(seed) for seed in range(6)]
    reports = {shell("-m", "gradguard", "check", demo, env={"PYTHONHASHSEED": seed}).stdout for seed in seeds}
    assert len(reports) == 1


def test_cache_is_kept_where_it_is_asked_for(gradguard: Run, project: Path) -> None:
    write(project, {"a.py": "import torch\n"})
    gradguard("check", "--cache-dir", "kept")
    assert len(list((project / "kept").glob("*.json"))) == 1


def test_no_cache_leaves_nothing(gradguard: Run, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(project, {"a.py": "import torch\n"})
    monkeypatch.setenv("GRADGUARD_CACHE_DIR", "kept")
    gradguard("check", "--no-cache")
    assert not (project / "kept").exists()


def test_a_cache_that_cannot_be_written_is_a_warning(gradguard: Run, project: Path) -> None:
    write(project, {"a.py": "import torch\n", "kept": ""})
    done = gradguard("check", "--cache-dir", "kept")
    assert done.status == 0
    assert "warning: nothing is kept for the next run: kept: " in done.err


def test_without_a_home_there_is_no_cache(gradguard: Run, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import platformdirs

    def homeless(*_: object, **__: object) -> Path:
        raise RuntimeError("could not determine the home directory")

    write(project, {"a.py": LEAK})
    monkeypatch.delenv("GRADGUARD_CACHE_DIR")
    monkeypatch.setattr(platformdirs, "user_cache_path", homeless)
    assert gradguard("check").status == 1


def test_a_second_run_says_the_same(gradguard: Run, project: Path) -> None:
    write(project, {"a.py": LEAK})
    assert gradguard("check") == gradguard("check")


def test_jobs_is_a_number_of_processes(gradguard: Run, project: Path) -> None:
    write(project, {"a.py": LEAK, "b.py": LEAK})
    assert gradguard("check", "--jobs", "2").out == gradguard("check", "--no-cache", "--jobs", "1").out
    assert "--jobs" in gradguard("check", "--jobs", "0").err


@pytest.mark.parametrize(
    ("options", "warned"),
    [
        (("--select", "GG302"), True),
        (("--extend-select", "GG103,gg302"), True),
        (("--select", "GG302", "--min-confidence", "low"), False),
        (("--select", "GG3"), False),
        (("--select", "GG103"), False),
        ((), False),
    ],
)
def test_a_rule_that_is_asked_for_and_waits_at_low_confidence(
    gradguard: Run, tmp_path: Path, options: tuple[str, ...], warned: bool
) -> None:
    write(tmp_path, {"a.py": CLEAN})
    done = gradguard("check", *options, "a.py")
    assert done.status == 0
    assert done.err == ("warning: GG302: reported with --min-confidence low only\n" if warned else "")
