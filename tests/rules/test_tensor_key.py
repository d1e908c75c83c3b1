from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged

CODE = "GG412"


def counting(*lines: str, made: str = "counts = {}") -> str:
    body = "\n                ".join(lines)
    return f"""
        def train(model, loader, optimizer):
            {made}
            for x, y in loader:
                out = model(x)
                loss = F.cross_entropy(out, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                {body}
            return counts
    """


COUNTER = "from collections import Counter\n            counts = Counter()"

FLAGGED = {
    "a count": counting("for label in y:", "    counts[label] = counts.get(label, 0) + 1  # !"),
    "of a Counter": counting("for label in y:", "    counts[label] += 1  # !", made=COUNTER),
    "of a defaultdict": counting(
        "for label, value in zip(y, loss.tolist()):",
        "    counts[label].append(value)  # !",
        made="counts = defaultdict(list)",
    ),
    "by position": counting("for i in range(len(y)):", "    counts[y[i]] = i  # !"),
    "by position, with a name": counting("for i in range(len(y)):", "    label = y[i]", "    counts[label] = i  # !"),
    "what was predicted": counting("pred = out.argmax(1)", "for p in pred:", "    counts[p] = 1  # !"),
    "the labels of a batch, once each": counting(
        "found = torch.unique(y)", "for f in found:", "    counts[f] = 1  # !"
    ),
    "numbered": counting("for i, label in enumerate(y):", "    counts.setdefault(label, i)  # !"),
    "a half of the labels": counting("first, second = y.chunk(2)", "for label in first:", "    counts[label] = 1  # !"),
    "a set": counting("for label in y:", "    counts.add(label)  # !", made="counts = set()"),
    "an attribute that is taken from, and never is": """
        class Open:
            def __init__(self):
                self.states = {}

            def close(self, sessions: torch.Tensor):
                for session in sessions:
                    self.states.pop(session, None)  # !
    """,
    "in an evaluation": """
        @torch.no_grad()
        def evaluate(model, test_loader, device):
            model.eval()
            right = dict()
            for x, y in test_loader:
                y = y.to(device)
                hit = model(x.to(device)).argmax(dim=1) == y
                for label, ok in zip(y, hit):
                    right[label] = right.get(label, 0) + int(ok)  # !
            return right
    """,
}

CLEAN = {
    "numbers": counting("for label in y.tolist():", "    counts[label] = counts.get(label, 0) + 1"),
    "numbers of each": counting("for label in y:", "    counts[label.item()] = 1"),
    "made a number": counting("for label in y:", "    label = int(label)", "    counts[label] = 1"),
    "arrays": counting("for label in y.cpu().numpy():", "    counts[label] = 1"),
    "a list, which takes the number": counting("for label in y:", "    counts[label] += 1", made="counts = [0] * 10"),
    "a tensor": counting("for label in y:", "    counts[label] += 1", made="counts = torch.zeros(10)"),
    "made bare before": counting("labels = y.tolist()", "for label in labels:", "    counts[label] = 1"),
    "rebound to numbers": counting("y = y.tolist()", "for label in y:", "    counts[label] = 1"),
    "an array of numpy": counting("for label in y:", "    counts[label] += 1", made="counts = np.zeros(10)"),
    "what may be no dict": counting("for label in y:", "    counts[label] = 1", made="counts = make_counts()"),
    "by the place": counting("for i, label in enumerate(y):", "    counts[i] = label.item()"),
    "a part of a batch": """
        def train(model, loader, optimizer):
            seen = {}
            for batch in loader:
                loss = model(batch["x"]).mean()
                optimizer.zero_grad(); loss.backward(); optimizer.step()
                for name in batch["names"]:
                    seen[name] = 1
    """,
    "names beside tensors": """
        def train(model, loader, optimizer):
            seen = {}
            for x, y, names in loader:
                loss = F.cross_entropy(model(x), y)
                optimizer.zero_grad(); loss.backward(); optimizer.step()
                for name, label in zip(names, y):
                    seen[name] = label.item()
    """,
    "words that something gives": """
        def train(model, loader, optimizer, tokenizer):
            seen = {}
            for x, y, meta in loader:
                loss = F.cross_entropy(model(x), y)
                optimizer.zero_grad(); loss.backward(); optimizer.step()
                words, texts, paths = next(meta), tokenizer.decode(y), meta.pop("path")
                for word in words: seen[word] = 1
                for text in texts: seen[text] = 1
                for path in paths: seen[path] = 1
    """,
    "parameters": """
        def train(model, loader, optimizer):
            momentum = {}
            for x, y in loader:
                F.cross_entropy(model(x), y).backward()
                for p in model.parameters():
                    momentum[p] = 0.9 * momentum.get(p, 0.0) + p.grad.norm().item()
                optimizer.step()
                optimizer.zero_grad()
    """,
    "parts that a tuple holds": counting(
        "parts = y.chunk(4)",
        "for part in parts:",
        "    counts[part] = part.sum().item()",
        "total = sum(counts[part] for part in parts)",
    ),
    "parts by their place": counting("rows = torch.unbind(x)", "for i in range(4):", "    counts[rows[i]] = i"),
    "keys of a dict": counting("for key in counts:", "    counts[key] = 0"),
}


@pytest.mark.parametrize("snippet", FLAGGED.values(), ids=FLAGGED)
def test_flagged(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize("snippet", CLEAN.values(), ids=CLEAN)
def test_clean(snippet: str) -> None:
    assert_clean(snippet, CODE)
