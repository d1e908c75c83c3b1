"""Metrics that collect the outputs of evaluations, and that nothing resets."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files, twin

CODE = "GG409"

METRIC = """
class Precision:
    def __init__(self, bins=10):
        self.bins = torch.linspace(0, 1, bins)
        self.reset()

    def reset(self):
        self.scores, self.truth = [], []

    def update(self, scores, truth):
        self.scores.append(scores.flatten())  # !
        self.truth.append(truth.flatten())

    def compute(self):
        return (torch.cat(self.scores) > 0.5).eq(torch.cat(self.truth)).float().mean().item()

@torch.no_grad()
def validate(model, metric, batches):
    model.eval()
    for x, y in batches:
        metric.update(model(x), y)
    model.train()
    return metric.compute()

def train(model, steps, batches, loader):
    metric, optimizer = Precision(), torch.optim.Adam(model.parameters())
    data = iter(loader)
    for step in range(steps):
        x, y = next(data)
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        if step % 50 == 0:
            print(validate(model, metric, batches))
"""
UNDER_WORDS = """
class Outputs:
    def __init__(self):
        self.seen = {"scores": [], "truth": []}

    def clear(self):
        for rows in self.seen.values():
            rows.clear()

    def add(self, **given):
        for name, rows in given.items():
            self.seen[name] += [rows.detach()]  # !

class Trainer:
    def __init__(self, model, optimizer, steps):
        self.model, self.optimizer, self.steps = model, optimizer, steps
        self.outputs = Outputs()

    def evaluate(self, batches):
        self.model.eval()
        with torch.no_grad():
            for x, y in batches:
                self.outputs.add(scores=self.model(x), truth=y)
        self.model.train()

    def fit(self, loader, batches):
        for epoch in range(self.steps):
            for x, y in loader:
                self.optimizer.zero_grad()
                F.cross_entropy(self.model(x), y).backward()
                self.optimizer.step()
            self.evaluate(batches)
"""
FLAGGED = {"reset": METRIC, "cleared under words": UNDER_WORDS}
EVALUATES = "        self.model.eval()"
CLEAN = {
    "reset before": twin(METRIC, ("    model.eval()", "    metric.reset()\n    model.eval()")),
    "reset by what it computes": twin(METRIC, ("        return (torch", "        self.reset()\n        return (torch")),
    "reset by the loop": twin(METRIC, ("print(validate", "metric.reset(); print(validate")),
    "reset with others": twin(METRIC, ("print(validate", "[each.reset() for each in (metric,)]; print(validate")),
    "a metric for each evaluation": twin(METRIC, ("print(validate(model, metric", "print(validate(model, Precision()")),
    "numbers": twin(METRIC, ("scores.flatten()", "scores.mean().item()")),
    "one evaluation": twin(
        METRIC,
        ("        if step % 50 == 0:\n    ", ""),
        ("        print(validate", "    print(validate"),
    ),
    "a training of one epoch, perhaps": twin(
        METRIC, ("metric, optimizer = Precision(), torch.optim.Adam(model.parameters())", "metric = Precision()")
    ),
    "no method for it": twin(METRIC, ("        self.reset()\n\n    def reset(self):\n", "")),
    "a memory to draw from": twin(
        METRIC, ("    def compute", "    def draw(self):\n        return random.choice(self.scores)\n\n    def compute")
    ),
    "cleared": twin(UNDER_WORDS, (EVALUATES, f"        self.outputs.clear()\n{EVALUATES}")),
    "begun anew": twin(UNDER_WORDS, (EVALUATES, f"        self.outputs = Outputs()\n{EVALUATES}")),
    "nothing trains": twin(UNDER_WORDS, (".backward()", ".item()")),
}


@pytest.mark.parametrize("snippet", FLAGGED.values(), ids=FLAGGED)
def test_flagged(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize("snippet", CLEAN.values(), ids=CLEAN)
def test_clean(snippet: str) -> None:
    assert_clean(snippet, CODE)


def test_several_files(tmp_path: Path) -> None:
    """The metric is of another file than the evaluation."""
    metric, rest = METRIC.replace("  # !", "").split("@torch.no_grad()")
    files = {
        "metric.py": f"import torch\n{metric}",
        "main.py": "import torch\nimport torch.nn.functional as F\nfrom metric import Precision\n\n@torch.no_grad()"
        + rest,
    }
    assert lines_in_files(tmp_path, files, CODE) == [("metric.py", 12)]
    (tmp_path / "twin").mkdir()
    files["main.py"] = files["main.py"].replace("    model.eval()", "    metric.reset()\n    model.eval()")
    assert lines_in_files(tmp_path / "twin", files, CODE) == []
