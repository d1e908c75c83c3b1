"""GG417: caches whose keys have a count in them that only goes up."""

from __future__ import annotations

import textwrap

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, twin

CODE = "GG417"
FOUND = """
    def _load(self, idx):
        key = (self.epoch, idx)  # !
        if self.use_cache and key in self.cache:
            return self.cache[key]
        item = self.decode(self.paths[idx])
        self.cache[key] = item
        return item
"""
TOLD = """
    def set_epoch(self, epoch):
        self.epoch = epoch
"""
HEAD = """
class Clips(torch.utils.data.Dataset):
    def __init__(self, paths):
        self.paths = paths
        self.use_cache = True
        self.epoch = 0
        self.cache = {}

    def __getitem__(self, idx):
        return self._load(idx)
"""
RUN = """
data = Clips(paths)
for epoch in range(100):
    data.set_epoch(epoch)
    for batch in torch.utils.data.DataLoader(data):
        train(batch)
"""
OTHERS = {
    "told each epoch": HEAD + TOLD + FOUND + RUN,
    "in a text": HEAD + TOLD + FOUND.replace("(self.epoch, idx)", 'f"{self.epoch}_{idx}"') + RUN,
    "counted up": HEAD
    + FOUND
    + """
    def next_epoch(self):
        self.epoch += 1

for _ in range(9):
    data.next_epoch()
""",
    "the key written out": HEAD
    + TOLD
    + """
    def _load(self, idx):
        item = self.cache.get((self.epoch, idx))
        if item is None:
            item = self.decode(self.paths[idx])
            self.cache[self.epoch, idx] = item  # !
        return item
"""
    + RUN,
    "a module that counts its own steps": """
class Masks(nn.Module):
    def __init__(self):
        super().__init__()
        self.masks = {}
        self.num_steps = 0

    def forward(self, x):
        self.num_steps += 1
        key = (x.shape[1], self.num_steps)  # !
        if key not in self.masks:
            self.masks[key] = torch.ones(x.shape[1], x.shape[1]).tril()
        return x @ self.masks[key]
""",
}
PLAIN = FOUND.replace("  # !", "")
CLEAN = {
    "nothing tells it the epoch": HEAD + TOLD + PLAIN + "sampler.set_epoch(3)\n",
    "nothing changes it": HEAD + PLAIN + RUN.replace("    data.set_epoch(epoch)\n", ""),
    "by the index alone": HEAD + TOLD + PLAIN.replace("(self.epoch, idx)", "idx") + RUN,
    "emptied with the epoch": HEAD + TOLD + "        self.cache.clear()\n" + PLAIN + RUN,
    "begun anew with the epoch": HEAD + TOLD + "        self.cache = {}\n" + PLAIN + RUN,
    "emptied by who trains": HEAD + TOLD + PLAIN + RUN + "    data.cache.clear()\n",
    "no more than some": HEAD
    + TOLD
    + PLAIN.replace("        self.cache[key]", "        if len(self.cache) < 100:\n            self.cache[key]")
    + RUN,
    "what is old is taken out": HEAD
    + TOLD
    + PLAIN.replace("return item", "self.cache.pop(next(iter(self.cache)))")
    + RUN,
    "a count that begins again": HEAD + TOLD.replace("= epoch", "= epoch % 4") + PLAIN + RUN,
    "another one that begins again": HEAD + TOLD + "\n    def rewind(self):\n        self.epoch = 0\n" + PLAIN + RUN,
    "one entry an epoch": HEAD + TOLD + PLAIN.replace("(self.epoch, idx)", "(self.epoch, self.split)") + RUN,
    "a history that is read": HEAD
    + TOLD
    + PLAIN
    + "\n    def changed(self, idx):\n        return self.cache[self.epoch - 1, idx] - self.cache[self.epoch, idx]\n"
    + RUN,
    "a history that is given": HEAD
    + TOLD
    + PLAIN
    + "\n    def all(self):\n        return list(self.cache.values())\n"
    + RUN,
    "numbers": HEAD + TOLD + PLAIN.replace("self.cache[key] = item", "self.cache[key] = len(item)") + RUN,
    "a dict of the call": HEAD
    + TOLD
    + PLAIN.replace("self.cache", "cache").replace("key =", "cache = {}; key =")
    + RUN,
    "what is no count": HEAD.replace("self.epoch", "self.fold")
    + TOLD.replace("self.epoch", "self.fold")
    + PLAIN.replace("self.epoch", "self.fold")
    + RUN,
    "kept without a look": HEAD
    + TOLD
    + """
    def _load(self, idx):
        self.cache[self.epoch, idx] = self.decode(idx)
        return self.cache[self.epoch, idx]
"""
    + RUN,
}


@pytest.mark.parametrize("snippet", OTHERS.values(), ids=OTHERS)
def test_a_key_with_a_count_that_only_goes_up_is_flagged(snippet: str) -> None:
    assert_flagged(textwrap.dedent(snippet), CODE)


