"""GG428: histories that are trimmed by a condition that holds for all of them."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged

CODE = "GG428"

SAMPLER = """
class Sampler:
    def __init__(self, size):
        self.size, self.position = size, 0
        self.rng = random.Random(0)
        self.states = {}

    def mark(self):
        self.states[self.position] = self.rng.getstate()

    def rewind(self, position):
        self.rng.setstate(self.states[position])
        self.position = position

    def commit(self, position):
        self.states = {p: s for p, s in self.states.items() if p <= position}  # !

    def __iter__(self):
        while True:
            self.mark()
            yield self.rng.randrange(self.size)
            self.position += 1

def train(net, optimizer, data, steps):
    sampler = Sampler(len(data))
    for step, index in zip(range(steps), sampler):
        loss = net(data[index]).mean()
        if not torch.isfinite(loss):
            continue
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        sampler.commit(sampler.position)
"""
KEPT = "        self.states = {p: s for p, s in self.states.items() if p <= position}  # !"
CALL = "sampler.commit(sampler.position)"


def edited(*edits: tuple[str, str], base: str = SAMPLER) -> str:
    for old, new in edits:
        assert old in base, old
        base = base.replace(old, new)
    return base


JOURNAL = """
from collections import deque

class Journal:
    def __init__(self):
        self.step = 0
        self.entries = deque()

    def add(self, batch):
        self.step += 1
        self.entries.append((self.step, batch))
        self.trim()

    def trim(self):
        self.entries = deque((n, e) for n, e in self.entries if n <= self.step)  # !

