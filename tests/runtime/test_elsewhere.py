"""Which statement stores, where another thread does: the lines of the loop have nothing to do with it."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest

from gradguard.runtime.source import Source

torch = pytest.importorskip("torch")

HEAD = """
import queue, threading
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool
over = threading.Event()
def idle():
    while not over.wait(0.001):
        pass
"""


@pytest.fixture(autouse=True)
def _threads_end() -> Iterator[None]:
    """Threads that go on would be beside the programs of other tests."""
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        thread.join(5)
        assert not thread.is_alive()


# The loop waits for what it hands over: on a busy machine the inbox of a thread that lags behind would grow as well.
LEAKS = {
    "a thread that empties a queue": (
        "W.archive",
        """
class W(threading.Thread):
    def __init__(self):
        super().__init__(daemon=True)
        self.inbox, self.archive = queue.Queue(4), []
        self.start()
    def run(self):
        while True:
            item = self.inbox.get()
            if item is None: return
            tag, step, value = item
            self.archive.append((tag, step, value))  # here
            del item, value
    def write(self, *item):
        self.inbox.put(item)
def main():
    w = W()
    for step, (model, output, loss) in enumerate(training()):
        a, b = (torch.relu(output @ output.T) for _ in range(2))
        w.write("z", step, a.detach())
    w.inbox.put(None)
main()
""",
    ),
    "a thread that was given the list": (
        "main.rows",
        """
def consume(q, sink):
    while (row := q.get()) is not None:
        sink.append(row)  # here
def main():
    q, rows = queue.Queue(4), []
    t = threading.Thread(target=consume, args=(q, rows), daemon=True)
    t.start()
    for model, output, loss in training():
        a, b = (torch.relu(output @ output.T) for _ in range(2))
        q.put(torch.randn(32, 64))
    q.put(None)
main()
""",
    ),
    "a method that a future calls": (
        "Keeper.results",
        """
class Keeper:
    def __init__(self):
        self.pool = ThreadPoolExecutor(1)
        self.results = []
    def submit(self, x):
        future = self.pool.submit(torch.relu, x)
        future.add_done_callback(self.on_done)
        future.result()
    def on_done(self, future):
        self.results.append(future.result())  # here
def main():
    k = Keeper()
    for model, output, loss in training():
        a, b = (torch.relu(output @ output.T) for _ in range(2))
        k.submit(torch.randn(32, 64))
    k.pool.shutdown()
main()
""",
    ),
    "a method of the list that a future calls": (
        "main.results",
        """
def main():
    pool, results = ThreadPoolExecutor(1), []
    for model, output, loss in training():
        a, b = (torch.relu(output @ output.T) for _ in range(2))
        future = pool.submit(torch.relu, torch.randn(32, 64))
        future.add_done_callback(results.append)  # here
        future.result()
    pool.shutdown()
main()
""",
    ),
    "a function that a pool calls with the list": (
        "main.results",
        """
def keep(sink, x):
    y = torch.relu(x)
    sink.append(y)  # here
def main():
    pool, results = ThreadPoolExecutor(1), []
    for model, output, loss in training():
        a, b = (torch.relu(output @ output.T) for _ in range(2))
        pool.submit(keep, results, torch.randn(32, 64)).result()
    pool.shutdown()
main()
""",
    ),
    "a function that a pool calls, where another has its name": (
        "main.results",
        """
class Board:
    def keep(self, sink, x):
        sink.append(x)  # here
def main():
    board, pool, results = Board(), ThreadPoolExecutor(1), []
    for model, output, loss in training():
        a, b = (torch.relu(output @ output.T) for _ in range(2))
        pool.submit(board.keep, results, torch.randn(32, 64)).result()
    pool.shutdown()
main()
""",
    ),
    "another name in the thread": (
        "W.rows",
        """
class W:
    def __init__(self):
        self.q, self.rows = queue.Queue(4), []
        threading.Thread(target=self.loop, daemon=True).start()
    def loop(self):
        rows = self.rows
        put = rows.append
        while (x := self.q.get()) is not None:
            rows.append(x)  # here
def main():
    w = W()
    for model, output, loss in training():
        a, b = (torch.relu(output @ output.T) for _ in range(2))
        w.q.put(torch.randn(32, 64))
    w.q.put(None)
main()
""",
    ),
    "a closure": (
        "main.rows",
        """
def main():
    q, rows = queue.Queue(4), []
    def loop():
        while (row := q.get()) is not None:
            rows.append(row)  # here
    threading.Thread(target=loop, daemon=True).start()
    for model, output, loss in training():
        a, b = (torch.relu(output @ output.T) for _ in range(2))
        q.put(torch.randn(32, 64))
    q.put(None)
main()
""",
    ),
    "a dict": (
        "W.rows",
        """
class W:
    def __init__(self):
        self.q, self.rows = queue.Queue(4), {}
        threading.Thread(target=self.loop, daemon=True).start()
    def loop(self):
        while (item := self.q.get()) is not None:
            k, x = item
            self.rows[k] = x  # here
def main():
    w = W()
    for step, (model, output, loss) in enumerate(training()):
        a, b = (torch.relu(output @ output.T) for _ in range(2))
        w.q.put((step, torch.randn(32, 64)))
    w.q.put(None)
main()
""",
    ),
    "another class has such an attribute": (
        "W.rows",
        """
