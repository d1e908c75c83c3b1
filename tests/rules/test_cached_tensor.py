from __future__ import annotations

from pathlib import Path

import pytest

from gradguard.findings import Confidence
from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files, twin

CODE = "GG404"

FLAGGED = {
    "what arrays do, without annotations": """
        import functools

        @functools.lru_cache(maxsize=None)  # !
        def pair_masks(labels, views):
            lab = labels.repeat(views)
            return (lab[None] == lab[:, None]).float(), torch.eye(len(lab))

        @functools.cache  # !
        def one_hot(targets, classes):
            return torch.eye(classes)[targets.view(-1)]

        @functools.cache  # !
        def order(scores):
            return scores.argsort()

        @functools.cache  # !
        def flat(images, size):
            images = images.reshape(-1, size)
            return images / size
    """,
    "what tensors are multiplied by, and along which dimension": """
        import functools

        @functools.lru_cache(maxsize=None)  # !
        def squared(x, y):
            return x.pow(2).sum(1)[:, None] + y.pow(2).sum(1)[None] - 2 * x @ y.t()

        @functools.cache  # !
        def gram(features):
            return features @ features.T

        @functools.cache  # !
        def centred(x):
            return x - x.mean(0)

        @functools.cache  # !
        def scaled(x):
            return x / x.norm(dim=-1, keepdim=True)

        @functools.cache  # !
        def chosen(rows, index):
            return rows.index_select(0, index).detach()
    """,
    "one of several dimensions": """
        import functools

        @functools.cache  # !
        def degrees(edges, n_nodes):
            return torch.zeros(n_nodes).index_add_(0, edges[:, 0], torch.ones(len(edges)))
    """,
    "a function of torch": """
        from functools import cache

        @cache  # !
        def distances(points, power):
            return torch.cdist(points, points) ** power, torch.sqrt(points)
    """,
    "functions of torch that take nothing else": """
        import functools
        import torch.nn.functional as F
        from functools import lru_cache

        @lru_cache(maxsize=None)  # !
        def neighbours(cloud, k):
            b, n, _ = cloud.shape
            found = torch.cdist(cloud, cloud).topk(k + 1, largest=False).indices
            return found + torch.arange(b).view(b, 1, 1) * n

        @functools.cache  # !
        def spectrum(signal):
            return torch.fft.rfft(signal).abs()

        @functools.cache  # !
        def whitening(covariance):
            values, vectors = torch.linalg.eigh(covariance)
            return vectors / values.sqrt()

        @functools.cache  # !
        def hot(classes, n):
            return F.one_hot(classes, n).float()

        @functools.cache  # !
        def between(rows, columns=None):
            return torch.cdist(torch.eye(3), columns)

        @functools.cache  # !
        def starts(offsets):
            return torch.nonzero(offsets)
    """,
    "an item of what a tensor is made": """
        import functools

        @functools.lru_cache(maxsize=None)  # !
        def embedding(t, width):
            angles = t.float()[:, None] * torch.arange(width)[None]
            return torch.cat([angles.cos(), angles.sin()], dim=-1)
    """,
    "a tensor is given": """
        import functools

        @functools.lru_cache(maxsize=None)
        def causal_mask(size):
            return torch.full((size, size), float("-inf")).triu(1)

        class Reader(nn.Module):
            def __init__(self, dim):
                super().__init__()
                self.layer = nn.Linear(dim, dim)

            def forward(self, x, lengths):
                size = lengths.max()
                mask = causal_mask(size)  # !
                return self.layer(x) + mask
    """,
    "method of a module": """
        from functools import lru_cache

        class Attention(nn.Module):
            def __init__(self, dim):
                super().__init__()
                self.dim = dim

            @lru_cache(maxsize=32)  # !
            def causal_mask(self, n):
                return torch.ones(n, n).tril()
    """,
    "without parentheses": """
        import functools

        class Rotary(nn.Module):
            def __init__(self, dim):
                super().__init__()
                self.register_buffer("freq", torch.arange(0, dim, 2))

            @functools.lru_cache  # !
            def table(self, length: int):
                return torch.outer(torch.arange(length), self.freq)
    """,
    "cache, alias": """
        from functools import cache as memo

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = nn.Linear(8, 8)

            @memo  # !
            def num_parameters(self):
                return sum(p.numel() for p in self.parameters())
    """,
    "below another decorator": """
        import functools as ft

        class Encoder(nn.Module):
            def __init__(self, layers):
                super().__init__()
                self.layers = nn.ModuleList(layers)

            @property
            @ft.lru_cache(maxsize=None)  # !
            def depth(self):
                return len(self.layers)
    """,
    "a module by its base": """
        from functools import lru_cache
        from torch.nn import Module

        class Base(Module):
            pass

        class Decoder(Base):
            @lru_cache(None)  # !
            def positions(self, n, device):
                return torch.arange(n, device=device)
    """,
    "function of a tensor": """
        from functools import lru_cache

        @lru_cache(maxsize=None)  # !
        def gram(x: torch.Tensor):
            return x @ x.t()

        def train(model, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                F.mse_loss(model(gram(x)), y).backward()
                optimizer.step()
    """,
    "function of a tensor or None, bounded": """
        from functools import lru_cache
        from typing import Optional
        from torch import Tensor

        @lru_cache(maxsize=256)  # !
        def distances(points: Tensor, weights: Optional[Tensor] = None) -> Tensor:
            d = torch.cdist(points, points)
            return d if weights is None else d * weights
    """,
    "one of several parameters": """
        import functools

        @functools.cache  # !
        def interpolate(size: int, kernel: "torch.Tensor | None", mode: str = "bilinear"):
            grid = torch.linspace(-1, 1, size)
            return grid if kernel is None else grid * kernel

        @functools.cache  # !
        def warp(size: int, flow: torch.Tensor | None = None):
            return size if flow is None else flow * size
    """,
    "static, but of a tensor": """
        from functools import lru_cache

        class Graph:
            @staticmethod
            @lru_cache(maxsize=8)  # !
            def normalise(adj: torch.Tensor):
                d = adj.sum(1).rsqrt()
                return d[:, None] * adj * d
    """,
    "ordinary class, but of a tensor": """
        from functools import lru_cache
        from torch import Tensor

        class Kernel:
            @lru_cache()  # !
            def evaluate(self, x: Tensor, y: Tensor) -> Tensor:
                return torch.exp(-torch.cdist(x, y))
    """,
}

