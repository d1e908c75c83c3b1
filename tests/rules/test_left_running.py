"""GG427: threads that each iteration starts, and leaves waiting at a full queue."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files, twin

CODE = "GG427"

PREFETCHER = """
import queue
import threading

class Prefetcher:
    def __init__(self, source, depth=3):
        self.queue = queue.Queue(maxsize=depth)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._pump, args=(source,), daemon=True)
        self._thread.start()

    def _pump(self, source):
        for item in source:
            self.queue.put(item)
            if self._stop.is_set():
                return

    def __iter__(self):
        return self

    def __next__(self):
        return self.queue.get()

    def close(self):
        self._stop.set()
        while not self.queue.empty():
            self.queue.get()
        self._thread.join()
"""
EPISODES = """
def episode(model, optimizer, tasks, number, queries):
    feed = Prefetcher(tasks.stream(number))  # !
    support, labels = next(feed)
    optimizer.zero_grad()
    for k, (x, y) in enumerate(feed):
        loss = F.cross_entropy(model(support, labels, x), y)
        loss.backward()
        if k + 1 == queries:
            break
    optimizer.step()

def main(model, optimizer, tasks, episodes):
    for number in range(episodes):
        episode(model, optimizer, tasks, number, 4)
"""
EPOCHS = """
def stream(seed):
    while True:
        yield torch.randn(8, 4), torch.randint(0, 4, (8,))

def main(model, optimizer, epochs, steps):
    for epoch in range(epochs):
        feed = Prefetcher(stream(epoch))  # !
        for _ in range(steps):
            x, y = next(feed)
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
"""
ZIPPED = """
def main(model, optimizer, loader, epochs, steps):
    for epoch in range(epochs):
        for step, (x, y) in zip(range(steps), Prefetcher(loader)):  # !
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
"""
AS_A_THREAD = """
from queue import Queue
from threading import Thread

class BackgroundGenerator(Thread):
    def __init__(self, generator, ahead=1):
        super().__init__()
        self.queue = Queue(ahead)
        self.generator = generator
        self.daemon = True
        self.start()

    def run(self):
        for item in self.generator:
            self.queue.put(item)
        self.queue.put(None)

    def next(self):
        item = self.queue.get()
        if item is None:
            raise StopIteration
        return item

    def __next__(self):
        return self.next()

    def __iter__(self):
        return self

def epoch(model, optimizer, loader, most):
    batches = BackgroundGenerator(loader)  # !
    for step, (x, y) in enumerate(batches):
        if step >= most:
            break
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()

def main(model, optimizer, loader, epochs):
    for _ in range(epochs):
        epoch(model, optimizer, loader, 100)
