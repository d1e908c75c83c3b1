"""GG301: a model that is put into evaluation mode, and handed to a function of another file that runs it in a loop."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import lines_in_files

SAMPLING = """
import torch

def generate(coder, model, size):
    made, state = [], None
    for index in range(size):
        out, state = model(coder.inputs(made), state)
        made.append(out.squeeze().detach().numpy())
    return made
"""

SCRIPT = """
import torch
import sampling
from sampling import generate
from networks import build

def main(args):
    model = build(args)
    model.load_state_dict(torch.load(args.path))
    model.eval()
    made = sampling.generate(args.coder, model, args.size)
    print(len(made))
"""

AT = ("script.py", 11)


def _lines(tmp_path: Path, script: str = SCRIPT, sampling: str = SAMPLING) -> list[tuple[str, int]]:
    return lines_in_files(tmp_path, {"script.py": script, "sampling.py": sampling}, "GG301")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("sampling.generate", "sampling.generate"),
        ("sampling.generate", "generate"),
        ("args.coder, model, args.size", "args.coder, size=args.size, model=model"),
        ("    model.eval()\n", "    model.cuda().eval()\n"),
    ],
)
def test_handed_to_a_function_that_runs_it(tmp_path: Path, old: str, new: str) -> None:
    assert old in SCRIPT
    assert _lines(tmp_path, SCRIPT.replace(old, new)) == [AT]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    model.eval()\n", "    model.cuda()\n"),
        ("    model.eval()\n", "    model.train()\n"),
        ("    model.eval()\n", "    args.other.eval()\n"),
        ("    made = sampling", "    with torch.no_grad():\n        made = sampling"),
        ("    made = sampling", "    with torch.inference_mode():\n        made = sampling"),
        ("def main", "@torch.no_grad()\ndef main"),
        ("    made = sampling", "    torch.set_grad_enabled(False)\n    made = sampling"),
        ("    made = sampling", "    model.requires_grad_(False)\n    made = sampling"),
        ("    print(len(made))", "    torch.autograd.grad(model(args.x), args.x)\n    args.x.requires_grad_()"),
    ],
)
def test_lookalikes_in_the_script(tmp_path: Path, old: str, new: str) -> None:
    assert old in SCRIPT
    assert _lines(tmp_path, SCRIPT.replace(old, new)) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("def generate", "@torch.no_grad()\ndef generate"),
        ("        out, state = model(", "        with torch.no_grad(): out, state = model("),
        ("        made.append(out.squeeze().detach().numpy())", "        out.sum().backward()"),
        ("    for index in range(size):\n", "    if size:\n"),
        ("        out, state = model(coder", "        out = torch.rand(3)\n        (coder"),
    ],
)
def test_lookalikes_in_the_function(tmp_path: Path, old: str, new: str) -> None:
    assert old in SAMPLING
    assert _lines(tmp_path, sampling=SAMPLING.replace(old, new)) == []


def test_what_it_gives_is_trained(tmp_path: Path) -> None:
    script = SCRIPT.replace("    print(len(made))", "    made[0].sum().backward()")
    sampling = SAMPLING.replace("out.squeeze().detach().numpy()", "out.squeeze()")
    assert _lines(tmp_path, script, sampling) == []
