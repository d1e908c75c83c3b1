"""Lists that the body of a class makes, one for all its objects."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files, twin

CODE = "GG416"

METRIC = """
    class Recall:
        hits = []

        def __init__(self, k):
            self.k = k

        def update(self, scores, relevant):
            order = scores.detach().argsort(dim=1, descending=True)
            self.hits.append(relevant.gather(1, order)[:, : self.k].float())  # !

        def compute(self):
            return torch.cat(self.hits).mean().item()

    @torch.no_grad()
    def evaluate(model, loader):
        recall = Recall(10)
        model.eval()
        for x, y in loader:
            recall.update(model(x), y)
        model.train()
        return recall.compute()

    def train(model, optimizer, batches, loader, steps):
        for step, (x, y) in enumerate(batches):
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 100 == 0:
                print(evaluate(model, loader))
"""
REGISTRY = """
    METERS = {}

    def meter(cls):
        METERS[cls.__name__.lower()] = cls
        return cls

    class Meter:
        \"\"\"What all meters have.\"\"\"

        seen: list = list()

        def add(self, out, y):
            self.seen += [self.score(out.detach(), y).mean(1)]  # !

        def value(self):
            return float(torch.stack(self.seen).mean())

    @meter
    class Hits(Meter):
        def score(self, out, y):
            return (out.argmax(-1) == y).float()

    def make(names):
        return [METERS[name]() for name in names]

    class Trainer:
        def __init__(self, model, loader, optimizer):
            self.model, self.loader, self.optimizer = model, loader, optimizer

        def epoch(self):
            meters = make(["hits"])
            for x, y in self.loader:
                out = self.model(x)
                loss = F.cross_entropy(out.flatten(0, 1), y.flatten())
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                for each in meters:
                    each.add(out, y)
            return [each.value() for each in meters]

        def fit(self, epochs):
            for epoch in range(epochs):
                print(self.epoch())
"""
FLAGGED = {
    "made for each evaluation": METRIC,
    "of a registry, by a base": REGISTRY,
    "pairs": METRIC.replace(
        "self.hits.append(relevant.gather(1, order)[:, : self.k].float())", "self.hits.append((order, relevant))"
    ),
    "a derived class is made": METRIC.replace(
        "    @torch.no_grad", "    class Top(Recall): pass\n\n    @torch.no_grad"
    ).replace("Recall(10)", "Top(10)"),
}
CLEAN = {
    "a list for each object": twin(METRIC, ("            self.k = k", "            self.k, self.hits = k, []")),
    "begun in a reset": twin(
        METRIC, ("        def compute", "        def reset(self): self.hits = []\n\n        def compute")
    ),
    "emptied when read": twin(
        METRIC, ("        def compute(self):", "        def compute(self):\n            hits = self.hits.pop()")
    ),
    "emptied from outside": twin(METRIC, ("        model.eval()", "        model.eval(); recall.hits.clear()")),
    "emptied by the class": twin(METRIC, ("        model.eval()", "        Recall.hits = []; model.eval()")),
    "read of the class": twin(METRIC, ("torch.cat(self.hits)", "torch.cat(Recall.hits)")),
    "read of the object's class": twin(METRIC, ("torch.cat(self.hits)", "torch.cat(type(self).hits)")),
    "a queue": twin(METRIC, ("hits = []", "hits = deque(maxlen=9)")),
    "some are there": twin(METRIC, ("hits = []", "hits = [0]")),
    "a field of a dataclass": twin(
        METRIC,
        ("class Recall", "@dataclass\n    class Recall"),
        ("hits = []", "hits: list = field(default_factory=list)"),
    ),
    "made once, before the training": twin(
        METRIC, ("        recall = Recall(10)\n", ""), ("(model, loader):", "(model, loader, recall=Recall(10)):")
    ),
    "of a base that copies it": twin(
        METRIC,
        ("class Recall:", "class Recall(pydantic.BaseModel):"),
        ("    class Recall", "    import pydantic\n\n    class Recall"),
    ),
    "made where there is none": twin(METRIC, ("recall = Recall(10)", "recall = model.recall or Recall(10)")),
    "numbers": twin(METRIC, ("[:, : self.k].float())", "[:, : self.k].float().mean().item())")),
    "nothing trains": twin(METRIC, ("loss.backward()", "loss.item()")),
    "evaluated once": twin(METRIC, ("            if step % 100 == 0:\n                print", "        print")),
    "under a condition that is met once": twin(
        METRIC, ("        recall = Recall(10)", "        recall = Recall(10) if loader is None else loader.recall")
    ),
    "a list of its own by the registry": twin(
        REGISTRY, ("            self.seen += ", "            self.seen = self.seen + ")
    ),
    "of another registry": twin(REGISTRY, ("METERS[name]()", "OTHERS[name]()")),
    "the meters of the trainer": twin(
        REGISTRY,
        (
            "self.optimizer = model, loader, optimizer",
            "self.optimizer = model, loader, optimizer; self.meters = make([])",
        ),
        ('            meters = make(["hits"])', "            meters = self.meters"),
    ),
}


@pytest.mark.parametrize("snippet", FLAGGED.values(), ids=FLAGGED)
def test_flagged(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize("snippet", CLEAN.values(), ids=CLEAN)
def test_clean(snippet: str) -> None:
    assert_clean(snippet, CODE)


def test_several_files(tmp_path: Path) -> None:
    """The class, what makes it, and the training each have a file."""
    metric, rest = METRIC.replace("  # !", "").split("    @torch.no_grad()")
    evaluate, train = rest.split("    def train")
    files = {
        "metric.py": f"    import torch\n{metric}",
        "evaluation.py": f"    import torch\n    from metric import Recall\n\n    @torch.no_grad(){evaluate}",
        "main.py": f"    import torch.nn.functional as F\n    from evaluation import evaluate\n\n    def train{train}",
    }
    assert lines_in_files(tmp_path, files, CODE) == [("metric.py", 11)]
    (tmp_path / "twin").mkdir()
    files["evaluation.py"] = files["evaluation.py"].replace("model.eval()", "model.eval(); del recall.hits[:]")
    assert lines_in_files(tmp_path / "twin", files, CODE) == []
