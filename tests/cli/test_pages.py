"""``gradguard explain``, ``gradguard rules`` and ``gradguard demo``."""

from __future__ import annotations

import ast
import difflib
import json
import re
from pathlib import Path

import pytest

import gradguard as package
from gradguard import catalogue
from gradguard.cli._common import all_rules
from gradguard.findings import Confidence
from tests.support import Run, Shell

DEMO = Path(package.__file__).parent / "demo"


@pytest.mark.parametrize("word", ["GG103", "gg103", "loss-accumulation", "Loss-Accumulation"])
def test_a_page_is_found_by_code_or_name(gradguard: Run, word: str) -> None:
    done = gradguard("explain", word)
    assert done.status == 0
    assert done.out.startswith("GG103 loss-accumulation [")


def test_a_pipe_gets_the_page_as_it_is_written(gradguard: Run) -> None:
    for rule in all_rules():
        done = gradguard("explain", rule.code)
        assert done.status == 0
        assert done.out.endswith(f"\n\n{rule.page}\n")


def test_a_terminal_gets_the_page_rendered(shell: Shell) -> None:
    done = shell("-m", "gradguard", "explain", "GG103", env={"FORCE_COLOR": "1", "COLUMNS": "60"})
    text = done.stdout.decode()
    assert done.returncode == 0
    assert "\x1b[1mGG103 loss-accumulation" in text
    assert "```" not in text
    assert "**" not in text


def test_an_unknown_code_names_the_nearest(gradguard: Run) -> None:
    done = gradguard("explain", "GG1O3")
    assert (done.status, done.out) == (2, "")
    assert "unknown code `GG1O3`; did you mean `GG103`?" in done.err
    assert "did you mean `stored-graph`?" in gradguard("explain", "stored-grahp").err
    assert "`gradguard rules` lists them" in gradguard("explain", "xyzzy").err


def test_the_rules_are_listed_one_a_line_in_a_pipe(gradguard: Run) -> None:
    lines = gradguard("rules").out.splitlines()
    for rule in all_rules():
        (line,) = (text for text in lines if text.startswith(rule.code))
        assert rule.name in line
        assert line.endswith(rule.summary)


def test_the_rules_are_listed_for_programs(gradguard: Run) -> None:
    listed = json.loads(gradguard("rules", "--format", "json").out)
    assert [entry["code"] for entry in listed] == ["GG001", *(rule.code for rule in catalogue.load())]
    assert set(listed[0]) == {"code", "name", "severity", "confidence", "summary"}


def test_the_list_says_which_rules_are_on_by_default(gradguard: Run) -> None:
    lines = gradguard("rules").out.splitlines()
    on = {rule.code: line.split()[3] for rule in all_rules() for line in lines if line.startswith(rule.code)}
    assert (on["GG103"], on["GG302"]) == ("yes", "no")
    confident = {rule.code for rule in all_rules() if rule.confidence is Confidence.HIGH}
    assert {code for code, said in on.items() if said == "yes"} == confident


def test_the_demo_finds_both_leaks_twice_and_none_in_the_fixed_script(gradguard: Run) -> None:
    pytest.importorskip("torch")
    done = gradguard("demo")
    assert done.status == 0
    leaky, fixed = done.out.split("$ gradguard check fixed.py")
    checked, ran = leaky.split("$ gradguard run leaky.py")
    lines = (DEMO / "leaky.py").read_text(encoding="utf-8").splitlines()
    found = {
        lines[int(line.split(":")[1]) - 1].strip() for line in checked.splitlines() if line.startswith("leaky.py:")
    }
    assert {"running_loss += loss", "predictions.append(logits)"} <= found
    assert "`train_epoch.running_loss` (torch.Tensor, +1 a step) keeps autograd graphs" in " ".join(ran.split())
    assert "`main.predictions` (list, +1 in 4 steps)" in ran
    assert "Nothing found in 1 file." in fixed
    assert "gradguard Clean: nothing keeps growing over 200 steps." in fixed
    assert re.search(r"^verdict +leak +clean", fixed, re.M)


def test_the_demo_without_torch_shows_one_half_and_names_the_other(shell: Shell) -> None:
    block = (
        "import importlib.util as u; f = u.find_spec; u.find_spec = lambda n, *a: None if n == 'torch' else f(n, *a)"
    )
    done = shell("-c", f"{block}; from gradguard.cli import main; main(['demo'])")
    out = done.stdout.decode()
    assert done.returncode == 0, done.stderr.decode()
    assert "Found 3 problems" in out
    assert "$ gradguard run" not in out
    assert "pip install 'gradguard[torch]'" in out


def test_the_scripts_of_the_demo_differ_in_the_fixes_only() -> None:
    bodies = []
    for name in ("leaky.py", "fixed.py"):
        module = ast.parse((DEMO / name).read_text(encoding="utf-8"))
        bodies.append(ast.unparse(module.body[1:]).splitlines())  # type: ignore[arg-type]
    changed = [line for line in difflib.ndiff(*bodies) if line[0] in "+-"]
    assert [line.split(" ", 1)[1].strip() for line in changed] == [
        "@torch.no_grad()",
        "running_loss += loss",
        "running_loss += loss.detach()",
    ]


@pytest.mark.parametrize("name", ["leaky.py", "fixed.py"])
def test_the_scripts_of_the_demo_run_alone(shell: Shell, name: str) -> None:
    done = shell(str(DEMO / name), env={"STEPS": "20"})
    assert done.returncode == 0, done.stderr.decode()
    assert b"4 outputs kept" in done.stdout