@pytest.mark.parametrize("snippet", CLEAN.values(), ids=CLEAN)
def test_what_comes_again_or_is_emptied_or_read_is_not_flagged(snippet: str) -> None:
    assert_clean(textwrap.dedent(snippet), CODE)


SEEDS = """
class Pieces:
    def __init__(self, merges, drop=0.1):
        self.merges, self.drop = merges, drop
        self.known = {}
        self.calls = 0

    def ids(self, word, seed):
        key = (word, seed)  # !
        if key not in self.known:
            self.known[key] = self.cut(word, random.Random(seed))
        return self.known[key]

    def encode(self, words):
        self.calls += 1
        return [each for word in words for each in self.ids(word, self.calls)]

def batch(pieces, texts):
    return torch.tensor([pieces.encode(text) for text in texts])

def train(model, optimizer, texts, labels, steps):
    pieces = Pieces(MERGES)
    for step in range(steps):
        loss = F.cross_entropy(model(batch(pieces, texts)), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
BY_CALLER = twin(
    SEEDS,
    ("        self.calls = 0\n", ""),
    ("    def encode(self, words):\n        self.calls += 1\n", "    def encode(self, words, calls):\n"),
    ("self.ids(word, self.calls)", "self.ids(word, calls)"),
)
COUNTED = {
    "the number of the call": SEEDS,
    "in a text": SEEDS.replace("(word, seed)", 'f"{word}-{seed}"'),
    "by its name": SEEDS.replace("(word, self.calls)", "(seed=self.calls, word=word)"),
    "its own, by another name": SEEDS.replace("key = (word, seed)", "key = (word, self.calls)"),
    "looked for with get": SEEDS.replace("if key not in self.known:", "if self.known.get(key) is None:"),
    "every other time": SEEDS.replace(
        "        self.calls += 1", "        if len(words) % 2:\n            self.calls += 1"
    ),
    "counted by another object": SEEDS.replace("self.ids(word, self.calls)", "self.pieces.ids(word, self.calls)")
    .replace("    def encode", "class Coder:\n    def __init__(self):\n        self.pieces = Pieces(1)\n"
             "        self.calls = 0\n\n    def encode")
    .replace("pieces = Pieces(MERGES)", "pieces = Coder()"),
}  # fmt: skip
COUNTED_OTHERWISE = {
    "seeds that come again": SEEDS.replace("self.ids(word, self.calls)", "self.ids(word, self.calls % 16)"),
    "whole blocks of calls": SEEDS.replace("self.ids(word, self.calls)", "self.ids(word, self.calls // 1000)"),
    "an option": SEEDS.replace("self.ids(word, self.calls)", "self.ids(word, self.drop)"),
    "a seed that is set": SEEDS.replace("self.calls += 1", "self.calls = 1"),
    "a count that begins again": SEEDS.replace(
        "    def encode", "    def begin(self):\n        self.calls = 0\n\n    def encode"
    ),
    "emptied": SEEDS.replace("self.calls += 1", "self.calls += 1\n        self.known.clear()"),
    "emptied by another method": SEEDS.replace(
        "    def encode", "    def begin(self):\n        self.known = {}\n\n    def encode"
    ),
    "no more than some": SEEDS.replace("key not in self.known:", "key not in self.known and len(self.known) < 99:"),
    "the word alone": SEEDS.replace("key = (word, seed)", "key = word"),
    "the count alone, a record of calls": SEEDS.replace("key = (word, seed)", "key = seed"),
    "of what is made once": SEEDS.replace("batch(pieces, texts)), labels)", "made), labels)").replace(
        "    for step", "    made = batch(pieces, texts)\n    for step"
    ),
    "an object of each step": SEEDS.replace("    pieces = Pieces(MERGES)\n", "").replace(
        "        loss =", "        pieces = Pieces(MERGES)\n        loss ="
    ),
    "counted once": SEEDS.replace(
        "        self.calls += 1", "        if not self.calls:\n            self.calls += 1"
    ),
    "a parameter that is changed": SEEDS.replace("        key =", "        seed = seed % 16\n        key ="),
    "given by who is not known": BY_CALLER,
    "a dict that is read as a whole": SEEDS.replace(
        "    def encode", "    def all(self):\n        return list(self.known.items())\n\n    def encode"
    ),
    "numbers": SEEDS.replace("self.cut(word, random.Random(seed))", "len(word)"),
    "where nothing trains": SEEDS.replace("loss.backward()", "loss.item()"),
}  # fmt: skip


@pytest.mark.parametrize("snippet", COUNTED.values(), ids=COUNTED)
def test_a_count_that_the_key_is_given(snippet: str) -> None:
    assert_flagged(textwrap.dedent(snippet), CODE)


@pytest.mark.parametrize("snippet", COUNTED_OTHERWISE.values(), ids=COUNTED_OTHERWISE)
def test_what_is_given_and_comes_again(snippet: str) -> None:
    assert_clean(textwrap.dedent(snippet).replace("  # !", ""), CODE)
