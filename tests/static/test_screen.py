"""Which functions of a file are read."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterable
from pathlib import Path

import pytest

from gradguard import catalogue
from gradguard.catalogue import Rule
from gradguard.findings import Severity
from gradguard.signs import FORWARD, KEEPS_MORE, sign
from gradguard.static import screen
from gradguard.static import tree as t
from gradguard.static.build import build
from gradguard.static.files.outline import SCRIPT
from gradguard.static.screen import Screen, calling, everything
from gradguard.static.shapes import SHAPES
from gradguard.static.source import Source

FIXTURES = Path(__file__).parents[2] / "fixtures"


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


@pytest.mark.parametrize("value", ["True", "None", "12", "'regression'", '"a"  # of the labels'])
def test_a_forward_that_keeps_a_constant_is_not(value: str) -> None:
    assert chosen(LAYER.format(f"self.config.kind = {value}\n            return x")) == set()


@pytest.mark.parametrize("value", ["Truest", "x or None", "'a', x", "0 + x", "[x]"])
def test_a_forward_that_keeps_what_begins_like_one_is(value: str) -> None:
    assert chosen(LAYER.format(f"self.last = {value}\n            return x")) == {"Layer.forward"}


def test_what_a_method_calls_on_itself_counts_as_its_own() -> None:
    assert chosen(LAYER.format("self.note(x); return x")) == {"Layer.forward"}


def test_where_something_is_trained_all_that_keeps_something_is_read() -> None:
    text = LAYER.format("return x") + "\n    def step(loss):\n        loss.backward()\n"
    assert chosen(text) == {"Layer.note", "step"}


TRAINED = """
    import torch

    def train(loss):
        loss.backward()

    {}
