"""Modes that are to be off for an evaluation, by a word that no evaluation has."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files, twin

CODE = "GG301"

LOOP = """
    def fit(model, loaders, optimizer, epochs):
        for epoch in range(epochs):
            for phase in ["train", "valid"]:
                model.train(phase == "train")
                for x, y in loaders[phase]:
                    with torch.set_grad_enabled(phase != "val"):  # !
                        loss = F.cross_entropy(model(x), y)
                    if phase == "train":
                        optimizer.zero_grad()
                        loss.backward()
                        optimizer.step()
"""
GIVEN = """
    PHASES = ("train", "valid")

    def run(phase, model, data, optimizer):
        for x, y in data[phase]:
            with torch.set_grad_enabled(phase != "val"):  # !
                loss = F.cross_entropy(model(x), y)
            if phase == "train":
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

    def main(model, data, optimizer):
        for epoch in range(10):
            for phase in PHASES:
                run(phase, model, data, optimizer)
"""
ASKS = 'torch.set_grad_enabled(phase != "val")'
OVER = 'for phase in ["train", "valid"]'
BY_PHASE = 'if phase == "train":\n                        optimizer'


@pytest.mark.parametrize(
    "change",
    [
        ("train", "train"),
        (ASKS, 'torch.set_grad_enabled(not phase == "val")'),
        (ASKS, 'torch.set_grad_enabled(phase not in ("val", "test"))'),
        (ASKS, 'torch.set_grad_enabled(mode=phase != "val")'),
        (ASKS, 'torch.inference_mode(phase == "val")'),
        (OVER, 'for phase in ("train", "test")'),
        (OVER, 'for phase in reversed(["valid", "train"])'),
        (OVER, 'for phase, n in {"train": 1, "valid": 2}.items()'),
        (BY_PHASE, 'if phase != "valid":\n                        optimizer'),
        (
            BY_PHASE,
            'if phase == "valid": continue\n                    if epoch >= 0:\n                        optimizer',
        ),
    ],
)
def test_a_word_that_is_none_of_those_of_the_loop(change: tuple[str, str]) -> None:
    assert_flagged(LOOP.replace(*change), CODE)


def test_a_test_with_a_name() -> None:
    named = 'trains = phase != "val"\n                    with torch.set_grad_enabled(trains)'
    assert_flagged(LOOP.replace(f"with {ASKS}", named), CODE)


@pytest.mark.parametrize(
    "change",
    [
        (ASKS, 'torch.set_grad_enabled(phase == "train")'),
        (ASKS, 'torch.set_grad_enabled(phase != "valid")'),
        (ASKS, 'torch.set_grad_enabled(phase not in ("val", "valid"))'),
        (ASKS, 'torch.set_grad_enabled(phase == "training")'),
        (ASKS, "torch.set_grad_enabled(phase != loaders.val)"),
        (ASKS, 'torch.set_grad_enabled(epoch != "val")'),
        (ASKS, 'torch.inference_mode(phase != "val")'),
        (ASKS, 'loaders.set_grad_enabled(phase != "val")'),
        (OVER, 'for phase in ["train", "val"]'),
        (OVER, 'for phase in ["train", "finetune"]'),
        (OVER, 'for phase in ["valid", "test"]'),
        (OVER, "for phase in loaders"),
        (OVER, 'for phase in ["train", "valid"] + optimizer.phases'),
        (OVER, 'for phase in ["train", "valid", epochs]'),
        (OVER, 'phase = "val"\n            for phase in ["train", "valid"]'),
        (OVER, 'for epoch, phase in {"train": 1, "valid": 2}.items()'),
        ("model.train(phase", "phase = loaders.names[phase]\n                model.train(phase"),
        ('if phase == "train":', 'if phase != "val":'),
        ('if phase == "train":', 'if phase != "test":'),
        ('if phase == "train":', "if loss.requires_grad:"),
    ],
)
def test_words_that_come_or_are_not_known(change: tuple[str, str]) -> None:
    assert_clean(twin(LOOP, change), CODE)


@pytest.mark.parametrize(
    "change",
    [
        ("PHASES", "PHASES"),
        ("PHASES:", '("train", "valid"):'),
        ('PHASES = ("train", "valid")', 'PHASES = {"train": 1, "valid": 3}'),
        ("for phase in PHASES:\n                run(phase,", 'for name in PHASES:\n                run(name,'),
        ("for phase in PHASES:\n                run(phase,", 'if epoch:\n                run("valid",'
         'model, data, optimizer)\n                run("train",'),
        ("for phase in PHASES:\n                run(phase,", 'for n in PHASES:\n                run(phase=n, model='),
    ],
)  # fmt: skip
def test_a_word_that_a_function_is_given(change: tuple[str, str]) -> None:
    snippet = GIVEN.replace(*change).replace(
        "model= model, data, optimizer", "model=model, data=data, optimizer=optimizer"
    )
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "change",
    [
        ('PHASES = ("train", "valid")', 'PHASES = ("train", "val")'),
        ('PHASES = ("train", "valid")', 'PHASES = ["train", "valid"]\n    PHASES.append("val")'),
        ('PHASES = ("train", "valid")', 'PHASES = ["train", "valid"]\n    PHASES += ["val"]'),
        ('PHASES = ("train", "valid")', "PHASES = model_phases()"),
        ("for phase in PHASES", "for phase in data"),
        ("def main(", "def test(model, data):\n        run('val', model, data, None)\n\n    def main("),
        ("def main(", "def test(model, data, words):\n        run(words[0], model, data, None)\n\n    def main("),
        ("def main(", "def test(*given):\n        run(*given)\n\n    def main("),
        ("def main(", "def test(model, pool):\n        pool.submit(run, model)\n\n    def main("),
        ("run(phase, model", "model(phase, model"),
    ],
)
def test_a_function_that_is_given_others(change: tuple[str, str]) -> None:
    assert_clean(twin(GIVEN, change), CODE)


def test_callers_in_other_files(tmp_path: Path) -> None:
    header = "import torch\nimport torch.nn.functional as F\n"
    run = GIVEN.replace("\n    ", "\n").split("def main(")[0]
    calls = "from run import run\n\n\ndef fit(model, data):\n"
    calls += '    for p in ("train", "{}"):\n        run(p, model, data, None)\n'
    files = {"run.py": header + run, "main.py": calls.format("valid")}
    assert [name for name, _ in lines_in_files(tmp_path, files, CODE)] == ["run.py"]
    assert lines_in_files(tmp_path, {**files, "main.py": calls.format("val")}, CODE) == []