BOUNDED = ("function of a tensor or None, bounded", "static, but of a tensor", "ordinary class, but of a tensor")

CLEAN = {
    "what is made of numbers is rearranged": """
        import functools

        @functools.lru_cache(maxsize=None)
        def pair_masks(labels, views):
            lab = torch.tensor(labels).repeat(views)
            return lab[None] == lab[:, None]

        @functools.cache
        def grid(height, width):
            rows = torch.arange(height * width)
            return rows.view(height, width), rows.reshape(-1).argsort()

        @functools.cache
        def positions(size, device):
            size = torch.arange(size)
            return size.view(1, -1).to(device), size.unsqueeze(0)

        @functools.cache
        def words(text, sep):
            return text.split(sep), text.strip().lower(), text.count(sep), text.index(sep)

        @functools.cache
        def spread(law, n):
            return law.mean(), law.std(), law.var(), law.sample(n)

        @functools.cache
        def of_law(law, pair, text):
            return law.mean(), law.std(), max(pair), text.max("a"), law.sum(), law.pow

        @functools.cache
        def of_shape(shape, path):
            return shape.numel(), path.stem, path.expanduser()
    """,
    "functions of torch that take numbers": """
        import functools

        @functools.cache
        def grid(shape, n, points):
            table = torch.zeros(n) + torch.full(shape, shape[0])
            return table + torch.cdist(torch.tensor(points), torch.arange(n))
    """,
    "functions of torch that take numbers as well": """
        import functools
        import torch.nn.functional as F

        @functools.cache
        def slopes(base, heads):
            return torch.pow(base, torch.arange(1, heads + 1)), torch.mul(base, torch.ones(heads))

        @functools.cache
        def halves(rate, scale, n):
            return torch.add(rate, torch.ones(n)), torch.sub(scale, torch.ones(n)), torch.div(rate, torch.ones(n))

        @functools.cache
        def seconds(length, width):
            shape = torch.ones(length, width)
            return torch.searchsorted(torch.arange(9), length), F.pad(shape, (0, width)), torch.topk(shape, width)

        @functools.cache
        def frequencies(bands, rate):
            return 2.0 ** torch.arange(bands), torch.fft.fftfreq(bands, rate), torch.linspace(0, rate, bands)

        @functools.cache
        def turned(points, size):
            points = torch.tensor(points)
            return torch.cdist(points, points), F.interpolate(torch.ones(1, 1, 4), size)

        @functools.cache
        def of_names(cdist, pad, path):
            return cdist.fft(path), pad.one_hot(path), torch.load(path), torch.nn.init.eye_(torch.ones(pad, pad))
    """,
    "a number is given": twin(FLAGGED["a tensor is given"], ("lengths.max()", "lengths.max().item()")),
    "a size is given": twin(FLAGGED["a tensor is given"], ("lengths.max()", "x.shape[1]")),
    "an array's maximum is given": """
        import functools

        @functools.lru_cache(maxsize=None)
        def table(size):
            return torch.zeros(int(size))

        def collate(lengths):
            return table(lengths.max())
    """,
    "of a size": """
        from functools import lru_cache

        @lru_cache(maxsize=None)
        def causal_mask(n: int) -> torch.Tensor:
            return torch.ones(n, n).tril()

        class Attention(nn.Module):
            def forward(self, q, k, v):
                scores = (q @ k.transpose(-2, -1)).masked_fill(causal_mask(q.shape[-2]) == 0, -1e9)
                return scores.softmax(-1) @ v
    """,
    "of a device and a dtype": """
        import functools

        @functools.cache
        def window(size: int, sigma: float, device: torch.device, dtype: torch.dtype = torch.float32) -> torch.Tensor:
            x = torch.arange(size, device=device, dtype=dtype) - size // 2
            g = torch.exp(-(x**2) / (2 * sigma**2))
            return g / g.sum()
    """,
    "of a shape": """
        from functools import lru_cache
        from typing import Tuple

        @lru_cache(maxsize=16)
        def grid(shape: Tuple[int, int], size: torch.Size = torch.Size([1])):
            ys, xs = torch.meshgrid(torch.arange(shape[0]), torch.arange(shape[1]), indexing="ij")
            return torch.stack([ys, xs])
    """,
    "of strings": """
        from functools import lru_cache

        @lru_cache()
        def load_vocabulary(path: str = "vocab.txt"):
            with open(path) as f:
                return {word.strip(): i for i, word in enumerate(f)}
    """,
    "without annotations": """
        from functools import lru_cache

        @lru_cache(maxsize=4)
        def betas(steps, schedule):
            t = torch.linspace(0, 1, steps)
            return t.cos() if schedule == "cosine" else t * 0.02
    """,
    "without arguments": """
        import functools

        @functools.lru_cache(maxsize=1)
        def default_device():
            return torch.device("cuda" if torch.cuda.is_available() else "cpu")

        def train(model, loader):
            for x in loader:
                model(x.to(default_device())).mean().backward()
    """,
    "static without a tensor": """
        from functools import lru_cache

        class PositionalEncoding(nn.Module):
            @staticmethod
            @lru_cache(maxsize=8)
            def table(length: int, dim: int) -> torch.Tensor:
                return torch.outer(torch.arange(length), torch.arange(dim))

            def forward(self, x):
                return x + self.table(x.shape[1], x.shape[2])
    """,
    "an ordinary class": """
        from functools import lru_cache

        class Tokenizer:
            def __init__(self, merges):
                self.merges = merges

            @lru_cache(maxsize=10_000)
            def encode(self, word):
                return tuple(self.merges.get(c, 0) for c in word)
    """,
    "a data set": """
        import functools
        from torch.utils.data import Dataset

        class Images(Dataset):
            def __init__(self, paths):
                self.paths = paths

            @functools.lru_cache(maxsize=128)
            def read(self, index: int) -> torch.Tensor:
                return torch.load(self.paths[index])

            def __getitem__(self, index):
                return self.read(index)
    """,
    "cached property": """
        from functools import cached_property
        import functools

        class Net(nn.Module):
            @cached_property
            def mask(self):
                return torch.ones(8, 8).tril()

            @functools.cached_property
            def size(self) -> int:
                return sum(p.numel() for p in self.parameters())
    """,
    "another library's cache": """
        import streamlit as st
        from cachetools import LRUCache, cached

        @st.cache
        def load_model(path: str):
            return torch.load(path).eval()

        @cached(LRUCache(maxsize=8))
        def embed(text: str, mean: float):
            return torch.full((8,), mean)
    """,
    "a decorator of the project": """
        def cache(fn):
            fn.last = None

            def wrapper(x):
                fn.last = fn(x)
                return fn.last

            return wrapper

        @cache
        def gram(x: torch.Tensor):
            return x @ x.t()
    """,
    "an attribute of the module": """
        class Rotary(nn.Module):
            def __init__(self):
                super().__init__()
                self.cache = {}

            def table(self, n: int):
                if n not in self.cache:
                    self.cache = {n: torch.arange(n)}
                return self.cache[n]
    """,
    "a function inside of the forward": """
        from functools import lru_cache

        class Tree(nn.Module):
            def forward(self, x, n):
                @lru_cache(None)
                def catalan(k: int):
                    return 1 if k < 2 else sum(catalan(i) * catalan(k - 1 - i) for i in range(k))

                return x * catalan(n)
    """,
}


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name: str) -> None:
    assert_flagged(FLAGGED[name], CODE, Confidence.LOW if name in BOUNDED else Confidence.HIGH)


