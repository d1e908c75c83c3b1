"""A graph that is kept, in the words of many authors; and the same words with `.detach()`, or with an end to it."""

from __future__ import annotations

from itertools import product

import pytest

from tests.rules.snippets import findings
from tests.rules.spellings import STEP, combined, fill

# Where something is kept. {P} stands for it, {V} for what is put there, {N} for the number of the step.
PLACES = {
    "local": (
        """
        def train(net, opt, loader):
            kept = {I}
            step = 0
            for x, y in loader:
                <train>
                <store>
                step += 1
            print(kept)
        """,
        ("kept", "loss", "step"),
    ),
    "attribute": (
        """
        class Trainer:
            def __init__(self, net, opt):
                self.net, self.opt = net, opt
                self.kept = {I}
                self.step = 0

            def fit(self, loader):
                net, opt = self.net, self.opt
                for x, y in loader:
                    <train>
                    <store>
                    self.step += 1
        """,
        ("self.kept", "loss", "self.step"),
    ),
    "method": (
        """
        class Trainer:
            def __init__(self, net, opt):
                self.net, self.opt = net, opt
                self.kept = {I}
                self.step = 0

            def note(self, value):
                <store>
                self.step += 1

            def fit(self, loader):
                net, opt = self.net, self.opt
                for x, y in loader:
                    <train>
                    self.note(loss)
        """,
        ("self.kept", "value", "self.step"),
    ),
    "meter": (
        """
        class Meter:
            def __init__(self):
                self.kept = {I}
                self.step = 0

            def push(self, value):
                <store>
                self.step += 1

        def train(net, opt, loader):
            meter = Meter()
            for x, y in loader:
                <train>
                meter.push(loss)
        """,
        ("self.kept", "value", "self.step"),
    ),
    "dataclass": (
        """
        from dataclasses import dataclass, field

        @dataclass
        class Record:
            step: int = 0
            kept: object = field(default_factory=lambda: {I})

        def train(net, opt, loader):
            record = Record()
            for x, y in loader:
                <train>
                <store>
                record.step += 1
            return record.step
        """,
        ("record.kept", "loss", "record.step"),
    ),
    "key": (
        """
        def train(net, opt, loader):
            stats = {{"kept": {I}, "step": 0}}
            for x, y in loader:
                <train>
                <store>
                stats["step"] += 1
            print(stats)
        """,
        ('stats["kept"]', "loss", 'stats["step"]'),
    ),
    "global": (
        """
        KEPT = {I}
        STEP = 0

        def note(value):
            global KEPT, STEP
            <store>
            STEP += 1

        def train(net, opt, loader):
            for x, y in loader:
                <train>
                note(loss)
        """,
        ("KEPT", "value", "STEP"),
    ),
    "closure": (
        """
        def train(net, opt, loader):
            kept, step = {I}, 0

            def note(value):
                nonlocal kept, step
                <store>
                step += 1

            for x, y in loader:
                <train>
                note(loss)
        """,
        ("kept", "value", "step"),
    ),
    "given back": (
        """
        def note(kept, value, step):
            <store>
            return kept

        def train(net, opt, loader):
            kept = {I}
            for step, (x, y) in enumerate(loader):
                <train>
                kept = note(kept, loss, step)
            print(kept)
        """,
        ("kept", "value", "step"),
    ),
}

FIRST_VALUES = {
    "if none": "if {P} is None:\n    {P} = {F}\nelse:\n    {P} = {U}",
    "if not none": "if {P} is not None:\n    {P} = {U}\nelse:\n    {P} = {F}",
    "if there": "if {P}:\n    {P} = {U}\nelse:\n    {P} = {F}",
    "none, in one expression": "{P} = {F} if {P} is None else {U}",
    "not none, in one expression": "{P} = {U} if {P} is not None else {F}",
    "first step": "if {N} == 0:\n    {P} = {F}\nelse:\n    {P} = {U}",
    "later step": "if {N} > 0:\n    {P} = {U}\nelse:\n    {P} = {F}",
    "no else": "if {P} is None:\n    {P} = {F}\n{P} = {U}",
}

UPDATES = {
    "average": "0.9 * {P} + 0.1 * {V}",
    "sum": "{P} + {V}",
    "interpolation": "torch.lerp({P}, {V}, 0.1)",
    "mean": "({P} * {N} + {V}) / ({N} + 1)",
    "concatenation": "torch.cat([{P}, {V}.reshape(1)])",
}

