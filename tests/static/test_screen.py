"""Which functions of a file are read."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

import pytest

from gradguard import catalogue
from gradguard.catalogue import Rule
from gradguard.findings import Severity
from gradguard.signs import sign
from gradguard.static.outline import SCRIPT
from gradguard.static.screen import Screen, calling, everything
from gradguard.static.source import Source


def source(text: str) -> Source:
    return Source("a.py", textwrap.dedent(text))


def chosen(text: str, rules: Iterable[Rule] | None = None) -> set[str]:
    selection = Screen(rules or [r for r in catalogue.load() if r.source_check]).select(source(text))
    return {f"{owner}.{name}" if owner else name for owner, name in selection.functions}


LAYER = """
    import torch

    class Layer(torch.nn.Module):
        def __init__(self, width):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(width))

        def forward(self, x):
            {}

        def note(self, x):
            self.seen.append(x)
"""


def test_a_layer_that_keeps_nothing_is_not_read() -> None:
    assert chosen(LAYER.format("return x * self.weight")) == set()


def test_a_forward_that_keeps_something_is() -> None:
    assert chosen(LAYER.format("self.last = x; return x")) == {"Layer.forward"}


def test_what_a_method_calls_on_itself_counts_as_its_own() -> None:
    assert chosen(LAYER.format("self.note(x); return x")) == {"Layer.forward"}


def test_a_file_that_trains_is_read_as_a_whole() -> None:
    text = LAYER.format("return x") + "\n    def step(loss):\n        loss.backward()\n"
    assert chosen(text) == {"Layer.__init__", "Layer.forward", "Layer.note", "step", SCRIPT}


@pytest.mark.parametrize(
    "text",
    [
        "def save_for_backward(ctx, x): ...",
        "def f(ctx, x): ctx.save_for_backward(x)",
        "def is_valid_image(x): return x.ndim == 3",
        "with torch.no_grad():\n    pass",
        "p = torch.nn.Parameter(x, requires_grad=True)",
    ],
)
def test_words_that_only_look_like_training(text: str) -> None:
    assert chosen(f"import torch\n{text}\n") == set()


def test_a_name_that_was_changed_on_import_is_known() -> None:
    text = "from functools import cache as memo\n\n@memo\ndef f(x): ...\n\n@other\ndef g(x): ...\n"
    assert chosen(text) == {"f"}


def test_an_own_sign_is_looked_for_in_each_function() -> None:
    rules = [Rule("XX1", "x", Severity.INFO, ((sign("torch"), sign("needle", own=True)),))]
    assert chosen("import torch\ndef f(): needle\ndef g(): ...\n", rules) == {"f"}
    assert chosen("import numpy\ndef f(): needle\n", rules) == set()


def test_a_rule_without_signs_is_asked_about_everything() -> None:
    assert chosen("def f(): ...\n", [Rule("XX1", "x", Severity.INFO)]) == {"f", SCRIPT}


def test_callers_are_those_that_name_the_function() -> None:
    text = source("""
        class A:
            def run(self): self.validate()
            def validate(self): ...
        class B:
            def other(self): ...
        def main(a): a.validate()
    """)
    selection = calling(text, "validate")
    assert selection.functions == {("A", "run"), ("A", "validate"), ("", "main")}
    assert selection.heirs == {"A"}


def test_forward_is_called_without_being_named() -> None:
    text = source("def main(model, x): model(x)\n")
    assert calling(text, "forward") == everything(text)
