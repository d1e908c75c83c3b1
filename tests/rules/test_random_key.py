from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files, twin

CODE = "GG417"

CROPS = """
    import random, time, uuid
    import numpy as np
    from torchvision.transforms import RandomCrop
    from torch.utils.data import Dataset

    class Crops(Dataset):
        def __init__(self, files, size):
            self.files, self.size = files, size
            self.rng = np.random.default_rng(0)
            self.cache = {}

        def __getitem__(self, index):
            signal = np.load(self.files[index % len(self.files)])
            START
            key = KEY
            if key not in self.cache:
                self.cache[key] = torch.from_numpy(signal[:self.size])  # !
            return self.cache[key]
"""

STARTS = [
    "start = random.randint(0, len(signal) - self.size)",
    "start = random.randrange(len(signal) - self.size + 1)",
    "start = int(self.rng.integers(0, 20_000 - self.size))",
    "start = int(self.rng.integers(low=0, high=20_000))",
    "start = np.random.randint(2**31)",
    "start = torch.randint(0, len(signal) - self.size, (1,)).item()",
    "last = len(signal) - self.size\n            start = random.randint(0, max(1, last))",
    "start = random.random()",
    "start = np.random.uniform(0.8, 1.2)",
    "start = time.time_ns()",
    "start = uuid.uuid4()",
    "start, *_ = RandomCrop.get_params(signal, (8, 8))",
    "start = 10 ** (random.uniform(-6, 6) / 20)",
    "start = torch.empty(1).uniform_(-6, 6).item() * 0.05",
    "start = float(torch.zeros(()).normal_())",
    "start = 0.0\n            if self.size:\n                start = 1 + 0.1 * np.random.randn()",
    "start = None\n            if index:\n                start = random.randrange(len(signal) - self.size)",
]
KEYS = [
    "(index, start)",
    'f"{index}_{start}"',
    '"%d-%s" % (index, start)',
    '"{}-{}".format(index, start)',
    'str(index) + "/" + str(start)',
    "start",
]


@pytest.mark.parametrize("start", STARTS)
def test_draws(start: str) -> None:
    assert_flagged(CROPS.replace("START", start).replace("KEY", KEYS[0]), CODE)


@pytest.mark.parametrize("key", KEYS)
def test_keys(key: str) -> None:
    assert_flagged(CROPS.replace("START", STARTS[0]).replace("KEY", key), CODE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("start = random.randint(0, len(signal) - self.size)", "start = random.randrange(len(self.files))"),
        ("start = random.randint(0, len(signal) - self.size)", "start = random.randint(0, len(self.files) - 1)"),
        ("start = random.randint(0, len(signal) - self.size)", "start = random.randint(0, 9)"),
        ("start = random.randint(0, len(signal) - self.size)", "start = random.choice([0, 8, 16])"),
        ("start = random.randint(0, len(signal) - self.size)", "start = index * self.size"),
        ("start = random.randint(0, len(signal) - self.size)", "start = 4 * random.randint(0, 3)"),
        ("start = random.randint(0, len(signal) - self.size)", "start = random.randint(0, len(signal) - 8) // 4096"),
        (
            "start = random.randint(0, len(signal) - self.size)",
            "start = random.randint(0, len(signal) - 8)\n            start = 0",
        ),
        ("start = random.randint(0, len(signal) - self.size)", "start = int(random.random() * len(self.files))"),
        (
            "start = random.randint(0, len(signal) - self.size)",
            "start = 8 * random.random()\n            start = int(start)",
        ),
        (
            "start = random.randint(0, len(signal) - self.size)",
            "start = random.uniform(0, 4)\n            if self.size:\n                start = 0",
        ),
        ("start = random.randint(0, len(signal) - self.size)", "start = random.uniform(0, 80) // 10"),
        ("start = random.randint(0, len(signal) - self.size)", "start = round(random.uniform(0, 4), 1)"),
        ("start = random.randint(0, len(signal) - self.size)", "start = random.random() > 0.5"),
        ("key = (index, start)", "key = (index, int(8 * (start / len(signal))))"),
        ("key = (index, start)", "key = index"),
        ("if key not in self.cache:", "if key not in self.cache and len(self.cache) < 500:"),
        ("return self.cache[key]", "return self.cache.pop(key)"),
        ("return self.cache[key]", "value = self.cache[key]\n            self.cache.clear()\n            return value"),
        ("self.cache = {}", "self.cache = LRU(500)"),
        ("if key not in self.cache:", "if True:"),
        ("signal = np.load", "self.cache = {}\n            signal = np.load"),
    ],
)
def test_what_is_found_again(old: str, new: str) -> None:
    code = CROPS.replace("START", STARTS[0]).replace("KEY", KEYS[0]).replace("  # !", "")
    assert old in code
    assert_clean(code.replace(old, new), CODE)


