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


ON_ERROR = {
    "memory.py": """
        import torch

        class Memory:
            def __init__(self, size):
                self.priorities = torch.zeros(size)

            def update(self, index, errors):
                self.priorities[index] = errors.abs() + 0.1
    """,
    "agent.py": """
        import torch

        class Agent:
            def __init__(self, net):
                self.net = net
                self.optimizer = torch.optim.Adam(net.parameters())

            def learn(self, batch, on_error=None):
                errors = self.net(batch).mean(1)
                self.optimizer.zero_grad()
                errors.square().mean().backward()
                self.optimizer.step()
                if on_error is not None:
                    on_error({errors})
    """,
    "main.py": """
        import torch
        from agent import Agent
        from memory import Memory

        def main(net, steps):
            memory, agent = Memory(100), Agent(net)
            for step in range(steps):
                index = torch.randint(100, (8,))
                {learn}
    """,
}


def on_error(folder: Path, learn: str, errors: str = "errors") -> list[tuple[str, int]]:
    edited = {"{errors}": errors, "{learn}": learn}
    files = dict(ON_ERROR)
    for name, text in files.items():
        for old, new in edited.items():
            text = text.replace(old, new)
        files[name] = text
    return lines_in_files(folder, files)


@pytest.mark.parametrize(
    "learn",
    [
        "agent.learn(torch.randn(8, 4), on_error=lambda e: memory.update(index, e))",
        "agent.learn(torch.randn(8, 4), lambda e: memory.update(index, e))",
        "agent.learn(torch.randn(8, 4), lambda errors, index=index: memory.update(index, errors))",
    ],
)
def test_a_lambda_that_hands_a_graph_on(learn: str, tmp_path: Path) -> None:
    assert on_error(tmp_path, learn) == [("main.py", 10)]


@pytest.mark.parametrize(
    ("learn", "errors"),
    [
        ("agent.learn(torch.randn(8, 4), on_error=lambda e: memory.update(index, e))", "errors.detach()"),
        ("agent.learn(torch.randn(8, 4), on_error=lambda e: memory.update(index, e.detach()))", "errors"),
        ("agent.learn(torch.randn(8, 4), on_error=lambda e: print(e.mean()))", "errors"),
        ("agent.learn(torch.randn(8, 4), on_error=lambda e: memory.update(index, torch.ones(8)))", "errors"),
        ("agent.learn(torch.randn(8, 4))", "errors"),
        ("agent.learn(torch.randn(8, 4), on_error=lambda e: Memory(100).update(index, e))", "errors"),
    ],
)
def test_a_lambda_that_hands_none_on(learn: str, errors: str, tmp_path: Path) -> None:
    assert on_error(tmp_path, learn, errors) == []


BUS = {
    "bus.py": """
        from collections import defaultdict

        class Bus:
            def __init__(self):
                self._subscribed = defaultdict(list)

            def on(self, topic, function):
                self._subscribed[topic].append(function)

            def emit(self, topic, **payload):
                for function in self._subscribed[topic]:
                    function(**payload)
    """,
    "listeners.py": """
        import torch

        class Directions:
            def __init__(self):
                self.seen = {}

            def measure(self, step, model):
                now = tuple(p.grad for p in model.parameters())
                self.seen[step] = {kept}

        class Printer:
            def __init__(self):
                self.mean = 0.0

            def __call__(self, step, loss):
                self.mean = 0.9 * self.mean + 0.1 * loss
                print(step, self.mean)
    """,
    "main.py": """
        import torch
        from bus import Bus
        from listeners import Directions, Printer

        def main(net, opt, loader):
            bus, directions = Bus(), Directions()
            bus.on("gradients", directions.measure)
            bus.on("step", Printer())
            for step, x in enumerate(loader):
                opt.zero_grad()
                loss = net(x).mean()
                loss.backward()
                bus.emit("gradients", step=step, model=net)
                opt.step()
                bus.emit("step", step=step, loss=loss.item())
    """,
}


def test_methods_and_objects_that_listen_to_one_bus(tmp_path: Path) -> None:
    kept = {name: text.replace("{kept}", "now") for name, text in BUS.items()}
    assert lines_in_files(tmp_path, kept) == [("listeners.py", 10)]


@pytest.mark.parametrize("kept", ["len(now)", "float(now[0].norm())", "sum(g.norm().item() for g in now)"])
def test_listeners_to_a_bus_that_keep_numbers(kept: str, tmp_path: Path) -> None:
    assert lines_in_files(tmp_path, {name: text.replace("{kept}", kept) for name, text in BUS.items()}) == []


LOGGED = {
    "table.py": """
        import logging

        class Table(logging.Handler):
            def __init__(self):
                super().__init__()
                self.rows = []

            def emit(self, record):
                self.rows.append({kept})
    """,
    "main.py": """
        import logging
        import torch
        from table import Table

        logger = logging.getLogger(__name__)

        def main(net, opt, loader):
            logger.addHandler(Table())
            for step, x in enumerate(loader):
                loss = net(x).mean()
                opt.zero_grad()
                loss.backward()
                opt.step()
                logger.info("step %d", step, extra={"number": step, "loss": loss})
    """,
}


@pytest.mark.parametrize(
    ("kept", "lines"),
    [
        ("(record.number, record.loss)", [("table.py", 10)]),
        ("record.loss", [("table.py", 10)]),
        ("record", [("main.py", 15)]),
        ("(record.number, float(record.loss))", []),
        ("record.number", []),
        ("(record.levelname, record.created, record.args)", []),
    ],
)
def test_an_attribute_of_a_record(kept: str, lines: list[tuple[str, int]], tmp_path: Path) -> None:
    assert lines_in_files(tmp_path, {name: text.replace("{kept}", kept) for name, text in LOGGED.items()}) == lines


LAST = LOGGED | {
    "table.py": """
        import logging

        class Last(logging.Handler):
            def __init__(self):
                super().__init__()
                self.rows = {}

            def emit(self, record):
                self.rows[{key}] = record
    """,
    "main.py": LOGGED["main.py"].replace("Table", "Last"),
}


@pytest.mark.parametrize("extra", ["", ', extra={"number": step}'])
@pytest.mark.parametrize(
    ("key", "is_found"),
    [
        ("len(self.rows)", True),
        ("record.levelname", False),
        ("record.levelno", False),
        ("record.name", False),
        ("record.funcName", False),
    ],
)
def test_a_handler_keeps_the_newest_record(key: str, is_found: bool, extra: str, tmp_path: Path) -> None:
    files = {name: text.replace("{key}", key) for name, text in LAST.items()}
    files["main.py"] = files["main.py"].replace('step, extra={"number": step, "loss": loss}', f"loss{extra}")
    assert lines_in_files(tmp_path, files) == ([("main.py", 15)] if is_found else [])