"""


@pytest.mark.parametrize(
    "function",
    [
        "def f(xs):\n        for x in xs: g(x)",
        "def f(xs):\n        return [g(x) for x in xs]",
        "def f(x):\n        while x > 1: x = g(x)",
        "def f(meter, x):\n        meter.total += x",
        "def f(meter, x):\n        meter.last = x",
        "def f(meter, x):\n        meter.all['a'], n = x, 1",
        "def f(bank, x):\n        bank[:, 3] = x",
        "def f(bank, x):\n        bank.rows[x[0]], n = x, 1",
        "def f(bank, x):\n        if x: self.last = x",
        "def f(bank, x):\n        bank.get(x)[0] = x",
        "def f(bank, x):\n        bank.mul_(0.9)",
        "def f(bank, x):\n        bank.append(x)",
        "def f(x):\n        global LAST\n        LAST = x",
        "def f(optimizer):\n        optimizer.step()",
        "def f(model, batch):\n        model.train_step(batch)",
        "def f(bank, x):\n        bank.fill_(x)",
        "def f(x):\n        REGISTRY.append(x)",
        "def f(x):\n        x.grad = None",
        "def f():\n        train(1)",
        "def f():\n        main()\n\n    def main():\n        train(1)",
    ],
)
def test_what_acts(function: str) -> None:
    assert "f" in chosen(TRAINED.format(function))


@pytest.mark.parametrize(
    "function",
    [
        "def f(x, y: list[int] = None, z=x.y):\n        return x.a == y, x[1] >= 2",
        "def f(x):\n        x = x.view(x.size(0), -1)\n        return g(x, a=x.b)",
        'def f(x):\n        """Called for each x in a loop, before loss.backward()."""\n        return g(x)',
        "class M:\n        def __init__(self, n):\n            self.parts = [g(i) for i in range(n)]",
        "class M:\n        def forward(self, x):\n            for part in self.parts:\n                x = part(x)",
        "class M:\n        def forward(self, x):\n            x += self.norm(x)\n            return x",
        "class M:\n        def __init__(self, n):\n            parts = []\n            parts.append(g(n))",
        "def f(x):\n        if x.size != 3:\n            raise ValueError",
        "def f(x):\n        x.is_ready = True\n        x.weights['a'] = None",
        "def f(x):\n        torch.nn.init.xavier_uniform_(x.weight)\n        x.bias.zero_()\n        x.gain.fill_(1.0)",
        "def f(x):\n        return g(x, x.gradient_checkpointing, x.global_step)",
        "def f(x):\n        with torch.no_grad():\n            return g(x)",
        "def f(x):\n        # for x in loader: loss.backward()\n        return g(x)",
    ],
)
def test_what_does_not(function: str) -> None:
    assert chosen(TRAINED.format(function)) == {"train"}


def test_inherited_methods_must_show_a_sign_too() -> None:
    base = source(
        "class Base:\n    def fit(self, xs):\n        for x in xs: self.step(x)\n    def name(self): return 1\n"
    )
    rules = [r for r in catalogue.load() if r.source_check]
    heir = Screen(rules).select(source(TRAINED.format("class Heir(Base):\n        def step(self, x): ...")))
    assert heir.heirs == {"Heir"}
    assert heir.has_inherited(base, "Base", "fit")
    assert not heir.has_inherited(base, "Base", "name")


@pytest.mark.parametrize(("word", "is_heir"), [("net.eval()", True), ("net", False)])
def test_a_class_that_may_take_part_inherits_what_does(word: str, is_heir: bool) -> None:
    """Its base, in another file, goes over the batches, and it runs the model for that."""
    base = source("""
        class Base:
            def validate(self, loader):
                for batch in loader: self.run(batch)
            def rename(self, names):
                for name in names: self.run(name)
    """)
    text = (
        f"class Heir(Base):\n    def __init__(self, net): self.net = {word}\n    def run(self, x): return self.net(x)\n"
    )
    screen = Screen([r for r in catalogue.load() if r.source_check])
    selection = screen.select(source(text))
    assert selection.heirs == ({"Heir"} if is_heir else set())
    assert screen.passes(text.encode()) is is_heir
    if is_heir:
        assert selection.has_inherited(base, "Base", "validate")
        assert not selection.has_inherited(base, "Base", "rename")


@pytest.mark.parametrize(
    "text",
    [
        "def save_for_backward(ctx, x): ...",
        "def f(ctx, x): ctx.save_for_backward(x)",
        "def is_valid_image(x): return x.ndim == 3",
        "with torch.no_grad():\n    pass",
        "p = torch.nn.Parameter(x, requires_grad=True)",
        "def freeze(model):\n    for param in model.parameters(): param.requires_grad_(False)",
        "def thaw(model):\n    for p in model.parameters(): p.requires_grad = True",
        "# optimizer.step()\ndef f(xs):\n    for x in xs: g(x)",
        'def f(xs):\n    """Call it before optimizer.step()."""\n    for x in xs: g(x)',
        "for name in torch.load(path):\n    if 'AdamOptimizer' in name: continue",
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


@pytest.mark.parametrize("body", ["for x in data: kept.append(agent.observe(x))", "kept = agent.observe(data)"])
@pytest.mark.parametrize("trains", [True, False])
def test_where_another_file_trains_a_loop_is_read(body: str, trains: bool) -> None:
    text = f"import torch\nfrom agents import agent\n\ndef go(data, kept):\n    {body}\n"
    selection = Screen([rule for rule in catalogue.load() if rule.source_check]).select(source(text), lambda: trains)
    assert (("", "go") in selection.functions) is (trains and body.startswith("for"))


def test_what_other_files_do_is_asked_only_where_a_file_does_not_say_it() -> None:
    rules = [rule for rule in catalogue.load() if rule.source_check]
    Screen(rules).select(source("import torch\n\ndef go(loss):\n    loss.backward()\n"), lambda: 1 // 0 > 0)


@pytest.mark.parametrize("path", sorted(FIXTURES.rglob("*.py")), ids=lambda path: path.relative_to(FIXTURES).as_posix())
def test_a_file_in_which_something_is_read_is_not_passed_over(path: Path) -> None:
    screen = Screen([rule for rule in catalogue.load() if rule.source_check])
    text = Source(path.name, path.read_text())
    applies = screen.passes(path.read_bytes())
    applies_where_trained = screen.passes(path.read_bytes(), calls_training=True)
    assert applies or not screen.select(text)
    assert applies_where_trained or not screen.select(text, lambda: True)


LAYERS_ONLY = LAYER.format("return x * self.weight").replace("self.seen.append(x)", "return x")


@pytest.mark.parametrize(
    ("text", "applies"),
    [
        (LAYERS_ONLY, False),
        (LAYERS_ONLY.replace("return x * self", "self.last = x * self"), True),
        (LAYERS_ONLY + "\n    def keep(self, x):\n        self.last = x\n", False),  # another part of the file
        (LAYERS_ONLY + "\n    class B(nn.nn.Module):\n        def forward(self, x):\n            self.x = x\n", True),
        ("import torch\n\ndef make():\n    class A:\n        def __init__(self, x): self.x = x\n"
         "        def forward(self, x): return x\n    return A\n", True),
        ("from functools import cache as memo\nimport torch\n\n@memo\ndef f(x): ...\n", True),
        ("from functools import partial as once\nimport torch\n\n@once\ndef f(x): ...\n", False),
    ],
)  # fmt: skip
def test_the_parts_of_a_file_are_looked_at_one_by_one(text: str, applies: bool) -> None:
    screen = Screen([rule for rule in catalogue.load() if rule.source_check])
    assert screen.passes(textwrap.dedent(text).encode()) is applies


@pytest.mark.usefixtures("as_written")
def test_what_counts_of_a_function_is_told_only_where_a_word_of_a_sign_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most functions have none, and no method of most classes is called by another one."""
    told: list[tuple[str, str]] = []
    signs_in = screen._signs_in
    monkeypatch.setattr(screen, "_signs_in", lambda key, text: told.append(key) or signs_in(key, text))
    text = LAYER.format("self.last = x; return x") + "\n        def other(self, x):\n            return self.note(x)\n"
    rules = [Rule("GG999", "keeps", Severity.INFO, ((FORWARD, KEEPS_MORE),))]
    assert chosen(text, rules) == {"Layer.forward"}
    assert told == [("Layer", "forward")]


