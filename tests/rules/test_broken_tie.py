from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from gradguard.findings import Confidence
from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files, twin

CODE = "GG228"

LOADED = """
    class Net(nn.Module):
        def __init__(self, words, size, tied=True):
            super().__init__()
            self.embed = nn.Embedding(words, size)
            self.rnn = nn.GRU(size, size)
            self.head = nn.Linear(size, words)
            self.head.weight = self.embed.weight

        def load_vectors(self, vectors):
            self.embed = nn.Embedding.from_pretrained(vectors, freeze=False)  # !

        def forward(self, x):
            return self.head(self.rnn(self.embed(x))[0])

    def main(vectors, loader):
        net = Net(100, 8)
        net.load_vectors(vectors)
        opt = torch.optim.Adam(net.parameters())
        for x, y in loader:
            opt.zero_grad()
            F.cross_entropy(net(x).flatten(0, 1), y.flatten()).backward()
            opt.step()
"""
LOAD = "self.embed = nn.Embedding.from_pretrained(vectors, freeze=False)"
CALL = "net.load_vectors(vectors)"

BUILT = """
    class Net(nn.Module):
        def __init__(self, words, size, vectors=None):
            super().__init__()
            self.embed = nn.Embedding(words, size)
            self.head = nn.Linear(size, words)
            self.tie_weights()
            self.fill(vectors)

        def tie_weights(self):
            self.head.weight = self.embed.weight

        def fill(self, vectors):
            if vectors is not None:
                self.embed.weight = nn.Parameter(vectors)  # !

        def forward(self, x):
            return self.head(self.embed(x))
"""

DERIVED = """
    class Base(nn.Module):
        def __init__(self, words, size):
            super().__init__()
            self.embed = nn.Embedding(words, size)
            self.head = nn.Linear(size, words)
            self.head.weight = self.embed.weight

        def forward(self, x):
            return self.head(self.embed(x))

    class Padded(Base):
        def __init__(self, words, size):
            super().__init__(words, size)
            self.embed = nn.Embedding(words, size, padding_idx=0)  # !
"""

OUTSIDE = """
    class Net(nn.Module):
        def __init__(self, words, size):
            super().__init__()
            self.embed = nn.Embedding(words, size)
            self.head = nn.Linear(size, words)
            self.head.weight = self.embed.weight

        def forward(self, x):
            return self.head(self.embed(x))

    def build(words, more):
        net = Net(words, 8)
        net.embed = nn.Embedding(words + more, 8)  # !
        return net
"""

ONE_FUNCTION = """
    def build(encoder, decoder, vectors):
        decoder.out.weight = decoder.embed.weight
        if vectors is not None:
            decoder.embed.weight = nn.Parameter(vectors)  # !
        return encoder, decoder
"""