class Reader:
    def __init__(self): self.rows = []
    def put(self, x):
        self.rows.append(x)
class W:
    def __init__(self):
        self.q, self.rows = queue.Queue(4), []
        threading.Thread(target=self.loop, daemon=True).start()
    def loop(self):
        while (x := self.q.get()) is not None:
            self.rows.append(x)  # here
def main():
    w, r = W(), Reader()
    r.put(1)
    for step, (model, output, loss) in enumerate(training()):
        a, b = (torch.relu(output @ output.T) for _ in range(2))
        w.q.put(torch.randn(32, 64))
    w.q.put(None)
main()
""",
    ),
    "stored by the loop itself, beside a thread": (
        "Log.rows",
        """
class Log:
    def __init__(self): self.rows = []
    def put(self, x):
        rows = self.rows
        rows.append(x)  # here
    def other(self, x):
        self.rows.append(x)
def main():
    threading.Thread(target=idle, daemon=True).start()
    log = Log()
    for step, (model, output, loss) in enumerate(training()):
        a, b = (torch.relu(output @ output.T) for _ in range(2))
        log.put(torch.randn(32, 64))
    over.set()
main()
""",
    ),
    "stored by a helper that is given the list, beside a thread": (
        "Log.rows",
        """
def push(buffer, x):
    buffer.append(x)  # here
class Log:
    def __init__(self): self.rows = []
    def put(self, x):
        push(self.rows, x)
    def load(self, other):
        self.rows.append(other)
def main():
    threading.Thread(target=idle, daemon=True).start()
    log = Log()
    for step, (model, output, loss) in enumerate(training()):
        log.put(torch.randn(32, 64))
    over.set()
main()
""",
    ),
    "put under a key by a helper, beside a thread": (
        "Log.rows",
        """
def put(table, key, x):
    table[key] = x  # here
class Log:
    def __init__(self): self.rows = {}
    def load(self, other):
        self.rows[0] = other
def main():
    threading.Thread(target=idle, daemon=True).start()
    log = Log()
    for step, (model, output, loss) in enumerate(training()):
        put(log.rows, step, torch.randn(32, 64))
    over.set()
main()
""",
    ),
    "stored by a library that the loop calls, beside a thread": (
        "main.stack._exit_callbacks",
        """
import contextlib
def other(_exit_callbacks):
    _exit_callbacks.append(1)
def main():
    threading.Thread(target=idle, daemon=True).start()
    with contextlib.ExitStack() as stack:
        for step, (model, output, loss) in enumerate(training()):
            stack.callback(print, loss)  # here
        stack.pop_all()
    over.set()
main()
""",
    ),
    "a lambda that a pool calls": (
        "K.seen",
        """
class K:
    def __init__(self):
        self.seen = []
    def go(self):
        with ThreadPool(1) as pool:
            for step, (model, output, loss) in enumerate(training()):
                x = torch.randn(32, 64)
                call = pool.apply_async(torch.relu, (x,), callback=lambda y: self.seen.append(y))  # here
                call.wait()
                a, b = (torch.relu(output @ output.T) for _ in range(2))
K().go()
""",
    ),
    "a thread for each call": (
        "K.seen",
        """
class K:
    def __init__(self):
        self.seen = []
    def tick(self, x):
        self.seen.append(x)  # here
    def go(self):
        for step, (model, output, loss) in enumerate(training()):
            t = threading.Timer(0, self.tick, (torch.randn(32, 64),))
            t.start()
            t.join()
            a, b = (torch.relu(output @ output.T) for _ in range(2))
K().go()
""",
    ),
}


@pytest.mark.parametrize("name", LEAKS)
def test_the_statement_of_the_other_thread_is_named(name: str, run: object) -> None:
    path, body = LEAKS[name]
    report, text = run(HEAD + body)  # type: ignore[operator]
    (leak,) = report.leaks
    line = next(number for number, each in enumerate(text.splitlines(), 1) if each.endswith("# here"))
    assert (report.verdict, leak.holder.path, leak.stored_at.line) == ("leak", path, line)


CLEAN = {
    "a thread that keeps the last few": "rows.append(row); del rows[:-4]",
    "a thread that keeps numbers": "rows.append(row.mean().item())",
}


@pytest.mark.parametrize("name", CLEAN)
def test_what_looks_alike_is_clean(name: str, run: object) -> None:
    body = f"""
def consume(q, rows):
    while (row := q.get()) is not None:
        {CLEAN[name]}
def main():
    q, rows = queue.Queue(4), []
    threading.Thread(target=consume, args=(q, rows), daemon=True).start()
    for model, output, loss in training():
        a, b = (torch.relu(output @ output.T) for _ in range(2))
        q.put(torch.randn(32, 64))
    q.put(None)
main()
"""
    report, _ = run(HEAD + body)  # type: ignore[operator]
    assert (report.verdict, report.leaks) == ("clean", ()), report


@pytest.mark.parametrize("name", ["a thread that empties a queue", "a closure"])
def test_nothing_of_ours_waits_for_the_collector(name: str, run: object) -> None:
    """The frame of this thread in a variable of its own would keep every file that was read."""
    gc.collect()
    gc.disable()
    try:
        run(HEAD + LEAKS[name][1])  # type: ignore[operator]
        assert [each.filename for each in gc.get_objects() if type(each) is Source] == []
    finally:
        gc.enable()
