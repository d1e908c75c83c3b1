"""Functions and objects that somebody hands over, and that are called by whom they are given to."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files, twin

FIRED = """
        class Runner({base}):{made}
            def fire(self, event, *args{more}):
                for callback in {over}:
                    {called}

        class Curve:
            def __init__(self):
                self.losses = []

            def on_batch_end(self, step, loss):
                self.losses.append((step, loss))

        class Printer:
            def on_start(self, step, loss):
                print(step, float(loss))

        class Trainer:
            def __init__(self, model, callbacks):
                self.model = model
                self.optimizer = torch.optim.Adam(model.parameters())
                self.runner = Runner(callbacks)

            def fit(self, loader):
                for step, (x, y) in enumerate(loader):
                    loss = F.cross_entropy(self.model(x), y)
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()
                    self.runner.fire("on_batch_end", step, {given})  # !
"""
OWN = {
    "base": "object",
    "made": "\n            def __init__(self, callbacks):\n                self.callbacks = callbacks\n",
    "over": "self.callbacks",
}
OF_LIST = {"base": "list", "made": "", "over": "self"}
AT_ONCE = "getattr(callback, event)({})"
LATER = (
    "handler = getattr(callback, event, None)\n                    if handler is not None:\n"
    "                        handler({})"
)
BY_NAME = {"more": ", **kwargs", "given": "loss=loss"}
BY_PLACE = {"more": "", "given": "loss"}
FIRING = {
    f"{kind}, {how}, {by}": FIRED.format(**of, **given, called=called.format("*args" + given["more"]))
    for kind, of in {"its own list": OWN, "a list itself": OF_LIST}.items()
    for how, called in {"at once": AT_ONCE, "looked up first": LATER}.items()
    for by, given in {"by name": BY_NAME, "by place": BY_PLACE}.items()
}


@pytest.mark.parametrize("name", FIRING)
def test_a_method_that_is_looked_up_by_its_name(name: str) -> None:
    assert_flagged(FIRING[name], "GG107")


@pytest.mark.parametrize("name", FIRING)
@pytest.mark.parametrize(
    "edit",
    [
        ("append((step, loss))", "append((step, loss.item()))"),
        ("self.losses.append((step, loss))", "self.last = loss"),
        ('"on_batch_end"', '"on_start"'),
        ("self.losses = []", "self.losses = deque(maxlen=20)"),
    ],
)
def test_a_method_that_is_looked_up_and_keeps_nothing(name: str, edit: tuple[str, str]) -> None:
    assert_clean(twin(FIRING[name], edit))


ENGINE = """
        KEPT = []

        class Engine:
            def __init__(self, step):
                self.step = step
                self.handlers = []

            def on_iteration(self, handler):
                self.handlers.append(handler)
                return handler

            def run(self, loader):
                for x, y in loader:
                    outputs = self.step(x, y)
                    for handler in self.handlers:
                        handler(**outputs)  # !

        def main(loader):
            net = nn.Linear(4, 4)
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

            def step(x, y):
                features = net(x)
                loss = F.cross_entropy(features, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                return {"features": features, "loss": loss.item()}

            engine = Engine(step)

            @engine.on_iteration
            def remember(features, **others):
                KEPT.append(features)

            engine.run(loader)
"""
REGISTERED = (
    "            @engine.on_iteration\n            def remember(features, **others):\n"
    "                KEPT.append(features)\n",
    "            def remember(features, **others):\n                KEPT.append(features)\n\n"
    "            engine.on_iteration(remember)\n",
)
HANDED = {"by a decorator": ENGINE, "by a call": ENGINE.replace(*REGISTERED)}


@pytest.mark.parametrize("name", HANDED)
def test_a_function_within_the_function_that_is_read(name: str) -> None:
    assert_flagged(HANDED[name], "GG107")


@pytest.mark.parametrize("name", HANDED)
@pytest.mark.parametrize(
    "edit",
    [
        ("KEPT.append(features)", "KEPT.append(features.detach())"),
        ("KEPT.append(features)", "KEPT.append(others['loss'])"),
        ('"features": features', '"features": features.detach()'),
        ("KEPT = []", "KEPT = deque(maxlen=9)"),
    ],
)
def test_a_function_within_the_function_that_is_read_and_keeps_nothing(name: str, edit: tuple[str, str]) -> None:
    assert_clean(twin(HANDED[name], edit))


def test_a_decorator_without_brackets_in_another_file(tmp_path: Path) -> None:
    text = "\n".join(line[8:] for line in ENGINE.replace("  # !", "").splitlines())
    engine, main = text.split("def main(loader):")
    kept, engine = engine.split("class Engine:")
    header = "import torch\nfrom torch import nn\nimport torch.nn.functional as F\n"
    files = {
        "engine.py": f"{header}\nclass Engine:{engine}",
        "main.py": f"{header}from engine import Engine\n{kept}\ndef main(loader):{main}",
    }
    assert [file for file, _ in lines_in_files(tmp_path, files, "GG107")] == ["engine.py"]


A_VALIDATION = """
import torch
from torch import nn

LR = 0.1

def validate(model, loader):
    model.eval()
    for x, y in loader:
        out = model(x)
    return out.detach()

def main(build, loader):
    model = build()
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    for x, y in loader:
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
    validate(model, loader)
"""
ANOTHER = """
import torch
from torch import nn
from first import LR

class Scale(nn.Module):
    def forward(self, x):
        return LR * x

def validate(model, loader):
    model.eval()
    return [model(x) for x in loader]

def main(loader):
    scale = Scale()
    validate(scale, loader)
"""


def test_a_file_with_a_function_of_its_own_passes_nothing_to_that_of_another(tmp_path: Path) -> None:
    files = {"first.py": A_VALIDATION, "second.py": ANOTHER}
    assert lines_in_files(tmp_path, files, "GG301") == [("first.py", 10)]


def test_a_file_that_calls_the_function_of_another_does(tmp_path: Path) -> None:
    calls = ANOTHER.replace("import LR", "import LR, validate").replace(
        "def validate(model, loader):\n    model.eval()\n    return [model(x) for x in loader]\n", ""
    )
    assert lines_in_files(tmp_path, {"first.py": A_VALIDATION, "second.py": calls}, "GG301") == []


BOUND = """
        class Mean:
            def __init__(self):
                self.value, self.rows = 0.0, []

            def add(self, loss):
                KEEP

            def reset(self):
                self.rows = []

        class Engine:
            def __init__(self, net):
                self.net, self.mean = net, Mean()
                self.optimizer = torch.optim.Adam(net.parameters())
                self.hooks = MADE

            def fit(self, loader):
                for x, y in loader:
                    loss = F.cross_entropy(self.net(x), y)
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()
                    CALLED
"""
LOOPED = "for hook in self.hooks: hook(loss)  # !"
TAKEN = [
    ("[self.mean.add]", LOOPED),
    ("(self.mean.add,)", LOOPED),
    ('{"mean": self.mean.add}', "for name, hook in self.hooks.items(): hook(loss)  # !"),
    ('{"mean": self.mean.add}', 'self.hooks["mean"](loss)  # !'),
    ("self.mean.add", "self.hooks(loss)  # !"),
]
BLENDS = "self.value = 0.9 * self.value + 0.1 * loss"


@pytest.mark.parametrize(("made", "called"), TAKEN)
@pytest.mark.parametrize("keep", [BLENDS, "self.rows.append(loss)"])
def test_a_method_of_an_attribute_that_is_called_from_a_collection(made: str, called: str, keep: str) -> None:
    snippet = BOUND.replace("MADE", made).replace("KEEP", keep)
    if "append" in keep:
        snippet = snippet.replace("def reset(self):\n                self.rows = []", "pass")
    assert_flagged(snippet.replace("CALLED", called), "GG107")


@pytest.mark.parametrize(("made", "called"), TAKEN)
@pytest.mark.parametrize(
    ("keep", "then"),
    [
        (BLENDS.replace("loss", "loss.item()"), ""),
        ("self.value = loss", ""),
        ("self.rows.append(loss)", "; self.mean.reset()"),
        (BLENDS, "; self.mean.value = 0.0"),
    ],
)
def test_a_method_of_an_attribute_that_keeps_nothing(made: str, called: str, keep: str, then: str) -> None:
    called = called.replace("  # !", "" if called.startswith("for") else then)
    if then and called.startswith("for"):
        called += "\n                    " + then[2:]
    assert_clean(BOUND.replace("MADE", made).replace("KEEP", keep).replace("CALLED", called))