@pytest.mark.parametrize("name", BOUNDED)
def test_a_bounded_cache_waits(name: str) -> None:
    assert_clean(FLAGGED[name], CODE)


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name: str) -> None:
    assert_clean(CLEAN[name], CODE)


MEMO = """
        import functools

        def memoize(fn):
            known = {}

            @functools.wraps(fn)
            def wrapper(*args):
                KEEP

            return wrapper

        words = nn.Embedding(100, 8)

        MARKED
        def encode(TOKENS):
            return words(tokens).softmax(-1)
"""


def memo(keep: str, tokens: str = "tokens", marked: str = "@memoize  # !") -> str:
    return MEMO.replace("KEEP", keep).replace("TOKENS", tokens).replace("MARKED", marked)


AT_ONCE = """if args not in known:
                    known[args] = fn(*args)
                return known[args]"""
TRIED = """try:
                    return known[args]
                except KeyError:
                    result = fn(*args)
                    known[args] = result
                    return result"""
BY_TUPLE = """key = (fn.__name__, *args)
                if key in known:
                    return known[key]
                known[key] = value = fn(*args)
                return value"""

AS_TUPLE = """key = tuple(args)
                try:
                    return known[key]
                except KeyError:
                    known[key] = out = fn(*args)
                    return out"""
