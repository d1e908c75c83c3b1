"""Meters in dicts and lists: whose methods a call on one of their items runs, and what resets them all."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, findings

CODE = "GG107"

PROGRAM = """
        class Meter:
            def __init__(self):
                self.sum, self.cnt = 0, 0

            def add(self, value, n=1):
                self.sum = self.sum + value * n
                self.cnt += n

            def reset(self):
                self.sum, self.cnt = 0, 0

{group}
        def train(model, loader, opt):
{made}
            for x, y in loader:
                loss = F.mse_loss(model(x), y)
                opt.zero_grad()
                loss.backward()
                opt.step()
                {call}  # !
                {after}
"""

OWN = {
    "put in one by one": """
        class Group:
            def __init__(self, names):
                self.meters = {}
                for name in names:
                    self.meters[name] = Meter()

            def log(self, scores):
                for name, score in scores.items():
                    self.meters[name].add(score)
""",
    "made when first asked for": """
        class Group:
            def __init__(self, names=()):
                self.meters = {}

            def log(self, scores):
                for name, score in scores.items():
                    if name not in self.meters:
                        self.meters[name] = Meter()
                    self.meters[name].add(score)
""",
    "appended": """
        class Group:
            def __init__(self, names):
                self.meters = []
                for name in names:
                    self.meters.append(Meter())

            def log(self, scores):
                for meter, score in zip(self.meters, scores.values()):
                    meter.add(score)
""",
    "a dict that makes what it misses": """
        class Group(dict):
            def __missing__(self, name):
                self[name] = Meter()
                return self[name]

            def log(self, scores):
                for name, score in scores.items():
                    self[name].add(score)
""",
    "an ordered dict that is filled": """
        from collections import OrderedDict

        class Group(OrderedDict):
            def __init__(self, names):
                super().__init__()
                for name in names:
                    self[name] = Meter()

            def log(self, scores):
                for name, score in scores.items():
                    self[name].add(score)
""",
    "a defaultdict that names its factory": """
        class Group(defaultdict):
            def __init__(self, names):
                super().__init__(Meter)

            def log(self, scores):
                self["loss"].add(scores["loss"])
""",
}


def program(group: str = "", made: str = "", call: str = "", after: str = "pass") -> str:
    return PROGRAM.format(group=group, made=f"            {made or 'pass'}", call=call, after=after)


@pytest.mark.parametrize("name", OWN)
def test_meters_of_a_group(name: str) -> None:
    made = "group = Group(['loss'])" if "missing" not in OWN[name] else "group = Group()"
    assert_flagged(program(OWN[name], made, "group.log({'loss': loss})"), CODE)
    for given in ("loss.item()", "loss.detach()"):
        assert_clean(program(OWN[name], made, f"group.log({{'loss': {given}}})").replace("  # !", ""))
    bounded = OWN[name].replace("Meter()", "Window()").replace("(Meter)", "(Window)")
    window = """
        class Window:
            def __init__(self):
                self.last = deque(maxlen=20)

            def add(self, value):
                self.last.append(value)
