"""Entries of a ``WeakKeyDictionary`` whose values hold their keys."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, twin

CODE = "GG404"

PROGRAM = """
        import functools
        import weakref
        from dataclasses import dataclass
        from weakref import WeakKeyDictionary

        @dataclass
        class Encoded:
            batch: object
            hidden: torch.Tensor

        class Held:
            def __init__(self, hidden, batch):
                self.hidden = hidden
                self.owner = batch

        class Measured:
            def __init__(self, batch, hidden):
                self.size, self.hidden = len(batch), hidden

        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = nn.Linear(4, 4)
                self.memo = MADE

            def encode(self, batch):
                found = self.memo.get(batch)
                if found is None:
                    h = self.net(batch.x)
                    made = VALUE
                    found = self.memo[batch] = STORED  # MARK
                return found

        def train(model, batches, optimizer):
            for batch in batches:
                optimizer.zero_grad()
                model.encode(batch).hidden.mean().backward()
                optimizer.step()
"""


def _program(value: str, stored: str = "made", made: str = "weakref.WeakKeyDictionary()") -> str:
    return PROGRAM.replace("MADE", made).replace("VALUE", value).replace("STORED", stored)


@pytest.mark.parametrize(
    "code",
    [
        _program("Encoded(batch, h)"),
        _program("None", "Encoded(batch, h)"),
        _program("Encoded(hidden=h, batch=batch)"),
        _program("Encoded(batch, h)", made="WeakKeyDictionary()"),
        _program("(batch, h)"),
        _program("{'batch': batch, 'hidden': h}"),
        _program("Held(h, batch)"),
        _program("functools.partial(decode, batch, h)"),
    ],
)
def test_a_value_that_holds_its_weak_key(code: str) -> None:
    assert_flagged(code.replace("MARK", "!"), CODE)


@pytest.mark.parametrize(
    "code",
    [
        _program("h"),
        _program("(batch.size, h)"),
        _program("Encoded(weakref.ref(batch), h)"),
        _program("Encoded(weakref.proxy(batch), h)"),
        _program("Encoded(batch.target, h)"),
        _program("Encoded(None, h)"),
        _program("Measured(batch, h)"),
        _program("pool(batch, h)"),
        _program("Encoded(batch, h)", made="weakref.WeakValueDictionary()"),
        _program("Encoded(batch, h)", made="make_memo()"),
        _program("Encoded(batch, h)").replace(".backward()", ".item()"),
        _program("Encoded(batch, h)", "h"),
    ],
)
def test_a_value_without_its_weak_key(code: str) -> None:
    assert_clean(code, CODE)


GLOBAL = """
from weakref import WeakKeyDictionary

_plans = WeakKeyDictionary()

class Plan:
    def __init__(self, graph, hops=2):
        self.hops, self.graph = hops, graph
        self.degree = torch.bincount(graph.edges[0])

def plan_for(graph):
    try:
        return _plans[graph]
    except KeyError:
        plan = Plan(graph)
        _plans[graph] = plan  # !
        return plan

def train(model, batches, optimizer):
    for graph in batches:
        optimizer.zero_grad()
        model(graph.x, plan_for(graph).degree).mean().backward()
        optimizer.step()
"""
DERIVED = GLOBAL.replace(
    "def plan_for",
    """class Both(Plan):
    def forward(self, x):
        return x[self.graph.edges[1]]

def plan_for""",
).replace("plan = Plan(graph)", "plan = Both(graph, hops=3)")
CHECKED = GLOBAL.replace("try:", "if graph in _plans:").replace("except KeyError", "else")


@pytest.mark.parametrize("code", [GLOBAL, DERIVED, CHECKED])
def test_a_dict_of_the_file(code: str) -> None:
    assert_flagged(code, CODE)


@pytest.mark.parametrize(
    "code",
    [
        twin(GLOBAL, ("self.hops, self.graph = hops, graph", "self.hops, self.size = hops, graph.size")),
        twin(GLOBAL, ("self.hops, self.graph = hops, graph", "self.hops, self.graph = hops, weakref.ref(graph)")),
        twin(GLOBAL, ("_plans = WeakKeyDictionary()", "_plans = {}")),
        twin(GLOBAL, ("_plans = WeakKeyDictionary()", "_plans = plans_of(model)")),
        twin(GLOBAL, ("Plan(graph)\n", "Plan(graph.copy())\n")),
        twin(GLOBAL, ("_plans[graph] = plan", "_plans[graph] = plan.degree")),
        twin(GLOBAL, ("def plan_for(graph):", "def plan_for(graph):\n    _plans = WeakKeyDictionary()")),
        twin(GLOBAL, ("optimizer.step()", "optimizer.step()\n        _plans.clear()")),
        twin(GLOBAL, ("return plan\n", "return _plans.pop(graph)\n")),
        twin(GLOBAL, ("optimizer.step()", "optimizer.step()\n        del _plans[graph]")),
        twin(DERIVED, ("return x[self", "return x[self.hops, self"), ("self.graph = hops, graph", "g = hops, 1")),
    ],
)
def test_a_dict_of_the_file_without_its_keys(code: str) -> None:
    assert_clean(code, CODE)