@pytest.mark.parametrize("word", ["zero_grad", "def on_", "global ", "=", "["])
def test_a_word_is_found_wherever_it_stands(word: str) -> None:
    """Also one with white space in it, and one that stands within another word."""
    vocabulary = screen._Vocabulary([sign(word), sign("grad", "def  on_", "defon_", "lob")])
    assert word.encode() in vocabulary.of(f"x = 1\n{word}x(\n".encode())
    assert word.encode() not in vocabulary.of(b"def\ton_x(a):\n\tglobal\tx; zero__grad()\n".replace(b"=", b""))


SHAPED = Rule("T1", "shaped", Severity.ERROR, ((sign("argmax", own=True),),), shape="only indices are used")
PLAIN = Rule("T2", "plain", Severity.ERROR, ((sign("cat(", own=True),),))
ROUTERS = """
    def chooses(self, x):
        return self.experts[self.router(x).argmax(-1)]

    def weighs(self, x):
        scores = self.router(x)
        return scores.max(-1).values * self.experts[scores.argmax(-1)]

    def joins(self, x):
        return torch.cat([self.router(x).exp(), x[self.first.argmax()]])
"""


def read(rules: Iterable[Rule]) -> set[str]:
    module = source(ROUTERS)
    selection = Screen(rules).select(module)
    defines = [node for node in build(ast.parse(textwrap.dedent(ROUTERS))).statements if isinstance(node, t.Define)]
    functions = (define for define in defines if selection.has_function("", define.name))
    return {define.name for define in functions if selection.has_shape("", define)}


def test_a_function_that_only_a_rule_of_a_shape_chose_is_read_for_its_tree() -> None:
    assert read([SHAPED]) == {"chooses"}


def test_a_function_that_another_rule_chose_is_read_whatever_its_tree_is() -> None:
    assert read([SHAPED, PLAIN]) == {"chooses", "joins"}


def test_a_shape_is_not_asked_for_where_a_rule_asks_for_the_same_signs_alone() -> None:
    same = Rule("T3", "same", Severity.ERROR, SHAPED.signs)
    assert read([SHAPED, same]) == {"chooses", "weighs", "joins"}


def test_each_shape_of_a_rule_is_there() -> None:
    assert {rule.shape for rule in catalogue.load()} - {""} == SHAPES.keys()