COLLECTIONS = {
    "append": ("[]", "{P}.append({V})"),
    "augmented": ("[]", "{P} += [{V}]"),
    "sum of lists": ("[]", "{P} = {P} + [{V}]"),
    "extend": ("[]", "{P}.extend([{V}])"),
    "insert": ("[]", "{P}.insert(0, {V})"),
    "starred": ("[]", "{P} = [*{P}, {V}]"),
    "tuple": ("()", "{P} += ({V},)"),
    "deque": ("deque()", "{P}.append({V})"),
    "by step": ("{{}}", "{P}[{N}] = {V}"),
    "by length": ("{{}}", "{P}[len({P})] = {V}"),
    "defaultdict": ("defaultdict(list)", '{P}["loss"].append({V})'),
    "setdefault": ("{{}}", '{P}.setdefault("loss", []).append({V})'),
    "in a dict": ('{{"loss": []}}', '{P}["loss"].append({V})'),
    "get": ("{{}}", '{P}["loss"] = {P}.get("loss", []) + [{V}]'),
    "rows": ("[]", '{P}.append({{"step": {N}, "loss": {V}}})'),
    "pairs": ("[]", "{P}.append(({N}, {V}))"),
    "merged": ("{{}}", "{P} = {{**{P}, {N}: {V}}}"),
    "another name": ("[]", "rows = {P}\nrows.append({V})"),
    "setdefault, by name": ("{{}}", 'rows = {P}.setdefault("loss", [])\nrows.append({V})'),
    "setdefault, twice": ("{{}}", 'rows = {P}.setdefault("train", dict())\nrows.setdefault("loss", []).append({V})'),
    "an entry, by name": ('{{"loss": []}}', 'rows = {P}["loss"]\nrows.append({V})'),
    "a method's name": ("[]", "push = {P}.append\npush({V})"),
}

ENDS = {
    "append": (
        "{P}.clear()",
        "del {P}[:]",
        "{P} = {P}[-10:]",
        "if len({P}) > 10:\n    {P}.pop(0)",
        "while len({P}) > 10:\n    del {P}[0]",
        "if {N} % 10 == 0:\n    {P} = []",
    ),
    "sum of lists": ("{P} = []", "{P} = {P}[-10:]"),
    "deque": ("{P}.clear()", "{P}.popleft()"),
    "by step": ("{P}.clear()", "{P} = {{}}"),
    "setdefault": ("{P}.clear()",),
    "in a dict": ('{P}["loss"] = []',),
    "another name": ("rows.clear()",),
    "setdefault, by name": ("{P}.clear()", "rows.clear()", "del rows[:-5]", "if len(rows) > 9:\n    rows.pop(0)"),
    "setdefault, twice": ("{P}.clear()", 'rows["loss"].clear()'),
}


def kept(place: str, initial: str, store: str, detached: bool = False) -> str:
    """A training that keeps something of each step at a place."""
    program, (path, value, step) = PLACES[place]
    words = {"P": path, "V": f"{value}.detach()" if detached else value, "N": step}
    text = program.replace("{I}", initial).replace("{{", "{").replace("}}", "}")
    return fill(text, train=STEP, store=store.format(**words))


def first(idiom: str, update: str) -> str:
    """A value that the first step sets and the later ones go on from."""
    made = "{V}.reshape(1)" if "cat" in update else "{V}"
    return idiom.replace("{U}", update).replace("{F}", made)


AVERAGED = combined(dict.fromkeys(PLACES, ""), FIRST_VALUES, UPDATES)


@pytest.mark.parametrize("spelling", AVERAGED)
def test_average(spelling: str) -> None:
    place = spelling.split(", ")[0]
    _, idiom, update = AVERAGED[spelling]
    assert findings(kept(place, "None", first(idiom, update)))
    assert not findings(kept(place, "None", first(idiom, update), detached=True))


@pytest.mark.parametrize(("place", "collection"), list(product(PLACES, COLLECTIONS)))
def test_collection(place: str, collection: str) -> None:
    initial, store = COLLECTIONS[collection]
    assert findings(kept(place, initial, store))
    assert not findings(kept(place, initial, store, detached=True))


@pytest.mark.parametrize(("place", "collection"), list(product(PLACES, ENDS)))
def test_collection_with_an_end(place: str, collection: str) -> None:
    initial, store = COLLECTIONS[collection]
    for end in ENDS[collection]:
        assert not findings(kept(place, initial, f"{store}\n{end}")), end