WITH_NAMES = """if (key := (args, frozenset())) not in known:
                    known[args, frozenset()] = fn(*args)
                return known[key]"""


@pytest.mark.parametrize("keep", [AS_TUPLE, WITH_NAMES, AS_TUPLE.replace("tuple", "frozenset")])
@pytest.mark.parametrize("tokens", ["tokens", "tokens: torch.Tensor"])
def test_a_cache_by_a_tuple_of_its_arguments(keep: str, tokens: str) -> None:
    assert_flagged(memo(keep, tokens), CODE)


@pytest.mark.parametrize("keep", [AT_ONCE, TRIED, BY_TUPLE])
@pytest.mark.parametrize("tokens", ["tokens", "tokens: torch.Tensor"])
def test_a_cache_that_is_written_by_hand(keep: str, tokens: str) -> None:
    assert_flagged(memo(keep, tokens), CODE)
    of_one = memo(keep, tokens).replace("*args):", "x, scale=1.0):").replace("*args", "x, scale")
    assert_flagged(of_one.replace("[args]", "[x, scale]").replace("args not in", "(x, scale) not in"), CODE)
    on_itself = memo(keep, tokens).replace("known = {}", "").replace("known", "wrapper.known")
    assert_flagged(on_itself.replace("return wrapper\n", "wrapper.known = {}\n            return wrapper\n"), CODE)