LOOKED_UP = """
    import random
    CACHE = dict()

    def crop(path, start, size):
        found = CACHE.get((path, start))
        if found is None:
            found = torch.load(path)[start:start + size]
            CACHE[(path, start)] = found  # !
        return found

    def batches(paths, size, length):
        while True:
            path = random.choice(paths)
            yield crop(path, DRAW, size)
"""


@pytest.mark.parametrize("draw", ["random.randint(0, length - size)", "place(length, size)"])
def test_the_caller_draws(draw: str) -> None:
    place = """
    def place(length, size):
        return random.randrange(length - size)
"""
    assert_flagged(LOOKED_UP.replace("DRAW", draw) + place, CODE)


@pytest.mark.parametrize("draw", ["0", "size", "size * random.randrange(4)", "random.randrange(16)", "other(length)"])
def test_the_caller_draws_of_few(draw: str) -> None:
    assert_clean(LOOKED_UP.replace("DRAW", draw).replace("  # !", ""), CODE)


def test_it_is_drawn_in_another_file(tmp_path: Path) -> None:
    store, _, draws = LOOKED_UP.partition("    def batches")
    draws = "    from store import crop\n    def batches" + draws.replace("DRAW", "random.randint(0, length - size)")
    files = {"store.py": "    import torch\n" + store, "main.py": "    import random, torch\n" + draws}
    assert lines_in_files(tmp_path, files, CODE) == [("store.py", 10)]


THROUGH_OBJECT = """
    import random
    from torch.utils.data import Dataset

    class Remembered:
        def __init__(self):
            self.known, self.hits = {}, 0

        def get(self, key, make):
            if key in self.known:
                self.hits += 1
            else:
                self.known[key] = make()  # !
            return self.known[key]

    class Clips(Dataset):
        def __init__(self, waves, train):
            self.waves, self.train = waves, train
            self.spectra = Remembered()

        def spectrum(self, index, gain):
            return torch.stft(self.waves[index] * gain, 64, return_complex=True).abs()

        def __getitem__(self, index):
            gain = 1.0
            if self.train:
                gain = 10 ** (random.uniform(-6, 6) / 20)
            return self.spectra.get((index, gain), lambda: self.spectrum(index, gain))
"""


def test_an_object_is_given_the_key() -> None:
    assert_flagged(THROUGH_OBJECT, CODE)


@pytest.mark.parametrize(
    "edit",
    [
        ("(index, gain), lambda: self.spectrum(index, gain)", "index, lambda: self.spectrum(index, 1.0)"),
        ("random.uniform(-6, 6)", "random.choice([-6, 0, 6])"),
        ("random.uniform(-6, 6)", "random.randint(-6, 6)"),
        ("random.uniform(-6, 6)", "int(random.uniform(-6, 6) * 2)"),
        ("self.hits += 1\n", "self.hits += 1\n                return self.known.pop(key)\n"),
        ("self.known, self.hits = {}, 0", "self.known, self.hits = Bounded(99), 0"),
        ("            gain = 1.0\n", "            self.spectra.known.clear()\n"),
    ],
)
def test_an_object_that_finds_it_again(edit: tuple[str, str]) -> None:
    assert_clean(twin(THROUGH_OBJECT, edit), CODE)


NAMED = """
    import uuid

    class Nodes:
        def __init__(self):
            self.places = {}

        def add(self, key=None):
            if key is None:
                key = uuid.uuid4()
            if key not in self.places:
                self.places[key] = len(self.places)
            return key
"""


def test_a_name_is_made_up_where_none_is_given() -> None:
    assert_clean(NAMED.replace("len(self.places)", "torch.zeros(3)"), CODE)