FLAGGED = {
    "vectors that a method loads": LOADED,
    "a parameter that a method makes": twin(LOADED, (LOAD, "self.embed.weight = nn.Parameter(vectors)  # !")),
    "more words": twin(
        LOADED, (LOAD, "self.embed = nn.Embedding(len(vectors), self.embed.embedding_dim).to(vectors.device)  # !")
    ),
    "under a condition": twin(
        LOADED,
        ("self.head.weight = ", "if tied:\n                self.head.weight = "),
        (LOAD, f"{LOAD}  # !"),
    ),
    "the other way round": twin(
        LOADED, ("self.head.weight = self.embed.weight", "self.embed.weight = self.head.weight")
    ).replace(LOAD, f"{LOAD}  # !"),
    "an embedding with two names": twin(
        LOADED,
        ("self.embed = nn.Embedding(words, size)", "embed = nn.Embedding(words, size)\n            self.embed = embed"),
        ("= self.embed.weight", "= embed.weight"),
        (LOAD, f"{LOAD}  # !"),
    ),
    "an embedding in a part": """
        class Encoder(nn.Module):
            def __init__(self, words, size):
                super().__init__()
                self.table = nn.Embedding(words, size)

        class Net(nn.Module):
            def __init__(self, words, size):
                super().__init__()
                self.encoder = Encoder(words, size)
                self.head = nn.Linear(size, words)
                self.head.weight = self.encoder.table.weight

            def grow(self, words):
                self.encoder.table = nn.Embedding(words, 8)  # !

            def forward(self, x):
                return self.head(self.encoder.table(x))

        def main(loader):
            net = Net(100, 8)
            net.grow(120)
    """,
    "a constructor that calls both": BUILT,
    "a constructor that does both": """
        class Net(nn.Module):
            def __init__(self, words, size, vectors=None):
                super().__init__()
                self.embed = nn.Embedding(words, size)
                self.head = nn.Linear(size, words)
                self.head.weight = self.embed.weight
                if vectors is not None:
                    self.embed = nn.Embedding.from_pretrained(vectors)  # !

            def forward(self, x):
                return self.head(self.embed(x))
    """,
    "a constructor that makes the head too late": """
        class Net(nn.Module):
            def __init__(self, words, size, bias):
                super().__init__()
                self.embed = nn.Embedding(words, size)
                self.head = nn.Linear(size, words)
                self.head.weight = self.embed.weight
                if not bias:
                    self.head = nn.Linear(size, words, bias=False)  # !

            def forward(self, x):
                return self.head(self.embed(x))
    """,
    "a derived class": DERIVED,
    "who makes the model": OUTSIDE,
    "one function": ONE_FUNCTION,
    "a script": """
        model = build()
        model.head.weight = model.embed.weight
        model.embed = nn.Embedding(100, 8)  # !
        train(model)
    """,
}