"""
    assert_clean(program(window + bounded, made, "group.log({'loss': loss})").replace("  # !", ""), CODE)


LOCAL = {
    "filled in a loop": "meters = {}\n            for name in ('loss', 'mae'):\n                meters[name] = Meter()",
    "a comprehension": "meters = {name: Meter() for name in ('loss', 'mae')}",
    "written out": "meters = {'loss': Meter(), 'mae': Meter()}",
    "a factory": "meters = defaultdict(Meter)",
}


@pytest.mark.parametrize("name", LOCAL)
def test_meters_of_a_function(name: str) -> None:
    assert_flagged(program("", LOCAL[name], "meters['loss'].add(loss)"), CODE)
    assert_clean(program("", LOCAL[name], "meters['loss'].add(loss.item())").replace("  # !", ""))


RESETS = [
    "for meter in meters.values():\n                    meter.reset()",
    "for _, meter in meters.items():\n                    meter.reset()",
    "for name in meters:\n                    meters[name].reset()",
    "for meter in list(meters.values()):\n                    meter.reset()",
    "meters.clear()",
]


@pytest.mark.parametrize("name", LOCAL)
@pytest.mark.parametrize("reset", RESETS)
def test_all_meters_are_reset_in_each_iteration(name: str, reset: str) -> None:
    assert_clean(program("", LOCAL[name], "meters['loss'].add(loss)", reset).replace("  # !", ""), CODE)


def test_a_reset_of_another_meter_is_none() -> None:
    made = LOCAL["written out"]
    assert_flagged(program("", made, "meters['loss'].add(loss)", "meters['mae'].reset()"), CODE)


@pytest.mark.parametrize("loop", ["for meter in self.meters.values():", "for _, meter in self.meters.items():"])
def test_a_group_that_resets_its_meters(loop: str) -> None:
    group = OWN["made when first asked for"] + (
        f"\n            def reset(self):\n                {loop}\n                    meter.reset()\n"
    )
    made = "group = Group()"
    snippet = program(group, made, "group.log({'loss': loss})", "group.reset()")
    assert_clean(snippet.replace("  # !", ""), CODE)
    assert_flagged(program(group, made, "group.log({'loss': loss})"), CODE)


PASSED = """
        class Meter:
            def __init__(self):
                self.sum = 0

            def add(self, value):
                self.sum += value

        class Last:
            def __init__(self):
                self.sum = 0

            def add(self, value):
                self.sum = value

        def fold(model, loader, opt, meters):
            for x, y in loader:
                loss = F.mse_loss(model(x), y)
                opt.zero_grad()
                loss.backward()
                opt.step()
                meters[{key}].add({given})  # !

        def main(model, loader, opt):
            meters = {made}
            for _ in range(5):
                fold(model, loader, opt, meters)
"""

MADE = [
    ("defaultdict(Meter)", "'loss'"),
    ("defaultdict(lambda: Meter())", "'loss'"),
    ("{name: Meter() for name in ('loss', 'mae')}", "'loss'"),
    ("{'loss': Meter(), 'mae': Meter()}", "'loss'"),
    ("[Meter(), Meter()]", "0"),
    ("[Meter() for _ in range(2)]", "0"),
]


@pytest.mark.parametrize(("made", "key"), MADE)
def test_meters_that_a_caller_passes(made: str, key: str) -> None:
    assert_flagged(PASSED.format(made=made, key=key, given="loss"), CODE)
    for other in (
        PASSED.format(made=made, key=key, given="loss.item()"),
        PASSED.format(made=made.replace("Meter", "Last"), key=key, given="loss"),
    ):
        assert_clean(other.replace("  # !", ""), CODE)


def test_sets_that_a_caller_passes_are_no_meters() -> None:
    snippet = PASSED.format(made="{'loss': set(), 'mae': Meter()}", key="'loss'", given="int(loss)")
    assert_clean(snippet.replace("  # !", ""), CODE)


NAMED = """
        from collections import defaultdict

        GROUPS = []

        class Meter:
            def __init__(self):
                self.rows, self.last = [], None

            def update(self, value, step):
                self.rows.append((value, step))

            def set(self, value, step):
                self.last = value

        class Group:
            def __init__(self):
                self.meters = {made}

            def log(self, name, value):
                {steps}

            def log_all(self, **scores):
                for name, score in scores.items():
                    self.log(name, score)

        def group():
            return GROUPS[-1]

        def report(losses, **more):
            current = group()
            current.log_all(**losses, **more)

        def train(model, loader, opt):
            log = Group()
            GROUPS.append(log)
            for x, y in loader:
                loss = F.mse_loss(model(x), y)
                opt.zero_grad()
                loss.backward()
                opt.step()
                {call}  # !
