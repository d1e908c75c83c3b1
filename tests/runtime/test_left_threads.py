"""Threads that each step leaves behind: what they keep is in no variable of the program's."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from gradguard.catalogue import load

torch = pytest.importorskip("torch")

HEAD = """
import queue, threading
from concurrent.futures import ThreadPoolExecutor
over = threading.Event()
def batches():
    while True:
        yield torch.randn(64, 64)
"""


@pytest.fixture(autouse=True)
def _threads_end() -> Iterator[None]:
    """Threads that go on would be beside the programs of other tests."""
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        thread.join(5)
        assert not thread.is_alive()


LEAKS = {
    "a method that fills a queue": (
        "threads in Prefetcher._pump",
        """
class Prefetcher:
    def __init__(self, source):
        self.inbox = queue.Queue(2)
        threading.Thread(target=self._pump, args=(source,), daemon=True).start()  # here
    def _pump(self, source):
        for batch in source:
            while not over.is_set():
                try:
                    self.inbox.put(batch, timeout=0.02)
                    break
                except queue.Full:
                    pass
            if over.is_set():
                return
def main():
    for model, output, loss in training():
        feed = Prefetcher(batches())
        feed.inbox.get()
    over.set()
main()
""",
    ),
    "a thread's own run": (
        "threads in Writer.run",
        """
class Writer(threading.Thread):
    def __init__(self):
        super().__init__(daemon=True)
        self.rows = torch.randn(64, 64)
        self.start()
    def run(self):
        rows = self.rows.clone()
        while not over.is_set():
            over.wait(0.02)  # here
def main():
    for model, output, loss in training():
        Writer()
    over.set()
main()
""",
    ),
}


@pytest.mark.parametrize("name", LEAKS)
def test_the_function_is_named_that_they_are_in(name: str, run: object) -> None:
    path, body = LEAKS[name]
    report, text = run(HEAD + body)  # type: ignore[operator]
    (leak,) = report.leaks
    lines = text.splitlines()
    assert (report.verdict, leak.holder.path) == ("leak", path)
    assert lines[leak.stored_at.line - 1].endswith("# here")
    assert leak.per_step == pytest.approx(1.0, abs=0.2)
    assert "the last one is at" in leak.advice
    assert [rule.code for rule in load() if rule.run_check is not None and rule.run_check(leak)] == ["GG427"]


CLEAN = {
    "closed in each step": """
def work(inbox):
    while (batch := inbox.get()) is not None:
        batch.mean()
def main():
    for model, output, loss in training():
        inbox = queue.Queue()
        thread = threading.Thread(target=work, args=(inbox,))
        thread.start()
        inbox.put(torch.randn(64, 64))
        inbox.put(None)
        thread.join()
    over.set()
main()
""",
    "a pool that has all its threads after a while": """
def work(x):
    return x.mean()
def main():
    pool = ThreadPoolExecutor(6)
    for model, output, loss in training():
        pool.submit(work, torch.randn(64, 64)).result()
    pool.shutdown()
    over.set()
main()
""",
    "a few that wait for the end": """
def work():
    rows = torch.randn(64, 64)
    over.wait()
def main():
    for step, (model, output, loss) in enumerate(training()):
        if step < 3:
            threading.Thread(target=work, daemon=True).start()
    over.set()
main()
""",
}


@pytest.mark.parametrize("name", CLEAN)
def test_what_looks_alike_is_clean(name: str, run: object) -> None:
    report, _ = run(HEAD + CLEAN[name])  # type: ignore[operator]
    assert (report.verdict, report.leaks) == ("clean", ()), report