@pytest.mark.parametrize(
    "keep",
    [
        AT_ONCE.replace("[args]", "[str(args)]"),
        AT_ONCE.replace("[args]", "[tuple(a.shape for a in args)]"),
        AT_ONCE.replace("[args]", "[tuple(args[0].shape)]"),
        AT_ONCE.replace("[args]", "[tuple(map(id, args))]"),
        AT_ONCE.replace("[args]", "[hash(args)]"),
        AT_ONCE.replace("[args]", "[args[0].shape, args[0].dtype]"),
        "key = args[0].numpy().tobytes()\n                " + AT_ONCE.replace("args]", "key]"),
        AT_ONCE + "\n                known.clear()",
        "if len(known) >= 64:\n                    known.popitem()\n                " + AT_ONCE,
        "if len(known) < 64:\n                    known[args] = fn(*args)\n                return fn(*args)",
        "known['last'] = fn(*args)\n                return known['last']",
        "known[args] = known.get(args, 0) + 1\n                return fn(*args)",
    ],
)
def test_a_decorator_that_keeps_no_arguments(keep: str) -> None:
    assert_clean(memo(keep, marked="@memoize"), CODE)


@pytest.mark.parametrize("use", ["tokens[0]", "torch.zeros(tokens)", "tokens.upper()", "open(tokens).read()"])
def test_a_cache_by_hand_of_what_is_no_tensor(use: str) -> None:
    assert_clean(memo(AT_ONCE, marked="@memoize").replace("words(tokens).softmax(-1)", use), CODE)


def anew(made: str) -> str:
    """A parameter that is bound to something else before it is used."""
    body = f"tokens = {made}\n            return words(tokens).softmax(-1)"
    return memo(AT_ONCE).replace("return words(tokens).softmax(-1)", body)


@pytest.mark.parametrize(
    "made", ["torch.cat([tokens, words.weight])", "torch.stack((tokens, tokens))", "tokens.flip(0)"]
)
def test_a_tensor_that_is_made_of_the_parameter_shows_that_it_is_one(made: str) -> None:
    assert_flagged(anew(made), CODE)


@pytest.mark.parametrize(
    "made", ["torch.arange(tokens)", "torch.zeros(tokens)", "load(tokens)", "torch.tensor([tokens, 1])"]
)
def test_a_tensor_that_is_made_of_a_number_does_not(made: str) -> None:
    assert_clean(anew(made).replace("  # !", ""), CODE)


MASKS = """
    import functools
    import torch

    @functools.lru_cache(maxsize=None)
    def causal(size):
        return torch.triu(torch.full((size, size), float("-inf")), diagonal=1)

    @functools.cache
    def name_of(size):
        return f"mask {size}"
"""
DECODER = """
    from torch import nn
    from masks import causal, name_of

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(9, 4)

        def forward(self, tokens, lengths):
            longest = lengths.max()
            bias = causal(longest)
            return self.embed(tokens) + bias
"""


