"""By whatever way a loss gets into what keeps it, it is found; the same way with a number is not flagged."""

from __future__ import annotations

import re
import textwrap

import pytest

from tests.rules.snippets import findings, twin

# What stands above the loop, what is set up before it, and what is done with `loss` in each iteration.
ROUTES = {
    "an object that is called": (
        """
        class Meter:
            def __init__(self):
                self.total = 0

            def __call__(self, value):
                self.total = self.total + value
        """,
        "meter = Meter()",
        "meter(loss)",
    ),
    "a class method": (
        """
        class Registry:
            rows = []

            @classmethod
            def keep(cls, value):
                cls.rows.append(value)
        """,
        "",
        "Registry.keep(loss)",
    ),
    "a closure's list": (
        """
        def make():
            seen = []

            def keep(value):
                seen.append(value)

            return keep
        """,
        "keep = make()",
        "keep(loss)",
    ),
    "one of two closures": (
        """
        def make():
            seen = []

            def keep(value):
                seen.append(value)

            def mean():
                return sum(seen) / len(seen)

            return keep, mean
        """,
        "keep, mean = make()",
        "keep(loss)",
    ),
    "an attribute of a function": (
        """
        def keep(value):
            keep.seen.append(value)

        keep.seen = []
        """,
        "",
        "keep(loss)",
    ),
    "a method that was taken before": ("", "seen = []; keep = seen.append", "keep(loss)"),
    "a heap": ("import heapq", "heap = []", "heapq.heappush(heap, (-step, loss))"),
    "a queue": ("import queue", "waiting = queue.Queue()", "waiting.put(loss)"),
    "a partial": ("from functools import partial", "later = []", "later.append(partial(print, loss))"),
    "a lambda's default": ("", "later = []", "later.append(lambda value=loss: value)"),
    "a dict that is made anew from itself": (
        "",
        "sums = {'loss': 0.0}",
        "sums = {k: v + loss for k, v in sums.items()}",
    ),
    "totals by key": ("", "sums = {'loss': 0.0}", "sums = {k: sums[k] + v for k, v in {'loss': loss}.items()}"),
    "a total that may be nothing yet": ("", "total = None", "total = (total or 0) + loss"),
    "lists that a loop goes over together": (
        "",
        "columns = [[], []]",
        "[column.append(value) for column, value in zip(columns, (loss, loss * 2))]",
    ),
    "an attribute by a name that only the run knows": (
        """
        class Sums:
            def __init__(self, *names):
                for name in names:
                    setattr(self, name, 0.0)

            def add(self, **values):
                for name, value in values.items():
                    setattr(self, name, getattr(self, name) + value)
        """,
        "sums = Sums('loss')",
        "sums.add(loss=loss)",
    ),
    "a context that returns itself": (
        """
        class Tracker:
            def __init__(self):
                self.rows = []

            def __enter__(self):
                return self

            def __exit__(self, *error):
                pass

            def log(self, value):
                self.rows.append(value)
        """,
        "tracker = Tracker()",
        "with tracker as step_of: step_of.log(loss)",
    ),
    "a plain object": (
        """
        class Row:
            def __init__(self, step, loss):
                self.step = step
                self.loss = loss
        """,
        "rows = []",
        "rows.append(Row(step, loss))",
    ),
    "a named tuple's dict": (
        """
        from collections import namedtuple
        Row = namedtuple("Row", "step loss")
        """,
        "rows = []",
        "rows.append(Row(step, loss)._asdict())",
    ),
    "a property that is set": (
        """
        class Box:
            def __init__(self):
                self.rows = []

            @property
            def value(self):
                return self.rows[-1]

            @value.setter
            def value(self, value):
                self.rows.append(value)
        """,
        "box = Box()",
        "box.value = loss + 0",
    ),
    "an item that is set": (
        """
        class Rows:
            def __init__(self):
                self.rows = []

            def __setitem__(self, key, value):
                self.rows.append((key, value))
        """,
        "rows = Rows()",
        "rows[step] = loss + 0",
    ),
    "a property that gives the list": (
        """
        class Box:
            def __init__(self):
                self._rows = []

            @property
            def rows(self):
                return self._rows
        """,
        "box = Box()",
        "box.rows.append(loss)",
    ),
    "a method that gives the list": (
        """
        class Box:
            def __init__(self):
                self._rows = []

            def rows(self):
                return self._rows
        """,
        "box = Box()",
        "box.rows().append(loss)",
    ),
    "a handler of log records": (
        """
        import logging

        class Recent(logging.Handler):
            def __init__(self):
                super().__init__()
                self.records = []

            def emit(self, record):
                self.records.append(record)

        logger = logging.getLogger("training")
        logger.addHandler(Recent())
        """,
        "",
        "logger.debug('loss %s', loss)",
    ),
    "a handler of an event": (
        """
        class Bus:
            def __init__(self):
                self.handlers = defaultdict(list)

            def subscribe(self, topic, handler):
                self.handlers[topic].append(handler)

            def emit(self, topic, **payload):
                for handler in self.handlers[topic]:
                    handler(payload)

        class Curve:
            def __init__(self, bus):
                self.points = []
                bus.subscribe("step", self.on_step)

            def on_step(self, payload):
                self.points.append(payload["loss"])
        """,
        "bus = Bus(); curve = Curve(bus)",
        "bus.emit('step', loss=loss)",
    ),
    "a function that a decorator subscribes": (
        """
        class Bus:
            def __init__(self):
                self.handlers = []

            def on(self, topic):
                def subscribe(handler):
                    self.handlers.append((topic, handler))
                    return handler
                return subscribe

            def emit(self, topic, value):
                for wanted, handler in self.handlers:
                    if wanted == topic:
                        handler(value)

        bus = Bus()
        points = []

        @bus.on("step")
        def keep(value):
            points.append(value)
        """,
        "",
        "bus.emit('step', loss)",
    ),
    "a method that a base declares": (
        """
        class Meter:
            def add(self, value, n=1):
                self.absorb(value)

            def absorb(self, value):
                raise NotImplementedError

        class Mean(Meter):
            def __init__(self):
                self.mean, self.count = 0.0, 0

            def absorb(self, value):
                self.count += 1
                self.mean += (value - self.mean) / self.count

        METERS = {}
        METERS["mean"] = Mean
        """,
        "meters = {name: kind() for name, kind in METERS.items()}",
        "[meter.add(loss, 1) for meter in meters.values()]",
    ),
}


