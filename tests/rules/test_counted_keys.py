"""GG417: caches whose keys have a count in them that only goes up."""

from __future__ import annotations

import textwrap

import pytest

from tests.rules.snippets import assert_clean, assert_flagged

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