def test_a_cache_in_another_file(tmp_path: Path) -> None:
    assert lines_in_files(tmp_path, {"masks.py": MASKS, "decoder.py": DECODER}, CODE) == [("decoder.py", 12)]
    by_module = DECODER.replace("from masks import causal, name_of", "import masks").replace("causal(", "masks.causal(")
    assert lines_in_files(tmp_path, {"masks.py": MASKS, "decoder.py": by_module}, CODE) == [("decoder.py", 12)]


@pytest.mark.parametrize(
    "longest",
    ["int(lengths.max())", "lengths.max().item()", "tokens.size(1)", "tokens.shape[1]", "max(lengths.tolist())", "12"],
)
def test_a_cache_in_another_file_of_numbers(longest: str, tmp_path: Path) -> None:
    decoder = DECODER.replace("lengths.max()", longest)
    assert lines_in_files(tmp_path, {"masks.py": MASKS, "decoder.py": decoder}, CODE) == []


def test_a_cache_in_another_file_that_drops_old_entries(tmp_path: Path) -> None:
    masks = MASKS.replace("@functools.lru_cache(maxsize=None)", "@functools.lru_cache(maxsize=8)")
    assert lines_in_files(tmp_path, {"masks.py": masks, "decoder.py": DECODER}, CODE) == []


def encoder(
    cached: str = "@lru_cache(maxsize=None)  # !", body: str = "return F.normalize(self.net(ids), dim=-1)"
) -> str:
    """An encoder of an ordinary class that is asked by numbers, and its training."""
    return f"""
        from functools import cache, lru_cache
        import torch.nn.functional as F

        class Tower(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(4, 4)

            def forward(self, ids):
                return self.layer(torch.tensor(ids))

        class Trainer:
            def __init__(self, optimizer):
                self.net, self.optimizer, self.version = Tower(), optimizer, 0

            {cached}
            def encode(self, ids, version):
                {body}

            def step(self, ids):
                self.optimizer.zero_grad()
                self.encode(ids, self.version).sum().backward()
                self.optimizer.step()
                self.version += 1
    """


def encoder_given(made: str, method: str = "return self.net(ids)") -> str:
    """The same, where a call gives the cache."""
    bound = "self.net, self.optimizer, self.version = Tower(), optimizer, 0"
    code = encoder("", method).replace(bound, f"{bound}\n                self.lookup = {made}")
    return code.replace("self.encode(ids", "self.lookup(ids")


@pytest.mark.parametrize(
    "code",
    [
        encoder(),
        encoder("@cache  # !"),
        encoder(body="out = self.net(ids)\n                return {'out': out, 'size': len(ids)}"),
        encoder_given("lru_cache(maxsize=None)(self.encode)  # !"),
        encoder_given("lru_cache(None)(self.encode)  # !"),
        encoder_given("cache(self.encode)  # !"),
    ],
)
def test_a_cache_of_what_has_a_graph(code: str) -> None:
    assert_flagged(code, CODE)


@pytest.mark.parametrize(
    "code",
    [
        encoder("@lru_cache(maxsize=2)"),
        encoder("@lru_cache"),
        encoder("@cache", "return F.normalize(self.net(ids), dim=-1).detach()"),
        encoder("@cache", "return self.net(ids).argmax(-1).tolist()"),
        encoder("@cache", "return torch.tensor(ids).float()"),
        encoder("@torch.no_grad()\n            @cache"),
        encoder("@cache", "with torch.no_grad():\n                    return self.net(ids)"),
        twin(encoder("@cache"), ("self.version += 1", "self.version += 1; Trainer.encode.cache_clear()")),
        encoder_given("lru_cache(maxsize=8)(self.encode)"),
        encoder_given("lru_cache()(self.encode)"),
        encoder_given("cache(self.encode)", "return self.net(ids).detach()"),
        encoder_given("memory.cache(self.encode)"),
        encoder_given("cache(torch.compile)(self.encode)"),
        encoder_given("lru_cache(maxsize=None)(torch.compile)(self.encode)"),
    ],
)
def test_a_cache_of_what_has_none_or_not_for_long(code: str) -> None:
    assert_clean(code, CODE)


