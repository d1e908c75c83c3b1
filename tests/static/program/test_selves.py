"""A method may call its object by another name than ``self``."""

from __future__ import annotations

import ast

import pytest

from gradguard.static import build
from gradguard.static import tree as t
from gradguard.static.program import selves
from tests.rules.snippets import assert_clean, assert_flagged

TRAINER = """
    class Trainer:
        def __init__(SELF, net):
            SELF.net, SELF.losses, SELF.total = net, [], 0.0
            SELF.optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

        def step(SELF, x, y):
            SELF.optimizer.zero_grad()
            loss = F.cross_entropy(SELF.net(x), y)
            loss.backward()
            SELF.optimizer.step()
            return loss

        def fit(SELF, loader):
            for x, y in loader:
                SELF.losses.append(SELF.step(x, y))  # !

        def evaluate(SELF, loader):
            SELF.net.eval()
            for x, y in loader:
                print(SELF.net(x).argmax(1))  # !

        @torch.no_grad()
        def score(SELF, loader):
            SELF.net.eval()
            return [SELF.net(x).argmax(1) for x in loader]
"""
NAMES = ("self", "this", "me", "s", "_self", "trainer")


@pytest.mark.parametrize("name", NAMES)
def test_what_is_found_by_any_name(name: str) -> None:
    assert_flagged(TRAINER.replace("SELF", name), "")


@pytest.mark.parametrize("name", NAMES)
def test_what_is_right_by_any_name(name: str) -> None:
    right = TRAINER.replace("  # !", "").replace("return loss", "return loss.detach()")
    assert_clean(right.replace("def evaluate", "@torch.no_grad()\n        def evaluate").replace("SELF", name))


@pytest.mark.parametrize(
    "method",
    [
        "@staticmethod\ndef add(rows, x): rows.append(x)",
        "@register\ndef add(rows, x): rows.append(x)",
        "@classmethod\ndef add(kind, rows): kind.rows = rows",
        "def __new__(kind, rows): kind.rows = rows",
        "def add(rows, x, self=None): rows.append(x)",
        "def add(rows, x):\n    rows = list(rows)",
        "def add(rows, x):\n    for rows in x: pass",
        "def add(rows, x): return [f(rows) for rows in x]",
        "def add(rows, x): return map(lambda rows: f(rows), x)",
        "def add(rows, x): return self.add(rows, x)",
        "def add(*rows): rows.append(x)",
        "def forward(ctx, x): ctx.x = x",
        "def add(): return 1",
    ],
)
def test_what_is_no_object(method: str) -> None:
    (define,) = build.build(ast.parse(method)).statements
    assert isinstance(define, t.Define)
    before = [node.id for node in t.walk(define) if isinstance(node, t.Name)], [p.name for p in define.params]
    selves.with_self(define)
    assert before == ([n.id for n in t.walk(define) if isinstance(n, t.Name)], [p.name for p in define.params])


@pytest.mark.parametrize("decorator", ["", "@property", "@torch.no_grad()", "@torch.inference_mode", "@rows.setter"])
def test_what_is_an_object(decorator: str) -> None:
    (define,) = build.build(ast.parse(f"{decorator}\ndef rows(this, x): this.x = [this.f(y) for y in x]")).statements
    assert isinstance(define, t.Define)
    selves.with_self(define)
    assert "this" not in {node.id for node in t.walk(define) if isinstance(node, t.Name)}
    assert [param.name for param in define.params] == ["self", "x"]


def test_what_is_defined_within_may_use_the_name() -> None:
    assert_flagged(
        """
        class Trainer:
            def __init__(this, net):
                this.net, this.losses = net, []
                this.optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

            def fit(this, loader):
                def step(x, y):
                    this.optimizer.zero_grad()
                    loss = F.cross_entropy(this.net(x), y)
                    loss.backward()
                    this.optimizer.step()
                    this.losses.append(loss)  # !

                for x, y in loader:
                    step(x, y)
    """,
        "",
    )
