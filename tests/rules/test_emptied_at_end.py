"""What an object keeps of each step until the training is over."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files, twin

CODE = "GG107"

DEFERRED = '''
        import functools

        class Writer:
            """Keeps the jobs, to run them with flush."""

            def __init__(self):
                self.jobs = []

            def scalar(self, tag, value, step):
                return f"{step} {tag} {float(value)}"

            def defer(self, fn, *args):
                self.jobs.append(functools.partial(fn, *args))

            def flush(self, sink):
                for job in self.jobs:
                    sink(job())
                self.jobs.clear()

        def main(model, loader):
            writer, optimizer = Writer(), torch.optim.SGD(model.parameters(), lr=0.1)
            for step, (x, y) in enumerate(loader):
                penalty = model(x).pow(2).mean()
                loss = F.mse_loss(model(x), y) + penalty
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                writer.defer(writer.scalar, "penalty", penalty, step)  # !
            with open("log.txt", "w") as file:
                writer.flush(file.write)
'''
JOB = "self.jobs.append(functools.partial(fn, *args))"
PUT = 'writer.defer(writer.scalar, "penalty", penalty, step)'
LAST = "writer.flush(file.write)"

FLAGGED = {
    "partial": DEFERRED,
    "a lambda": DEFERRED.replace(JOB, "self.jobs.append(lambda: fn(*args))"),
    "a tuple": DEFERRED.replace(JOB, "self.jobs.append((fn, args))"),
    "of both": DEFERRED.replace("*args", "*args, **options").replace(
        "fn, *args, **options))", "fn, *args, **options))"
    ),
    "a function": DEFERRED.replace(
        JOB, "def job():\n                    return fn(*args)\n\n                self.jobs.append(job)"
    ),
    "bound anew": DEFERRED.replace("self.jobs.clear()", "self.jobs = []"),
    "in a script": """
        class Tracker:
            def __init__(self):
                self.values = []

            def add(self, value):
                self.values.append(value)

            def close(self):
                print(sum(map(float, self.values)))
                self.values.clear()

        model, loader = nn.Linear(3, 1), [torch.ones(2, 3)] * 9
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        tracker = Tracker()
        for batch in loader:
            loss = model(batch).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            tracker.add(loss)  # !
        tracker.close()
    """,
}

CLEAN = {
    "a number": twin(DEFERRED, ('"penalty", penalty, step', '"penalty", penalty.item(), step')),
    "of numbers": twin(DEFERRED, (JOB, "self.jobs.append((fn, [float(arg) for arg in args]))")),
    "a lambda of a number": twin(
        DEFERRED, (JOB, "value = float(args[1])\n                self.jobs.append(lambda: fn(value))")
    ),
    "in each step": twin(DEFERRED, (PUT, PUT + "\n                writer.flush(print)")),
    "now and then": twin(
        DEFERRED, (PUT, PUT + "\n                if step % 9 == 0:\n                    writer.flush(print)")
    ),
    "by itself": twin(
        DEFERRED, (JOB, JOB + "\n                if len(self.jobs) > 9:\n                    self.flush(print)")
    ),
    "after each epoch": twin(
        DEFERRED,
        (
            "for step, (x, y) in enumerate(loader):",
            "for epoch in range(9):\n              for step, (x, y) in enumerate(loader):",
        ),
        ('            with open("log.txt", "w") as file:', '              with open("log.txt", "w") as file:'),
    ),
    "by somebody else": twin(
        DEFERRED, (LAST, LAST + "\n\n        def tick(timer, writer):\n            writer.flush(print)")
    ),
    "it is handed to somebody": twin(
        DEFERRED, ("            for step, (x", "            every(9, writer.flush)\n            for step, (x")
    ),
    "by its name": twin(
        DEFERRED,
        ("            for step, (x", '            every(9, getattr(writer, "flush"))\n            for step, (x'),
    ),
    "backpropagated at the end": twin(
        DEFERRED,
        ("loss.backward()", "pass"),
        ("sink(job())", "job().backward()"),
    ),
    "given": twin(
        DEFERRED,
        ("def main(model, loader):", "def main(model, loader, writer):"),
        ("writer, optimizer = Writer(), torch", "optimizer = torch"),
    ),
    "made in each step": twin(
        DEFERRED, ("penalty = model(x)", "writer = Writer()\n                penalty = model(x)")
    ),
    "no graph": twin(DEFERRED, ("penalty = model(x).pow(2).mean()", "penalty = x.pow(2).mean()")),
}


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name: str) -> None:
    assert_flagged(FLAGGED[name], CODE)


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name: str) -> None:
    assert_clean(CLEAN[name], CODE)


def test_in_several_files(tmp_path: Path) -> None:
    files = {
        "board.py": """
            class Board:
                def __init__(self):
                    self.rows = []

                def put(self, *row):
                    self.rows.append(row)

                def save(self):
                    rows, self.rows = self.rows, []
                    return rows
        """,
        "train.py": """
            import torch
            import other
            from board import Board

            def run(model, loader, optimizer):
                board = Board()
                for x in loader:
                    loss = model(x).mean()
                    loss.backward()
                    optimizer.step()
                    optimizer.zero_grad()
                    board.put("loss", loss)
                board.save()
        """,
        "other.py": "",
    }
    assert lines_in_files(tmp_path, files, CODE) == [("train.py", 13)]
    files["other.py"] = "from board import Board\n\ndef drain(board: Board):\n    return board.save()\n"
    assert not lines_in_files(tmp_path, files, CODE)
