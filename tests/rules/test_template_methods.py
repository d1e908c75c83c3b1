"""What a class fills into the template of its base: the base runs it, and may backpropagate what it gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files

CODE = "GG301"

TEMPLATE = """
class Template:
    def run(self, data, model, optimizer, criterion):
        model.train()
        for row in data:
            optimizer.zero_grad()
            output = self._predict(row, model)
            BACKWARD
            optimizer.step()
"""

PREDICT = """
class Trainer(Template):
    def _predict(self, row, model):
        x, _ = row
        return [model(F.interpolate(x, size=int(x.size(3) * scale) + 1)) for scale in self.scales]  # !
"""

BACKWARD = [
    "losses = self.loss_of(output, row, criterion); losses[0].backward()",
    "loss = criterion(output, row[1]); loss.backward()",
    "losses = tuple(loss / 4 for loss in criterion(output, row[1])); main = losses[0]; main.backward()",
    "criterion(torch.stack(output).mean(0), row[1]).backward()",
]
NONE = [
    "self.log(output)",
    "loss = criterion(self.net(row[0]), row[1]); loss.backward(); self.log(output)",
]


@pytest.mark.parametrize("backward", BACKWARD)
def test_the_base_trains_with_it(backward: str) -> None:
    assert_clean(TEMPLATE.replace("BACKWARD", backward) + PREDICT.replace("  # !", ""), CODE)


@pytest.mark.parametrize("backward", NONE)
def test_the_base_only_looks_at_it(backward: str) -> None:
    assert_flagged(TEMPLATE.replace("BACKWARD", backward) + PREDICT, CODE)


TWO = {
    "trainer.py": "import torch\n" + TEMPLATE,
    "several_scales.py": "import torch\nimport torch.nn.functional as F\nfrom trainer import Template\n" + PREDICT,
}


@pytest.mark.parametrize("backward", BACKWARD)
def test_a_base_in_another_file_trains_with_it(tmp_path: Path, backward: str) -> None:
    files = {name: text.replace("BACKWARD", backward) for name, text in TWO.items()}
    assert lines_in_files(tmp_path, files, CODE) == []


@pytest.mark.parametrize("backward", NONE)
def test_a_base_in_another_file_only_looks_at_it(tmp_path: Path, backward: str) -> None:
    files = {name: text.replace("BACKWARD", backward) for name, text in TWO.items()}
    assert {name for name, _ in lines_in_files(tmp_path, files, CODE)} == {"several_scales.py"}


ABSTRACT = {
    "trainer.py": """
        import torch

        class Template:
            def loss_of(self, output, row, criterion):
                raise NotImplementedError

            def run(self, data, model, optimizer, criterion):
                for row in data:
                    optimizer.zero_grad()
                    output = self._predict(row, model)
                    loss = self.loss_of(output, row, criterion)
                    loss.backward()
                    optimizer.step()
    """,
    "several_scales.py": """
        import torch
        import torch.nn.functional as F
        from trainer import Template

        class Trainer(Template):
            def _predict(self, row, model):
                x, _ = row
                return [model(F.interpolate(x, size=int(x.size(3) * scale) + 1)) for scale in self.scales]

            def loss_of(self, output, row, criterion):
                RETURNED

            def run(self, *args):
                print("begins")
                return super().run(*args)
    """,
}


@pytest.mark.parametrize(
    ("returned", "found"),
    [
        ("return sum(criterion(each, row[1]) for each in output)", []),
        ("loss = 0\n        for each in output:\n            loss += criterion(each, row[1])\n        return loss", []),
        ("return criterion(self.net(row[0]), row[1])", [("several_scales.py", 9)]),
    ],
)
def test_the_class_fills_in_the_loss_too(tmp_path: Path, returned: str, found: list[tuple[str, int]]) -> None:
    indented = returned.replace("\n        ", "\n" + " " * 16)
    files = {name: text.replace("RETURNED", indented) for name, text in ABSTRACT.items()}
    assert lines_in_files(tmp_path, files, CODE) == found