CLEAN = {
    "a copy into the weight": twin(LOADED, (LOAD, "self.embed.weight.data.copy_(vectors)")),
    "data that is set": twin(LOADED, (LOAD, "self.embed.weight.data = vectors")),
    "a copy without gradients": twin(
        LOADED, (LOAD, "with torch.no_grad():\n                self.embed.weight.copy_(vectors)")
    ),
    "an initialisation": twin(LOADED, (LOAD, "nn.init.normal_(self.embed.weight)")),
    "a state": twin(LOADED, (LOAD, "self.embed.load_state_dict(vectors)")),
    "another embedding": twin(LOADED, (LOAD, "self.extra = nn.Embedding.from_pretrained(vectors)")),
    "a bias": twin(LOADED, (LOAD, "self.head.bias = nn.Parameter(vectors)")),
    "the layer between": twin(LOADED, (LOAD, "self.rnn = nn.GRU(8, 8)")),
    "a tie after it": twin(LOADED, (LOAD, f"{LOAD}; self.head.weight = self.embed.weight")),
    "both": twin(LOADED, (LOAD, f"{LOAD}; self.head = nn.Linear(8, len(vectors))")),
    "one new weight for both": twin(
        LOADED, (LOAD, "weight = nn.Parameter(vectors); self.embed.weight = weight; self.head.weight = weight")
    ),
    "a weight that is to be apart": twin(
        LOADED, (LOAD, "self.head.weight = nn.Parameter(self.embed.weight.detach().clone())")
    ),
    "the same storage": twin(LOADED, (LOAD, "self.embed = nn.Embedding.from_pretrained(self.head.weight)")),
    "moved": twin(LOADED, (LOAD, "self.embed = self.embed.to(vectors.device)")),
    "wrapped": twin(LOADED, (LOAD, "self.embed = Scaled(self.embed)")),
    "a method that unties": twin(LOADED, ("load_vectors", "untie")),
    "a model that is not tied": twin(LOADED, (LOAD, f"if not self.tied:\n                {LOAD}")),
    "a method that nobody calls": twin(LOADED, (CALL, "net.train()")),
    "a caller that ties": twin(LOADED, (CALL, f"{CALL}\n        net.head.weight = net.embed.weight")),
    "a caller that has it tied": twin(LOADED, (CALL, f"{CALL}; net.tie_weights()")),
    "no tie at all": twin(LOADED, ("self.head.weight = self.embed.weight", "self.tied = tied")),
    "a copy instead of a tie": twin(
        LOADED, ("self.head.weight = self.embed.weight", "self.head.weight.data = self.embed.weight.data")
    ),
    "a tie in each forward": twin(
        LOADED, ("return self.head(", "self.head.weight = self.embed.weight\n            return self.head(")
    ),
    "a base that ties by itself": twin(LOADED, ("class Net(nn.Module)", "class Net(models.PreTrainedModel)")),
    "loaded before the tie": twin(
        BUILT, ("self.tie_weights()\n            self.fill(vectors)", "self.fill(vectors); self.tie_weights()")
    ),
    "tied twice": twin(BUILT, ("self.fill(vectors)\n\n", "self.fill(vectors); self.tie_weights()\n\n")),
    "a derived class that ties": twin(
        DERIVED, ("padding_idx=0)", "padding_idx=0)\n            self.head.weight = self.embed.weight")
    ),
    "a derived class that adds": twin(
        DERIVED, ("self.embed = nn.Embedding(words, size, p", "self.tags = nn.Embedding(words, size, p")
    ),
    "who makes the model, and ties": twin(OUTSIDE, ("return net", "net.head.weight = net.embed.weight; return net")),
    "who makes another model": twin(OUTSIDE, ("net = Net(words, 8)", "net = Other(words, 8)")),
    "a copy of the model": twin(OUTSIDE, ("net.embed = nn.Embedding(words + more, 8)", "net = copy.deepcopy(net)")),
    "one function, before": """
        def build(decoder, vectors):
            decoder.embed = nn.Embedding.from_pretrained(vectors)
            decoder.out.weight = decoder.embed.weight
            return decoder
    """,
    "one function, of another": twin(ONE_FUNCTION, ("decoder.embed.weight = nn", "encoder.embed.weight = nn")),
    "one function, either": """
        def build(decoder, vectors):
            if vectors is None:
                decoder.out.weight = decoder.embed.weight
            else:
                decoder.embed = nn.Embedding.from_pretrained(vectors)
            return decoder
    """,
    "each of several": """
        def build(decoders, words):
            for decoder in decoders:
                decoder.embed = nn.Embedding(words, 8)
                decoder.out.weight = decoder.embed.weight
            return decoders
    """,
    "another model of the name": """
        def build(words):
            net = load()
            net.out.weight = net.embed.weight
            net = load()
            net.embed = nn.Embedding(words, 8)
            return net
    """,
    "a layer of two, by their own names": """
        class Net(nn.Module):
            def __init__(self, size):
                super().__init__()
                self.first = nn.Linear(size, size)
                self.second = nn.Linear(size, size)
                self.second.weight = self.first.weight
                self.first.weight.requires_grad = False

            def forward(self, x):
                return self.second(self.first(x))
    """,
}


@pytest.mark.parametrize("name", FLAGGED)
def test_what_comes_apart_is_flagged(name: str) -> None:
    assert_flagged(FLAGGED[name], CODE)


@pytest.mark.parametrize("name", CLEAN)
def test_what_stays_tied_or_is_to_be_apart_is_not(name: str) -> None:
    assert_clean(CLEAN[name], CODE)


def test_a_head_for_another_task_is_told_with_low_confidence() -> None:
    snippet = twin(OUTSIDE, ("net.embed = nn.Embedding(words + more, 8)", "net.head = nn.Linear(8, more)  # !"))
    assert_clean(snippet, CODE)
    assert_flagged(snippet, CODE, Confidence.LOW)


def test_what_other_files_do(tmp_path: Path) -> None:
    net = dedent(LOADED).partition("def main")[0].replace("  # !", "")
    files = {
        "net.py": f"import torch.nn as nn\n{net}",
        "main.py": """
            from net import Net

            def main(vectors):
                net = Net(100, 8)
                net.load_vectors(vectors)
                return net
        """,
        "other.py": """
            import torch.nn as nn
            from net import Net

            def build():
                net = Net(100, 8)
                net.embed = nn.Embedding(200, 8)
                return net
        """,
    }
    assert sorted(lines_in_files(tmp_path, files, CODE)) == [("net.py", 12), ("other.py", 7)]
