from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files, twin

CODE = "GG421"

STREAM = """
    import random
    from torch.utils.data import IterableDataset

    class Shuffled(IterableDataset):
        def __init__(self, source, buffer_size):
            self.source, self.buffer_size = source, buffer_size
            self.rng = random.Random(0)

        def __iter__(self):
            buf = []
            for item in self.source:
                if len(buf) < self.buffer_size:
                    buf.append(item)
                    continue
                k = self.rng.randrange(len(buf))
                buf.append(item)  # !
                yield buf[k]
            self.rng.shuffle(buf)
            yield from buf
"""

POOL = """
    import random

    class Pool:
        def __init__(self, pool_size):
            self.pool_size, self.images = pool_size, []

        def query(self, image):
            if len(self.images) < self.pool_size:
                self.images.append(image)
                return image
            else:
                self.images.append(image)  # !
                return self.images[random.randint(0, self.pool_size - 1)].clone()
"""

CHOICE = """
    import random

    def shuffled(rows, capacity):
        held = []
        for row in rows:
            if len(held) < capacity:
                held.append(row)
            else:
                yield random.choice(held)
                held.append(row)  # !
"""


@pytest.mark.parametrize("snippet", [STREAM, POOL, CHOICE])
def test_it_gets_longer_where_it_is_full(snippet: str) -> None:
    assert_flagged(snippet, CODE)


PUT = "buf.append(item)\n                yield buf[k]"


@pytest.mark.parametrize(
    ("snippet", "old", "new"),
    [
        (STREAM, "yield buf[k]", "yield buf.pop(k)"),
        (STREAM, "yield buf[k]", "yield buf[k]\n                del buf[k]"),
        (STREAM, PUT, "yield buf[k]\n                buf[k] = item"),
        (STREAM, "yield buf[k]", "yield buf[k]\n                buf = buf[1:]"),
        (STREAM, "yield buf[k]", "yield buf[k]\n                trim(buf)"),
        (STREAM, "yield buf[k]", "yield buf[k]\n                buf[k] = buf[-1]"),
        (STREAM, "self.rng.randrange(len(buf))", "item.index"),
        (STREAM, "self.buffer_size:", "self.min_size:"),
        (STREAM, "self.buffer_size:", "self.batch_size:"),
        (STREAM, "self.buffer_size:", "2:"),
        (STREAM, "buf = []\n", "buf = deque(maxlen=self.buffer_size)\n"),
        (STREAM, "yield buf[k]", "yield buf[k]\n                kept = buf"),
        (STREAM, PUT, "if item.is_rare: buf.append(item)\n                yield buf[k]"),
        (POOL, "self.images.append(image)\n                return self", "return self"),
        (POOL, "def query", "def trim(self):\n            del self.images[:-9]\n\n        def query"),
        (POOL, "def query", "def reset(self):\n            self.images.clear()\n\n        def query"),
        (POOL, "self.pool_size:", "self.batch_size:"),
        (POOL, "return self.images[random.randint(0, self.pool_size - 1)].clone()", "return torch.stack(self.images)"),
        (CHOICE, "        for row in rows:", "        for row in rows:\n            held = []"),
        (CHOICE, "yield random.choice(held)", "yield random.sample(held, 8)"),
        (CHOICE, "yield random.choice(held)", "yield held.pop(random.randrange(len(held)))"),
    ],
)  # fmt: skip
def test_something_is_taken_out(snippet: str, old: str, new: str) -> None:
    assert_clean(twin(snippet, (old, new)), CODE)


def test_another_file_takes_out(tmp_path: Path) -> None:
    pool = "import torch\n" + textwrap.dedent(POOL)
    user = "from pool import Pool\n\ndef run(pool):\n    pool.images.pop(0)\n"
    assert lines_in_files(tmp_path, {"pool.py": pool, "user.py": user}, CODE) == []
    assert len(lines_in_files(tmp_path, {"pool.py": pool, "user.py": "from pool import Pool\n"}, CODE)) == 1
