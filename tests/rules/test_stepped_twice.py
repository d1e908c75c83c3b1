from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files, twin

CODE = "GG263"

IN_ONE = """
    def fit(loader, epochs):
        model = make_model(9, 8)
        first = torch.optim.Adagrad(model.embedding.parameters(), lr=0.1)
        second = torch.optim.AdamW(model.parameters(), lr=1e-3)  # !
        for epoch in range(epochs):
            for x, y in loader:
                first.zero_grad()
                second.zero_grad()
                F.cross_entropy(model(x), y).backward()
                first.step()
                second.step()
"""
FIRST = "torch.optim.Adagrad(model.embedding.parameters(), lr=0.1)"
STEPS = "                first.step()\n                second.step()\n"


@pytest.mark.parametrize(
    "edits",
    [
        [],
        [("AdamW(model.parameters(), lr=1e-3)", "AdamW(list(model.parameters()), lr=1e-3)")],
        [(FIRST, "torch.optim.Adagrad([p for n, p in model.named_parameters() if 'emb' in n], lr=0.1)")],
        [(FIRST, "torch.optim.SGD(model.parameters(), lr=0.1)")],
        [(STEPS, "                second.step()\n                first.step()\n")],
        [(STEPS, "                scaler.step(first)\n                scaler.step(second)\n")],
        [(STEPS, "                if len(x) > 1:\n                    first.step()\n"
                 "                    second.step()\n")],
        [(STEPS, "                for opt in optimizers:\n                    opt.step()\n"),
         ("        for epoch", "        optimizers = [first, second]\n        for epoch")],
    ],
)  # fmt: skip
def test_two_optimizers_of_one_model(edits: list[tuple[str, str]]) -> None:
    snippet = IN_ONE
    for old, new in edits:
        assert old in snippet
        snippet = snippet.replace(old, new)
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [("AdamW(model.parameters()", "AdamW(model.head.parameters()")],
        [("AdamW(model.parameters()", "AdamW([p for n, p in model.named_parameters() if 'emb' not in n]")],
        [("AdamW(model.parameters()", "AdamW(filter(wanted, model.parameters())")],
        [("AdamW(model.parameters()", "AdamW(rest(model)")],
        [("AdamW(model.parameters()", "AdamW(other.parameters()")],
        # each after a backward or a reset of its own
        [(STEPS, "                first.step()\n                second.zero_grad()\n"
                 "                model(x).sum().backward()\n                second.step()\n")],
        [(STEPS, "                first.step()\n                second.zero_grad()\n                second.step()\n")],
        # in phases
        [(STEPS, "                if epoch < 3:\n                    first.step()\n"
                 "                else:\n                    second.step()\n")],
        [(STEPS, "                first.step()\n                if epoch > 3:\n                    second.step()\n")],
        [(STEPS, "                first.step()\n            second.step()\n")],
        [(STEPS, "                (first if epoch < 3 else second).step()\n")],
        [(STEPS, "                first.step()\n")],
        [(STEPS, "                first.step(closure)\n                second.step()\n")],
        [(STEPS, "                for opt in optimizers:\n                    opt.zero_grad()\n"
                 "                    model(x).sum().backward()\n                    opt.step()\n"),
         ("        for epoch", "        optimizers = [first, second]\n        for epoch")],
        [("        for epoch", "        second = torch.optim.AdamW(model.head.parameters())\n        for epoch")],
        [("torch.optim.AdamW(", "tools.AdamW(")],
    ],
)  # fmt: skip
def test_look_alikes(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(IN_ONE, *edits), CODE)


BUILT = """
    def split(model):
        tables, dense = [], []
        for module in model.modules():
            if isinstance(module, nn.Embedding):
                tables += list(module.parameters())
            elif not list(module.children()):
                dense.extend(module.parameters())
        dense.append(model.scale)
        return tables, dense

    def build(model, lr):
        tables, dense = split(model)
        table_opt = torch.optim.Adagrad(tables, lr=0.05)
        dense_opt = torch.optim.AdamW(model.parameters(), lr=lr)  # !
        return table_opt, dense_opt

    def main(model, loader):
        optimizers = build(model, 1e-3)
        for x, y in loader:
            loss = F.cross_entropy(model(x), y)
            for opt in optimizers:
                opt.zero_grad()
            loss.backward()
            for opt in optimizers:
                opt.step()
"""
RESETS = "            for opt in optimizers:\n                opt.zero_grad()\n"
LOOP = "            for opt in optimizers:\n                opt.step()\n"


@pytest.mark.parametrize(
    "edits",
    [
        [],
        [("optimizers = build", "a, b = build"), (RESETS, ""),
         (LOOP, "            a.step()\n            b.step()\n")],
        [("tables += list(module.parameters())", "tables.extend(module.parameters())")],
    ],
)  # fmt: skip
def test_a_helper_makes_both(edits: list[tuple[str, str]]) -> None:
    snippet = BUILT
    for old, new in edits:
        assert old in snippet
        snippet = snippet.replace(old, new)
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [("AdamW(model.parameters()", "AdamW(dense")],
        [("tables += list(module.parameters())", "tables += list(other.parameters())")],
        [("Adagrad(tables", "Adagrad(others(model)")],
        [("return table_opt, dense_opt", "return table_opt, None")],
        [(LOOP, "            optimizers[0].step()\n")],
        [(LOOP, "            for opt in optimizers:\n                loss.backward()\n                opt.step()\n")],
        [("return tables, dense", "return wrap(tables, dense)")],
    ],
)
def test_look_alikes_of_a_helper(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(BUILT, *edits), CODE)


OBJECT = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = nn.Linear(8, 8), nn.Linear(8, 2)

        def forward(self, x):
            return self.head(self.body(x))

    class Trainer:
        def __init__(self, lr):
            self.net = Net()
            self.all_opt = torch.optim.Adam(self.net.parameters(), lr=lr)  # !
            self.head_opt = torch.optim.SGD(self.net.head.parameters(), lr=10 * lr)

        def step(self, x, y):
            self.all_opt.zero_grad()
            F.cross_entropy(self.net(x), y).backward()
            self.all_opt.step()
            self.head_opt.step()
"""


def test_an_object_has_both() -> None:
    assert_flagged(OBJECT, CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [("Adam(self.net.parameters()", "Adam(self.net.body.parameters()")],
        [("            self.head_opt.step()", "\n        def tune(self):\n            self.head_opt.step()")],
        [("            self.head_opt.step()", "            self.warm.step()")],
        [("        def forward", "        def parameters(self): return self.body.parameters()\n\n        def forward")],
        [("self.net.head.parameters()", "self.other.head.parameters()")],
    ],
)  # fmt: skip
def test_look_alikes_of_an_object(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(OBJECT, *edits), CODE)


def test_another_file_makes_both(tmp_path: Path) -> None:
    head = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"
    lines = [line[4:] for line in BUILT.replace("  # !", "").splitlines()]
    at = next(n for n, line in enumerate(lines) if line.startswith("def main"))
    files = {
        "build.py": head + "\n".join(lines[:at]),
        "main.py": head + "from build import build\n" + "\n".join(lines[at:]),
    }
    assert [name for name, _ in lines_in_files(tmp_path, files, CODE)] == ["build.py"]
