"""Handlers that a function makes and hands to an engine, which calls them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import lines_in_files

ENGINE = """
    from collections import defaultdict

    class State:
        def __init__(self):
            self.epoch, self.output, self.kept = 0, None, defaultdict(list)

    class Engine:
        def __init__(self, process):
            self.process, self.state, self.handlers = process, State(), defaultdict(list)

        def on(self, event):
            def register(handler):
                self.handlers[event].append(handler)
                return handler
            return register

        def add(self, event, handler):
            self.handlers[event].append(handler)

        def fire(self, event):
            for handler in self.handlers[event]:
                handler(self)

        def run(self, loader, epochs):
            while self.state.epoch < epochs:
                self.state.epoch += 1
                for batch in loader:
                    self.state.output = self.process(self, batch)
                    self.fire("step")
                self.fire("epoch")
"""

MAIN = """
    import torch
    import torch.nn.functional as F
    from engine import Engine
    from handlers import attach

    def make(net, opt):
        def update(engine, batch):
            x, y = batch
            loss = F.mse_loss(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            return {"loss": loss}
        return update

    def main(loader):
        net = torch.nn.Linear(4, 1)
        trainer = Engine(make(net, torch.optim.SGD(net.parameters(), 0.1)))
        attach(trainer)
        trainer.run(loader, 10)
"""

KEEPING = {
    "decorated": """
    def attach(engine):
        @engine.on("step")
        def remember(eng):
            eng.state.kept[eng.state.epoch].append(eng.state.output)
    """,
    "handed over": """
    def attach(engine):
        def remember(eng):
            eng.state.kept[eng.state.epoch].append(eng.state.output)
        engine.add("step", remember)
    """,
    "handed over by name": """
    def attach(engine):
        def remember(eng):
            eng.state.kept[eng.state.epoch].append(eng.state.output)
        engine.add(event="step", handler=remember)
    """,
    "decorated, in a method": """
    class Reports:
        def attach(self, engine):
            @engine.on("step")
            def remember(eng):
                eng.state.kept[eng.state.epoch].append(eng.state.output)

    def attach(engine):
        Reports().attach(engine)
    """,
    "a key in a function": """
    def attach(engine):
        def slot(eng):
            return f"epoch {eng.state.epoch}"

        @engine.on("step")
        def remember(eng):
            eng.state.kept[slot(eng)].append(eng.state.output)
    """,
}

TIDYING = {
    "decorated": """
        @engine.on("epoch")
        def tidy(eng):
            eng.state.kept.clear()
    """,
    "decorated, by key": """
        @engine.on("epoch")
        def tidy(eng):
            eng.state.kept.pop(eng.state.epoch, None)
    """,
    "handed over": """
        def tidy(eng):
            eng.state.kept = {}
        engine.add("epoch", tidy)
    """,
}


def _found(folder: Path, handlers: str) -> list[tuple[str, int]]:
    return lines_in_files(folder, {"engine.py": ENGINE, "main.py": MAIN, "handlers.py": handlers}, "GG1")


@pytest.mark.parametrize("name", KEEPING)
def test_a_handler_that_keeps_outputs(name: str, tmp_path: Path) -> None:
    lines = KEEPING[name].splitlines()
    line = next(number for number, text in enumerate(lines, 1) if "append(eng" in text)
    assert _found(tmp_path, KEEPING[name]) == [("handlers.py", line)]


@pytest.mark.parametrize("name", KEEPING)
@pytest.mark.parametrize("kept", ["eng.state.output['loss'].item()", "{'loss': float(eng.state.output['loss'])}"])
def test_a_handler_that_keeps_numbers(name: str, kept: str, tmp_path: Path) -> None:
    assert _found(tmp_path, KEEPING[name].replace("append(eng.state.output)", f"append({kept})")) == []


@pytest.mark.parametrize("name", ["decorated", "handed over"])
@pytest.mark.parametrize("tidying", TIDYING)
def test_another_handler_that_empties(name: str, tidying: str, tmp_path: Path) -> None:
    assert _found(tmp_path, KEEPING[name].rstrip() + TIDYING[tidying]) == []


@pytest.mark.parametrize("name", KEEPING)
def test_an_engine_that_evaluates(name: str, tmp_path: Path) -> None:
    main = MAIN.replace("opt.zero_grad()", "return {'loss': loss}").replace(
        "def update", "@torch.no_grad()\n        def update"
    )
    files = {"engine.py": ENGINE, "main.py": main, "handlers.py": KEEPING[name]}
    assert lines_in_files(tmp_path, files, "GG1") == []


@pytest.mark.parametrize("name", KEEPING)
def test_the_last_output_only(name: str, tmp_path: Path) -> None:
    last = KEEPING[name].replace("kept[eng.state.epoch].append(eng.state.output)", "last = eng.state.output")
    assert _found(tmp_path, last.replace("kept[slot(eng)].append(eng.state.output)", "last = eng.state.output")) == []


def test_a_function_of_this_name_elsewhere(tmp_path: Path) -> None:
    """What decorates a method, or a function within another one of the same name, is not the engine's."""
    handlers = """
    class Report:
        @property
        def remember(self, eng):
            eng.state.kept[eng.state.epoch].append(eng.state.output)

    def attach(engine):
        pass
    """
    assert _found(tmp_path, handlers) == []


BY_TEXT = """
    def attach(engine):
        def slot(eng):
            return f"epoch {eng.state.epoch}"

        @engine.on("step")
        def remember(eng):
            eng.state.kept[<key>].append(eng.state.output)

        @engine.on("epoch")
        def tidy(eng):
            eng.state.kept.pop(<popped>, None)
"""
TEXTS = ["slot(eng)", "f'epoch {eng.state.epoch}'", "str(eng.state.epoch)"]


@pytest.mark.parametrize("key", TEXTS)
@pytest.mark.parametrize("popped", ["eng.state.epoch", "int(eng.state.epoch)", "0"])
def test_another_handler_that_empties_under_another_key(key: str, popped: str, tmp_path: Path) -> None:
    handlers = BY_TEXT.replace("<key>", key).replace("<popped>", popped)
    assert _found(tmp_path, handlers) == [("handlers.py", 8)]


@pytest.mark.parametrize(
    ("key", "popped"),
    [
        *((key, key) for key in TEXTS),
        *((key, "slot(eng)") for key in TEXTS),
        *((key, "eng.state.name") for key in TEXTS),
        *((key, "key") for key in TEXTS),
        *((key, "next(iter(eng.state.kept))") for key in TEXTS),
        ("eng.state.epoch", "eng.state.epoch"),
        ("eng.state.epoch", "0"),
        ("slot", "eng.state.epoch"),
    ],
)
def test_another_handler_that_empties_by_key(key: str, popped: str, tmp_path: Path) -> None:
    assert _found(tmp_path, BY_TEXT.replace("<key>", key).replace("<popped>", popped)) == []


@pytest.mark.parametrize("emptying", ["clear()", "popitem()", "pop(eng.state.epoch, None); eng.state.kept.clear()"])
def test_what_empties_all_keys(emptying: str, tmp_path: Path) -> None:
    handlers = BY_TEXT.replace("<key>", "slot(eng)").replace("pop(<popped>, None)", emptying)
    assert _found(tmp_path, handlers.replace("; ", "\n            ")) == []


def test_a_list_under_a_text_is_shortened(tmp_path: Path) -> None:
    handlers = BY_TEXT.replace("<key>", "slot(eng)").replace(".pop(<popped>, None)", "[slot(eng)].pop(0)")
    assert _found(tmp_path, handlers) == []


LISTENERS = """
    from collections import deque

    class Trace:
        def __init__(self):
            self.rows, self.last = [], deque(maxlen=5)

        def __call__(self, **row):
            <kept>

    class Count:
        def __init__(self):
            self.calls = 0

        def __call__(self, **row):
            self.calls += 1

    class Printed:
        def __call__(self, **row):
            print(row)
"""
MINIMISE = """
    import torch.nn as nn
    import torch.optim as optim
    from handlers import Count, Printed, Trace

    def minimise(net, loader, optimizer, listeners):
        for x, y in loader:
            def closure():
                optimizer.zero_grad()
                misfit = (net(x) - y).square().mean()
                misfit.backward()
                for listen in listeners:
                    listen(misfit=<value>)
                return misfit
            optimizer.step(closure)

    def main(loader):
        net = nn.Linear(3, 1)
        optimizer = optim.LBFGS(net.parameters())
        trace, count = Trace(), Count()
        traces = [Trace()]
        minimise(net, loader, optimizer, <listeners>)
"""
KEPT = ["self.rows.append(row['misfit'])", "self.rows += row.values()", "self.rows.append(row)"]


def _listening(folder: Path, kept: str, listeners: str, value: str = "misfit") -> list[tuple[str, int]]:
    main = MINIMISE.replace("<listeners>", listeners).replace("<value>", value)
    return lines_in_files(folder, {"handlers.py": LISTENERS.replace("<kept>", kept), "main.py": main})


@pytest.mark.parametrize("kept", KEPT)
@pytest.mark.parametrize("listeners", ["[trace, count]", "(count, trace)", "[Count(), Trace()]", "listeners=[trace]"])
def test_one_of_the_listeners_in_a_list(kept: str, listeners: str, tmp_path: Path) -> None:
    assert _listening(tmp_path, kept, listeners) == [("main.py", 13)]


def test_the_listeners_in_a_list_that_has_a_name(tmp_path: Path) -> None:
    assert _listening(tmp_path, KEPT[0], "traces") == [("main.py", 13)]


@pytest.mark.parametrize(
    ("kept", "listeners", "value"),
    [
        *((kept, "[trace, count]", "misfit.item()") for kept in KEPT),
        *((kept, "[trace, count]", "misfit.detach()") for kept in KEPT),
        *((kept, "[count, Printed()]", "misfit") for kept in KEPT),
        *((kept, "[count]", "misfit") for kept in KEPT),
        *((kept, "[]", "misfit") for kept in KEPT),
        ("self.rows.append(row['misfit'].item())", "[trace, count]", "misfit"),
        ("self.rows.append(float(row['misfit']))", "[trace]", "misfit"),
        ("self.rows = [row['misfit']]", "[trace, count]", "misfit"),
        ("self.last.append(row['misfit'])", "[trace, count]", "misfit"),
        ("self.rows.append(len(row))", "[trace, count]", "misfit"),
    ],
)
def test_listeners_that_keep_no_graph(kept: str, listeners: str, value: str, tmp_path: Path) -> None:
    assert _listening(tmp_path, kept, listeners, value) == []
