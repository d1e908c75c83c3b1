"""GG104, GG301: a `no_grad` holds for its own thread; what a pool of threads runs records graphs under it."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, findings, twin

HEAD = """
    import asyncio
    import concurrent.futures
    import threading
    from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
    from multiprocessing.pool import ThreadPool

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 3)

        def forward(self, x):
            return self.fc(x)

    def train(net, loader, opt):
        indexer = Indexer(net)
        for x, y in loader:
            loss = F.mse_loss(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            indexer.build(x.split(4))
"""
STORES = (
    HEAD
    + """
    class Indexer:
        def __init__(self, encoder: nn.Module):
            self.encoder, self.vectors = encoder, []

        def encode(self, ids):
            self.vectors.append(self.encoder(ids))  # !

        @torch.no_grad()
        def build(self, shards):
            with ThreadPoolExecutor(4) as pool:
                list(pool.map(self.encode, shards))
"""
)
ALL = "with ThreadPoolExecutor(4) as pool:\n                list(pool.map(self.encode, shards))"
KEEPS = "self.encoder, self.vectors = encoder, []"
RUNS = (
    ("ThreadPoolExecutor(4) as pool", "concurrent.futures.ThreadPoolExecutor(max_workers=4) as pool"),
    ("list(pool.map(self.encode, shards))", "pool.map(self.encode, shards)"),
    ("list(pool.map(self.encode, shards))", "[pool.submit(self.encode, ids) for ids in shards]"),
    ("list(pool.map(self.encode, shards))", "for ids in shards:\n                    pool.submit(self.encode, ids)"),
    (
        "list(pool.map(self.encode, shards))",
        "for ids in shards:\n                    pool.submit(self.encode, ids=ids)",
    ),
    (
        "list(pool.map(self.encode, shards))",
        "for i, ids in enumerate(shards):\n                    pool.submit(self.encode, ids)",
    ),
    ("        @torch.no_grad()\n        def build", "        @torch.inference_mode()\n        def build"),
    (
        "with ThreadPoolExecutor(4) as pool:\n                list(pool",
        "with ThreadPool(4) as pool:\n                list(pool",
    ),
    (
        ALL,
        "for ids in shards:\n                asyncio.to_thread(self.encode, ids)",
    ),
    (
        ALL,
        "pool = ThreadPool(4)\n            for ids in shards:\n                pool.apply_async(self.encode, (ids,))",
    ),
    (
        ALL,
        "self.pool.map(self.encode, shards)",
    ),
)
QUIET = (
    ("def encode(self", "@torch.no_grad()\n        def encode(self"),
    (
        "self.vectors.append(self.encoder(ids))",
        "with torch.no_grad():\n                self.vectors.append(self.encoder(ids))",
    ),
    ("self.encoder(ids)", "self.encoder(ids).detach()"),
    ("list(pool.map(self.encode, shards))", "for ids in shards:\n                    self.encode(ids)"),
    ("ThreadPoolExecutor(4)", "ThreadPoolExecutor(4, initializer=torch.set_grad_enabled, initargs=(False,))"),
    ("ThreadPoolExecutor(4)", "ThreadPoolExecutor(4, 'encoding', torch.set_grad_enabled, (False,))"),
    ("ThreadPoolExecutor(4)", "ProcessPoolExecutor(4)"),
    ("list(pool.map(self.encode, shards))", "vectors = map(self.encode, shards)"),
    ("pool.map(self.encode, shards)", "pool.map(len, shards)"),
    ("pool.map(self.encode, shards)", "pool.map(len, [self.encode(ids) for ids in shards])"),
    ("list(pool.map(self.encode, shards))", "pool.submit(print, self.encode(shards[0]))"),
)
EVALUATES = (
    HEAD
    + """
    class Indexer:
        def __init__(self, encoder: nn.Module):
            self.encoder = encoder

        def encode(self, ids):
            return self.encoder(ids)

        @torch.no_grad()
        def build(self, shards):
            self.encoder.eval()
            queue, norms = [], []
            with ThreadPoolExecutor(2) as pool:
                for ids in shards:
                    queue.append(pool.submit(self.encode, ids))  # !
                    if len(queue) > 4:
                        norms.append(queue.pop(0).result().norm().item())
            self.encoder.train()
            return norms
"""
)


@pytest.mark.parametrize("edit", RUNS)
def test_what_a_thread_stores_has_its_graph(edit: tuple[str, str]) -> None:
    flagged = STORES.replace(KEEPS, f"{KEEPS}\n            self.pool = ThreadPoolExecutor(2)")
    assert edit[0] in flagged
    assert_flagged(flagged.replace(*edit), "GG104")


@pytest.mark.parametrize("edit", QUIET)
def test_no_graph_is_recorded(edit: tuple[str, str]) -> None:
    assert_flagged(STORES, "GG104")
    assert_clean(twin(STORES, edit))


def test_an_evaluation_by_threads() -> None:
    assert_flagged(EVALUATES, "GG301")
    [finding] = findings(EVALUATES, "GG301")
    assert finding.help == "switch gradients off in `self.encode`: another thread runs it, in a mode of its own"
    assert finding.fix is None  # the function that starts it is under `no_grad`, and that is of no use
    assert_clean(twin(EVALUATES, ("def encode", "@torch.no_grad()\n        def encode")))
    assert_clean(twin(EVALUATES, ("pool.submit(self.encode, ids)", "self.encode(ids)"), (".result()", "")))


BY_THREAD = (
    HEAD
    + """
    class Indexer:
        def __init__(self, encoder: nn.Module):
            self.encoder = encoder

        def evaluate(self, loader):
            self.encoder.eval()
            for x, y in loader:
                print(F.mse_loss(self.encoder(x), y).item())  # !

        @torch.no_grad()
        def build(self, loader):
            self.evaluate(loader)

        @torch.no_grad()
        def start(self, loader):
            threading.Thread(target=self.evaluate, args=(loader,)).start()
"""
)


def test_a_thread_is_not_under_the_no_grad_of_who_starts_it() -> None:
    assert_flagged(BY_THREAD, "GG301")
    assert_flagged(BY_THREAD.replace("target=self.evaluate", "None, self.evaluate"), "GG301")
    assert_clean(twin(BY_THREAD, ("target=self.evaluate", "target=self.build")))
    assert_clean(twin(BY_THREAD, ("def evaluate", "@torch.no_grad()\n        def evaluate")))
