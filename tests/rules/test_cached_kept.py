"""Caches that are given the same tensors again and again, as a list keeps them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files, twin

CODE = "GG404"

PARTS = """
import functools

def make(count):
    parts = []
    for _ in range(count):
        x = torch.randn(50, 8)
        parts.append((x, torch.randint(50, (2, 90)), x.argmax(1)))
    return parts

@functools.lru_cache(maxsize=None)  # !
def degrees(edges, count):
    return torch.zeros(count).index_add_(0, edges[1], torch.ones(edges.size(1)))

def dropped(edges):
    return edges[:, torch.rand(edges.size(1)) > 0.2]

def train(model, optimizer, steps):
    parts = make(8)
    for step in range(steps):
        x, edges, y = parts[step % len(parts)]
        out = model(x, degrees(DROPPED, len(x)))
        loss = F.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            with torch.no_grad():
                for x, edges, y in parts:
                    print((model(x, degrees(edges, len(x))).argmax(1) == y).float().mean())
"""
EPOCHS = """
import functools

@functools.cache  # !
def norm(adjacency: torch.Tensor):
    return adjacency / adjacency.sum(1, keepdim=True)

def epoch(model, optimizer, graphs):
    for number, adjacency in enumerate(graphs):
        out = model(norm(GIVEN))
        optimizer.zero_grad()
        out.mean().backward()
        optimizer.step()

def main(model, optimizer, sizes):
    graphs = [torch.rand(size, size) for size in sizes]
    for _ in range(100):
        epoch(model, optimizer, graphs)
"""
ANEW = (
    EPOCHS.replace("GIVEN", "adjacency").partition("def main")[0]
    + """
def main(model, optimizer, sizes):
    for _ in range(100):
        graphs = [torch.rand(size, size) for size in sizes]
        epoch(model, optimizer, graphs)
"""
)
FLAGGED = {
    "drawn in each step": PARTS.replace("DROPPED", "dropped(edges)"),
    "computed of them": EPOCHS.replace("GIVEN", "adjacency + 1"),
    "made anew for each epoch": ANEW,
    "of a loader": EPOCHS.replace("GIVEN", "adjacency").replace(
        "[torch.rand(size, size) for size in sizes]", "torch.utils.data.DataLoader(sizes)"
    ),
    "of a stream": EPOCHS.replace("GIVEN", "adjacency").replace("enumerate(graphs)", "augmented(graphs)"),
    "slices of a tensor": EPOCHS.replace("GIVEN", "graphs[number]").replace(
        "[torch.rand(size, size) for size in sizes]", "torch.rand(9, 8, 8)"
    ),
    "nobody is seen to call it": EPOCHS.replace("norm(GIVEN)", "adjacency"),
}
CLEAN = {
    "the parts": twin(PARTS, ("DROPPED", "edges")),
    "a function that is given the list": twin(EPOCHS, ("GIVEN", "adjacency")),
    "by its number": twin(EPOCHS, ("GIVEN", "graphs[number]")),
    "a list that is written out": twin(
        EPOCHS, ("GIVEN", "adjacency"), ("[torch.rand(size, size) for size in sizes]", "[torch.eye(2), torch.eye(3)]")
    ),
}


@pytest.mark.parametrize("snippet", FLAGGED.values(), ids=FLAGGED)
def test_flagged(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize("snippet", CLEAN.values(), ids=CLEAN)
def test_clean(snippet: str) -> None:
    assert_clean(snippet, CODE)


def test_several_files(tmp_path: Path) -> None:
    """The list is made in another file, and what is cached has one of its own."""
    text = twin(PARTS, ("DROPPED", "edges"))
    make, rest = text.split("@functools")
    cached, train = rest.split("def dropped")
    imports = "import torch\nimport torch.nn.functional as F\nfrom cached import degrees\nfrom parts import make\n\n"
    files = {
        "parts.py": f"import torch\n{make}",
        "cached.py": f"import functools\nimport torch\n\n@functools{cached}",
        "main.py": f"{imports}def dropped{train}",
    }
    assert lines_in_files(tmp_path, files, CODE) == []
    (tmp_path / "twin").mkdir()
    files["main.py"] = files["main.py"].replace("out = model(x, degrees(edges,", "out = model(x, degrees(edges[:, 9:],")
    assert [name for name, _ in lines_in_files(tmp_path / "twin", files, CODE)] == ["cached.py"]
