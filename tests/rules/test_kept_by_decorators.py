"""What a decorator's inner function keeps of what the decorated one gives, in a global or in a global object."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files, twin

CODE = "GG104"

PROFILER = """
import functools
import time

class Profiler:
    def __init__(self):
        self.spans = []

    def stage(self, name):
        def wrap(fn):
            @functools.wraps(fn)
            def timed(*args, **kwargs):
                start = time.perf_counter()
                out = fn(*args, **kwargs)
                self.spans.append((name, time.perf_counter() - start, out))  # !
                return out
            return timed
        return wrap

    def table(self):
        return [(name, seconds, out.shape) for name, seconds, out in self.spans]

prof = Profiler()
"""
NET = """
class Net:
    def __init__(self, model):
        self.model = model

    @prof.stage("loss")
    def loss(self, x, y):
        return F.mse_loss(self.model(x), y)
"""
FIT = """
def fit(model, loader):
    net = Net(model)
    optimizer = torch.optim.AdamW(model.parameters())
    for x, y in loader:
        loss = net.loss(x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
COMPUTING = """
@DECORATED
def compute(model, x, y):
    return F.cross_entropy(model(x), y)

def fit(model, loader):
    optimizer = torch.optim.AdamW(model.parameters())
    for x, y in loader:
        loss = compute(model, x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
BY_ATTRIBUTE = """
class Trace:
    def __init__(self):
        self.results = {"loss": []}

    def watch(self, fn):
        def inner(*args):
            out = fn(*args)
            self.results["loss"].append(out)  # !
            return out
        return inner

trace = Trace()
"""
CALLED = BY_ATTRIBUTE.replace("def watch", "def __call__")
OF_CLASS = """
class Trace:
    seen = []

    @classmethod
    def watch(cls, fn):
        @functools.wraps(fn)
        def inner(*args):
            out = fn(*args)
            cls.seen.append(out)  # !
            return out
        return inner
"""
GIVEN = """
LOG = []

def logged(name, log):
    def wrap(fn):
        def inner(*args, **kwargs):
            result = fn(*args, **kwargs)
            log.append((name, result))  # !
            return result
        return inner
    return wrap
"""


def decorated(decorator: str) -> str:
    return COMPUTING.replace("DECORATED", decorator)


def test_flagged() -> None:
    assert_flagged(PROFILER + NET + FIT, CODE)
    assert_flagged(BY_ATTRIBUTE + decorated("trace.watch"), CODE)
    assert_flagged(CALLED + decorated("trace"), CODE)
    assert_flagged(OF_CLASS + decorated("Trace.watch"), CODE)
    assert_flagged(GIVEN + decorated('logged("loss", LOG)'), CODE)
    assert_flagged(GIVEN + decorated('logged("loss", log=LOG)'), CODE)


CLEAN = {
    "its shape": twin(PROFILER + NET + FIT, ("- start, out))", "- start, tuple(out.shape)))")),
    "detached": twin(PROFILER + NET + FIT, ("- start, out))", "- start, out.detach()))")),
    "the time only": twin(
        PROFILER + NET + FIT, ("- start, out))", "- start))"), (", out.shape", ""), (", out in", " in")
    ),
    "the last few": twin(
        PROFILER + NET + FIT,
        ("self.spans = []", "self.spans = collections.deque(maxlen=50)"),
        ("import time", "import collections, time"),
    ),
    "emptied in each iteration": twin(
        PROFILER + NET + FIT, ("        loss.backward()", "        prof.spans.clear()\n        loss.backward()")
    ),
    "emptied when it is shown": twin(
        PROFILER + NET + FIT,
        (
            "        return [(name, seconds, out.shape)",
            "        spans, self.spans = self.spans, []\n        return [(name, seconds, out.shape)",
        ),
        ("in self.spans]", "in spans]"),
        ("        loss.backward()", "        loss.backward()\n        prof.table()"),
    ),
    "a function that gives a number": twin(
        PROFILER + NET + FIT, ("(self.model(x), y)", "(self.model(x), y).item()"), ("loss.backward()", "pass")
    ),
    "one that is not called in the loop": twin(
        PROFILER + NET + FIT, ("loss = net.loss(x, y)", "loss = F.mse_loss(model(x), y)")
    ),
    "the object of each call": twin(
        BY_ATTRIBUTE + decorated("trace.watch"), ('self.results["loss"].append(out)', 'self.results["loss"] = [out]')
    ),
    "it is left undecorated": twin(BY_ATTRIBUTE + decorated("trace.watch"), ("@trace.watch\n", "")),
    "a local of the same name": twin(GIVEN + decorated('logged("loss", [])'), ("log.append", "log = []; log.append")),
    "numbers of the class": twin(OF_CLASS + decorated("Trace.watch"), ("seen.append(out)", "seen.append(float(out))")),
}


@pytest.mark.parametrize("snippet", CLEAN.values(), ids=CLEAN)
def test_clean(snippet: str) -> None:
    assert_clean(snippet, CODE)
    assert_clean(snippet, "GG107")


@pytest.mark.parametrize(("imported", "decorator"), [("from prof import prof", "prof"), ("import prof", "prof.prof")])
def test_the_object_of_another_file(tmp_path: Path, imported: str, decorator: str) -> None:
    torch = "import torch\nimport torch.nn.functional as F\n"
    files = {
        "prof.py": PROFILER.replace("  # !", ""),
        "net.py": torch + imported + NET.replace("@prof", f"@{decorator}"),
        "fit.py": torch + "from net import Net\n" + FIT,
    }
    assert lines_in_files(tmp_path, files, CODE) == [("prof.py", 15)]
    files["prof.py"] = files["prof.py"].replace("- start, out))", "- start))")
    assert lines_in_files(tmp_path, files, CODE) == []
