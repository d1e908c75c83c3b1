from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files, twin

CODE = "GG425"

JOBS = """
    from concurrent.futures import ThreadPoolExecutor

    def sheet(images):
        rows = torch.cat(list(images), dim=1).sigmoid()
        return (rows * 255).to(torch.uint8)

    class Renderer:
        def __init__(self, every):
            self.pool, self.every, self.jobs = ThreadPoolExecutor(1), every, []

        def __call__(self, step, images):
            if step % self.every == 0:
                self.jobs.append(self.pool.submit(sheet, images))

        def raise_errors(self):
            for job in self.jobs:  # !
                if job.done() and job.exception() is not None:
                    raise job.exception()

        def close(self):
            self.pool.shutdown(wait=True)
            return self.jobs[-1].result()
"""
READY = """
    class Scorer:
        def __init__(self, pool, model):
            self.pool, self.model, self.pending, self.best = pool, model, [], 0.0

        def score(self, batch):
            return torch.softmax(self.model(batch), -1)

        def add(self, batch):
            task = self.pool.apply_async(self.score, (batch,))
            self.pending.append(task)

        def poll(self):
            for task in list(self.pending):  # !
                if task.ready():
                    self.best = max(self.best, task.get().max().item())
"""
BUS = """
    import collections

    class Bus:
        def __init__(self):
            self.subscribers = collections.defaultdict(list)
            self.deferred = collections.defaultdict(list)

        def on(self, event):
            def register(fn):
                self.subscribers[event].append(fn)
                return fn
            return register

        def defer(self, event, fn):
            self.deferred[event].append(fn)

        def emit(self, event, **payload):
            for fn in self.subscribers[event]:
                fn(**payload)
            for fn in self.deferred[event]:  # !
                fn()
"""
ENGINE = """
    class Engine:
        def __init__(self, model, optimizer, bus):
            self.model, self.optimizer, self.bus = model, optimizer, bus

        def step(self, x, y):
            logits = self.model(x)
            loss = F.cross_entropy(logits, y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            pred = logits.detach().argmax(1)
            self.bus.defer("epoch_end", lambda: self.tally(pred, y))
            return loss.item()

        def run(self, loader):
            for i, (x, y) in enumerate(loader):
                self.step(x, y)
                if i % 10 == 0:
                    self.bus.emit("epoch_end")
"""
LATER = """
    class Trainer:
        def __init__(self, model, optimizer):
            self.model, self.optimizer, self.later = model, optimizer, []

        def step(self, x, y):
            out = self.model(x)
            self.optimizer.zero_grad()
            F.mse_loss(out, y).backward()
            self.optimizer.step()
            image = out.detach().clamp(0, 1)
            self.later.append(functools.partial(self.show, image))

        def fit(self, loader):
            for x, y in loader:
                self.step(x, y)
            self.flush()

        def flush(self):
            for show in self.later:  # !
                show()
"""
QUEUE = """
    class Queue:
        def __init__(self):
            self.actions = []

        def schedule(self, action):
            self.actions.append(action)

        def work(self):
            for each in self.actions:  # !
                each()

    def train(model, loader, optimizer, queue):
        for i, (x, y) in enumerate(loader):
            out = model(x)
            loss = F.cross_entropy(out, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            hits = (out.detach().argmax(1) == y).float()
            queue.schedule(lambda hits=hits: print(hits.mean()))
            if i % 100 == 0:
                queue.work()
"""


@pytest.mark.parametrize("snippet", [JOBS, READY, BUS + ENGINE, LATER, QUEUE])
def test_flagged(snippet: str) -> None:
    assert_flagged(snippet, CODE)


JOB = "        def close(self):"
DEFINED = BUS + ENGINE.replace(
    '            self.bus.defer("epoch_end", lambda: self.tally(pred, y))',
    '            def count():\n                self.tally(pred, y)\n            self.bus.defer("epoch_end", count)',
)


def test_a_function_that_is_defined_in_each_step() -> None:
    assert_flagged(DEFINED, CODE)
    assert_clean(twin(DEFINED, ("self.tally(pred, y)", "self.tally(self.model)")), CODE)
    assert_clean(twin(DEFINED, ("in self.deferred[event]:", "in self.deferred.pop(event, []):")), CODE)