"""
STARTED_BY_CALLER = twin(
    AS_A_THREAD,
    ("        self.start()\n", ""),
    ("    for step, (x, y) in", "    batches.start()\n    for step, (x, y) in"),
).replace("BackgroundGenerator(loader)", "BackgroundGenerator(loader)  # !")

FLAGGED = {
    "of each episode": PREFETCHER + EPISODES,
    "of a stream without end": PREFETCHER + EPOCHS,
    "of a loader, for so many steps": PREFETCHER + ZIPPED,
    "a thread itself": AS_A_THREAD,
    "a thread that the function starts": STARTED_BY_CALLER,
    "returned from": PREFETCHER + EPISODES.replace("            break\n    optimizer.step()", "            return"),
    "of an iterator that the object has": (PREFETCHER + EPISODES)
    .replace("args=(source,), ", "")
    .replace("_pump(self, source)", "_pump(self)")
    .replace("in source:", "in self.source:")
    .replace("        self._stop = threading", "        self.source = iter(source)\n        self._stop = threading"),
}
BEHIND = "    optimizer.step()\n\ndef main"
CLEAN = {
    "closed behind the loop": twin(PREFETCHER + EPISODES, (BEHIND, f"    feed.close()\n{BEHIND}")),
    "told to stop": twin(PREFETCHER + EPISODES, (BEHIND, f"    feed._stop.set()\n{BEHIND}")),
    "closed in the end": twin(
        PREFETCHER + EPISODES, ("    optimizer.zero_grad()", "    at_end(feed.close)\n    optimizer.zero_grad()")
    ),
    "closed by another function": twin(PREFETCHER + EPISODES, (BEHIND, f"    finish(feed)\n{BEHIND}")),
    "given back": twin(PREFETCHER + EPISODES, (BEHIND, "    return feed\n\ndef main")),
    "kept": twin(PREFETCHER + EPISODES, (BEHIND, f"    tasks.feeds.append(feed)\n{BEHIND}")),
    "entered": twin(
        PREFETCHER + ZIPPED, ("zip(range(steps), Prefetcher(loader))", "closing(zip(range(steps), Prefetcher(loader)))")
    ),
    "deleted, whatever that does": twin(PREFETCHER + EPISODES, (BEHIND, f"    del feed\n{BEHIND}")),
    "all of it is taken": twin(
        PREFETCHER + ZIPPED,
        ("zip(range(steps), Prefetcher(loader))", "enumerate(Prefetcher(loader))"),
    ),
    "some of it is taken, of what may end": twin(
        PREFETCHER + EPOCHS, ("    while True:\n", "    for _ in range(10):\n")
    ),
    "left for an error": twin(PREFETCHER + EPISODES, ("if k + 1 == queries:", "if not torch.isfinite(loss):")),
    "no limit": twin(PREFETCHER + EPISODES, ("queue.Queue(maxsize=depth)", "queue.Queue()")),
    "no limit, written as 0": twin(PREFETCHER + EPISODES, ("queue.Queue(maxsize=depth)", "queue.Queue(0)")),
    "does not wait": twin(
        PREFETCHER + EPISODES, ("self.queue.put(item)", "self.queue.put(item, timeout=5)")
    ),
    "one for all": PREFETCHER + """
def main(model, optimizer, tasks, episodes):
    feed = Prefetcher(tasks.stream(0))
    for number in range(episodes):
        for k, (x, y) in enumerate(feed):
            F.cross_entropy(model(x), y).backward()
            if k == 4:
                break
        optimizer.step()
""",
    "made once": twin(
        PREFETCHER + EPISODES,
        ("        episode(model", "        if number == 0:\n            episode(model"),
    ),
    "a few times": twin(PREFETCHER + EPISODES, ("in range(episodes):", "in range(3):")),
    "where nothing trains": twin(PREFETCHER + EPISODES, ("loss.backward()", "loss.item()")),
    "ends with the last batch": twin(
        PREFETCHER + EPISODES,
        (
            "        return self.queue.get()\n",
            "        self.left -= 1\n        if not self.left:\n            self._stop.set()\n"
            "        return self.queue.get()\n",
        ),
    ),
    "ends where it is collected": twin(
        PREFETCHER + EPISODES,
        ("    def close(self):", "    def __del__(self):\n        self._stop.set()\n\n    def close(self):"),
    ),
    "no thread": twin(
        PREFETCHER + EPISODES,
        ("        self._thread.start()\n", ""),
    ),
    "another thread": twin(PREFETCHER + EPISODES, ("import threading", "import workers as threading")),
    "a thread that fills nothing": twin(
        PREFETCHER + EPISODES, ("            self.queue.put(item)\n", "            self.show(item)\n")
    ),
    "two of one name": twin(PREFETCHER + EPISODES, (BEHIND, f"    feed = None\n{BEHIND}")),
    "the thread takes all": twin(AS_A_THREAD, ("        if step >= most:\n            break\n", "")),
}  # fmt: skip


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name: str) -> None:
    assert_flagged(FLAGGED[name], CODE)


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name: str) -> None:
    assert_clean(CLEAN[name].replace("  # !", ""), CODE)


def test_a_class_of_another_file(tmp_path: Path) -> None:
    head = "import torch\nimport torch.nn.functional as F\nfrom feeding import Prefetcher\n"
    files = {"feeding.py": PREFETCHER, "main.py": head + EPISODES}
    found = files["main.py"].split("\n").index("    feed = Prefetcher(tasks.stream(number))  # !") + 1
    assert lines_in_files(tmp_path, files, CODE) == [("main.py", found)]
