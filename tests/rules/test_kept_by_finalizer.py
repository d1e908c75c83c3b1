from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, twin

CODE = "GG423"

WATCH = """
import weakref

class Live:
    def __init__(self):
        self.count, self.freed = 0, 0

    def watch(self, activation):
        self.count += 1
        weakref.finalize(activation, self._gone, activation)  # !
        return activation

    def _gone(self, activation):
        self.count -= 1
        self.freed += activation.numel()
"""
SET_UP = """
from weakref import finalize

def follow(tensor, sizes, step):
    entry = (step, tensor)
    end = finalize(tensor, sizes.pop, entry)  # !
    end.atexit = False
    return tensor
"""
METHOD = """
import weakref
from functools import partial

class Pool:
    def __init__(self, size):
        self.buffers = [torch.empty(size) for _ in range(4)]
        weakref.finalize(self, self.close)  # !

    def close(self):
        self.buffers.clear()
"""
PARTIAL = """
import weakref
from functools import partial

def track(module, log):
    weakref.finalize(module, partial(log.append, module)).atexit = False  # !
"""
LAMBDA = """
import weakref

def track(x, seen):
    seen[id(x)] = x.shape
    weakref.finalize(x, lambda: seen.pop(id(x)))  # !
"""
INNER = """
import weakref

def track(x, counts):
    def gone():
        counts[x.shape] -= 1
    weakref.finalize(x, gone)  # !
"""
DEFAULT = """
import weakref

def track(batches, freed):
    for x in batches:
        weakref.finalize(x, lambda tensor=x: freed.append(tensor.numel()))  # !
"""
KEYWORD = """
import weakref

def track(out, log):
    weakref.finalize(out, log.drop, which=out)  # !
"""
FLAGGED = {
    "an argument": WATCH,
    "within an argument": SET_UP,
    "a method": METHOD,
    "a partial": PARTIAL,
    "a lambda": LAMBDA,
    "an inner function": INNER,
    "a default": DEFAULT,
    "a keyword": KEYWORD,
}
CLEAN = {
    "a number": twin(WATCH, ("_gone, activation)", "_gone, activation.numel())")),
    "another object": twin(
        WATCH, ("finalize(activation, self._gone, activation)", "finalize(self, print, activation)")
    ),
    "a function of the program": twin(
        WATCH, ("import weakref", "import weakref\nfrom helpers import finalize"), ("weakref.", "")
    ),
    "its number": twin(SET_UP, ("(step, tensor)", "(step, tensor.numel())")),
    "what may be another object": twin(SET_UP, ("    end =", "    entry = step\n    end =")),
    "a handle that is given back": twin(SET_UP, ("return tensor", "return end")),
    "a handle that is called": twin(SET_UP, ("return tensor", "end()")),
    "a static method": twin(
        METHOD, ("    def close(self):\n        self.buffers", "    @staticmethod\n    def close():\n        print")
    ),
    "a class method": twin(METHOD, ("    def close(self)", "    @classmethod\n    def close(self)")),
    "of a part": twin(METHOD, ("self.close)", "self.buffers.clear)")),
    "kept, and called": twin(
        METHOD,
        ("weakref.finalize(self, self.close)", "self.end = weakref.finalize(self, self.close)"),
        ("self.buffers.clear()", "self.end()"),
    ),
    "kept in a list": twin(
        METHOD, ("weakref.finalize(self, self.close)", "ENDS.append(weakref.finalize(self, self.close))")
    ),
    "its class": twin(METHOD, ("self.close)", "print, type(self))")),
    "a weak reference": twin(PARTIAL, ("log.append, module", "log.append, weakref.ref(module)")),
    "its identity": twin(
        LAMBDA, ("    weakref", "    key = id(x)\n    weakref"), ("lambda: seen.pop(id(x))", "lambda: seen.pop(key)")
    ),
    "a lambda's own name": twin(LAMBDA, ("lambda: seen.pop(id(x))", "lambda x=1: seen.pop(x)")),
    "a variable that goes on": twin(
        LAMBDA,
        (
            "    weakref.finalize(x, lambda: seen.pop(id(x)))",
            "    weakref.finalize(x, lambda: seen.pop(id(x)))\n    x = None",
        ),
    ),
    "a variable that is deleted": twin(INNER, ("finalize(x, gone)", "finalize(x, gone)\n    del x")),
    "a variable of the loop": twin(
        DEFAULT, ("lambda tensor=x: freed.append(tensor.numel())", "lambda: freed.append(x)")
    ),
    "a variable of the inner function": twin(
        INNER, ("        counts[x", "        x = torch.zeros(1)\n        counts[x")
    ),
    "a variable of the file": "import weakref\nx = torch.zeros(9)\nweakref.finalize(x, lambda: print(x))\n",
}


@pytest.mark.parametrize("snippet", FLAGGED.values(), ids=FLAGGED)
def test_flagged(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize("snippet", CLEAN.values(), ids=CLEAN)
def test_clean(snippet: str) -> None:
    assert_clean(snippet, CODE)