DROPS = "        def forget(self):\n            self.jobs = [j for j in self.jobs if not j.done()]\n\n"
ENDS = "fn()\n\n    class"
CLEAN = {
    "done ones are dropped": twin(JOBS, ("        def close", f"{DROPS}        def close")),
    "they are removed": twin(JOBS, ("        raise", "        self.jobs.remove(job)\n                    raise")),
    "the first is taken out": twin(JOBS, ("        for job", "        self.jobs.pop(0)\n            for job")),
    "emptied elsewhere": JOBS.replace("  # !", "") + "\n    def end(renderer):\n        renderer.jobs.clear()\n",
    "a bounded list": twin(JOBS, ("every, []", "every, collections.deque(maxlen=9)")),
    "a list of others": twin(JOBS, ("every, []", "every, jobs"), ("every):", "every, jobs):")),
    "no tensor comes back": twin(JOBS, ("return (rows * 255).to(torch.uint8)", "torch.save(rows, 'rows.pt')")),
    "numbers come back": twin(JOBS, ("return (rows * 255).to(torch.uint8)", "return rows.mean().item()")),
    "all are gathered": twin(JOBS, ("return self.jobs[-1].result()", "return [job.result() for job in self.jobs]")),
    "all are waited for": twin(JOBS, ("return self.jobs[-1].result()", "return list(as_completed(self.jobs))")),
    "nobody asks": twin(JOBS, ("if job.done() and job.exception() is not None", "if job.exception() is not None")),
    "taken out as they are ready": twin(
        READY, ("self.best = max(", "self.pending.remove(task)\n                    self.best = max(")
    ),
    "popped": twin(BUS + ENGINE, ("in self.deferred[event]:", "in self.deferred.pop(event, []):")),
    "begun anew when run": twin(BUS + ENGINE, (ENDS, f"fn()\n            self.deferred[event] = []{ENDS[4:]}")),
    "cleared when run": twin(BUS + ENGINE, (ENDS, f"fn()\n            self.deferred[event].clear(){ENDS[4:]}")),
    "it refers to nothing of the step": twin(BUS + ENGINE, ("self.tally(pred, y)", "self.tally(self.model)")),
    "numbers of the step": twin(BUS + ENGINE, (".argmax(1)", ".max().item()"), ("(pred, y)", "(pred)")),
    "a method": twin(BUS + ENGINE, ("lambda: self.tally(pred, y)", "self.tally")),
    "now and then": twin(BUS + ENGINE, ("self.bus.defer(", "if self.asked: self.bus.defer(")),
    "once": twin(BUS + ENGINE, ("for i, (x, y) in enumerate(loader):", "if loader:\n                i, x, y = loader")),
    "without a training": twin(BUS + ENGINE, ("            loss.backward()\n", "")),
    "more is done with each": twin(LATER, ("show()\n", "show() or print()\n")),
    "begun anew": twin(LATER, ("self.flush()", "self.flush()\n            self.later = []")),
    "sliced away": twin(LATER, ("show()\n", "show()\n            del self.later[:]\n")),
    "the variables of a loop": twin(QUEUE, ("lambda hits=hits:", "lambda:")),
    "of no tensor": twin(QUEUE, ("lambda hits=hits: print(hits.mean())", "lambda i=i: print(i)")),
    "swapped out": twin(
        QUEUE,
        ("for each in self.actions:", "todo, self.actions = self.actions, []\n            for each in todo:"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("snippet", CLEAN.values(), ids=CLEAN)
def test_clean(snippet: str) -> None:
    assert_clean(snippet, CODE)


def test_other_files(tmp_path: Path) -> None:
    engine = "    import torch.nn.functional as F\n" + ENGINE
    main = """
    import torch
    from engine import Engine
    from events import Bus

    def main(model, loader):
        Engine(model, torch.optim.AdamW(model.parameters()), Bus()).run(loader)
    """
    files = {"events.py": BUS.replace("  # !", ""), "engine.py": engine, "main.py": main}
    assert lines_in_files(tmp_path, files, CODE) == [("events.py", 21)]
    files["events.py"] = twin(BUS, ("in self.deferred[event]:", "in self.deferred.pop(event, []):"))
    assert lines_in_files(tmp_path, files, CODE) == []


AHEAD = """
    from concurrent.futures import ThreadPoolExecutor

    def read(seed, size):
        image = torch.rand(4, 1, size, size)
        mask = (image > 0.5).float()
        return image.flip(-1), mask

    class Ahead:
        def __init__(self, n, depth=2):
            self.n, self.depth, self.at = n, depth, 0
            self.pool = ThreadPoolExecutor(1)
            self.jobs = []

        def put(self, i):
            if i < self.n:
                self.jobs.append(self.pool.submit(read, i, 32))

        def __len__(self):
            return self.n

        def __iter__(self):
            for i in range(self.depth):
                self.put(i)
            for i in range(self.n):
                batch = self.jobs[i].result()  # !
                self.put(i + self.depth)
                yield batch

        def close(self):
            self.pool.shutdown(wait=True)
"""
LOOP = AHEAD[AHEAD.index("        def __iter__") : AHEAD.index("        def close")]
NEXT = """        def __iter__(self):
            return self

        def __next__(self):
            job = self.jobs[self.at]  # !
            self.at += 1
            self.put(self.at + self.depth)
            return job.result()

"""


@pytest.mark.parametrize(
    "edit",
    [
        ("read", "load"),
        (LOOP, NEXT),
        (LOOP, NEXT.replace("self.at]", "self.at - 1]")),
        (
            "                self.put(i + self.depth)\n",
            "                self.jobs.append(self.pool.submit(read, i, 32))\n",
        ),
        ("for i in range(self.n):", "for i, name in enumerate(self.names):"),
        ("for i in range(self.n):", "i = 0\n            while True:\n                i += 1"),
        ("batch = self.jobs[i].result()", "job = self.jobs[i]"),
        ("return image.flip(-1), mask", "return image"),
        ("return self.n", "return len(self.jobs)"),
    ],
)
def test_a_loader_that_works_ahead(edit: tuple[str, str]) -> None:
    assert edit[0] in AHEAD
    code = AHEAD.replace(*edit)
    assert_flagged(
        code if "batch = " in code or "job.result" in code else code.replace("yield batch", "yield job.result()"), CODE
    )


@pytest.mark.parametrize(
    "edit",
    [
        ("self.jobs[i].result()", "self.jobs.pop(0).result()"),
        ("yield batch", "self.jobs[i] = None\n                yield batch"),
        ("yield batch", "del self.jobs[0]\n                yield batch"),
        ("for i in range(self.depth):", "self.jobs = []\n            for i in range(self.depth):"),
        ("self.jobs = []", "self.jobs = collections.deque(maxlen=4)"),
        ("self.jobs[i].result()", "self.jobs[i % self.depth].result()"),
        ("self.jobs[i].result()", "self.jobs[0].result()"),
        ("self.jobs[i].result()", "self.parts[i].result()"),
        ("                self.put(i + self.depth)\n", ""),
        ("return image.flip(-1), mask", "return mask.mean().item()"),
        ("self.pool.submit(read, i, 32)", "self.pool.where(read, i, 32)"),
        ("self.pool.shutdown(wait=True)", "return [job.result() for job in self.jobs]"),
        ("self.pool.shutdown(wait=True)", "return self.jobs[-1].result()"),
        ("self.pool.shutdown(wait=True)", "wait(self.jobs)"),
        ("self.pool.shutdown(wait=True)", "self.jobs.clear()"),
        ("                yield batch\n", ""),
    ],
)
def test_a_loader_that_takes_jobs_out_or_has_few(edit: tuple[str, str]) -> None:
    assert_clean(twin(AHEAD, edit), CODE)


def test_others_know_the_jobs() -> None:
    assert_clean(
        AHEAD.replace("  # !", "") + "\n    def last(loader):\n        return loader.jobs[-1].result()\n", CODE
    )
    assert_clean(
        twin(AHEAD, (LOOP.replace("  # !", ""), NEXT.replace("  # !", "").replace("self.at += 1", "self.at = 1"))), CODE
    )
