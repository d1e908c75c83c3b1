"""Queues: what is put into one stays where its reader puts it, and nowhere if the reader keeps nothing of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, findings, lines_in_files, twin

SINK = """
        import queue
        import threading

        class Sink(threading.Thread):
            def __init__(self):
                super().__init__(daemon=True)
                self.inbox, self.table = queue.Queue(), []
                self.start()

            def put(self, **row):
                self.inbox.put(row)

            def run(self):
                while True:
                    row = self.inbox.get()
                    if row is None:
                        break
                    self.table.append(row)

            def close(self):
                self.inbox.put(None)
                self.join()

        def train(net, loader, opt):
            sink = Sink()
            for x, y in loader:
                loss = F.cross_entropy(net(x), y)
                opt.zero_grad()
                loss.backward()
                opt.step()
                sink.put(loss=loss)  # !
            sink.close()
"""
AS_NUMBERS = "self.table.append({name: float(value) for name, value in row.items()})"
KEPT_BY_READER = "self.table.append(row)"
NEXT = "\n                    "


@pytest.mark.parametrize(
    "taken",
    ["self.inbox.get()", "self.inbox.get(True)", "self.inbox.get(timeout=9)", "self.inbox.get_nowait()"],
)
def test_what_the_reader_keeps(taken: str) -> None:
    snippet = SINK.replace("self.inbox.get()", taken)
    assert_flagged(snippet, "GG107")
    assert "`sink.table`" in findings(snippet, "GG107")[0].message


def test_what_nobody_takes_out() -> None:
    start, end = SINK.index("            def run"), SINK.index("            def close")
    assert_flagged(SINK[:start] + SINK[end:], "GG107")


@pytest.mark.parametrize(
    "edits",
    {
        "numbers": [(KEPT_BY_READER, AS_NUMBERS)],
        "numbers in its place": [(KEPT_BY_READER, f"row[0] = row[0].item(){NEXT}{KEPT_BY_READER}")],
        "nothing": [(KEPT_BY_READER, "print(row)")],
        "each in the place of the one before": [(KEPT_BY_READER, "self.last = row")],
        "the last few": [("queue.Queue(), []", "queue.Queue(), deque(maxlen=9)")],
        "until it is full": [("queue.Queue(), []", "queue.Queue(99), deque(maxlen=9)")],
        "a detached one": [("sink.put(loss=loss)", "sink.put(loss=loss.detach())")],
        "another kind of queue": [("queue.Queue(), []", "queue.SimpleQueue(), []"), (KEPT_BY_READER, "print(row)")],
        "as an iterator": [
            ("while True:", "for row in iter(self.inbox.get, None):"),
            (f"row = self.inbox.get(){NEXT}if row is None:{NEXT}    break", "print(row)"),
            (KEPT_BY_READER, "pass"),
        ],
    }.values(),
)  # fmt: skip
def test_what_the_reader_does_not_keep(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(SINK, *edits))


WORKER = """
        import queue
        import threading

        def work(jobs):
            while True:
                loss = jobs.get()
                print(loss.item())

        def train(net, loader, opt):
            jobs = queue.Queue()
            threading.Thread(target=work, args=(jobs,), daemon=True).start()
            for x, y in loader:
                loss = F.cross_entropy(net(x), y)
                opt.zero_grad()
                loss.backward()
                opt.step()
                jobs.put(loss)
"""


def test_a_queue_that_a_thread_is_given() -> None:
    assert_clean(WORKER)


def test_a_queue_that_is_emptied_in_the_same_iteration() -> None:
    here = "jobs.put(loss)\n                print(jobs.get().item())"
    start, end = WORKER.index("        def work"), WORKER.index("        def train")
    rest = WORKER[:start] + WORKER[end:]
    assert_clean(twin(rest, ("jobs.put(loss)", here)))
    assert_flagged(rest.replace("jobs.put(loss)", "jobs.put(loss)  # !"), "GG104")


def test_a_dict_that_is_only_looked_into_is_no_queue() -> None:
    assert_flagged(
        """
        class Log:
            def __init__(self):
                self.rows = {}

            def put(self, step, loss):
                self.rows.setdefault("loss", []).append(loss)

            def last(self):
                return self.rows.get("loss")

        def train(net, loader, opt):
            log = Log()
            for step, (x, y) in enumerate(loader):
                loss = F.cross_entropy(net(x), y)
                opt.zero_grad()
                loss.backward()
                opt.step()
                log.put(step, loss)  # !
        """,
        "GG107",
    )


@pytest.mark.parametrize(("row", "expected"), [("row", [("main.py", 13)]), ("len(row)", [])])
def test_a_reader_in_another_file(tmp_path: Path, row: str, expected: list[tuple[str, int]]) -> None:
    sink, train = SINK.split("        def train")
    files = {
        "sink.py": sink.replace(KEPT_BY_READER, f"self.table.append({row})"),
        "main.py": f"""
        import torch.nn.functional as F

        from sink import Sink

        def train{train}""",
    }
    assert lines_in_files(tmp_path, files, "GG107") == expected


READ_IN_PARTS = """
        import queue
        import threading

        class Archive(threading.Thread):
            def __init__(self):
                super().__init__(daemon=True)
                self.inbox, self.rows, self.sum = queue.Queue(), [], 0.0
                self.start()

            def write(self, tag, value):
                self.inbox.put((tag, value))

            def run(self):
                while True:
                    item = self.inbox.get()
                    if item is None:
                        return
                    tag, value = item
                    self.sum += float(value.mean())
                    self.rows.append((tag, value))

        def train(net, loader):
            net.cuda()
            opt = torch.optim.SGD(net.parameters(), lr=0.1)
            archive = Archive()
            for x, y in loader:
                z = net(x.cuda())
                loss = F.cross_entropy(z, y.cuda())
                opt.zero_grad()
                loss.backward()
                opt.step()
                archive.write("z", GIVEN)
"""


def test_what_is_read_in_parts_and_kept_whole() -> None:
    of_graphs = findings(READ_IN_PARTS.replace("GIVEN", "z"), "GG107")
    of_memory = findings(READ_IN_PARTS.replace("GIVEN", "z.detach()"), "GG409")
    assert [f.message.split(" ", 1)[0] for f in (*of_graphs, *of_memory)] == ["`z`", "`self.rows`"]


@pytest.mark.parametrize(
    "edit",
    [
        ("self.rows.append((tag, value))", "self.rows.append((tag, value.mean().item()))"),
        ("self.rows.append((tag, value))", "self.rows.append(tag)"),
        ("self.rows.append((tag, value))", "self.rows.append((tag, value))" + NEXT + "del self.rows[:-8]"),
        ("tag, value = item", "tag, value = item; value = value.mean().item()"),
    ],
)
def test_what_is_read_in_parts_and_not_kept(edit: tuple[str, str]) -> None:
    assert_clean(twin(READ_IN_PARTS, edit, ("GIVEN", "z.detach()")))
