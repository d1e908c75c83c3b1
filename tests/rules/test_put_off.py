"""Generators that are returned out of a block under ``no_grad``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files, twin

CODE = "GG301"

SCORES = """
def score_all(model, queries):
    model.eval()
    with torch.no_grad():
        return (model(query.docs) for query in queries)  # !

def evaluate(model, queries):
    return sum(float(scores.max()) for scores in score_all(model, queries)) / len(queries)

def train(model, optimizer, queries, held_out):
    for query in queries:
        model.train()
        optimizer.zero_grad()
        F.mse_loss(model(query.docs), query.grade).backward()
        optimizer.step()
        print(evaluate(model, held_out))
"""
METHOD = """
class Ranker:
    def __init__(self):
        self.net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))

    @torch.inference_mode()
    def scores(self, batches):
        self.net.eval()
        return (
            self.net(batch).squeeze(1).argsort()  # !
            for batch in batches
        )

    def best(self, batches):
        return [order[-1].item() for order in self.scores(batches)]
"""
FLAGGED = {
    "out of a block": SCORES,
    "out of a decorated method": METHOD,
    "in inference mode": SCORES.replace("no_grad", "inference_mode"),
    "one of several returns": SCORES.replace("    model.eval()", "    if not queries: return []\n    model.eval()"),
    "pairs": SCORES.replace("(model(query.docs) for", "((query, model(query.docs)) for"),
}
CLEAN = {
    "a list": twin(SCORES, ("(model(query.docs) for query in queries)", "[model(query.docs) for query in queries]")),
    "gone through in the block": twin(SCORES, ("return (", "return max("), ("scores.max()", "scores")),
    "a list of it": twin(
        SCORES, ("return (model(query.docs) for query in queries)", "return list(model(q.docs) for q in queries)")
    ),
    "a generator function, decorated": twin(
        SCORES,
        ("def score_all", "@torch.no_grad()\ndef score_all"),
        (
            "    with torch.no_grad():\n        return (model(query.docs) for query in queries)",
            "    for query in queries:\n        yield model(query.docs)",
        ),
    ),
    "gone through under no_grad": twin(SCORES, ("def evaluate", "@torch.no_grad()\ndef evaluate")),
    "gone through in another block": twin(
        METHOD, ("        return [order[-1]", "        with torch.no_grad():\n            return [order[-1]")
    ),
    "not run in it": twin(
        SCORES,
        ("(model(query.docs) for query", "(out for query"),
        ("        return", "        out = model(queries[0].docs)\n        return"),
    ),
    "no model": twin(SCORES, ("(model(query.docs) for", "(query.docs.mean() for")),
    "what it goes over is run at once": twin(
        SCORES, ("(model(query.docs) for query in queries)", "(row.max() for row in model(queries))")
    ),
    "frozen": twin(METHOD, ("nn.Linear(8, 1))", "nn.Linear(8, 1)).requires_grad_(False)")),
}


@pytest.mark.parametrize("snippet", FLAGGED.values(), ids=FLAGGED)
def test_flagged(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize("snippet", CLEAN.values(), ids=CLEAN)
def test_clean(snippet: str) -> None:
    assert_clean(snippet, CODE)


def test_several_files(tmp_path: Path) -> None:
    """Who goes through it is in another file, and decides."""
    score, rest = SCORES.replace("  # !", "").split("def evaluate")
    evaluate, train = rest.split("def train")
    imports = "import torch\nimport torch.nn.functional as F\nfrom score import score_all\n\n"
    files = {
        "score.py": f"import torch\n{score}",
        "main.py": f"{imports}def evaluate{evaluate}def train{train}",
    }
    assert lines_in_files(tmp_path, files, CODE) == [("score.py", 6)]
    (tmp_path / "twin").mkdir()
    files["main.py"] = files["main.py"].replace("def evaluate", "@torch.no_grad()\ndef evaluate")
    assert lines_in_files(tmp_path / "twin", files, CODE) == []