"""

ENTRIES = {
    "of a default dict": ("defaultdict(Meter)", ["meter = self.meters[name]"]),
    "of one that a lambda fills": ("defaultdict(lambda: Meter())", ["meter = self.meters[name]"]),
    "of a dict that is made with them": ("{'loss': Meter(), 'mae': Meter()}", ["meter = self.meters[name]"]),
    "a default": ("{}", ["meter = self.meters.setdefault(name, Meter())"]),
    "made where it was missing": (
        "{}", ["meter = self.meters.get(name)", "if meter is None:", "    meter = self.meters[name] = Meter()"],
    ),
    "made and then put in": (
        "{}",
        ["meter = self.meters.get(name)", "if meter is None:", "    meter = Meter()", "    self.meters[name] = meter"],
    ),
    "made on a missing key": (
        "{}",
        ["try:", "    meter = self.meters[name]", "except KeyError:", "    meter = self.meters[name] = Meter()"],
    ),
}  # fmt: skip


def named(made: str, steps: list[str], use: str, call: str = "log.log('loss', loss)") -> str:
    body = f"\n{16 * ' '}".join([*steps, use])
    return NAMED.replace("{made}", made).replace("{steps}", body).replace("{call}", call)


@pytest.mark.parametrize("entry", ENTRIES)
def test_an_entry_that_has_a_name_is_the_entry(entry: str) -> None:
    made, steps = ENTRIES[entry]
    assert_flagged(named(made, steps, "meter.update(value, 1)"), CODE)
    for use in ("meter.update(value.item(), 1)", "meter.set(value, 1)", "meter.update(value, 1), meter.rows.clear()"):
        assert_clean(named(made, steps, use).replace("  # !", ""), CODE)


THROUGH = [
    "log.log_all(loss=loss)",
    "group().log_all(loss=loss)",
    "report({'loss': loss})",
    "report({'loss': 1.0}, total=loss)",
    "report({'loss': loss}, lr=0.1)",
]


@pytest.mark.parametrize("call", THROUGH)
def test_an_entry_that_has_a_name_is_found_through_calls(call: str) -> None:
    made, steps = ENTRIES["of a default dict"]
    assert_flagged(named(made, steps, "meter.update(value, 1)", call), CODE)
    for other in (
        named(made, steps, "meter.update(float(value), 1)", call),
        named(made, steps, "meter.update(value, 1)", call.replace("loss)", "loss.item())").replace("loss}", "1.0}")),
    ):
        assert_clean(other.replace("  # !", ""), CODE)


@pytest.mark.parametrize(
    "steps", [["meter = Meter()"], ["meter = self.meters.pop(name)"], ["meter = defaultdict(Meter)[name]"]]
)
def test_an_object_that_is_in_no_collection_keeps_nothing(steps: list[str]) -> None:
    assert_clean(named("defaultdict(Meter)", steps, "meter.update(value, 1)").replace("  # !", ""), CODE)


@pytest.mark.parametrize("made", ["Log(args.every)", "make(args.every)"])
def test_an_object_that_is_made_of_a_setting_has_its_own_name(made: str) -> None:
    snippet = f"""
        class Log:
            def __init__(self, every):
                self.every, self.rows = every, []

            def add(self, value):
                self.rows.append(value)

        def make(every):
            return Log(every)

        def train(model, loader, opt, args):
            log = {made}
            for x, y in loader:
                loss = F.mse_loss(model(x), y)
                opt.zero_grad()
                loss.backward()
                opt.step()
                log.add(loss)
    """
    (finding,) = findings(snippet, CODE)
    assert "`log.rows`" in finding.message


def rows_of_records(made: str, stored: str = "loss") -> str:
    """A trainer that keeps a record of each step in a collection of its own."""
    return f"""
        from collections import deque
        from typing import NamedTuple

        class Row(NamedTuple):
            loss: object
            step: int

        class Trainer:
            def __init__(self, net, optimizer, keep=5):
                self.net, self.optimizer = net, optimizer
                self.rows = {made}

            def step(self, number, x):
                loss = self.net(x).square().mean()
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                self.rows.append(Row({stored}, number))  # !

        def train(net, optimizer, loader):
            trainer = Trainer(net, optimizer)
            for number, (x, _) in enumerate(loader):
                trainer.step(number, x)
    """


@pytest.mark.parametrize("made", ["[]", "deque()", "list()"])
def test_records_that_are_kept_for_ever(made: str) -> None:
    assert_flagged(rows_of_records(made), "GG104")


@pytest.mark.parametrize("made", ["deque(maxlen=5)", "deque(maxlen=keep)", "deque([], 5)"])
def test_the_last_records(made: str) -> None:
    assert_clean(rows_of_records(made))


def test_records_of_numbers() -> None:
    assert_clean(rows_of_records("[]", "loss.item()"))