@pytest.mark.parametrize(("after", "lines"), [("pass", [("encoders.py", 6)]), ("encode.cache_clear()", [])])
def test_a_cache_that_another_file_empties(after: str, lines: list[tuple[str, int]], tmp_path: Path) -> None:
    encoders = """
        from functools import cache
        import torch
        net = torch.nn.Linear(4, 4)

        @cache
        def encode(ids):
            return net(torch.tensor(ids)).square()
    """
    train = f"""
        import torch
        from encoders import encode

        def train(optimizer, loader):
            for ids in loader:
                optimizer.zero_grad()
                encode(ids).sum().backward()
                optimizer.step()
                {after}
    """
    assert lines_in_files(tmp_path, {"encoders.py": encoders, "train.py": train}, CODE) == lines


OBJECT = """
    class memoized:
        def __init__(self, function):
            self.function, self.size = function, 0
            self.known = dict()

        def __call__(self, *args):
            {lines}

    @memoized{first}
    def normal(x: torch.Tensor):
        return x / x.norm()

    @memoized
    def buckets(n, k):
        return torch.arange(int(n)) // k

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.bias = nn.Embedding(8, 8)

        def forward(self, x, lengths):
            longest = lengths.max()
            return x + self.bias(buckets({given}, 4)){second}
"""
KEEPS = (
    "key = args", "if key not in self.known:", "    self.known[key] = self.function(*args)", "return self.known[key]"
)  # fmt: skip


def remembered(*lines: str, given: str = "longest", first: str = "", second: str = "") -> str:
    body = "\n            ".join(lines)
    return OBJECT.format(lines=body, given=given, first=first, second=second)


def test_an_object_that_remembers_what_it_was_given() -> None:
    assert_flagged(remembered(*KEEPS, first="  # !", second="  # !"), CODE)


@pytest.mark.parametrize(
    "lines",
    [
        ("key = tuple(map(float, args))", *KEEPS[1:]),
        ("key = args[0].shape", *KEEPS[1:]),
        ("self.size += 1", "return self.function(*args)"),
        ("if len(self.known) > 9:", "    self.known.clear()", *KEEPS),
        ("self.known = {}", *KEEPS),
    ],
)
def test_an_object_that_remembers_numbers_or_forgets(lines: tuple[str, ...]) -> None:
    assert_clean(remembered(*lines, given="longest"), CODE)


ROTARY = """
from functools import lru_cache

@lru_cache(maxsize=None)  # !
def table(places, width):
    angles = places[..., None] / width
    return angles.cos(), angles.sin()

def rotate(x, places):
    cos, sin = table(places, x.shape[-1])
    return x * cos + x.roll(1, -1) * sin
"""
WINDOW = """
import functools

class Masks:
    @staticmethod
    @functools.cache  # !
    def pairs(kinds):
        return kinds[:, None] == kinds[None]
"""


@pytest.mark.parametrize(
    "snippet", [ROTARY, twin(ROTARY, ("[..., None]", "[None, ...]"), ("None)\n", "None)  # !\n")), WINDOW]
)
def test_what_has_dimensions_is_a_tensor(snippet: str) -> None:
    assert_flagged(snippet, "GG404")


@pytest.mark.parametrize(
    "edits",
    [
        [("places[..., None] / width", "torch.arange(places)[..., None] / width")],
        [("    angles = places", "    places = torch.arange(places)\n    angles = places")],
        [("places[..., None]", "places[0]"), ("angles.cos(), angles.sin()", "angles")],
        [("places[..., None]", "TABLES[places, None]")],
        [("places[..., None]", "places[-1]")],
        [("@lru_cache(maxsize=None)", "@lru_cache(maxsize=8)")],
        [("@lru_cache(maxsize=None)\n", "")],
    ],
)
def test_what_has_none_may_be_a_number(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(ROTARY, *edits), "GG404")