def train(net, optimizer, loader):
    journal = Journal()
    for x, y in loader:
        loss = F.mse_loss(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        journal.add(x)
"""
FLAGGED = {
    "given by who calls": SAMPLER,
    "by the object": edited(("p <= position", "p <= self.position")),
    "the other way round": edited(("p <= position", "position >= p")),
    "deleted": edited((KEPT, "        for p in list(self.states):\n            if p > position:  # !\n"
                             "                del self.states[p]")),
    "taken out": edited((KEPT, "        for p in list(self.states.keys()):\n            if position < p:  # !\n"
                               "                self.states.pop(p)")),
    "a name for the key": edited(
        ("        self.states[self.position] =",
         "        at = self.position\n        self.states[at] =")
    ),
    "records in a queue": JOURNAL,
    "records in a list": edited(("deque()", "[]"), ("deque((n, e) for n, e in self.entries if n <= self.step)",
                                "[(n, e) for n, e in self.entries if n <= self.step]"), base=JOURNAL),
}  # fmt: skip
CLEAN = {
    "what comes after": edited(("p <= position", "p >= position")),
    "the last few": edited(("p <= position", "p > position - 100")),
    "all but the newest": edited(("p <= position", "p < position")),
    "up to a window": edited((CALL, "sampler.commit(sampler.position - 100)")),
    "a window of its own": edited(("p <= position", "p <= self.size")),
    "a number of the loop": edited((CALL, "sampler.commit(step)")),
    "one call of two": edited((CALL, f"{CALL}\n        sampler.commit(step // 2)")),
    "of another object": edited((CALL, "sampler.commit(other.position)")),
    "deleted from the front": edited((KEPT, "        for p in list(self.states):\n            if p <= position:\n"
                                            "                del self.states[p]")),
    "by two conditions": edited(("if p <= position", "if p <= position if p > 3")),
    "by both": edited(("p <= position", "position - 9 < p <= position")),
    "by what it has": edited(("p <= position", "s is not None")),
    "other keys": edited(("        self.states[self.position] =", "        self.states[self.rng.random()] =")),
    "other keys as well": edited(
        ("    def rewind",
         "    def put(self, p, s):\n        self.states[p] = s\n\n    def rewind")
    ),
    "emptied by another method": edited(
        ("    def rewind",
         "    def begin(self):\n        self.states = {}\n\n    def rewind")
    ),
    "emptied by who trains": edited((CALL, f"{CALL}\n        sampler.states.clear()")),
    "a count that begins again": edited(
        ("    def rewind",
         "    def begin(self):\n        self.position = 0\n\n    def rewind")
    ),
    "never counted": edited(("            self.position += 1\n", "")),
    "outside of the training": edited((f"        {CALL}", f"    {CALL}")),
    "where nothing trains": edited(("loss.backward()", "loss.item()")),
    "made anew": edited((CALL, f"sampler = Sampler(3)\n        {CALL}")),
    "another collection": edited(("in self.states.items() if", "in self.others.items() if")),
}  # fmt: skip


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name: str) -> None:
    assert_flagged("import random\n" + FLAGGED[name], CODE)


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name: str) -> None:
    assert_clean("import random\n" + CLEAN[name].replace("  # !", ""), CODE)


EXEMPLARS = """
class Exemplars:
    def __init__(self, budget):
        self.budget, self.kept = budget, {}

    def add(self, images, labels):
        for c in labels.unique().tolist():
            fresh = [image.clone() for image in images[labels == c]]
            self.kept[c] = fresh + self.kept.get(c, [])
        self.shrink()

    def shrink(self):
        quota = self.budget // max(1, len(self.kept))
        for c, rows in self.kept.items():
            if len(rows) > quota:
                rows = rows[:quota]  # !
"""
CUT = "rows = rows[:quota]  # !"
LOOP = "for c, rows in self.kept.items():"
GROWS = "self.kept[c] = fresh + self.kept.get(c, [])"


@pytest.mark.parametrize(
    "edits",
    [
        [],
        [(CUT, "rows = rows[-quota:]  # !")],
        [(CUT, "rows = sorted(rows, key=len)[:quota]  # !")],
        [(CUT, "rows = [row for row in rows if row.mean() > 0]  # !")],
        [(CUT, "rows = heapq.nlargest(quota, rows)  # !")],
        [(LOOP, "for rows in self.kept.values():")],
        [(LOOP, "for rows in list(self.kept.values()):")],
        [(GROWS, "self.kept.setdefault(c, []).extend(fresh)")],
        [(GROWS, "self.kept[c] = self.kept.get(c, []) + fresh"), ("if len(rows) > quota:", "if quota:")],
        [("        for c, rows in self.kept.items():\n            if len(rows) > quota:\n"
          "                rows = rows[:quota]",
          "        rows = self.kept[0]\n        if len(rows) > quota:\n            rows = rows[:quota]")],
    ],
)  # fmt: skip
def test_a_slice_that_nothing_reads(edits: list[tuple[str, str]]) -> None:
    assert_flagged(edited(*edits, base=EXEMPLARS), CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [(CUT, "self.kept[c] = rows[:quota]")],
        [(CUT, "rows[:] = rows[:quota]")],
        [(CUT, "del rows[quota:]")],
        [(CUT, "rows = rows[:quota]\n            self.kept[c] = rows")],
        [(CUT, "rows = rows[:quota]\n            self.seen += len(rows)")],
        [(CUT, "rows = rows[:quota]\n        return rows")],
        [(CUT, "rows = rows[:quota]\n                print(len(rows))")],
        [(CUT, "row = rows[:quota]")],
        [(CUT, "rows = other[:quota]")],
        [(LOOP, "for c, rows in self.other.items():"), (CUT, "rows = rows[:quota]")],
        [(LOOP, "for rows, c in self.kept.items():"), (CUT, "rows = rows[:quota]")],
        [(LOOP, "for c, rows in kept.items():"), (CUT, "rows = rows[:quota]")],
        [(GROWS, "self.kept[c] = fresh"), (CUT, "rows = rows[:quota]")],
        [(GROWS, GROWS + "\n            self.kept[c] = self.kept[c][-9:]"), (CUT, "rows = rows[:quota]")],
        [(GROWS, GROWS + "\n            self.kept[c].pop()"), (CUT, "rows = rows[:quota]")],
        [(GROWS, GROWS + "\n            del self.kept[c][9:]"), (CUT, "rows = rows[:quota]")],
        [("    def shrink", "    def reset(self):\n        self.kept = {}\n\n    def shrink"),
         (CUT, "rows = rows[:quota]")],
        [("            if len(rows) > quota:", "            while len(rows) > quota:"), (CUT, "rows = rows[:-1]")],
    ],
)  # fmt: skip
def test_a_slice_that_is_used(edits: list[tuple[str, str]]) -> None:
    assert_clean(edited(*edits, base=EXEMPLARS), CODE)


DEFERRED = """
class Deferred:
    def __init__(self):
        self.queue, self.ran = [], 0

    def add(self, fn):
        self.queue.append(fn)

    def run(self):
        queue = self.queue
        for fn in queue[self.ran:]:
            fn()
            self.ran += 1
        queue = []  # !
"""
EMPTIED = "queue = []  # !"
TAKEN = "        queue = self.queue\n"
GONE_OVER = "        for fn in queue[self.ran:]:"
WINDOW = """
class Window:
    def __init__(self):
        self.outputs = []

    def add(self, out):
        self.outputs.append(out.detach())

    def score(self):
        outs = self.outputs
        if len(outs) > 64:
            total = torch.cat(outs).mean()
            self.log(total)
            outs = []  # !
"""
OUTS = "outs = []  # !"


@pytest.mark.parametrize(
    ("base", "edits"),
    [
        (DEFERRED, []),
        (DEFERRED, [(TAKEN, "        queue: list = self.queue\n")]),
        (DEFERRED, [(GONE_OVER, "        for n, fn in enumerate(queue):")]),
        (DEFERRED, [(EMPTIED, "if len(queue) > 100:\n            queue = []  # !")]),
        (DEFERRED, [("self.queue.append(fn)", "self.queue += [fn]")]),
        (WINDOW, []),
        (WINDOW, [("torch.cat(outs)", "sum(out.sum() for out in outs)")]),
        (EXEMPLARS, [("            if len(rows) > quota:\n                " + CUT,
                      "            if len(rows) > quota:\n                self.log(len(rows))\n"
                      "                rows = []  # !")]),
    ],
)  # fmt: skip
def test_an_empty_list_in_its_place(base: str, edits: list[tuple[str, str]]) -> None:
    assert_flagged(edited(*edits, base=base), CODE)


@pytest.mark.parametrize(
    ("base", "edits"),
    [
        (DEFERRED, [(EMPTIED, "queue.clear()")]),
        (DEFERRED, [(EMPTIED, "self.queue = []")]),
        (DEFERRED, [(EMPTIED, "queue = self.queue = []")]),
        (DEFERRED, [(EMPTIED, "queue[:] = []")]),
        (DEFERRED, [(EMPTIED, "queue = []\n        self.queue = queue")]),
        (DEFERRED, [(EMPTIED, "queue = []\n        return queue")]),
        (DEFERRED, [(TAKEN, "        queue, self.queue = self.queue, []\n"), (EMPTIED, "queue = []")]),
        (DEFERRED, [(TAKEN, TAKEN + "        self.queue = []\n"), (EMPTIED, "queue = []")]),
        (DEFERRED, [(TAKEN, "        queue = list(self.queue)\n"), (EMPTIED, "queue = []")]),
        (DEFERRED, [(GONE_OVER, "        while queue:\n            fn = queue.pop()"), (EMPTIED, "queue = []")]),
        (DEFERRED, [(GONE_OVER, "        drain(queue)\n        for fn in queue:"), (EMPTIED, "queue = []")]),
        (DEFERRED, [(GONE_OVER, "        self.last = queue\n        for fn in queue:"), (EMPTIED, "queue = []")]),
        (DEFERRED, [(GONE_OVER, "        del queue[:4]\n        for fn in queue:"), (EMPTIED, "queue = []")]),
        (DEFERRED, [(GONE_OVER, "        def later():\n            return queue\n        self.later = later\n"
                                "        for fn in queue:"), (EMPTIED, "queue = []")]),
        (DEFERRED, [(GONE_OVER, "        self.later = lambda: queue\n        for fn in queue:"),
                    (EMPTIED, "queue = []")]),
        (DEFERRED, [("    def run", "    def reset(self):\n        self.queue.clear()\n\n    def run"),
                    (EMPTIED, "queue = []")]),
        (DEFERRED, [("    def run", "    def reset(self):\n        self.queue = []\n\n    def run"),
                    (EMPTIED, "queue = []")]),
        (DEFERRED, [("self.queue.append(fn)", "self.queue = [fn]"), (EMPTIED, "queue = []")]),
        (DEFERRED, [(TAKEN, "        queue = []\n"), (EMPTIED, "queue = []")]),
        (DEFERRED, [(TAKEN, "        if self.ran:\n            queue = self.queue\n        else:\n"
                            "            queue = []\n"), (EMPTIED, "self.ran = 0")]),
        (DEFERRED, [(TAKEN, "        while self.ran:\n            queue = self.queue\n"),
                    (GONE_OVER, "            for fn in queue[self.ran:]:"),
                    ("            fn()\n            self.ran += 1", "                fn()"),
                    ("        " + EMPTIED, "            queue = []")]),
        (DEFERRED, [("def run(self):", "def run(self):\n        global queue"), (EMPTIED, "queue = []")]),
        (DEFERRED, [(EMPTIED, "queue = [None]")]),
        (WINDOW, [(OUTS, "outs.clear()")]),
        (WINDOW, [(OUTS, "outs = []"), ("self.log(total)", "self.log(total)\n            self.outputs.clear()")]),
        (WINDOW, [(OUTS, "outs = []\n        return len(outs)")]),
    ],
)  # fmt: skip
def test_a_list_that_is_emptied(base: str, edits: list[tuple[str, str]]) -> None:
    assert_clean(edited(*edits, base=base), CODE)