def program(above: str, before: str, each: str) -> str:
    return f"""
{textwrap.dedent(above)}

def train(model, optimizer, loader):
    {before or "pass"}
    for step, (x, y) in enumerate(loader):
        loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {each}
"""


@pytest.mark.parametrize("name", ROUTES)
def test_followed(name: str) -> None:
    assert len(findings(program(*ROUTES[name]))) == 1


@pytest.mark.parametrize("name", ROUTES)
def test_a_number_goes_the_same_way(name: str) -> None:
    above, before, each = ROUTES[name]
    number = re.sub(r"(?<!['\"])\bloss\b(?!['\"=])", "loss.item()", each)
    assert findings(program(above, before, number)) == []


BOUNDED = {
    "a heap that is kept short": (
        "import heapq",
        "heap = []",
        "heapq.heappush(heap, (-step, loss)); heapq.heappop(heap)",
    ),
    "a queue with a size": ("import queue", "waiting = queue.Queue(maxsize=8)", "waiting.put(loss)"),
    "closures share their variable": ("", "later = []", "later.append(lambda: loss)"),
    "what a weak collection refers to": (
        "import weakref",
        "alive = weakref.WeakValueDictionary()",
        "alive[step] = loss",
    ),
    "deques of a few": ("", "recent = defaultdict(lambda: deque(maxlen=4))", "recent['loss'].append(loss)"),
    "columns that are cleared": (
        "",
        "losses, outputs = [], []",
        "losses.append(loss)\n        for column in (losses, outputs): column.clear()",
    ),
    "a closure's list that is emptied": (
        twin(
            ROUTES["a closure's list"][0],
            (
                "seen.append(value)\n",
                "seen.append(value)\n                if len(seen) > 9:\n                    seen.clear()\n",
            ),
        ),
        "keep = make()",
        "keep(loss)",
    ),
    "a handler that formats": (
        twin(ROUTES["a handler of log records"][0], ("append(record)", "append(record.getMessage())")),
        "",
        "logger.debug('loss %s', loss)",
    ),
    "a handler that looks": (
        twin(ROUTES["a handler of an event"][0], ('payload["loss"]', 'float(payload["loss"])')),
        "bus = Bus(); curve = Curve(bus)",
        "bus.emit('step', loss=loss)",
    ),
}


@pytest.mark.parametrize("name", BOUNDED)
def test_what_keeps_few_is_not_flagged(name: str) -> None:
    assert [(f.code, f.message) for f in findings(program(*BOUNDED[name]))] == []
