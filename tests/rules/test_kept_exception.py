from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, findings, lines_in_files, source, twin

CODE = "GG110"

KEPT = """
        FIELDS

        class Trainer:
            def __init__(self, net, config):
                self.net = net
                self.opt = torch.optim.Adam(net.parameters())
                self.skipped = []
                for name, value in overrides.items():
                    setattr(config, name, value)

            def train_step(self, x, y):
                self.opt.zero_grad()
                loss = F.mse_loss(self.net(x), y)
                loss.backward()
                self.opt.step()

            def fit(self, loader):
                for step, (x, y) in enumerate(loader):
                    try:
                        self.train_step(x, y)
                    except RuntimeError as error:
                        self.skipped.append(Skipped(step, error))  # MARK

            def summary(self):
                return {"skipped": len(self.skipped)}
"""
RECORD = """@dataclasses.dataclass
        class Skipped:
            step: int
            reason: Exception

            def describe(self):
                return f"step {self.step}: {self.reason}"
"""
PLAIN = """class Skipped:
            def __init__(self, step, reason):
                self.step = step
                self.why = reason
"""

FLAGGED = {
    "in a record that describes itself": KEPT.replace("FIELDS", RECORD).replace("MARK", "!"),
    "in an object": KEPT.replace("FIELDS", PLAIN).replace("MARK", "!"),
    "what a context is told of": """
        class Guard:
            def __init__(self):
                self.failures = []

            def __enter__(self):
                return self

            def __exit__(self, kind, error, trace):
                if kind is None:
                    return False
                self.remember(error)  # !
                return True

            def remember(self, failure):
                self.failures.append(failure)

        def train(model, optimizer, loader):
            guard = Guard()
            for x, y in loader:
                with guard:
                    loss = F.mse_loss(model(x), y)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
    """,
    "list of errors": """
        def train_step(model, x, y, optimizer):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss.item()

        def train(model, loader, optimizer):
            errors = []
            for x, y in loader:
                try:
                    train_step(model, x, y, optimizer)
                except RuntimeError as e:
                    errors.append(e)  # !
            print(f"{len(errors)} batches failed")
    """,
    "by step": """
        def train(model, loader, optimizer):
            failures = {}
            for step, (x, y) in enumerate(loader):
                try:
                    loss = F.cross_entropy(model(x), y)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                except RuntimeError as e:
                    print(f"step {step} failed: {e}")
                    failures[step] = e  # !
            return failures
    """,
    "attribute": """
        class Trainer:
            def __init__(self, model, optimizer):
                self.model, self.optimizer = model, optimizer
                self.last_error = None

            def step(self, x, y):
                loss = F.cross_entropy(self.model(x), y)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()

            def fit(self, loader):
                for x, y in loader:
                    try:
                        self.step(x, y)
                    except RuntimeError as e:
                        self.last_error = e  # !
    """,
    "tuple": """
        def evaluate(model, loader):
            model.eval()
            results = []
            with torch.no_grad():
                for i, (x, y) in enumerate(loader):
                    try:
                        results.append((i, F.cross_entropy(model(x), y).item()))
                    except (RuntimeError, ValueError) as err:
                        results.append((i, err))  # !
            return results
    """,
    "record": """
        class Runner:
            def __init__(self, net, opt):
                self.net, self.opt = net, opt
                self.log = []

            def run_epoch(self, loader):
                for i, (inputs, targets) in enumerate(loader):
                    try:
                        out = self.net(inputs)
                        loss = F.cross_entropy(out, targets)
                        self.opt.zero_grad()
                        loss.backward()
                        self.opt.step()
                    except Exception as exc:
                        self.log.append({"batch": i, "ok": False, "error": exc})  # !
                        continue
                    self.log.append({"batch": i, "ok": True, "loss": loss.item()})
    """,
    "out of memory, global": """
        FAILED = []

        def fit(model, loader, optimizer):
            for x, y in loader:
                try:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
                except torch.cuda.OutOfMemoryError as oom:
                    torch.cuda.empty_cache()
                    FAILED.append(oom)  # !
    """,
    "grown list by augmented assignment": """
        def sweep(build, loader, lrs):
            problems = []
            for lr in lrs:
                model = build()
                optimizer = torch.optim.SGD(model.parameters(), lr=lr)
                try:
                    for x, y in loader:
                        optimizer.zero_grad()
                        F.cross_entropy(model(x), y).backward()
                        optimizer.step()
                except RuntimeError as e:
                    problems += [(lr, e)]  # !
            return problems
    """,
    "script": """
        errors = defaultdict(list)
        net = nn.Linear(4, 3)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        for epoch in range(3):
            for x, y in train_loader:
                try:
                    opt.zero_grad()
                    F.cross_entropy(net(x), y).backward()
                    opt.step()
                except RuntimeError as e:
                    errors[epoch].append(e)  # !
    """,
    "helper that keeps it": """
        class Guard:
            def __init__(self):
                self.seen = []

            def safe_step(self, model, batch, optimizer):
                x, y = batch
                try:
                    loss = F.cross_entropy(model(x), y)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    return loss.item()
                except RuntimeError as e:
                    self.seen.append(e)  # !
                    return None

        def train(model, loader, optimizer):
            guard = Guard()
            for batch in loader:
                guard.safe_step(model, batch, optimizer)
    """,
}

CLEAN = {
    "its text in an object": KEPT.replace("FIELDS", PLAIN.replace("= reason", "= str(reason)")),
    "its text in a record": KEPT.replace(
        "FIELDS", RECORD + "\n            def __post_init__(self):\n                self.reason = str(self.reason)\n"
    ),
    "an argument that a record does not keep": KEPT.replace(
        "FIELDS", RECORD.replace("reason: Exception", "reason: dataclasses.InitVar[Exception]")
    ),
    "the text of what a context is told of": twin(
        FLAGGED["what a context is told of"], ("self.remember(error)", "self.remember(str(error))")
    ),
    "message": """
        def train(model, loader, optimizer):
            errors, by_step = [], {}
            for step, (x, y) in enumerate(loader):
                try:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
                except RuntimeError as e:
                    errors.append(str(e))
                    by_step[step] = repr(e)
                    errors.append(f"{step}: {e}")
            return errors, by_step
    """,
    "formatted traceback": """
        import traceback

        def train(model, loader, optimizer):
            errors = []
            for x, y in loader:
                try:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
                except RuntimeError as e:
                    errors.append(traceback.format_exc())
                    errors.append("".join(traceback.format_exception(type(e), e, e.__traceback__)))
            return errors
    """,
    "arguments and type": """
        def train(model, loader, optimizer):
            errors = []
            counts = defaultdict(int)
            for x, y in loader:
                try:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
                except (RuntimeError, ValueError) as e:
                    errors.append((type(e).__name__, e.args))
                    counts[type(e)] += 1
            return errors, counts
    """,
    "logged": """
        import logging

        logger = logging.getLogger(__name__)

        def train(model, loader, optimizer):
            for x, y in loader:
                try:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
                except RuntimeError as e:
                    logger.warning("skipping: %s", e)
                    logger.exception(e)
                    print("skipped", e)
                    continue
    """,
    "raised again": """
        def train(model, loader, optimizer):
            for step, (x, y) in enumerate(loader):
                try:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
                except ValueError as e:
                    raise RuntimeError(f"step {step}") from e
                except RuntimeError as e:
                    if "out of memory" not in str(e):
                        raise e
                    torch.cuda.empty_cache()
    """,
    "without its traceback": """
        def attempt(model, x, y, optimizer):
            try:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
            except RuntimeError as e:
                return e.with_traceback(None)
            return None

        def train(model, loader, optimizer):
            errors = []
            for x, y in loader:
                error = attempt(model, x, y, optimizer)
                if error is not None:
                    errors.append(error)
            return errors
    """,
    "traceback dropped before it is kept": """
        def train(model, loader, optimizer):
            errors = []
            for x, y in loader:
                try:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
                except RuntimeError as e:
                    e.__traceback__ = None
                    errors.append(e)
                except ValueError as e:
                    errors.append(e.with_traceback(None))
            return errors
    """,
    "frames cleared": """
        import traceback

        def train(model, loader, optimizer):
            errors = []
            for x, y in loader:
                try:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
                except RuntimeError as e:
                    traceback.clear_frames(e.__traceback__)
                    errors.append(e)
            return errors
    """,
    "summaries": """
        import traceback

        def train(model, loader, optimizer):
            errors = []
            for x, y in loader:
                try:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
                except RuntimeError as e:
                    errors.append(traceback.TracebackException.from_exception(e))
                    errors.append(traceback.extract_tb(e.__traceback__))
                    errors.append(RuntimeError(str(e)))
            return errors
    """,
    "cleared in the iteration": """
        def train(models, loader, optimizers):
            for x, y in loader:
                errors = []
                for model, optimizer in zip(models, optimizers):
                    try:
                        optimizer.zero_grad()
                        F.cross_entropy(model(x), y).backward()
                        optimizer.step()
                    except RuntimeError as e:
                        errors.append(e)
                for e in errors:
                    print(e)
                errors.clear()
    """,
    "list of one iteration": """
        class Trainer:
            def fit(self, loader):
                self.pending = []
                for x, y in loader:
                    try:
                        self.optimizer.zero_grad()
                        F.cross_entropy(self.model(x), y).backward()
                        self.optimizer.step()
                    except RuntimeError as e:
                        self.pending.append(e)
                    for e in self.pending:
                        self.report(str(e))
                    self.pending.clear()

            def report(self, text):
                print(text)
    """,
    "the loop ends": """
        def train(model, loader, optimizer):
            failure = None
            for x, y in loader:
                try:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
                except RuntimeError as e:
                    failure = e
                    break
            if failure is not None:
                raise RuntimeError("training stopped") from failure
    """,
    "reset before the next try": """
        def train(model, loader, optimizer):
            for x, y in loader:
                error = None
                try:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
                except RuntimeError as e:
                    error = e
                if error is not None:
                    print("failed:", error)
    """,
    "out of memory, a flag": """
        def find_batch_size(model, make_batch, size=512):
            while size > 1:
                oom = False
                try:
                    F.mse_loss(model(make_batch(size)), torch.zeros(size, 3)).backward()
                except RuntimeError as e:
                    oom = "out of memory" in str(e)
                    if not oom:
                        raise
                if not oom:
                    return size
                torch.cuda.empty_cache()
                size //= 2
            return size
    """,
    "no tensors": """
        import json
        from pathlib import Path

        def read_all(folder):
            errors, rows = [], []
            for path in sorted(Path(folder).glob("*.json")):
                try:
                    rows.append(json.loads(path.read_text()))
                except json.JSONDecodeError as e:
                    errors.append((path, e))
            return rows, errors
    """,
    "another e": """
        def train(model, loader, optimizer):
            energies, e = [], 0.0
            for x, y in loader:
                try:
                    optimizer.zero_grad()
                    loss = F.cross_entropy(model(x), y)
                    loss.backward()
                    optimizer.step()
                    e = loss.item()
                except RuntimeError:
                    continue
                energies.append(e)
            return energies
    """,
    "import once": """
        try:
            import apex
        except ImportError as e:
            APEX_ERROR = e
            apex = None

        def train(model, loader, optimizer):
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
    """,
    "end of the data": """
        def train(model, loader, optimizer, steps):
            batches, epochs = iter(loader), []
            for step in range(steps):
                try:
                    x, y = next(batches)
                except StopIteration as stop:
                    epochs.append((step, stop.value))
                    batches = iter(loader)
                    x, y = next(batches)
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
            return epochs
    """,
}


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name: str) -> None:
    assert_flagged(FLAGGED[name], CODE)


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name: str) -> None:
    assert_clean(CLEAN[name], CODE)


@pytest.mark.parametrize("kept", ["error", "(step, error)", "{'step': step, 'error': error}", "Incident(step, error)"])
def test_help_names_the_exception_itself(kept: str) -> None:
    snippet = f"""
        from typing import NamedTuple

        class Incident(NamedTuple):
            step: int
            error: Exception

        def train(model, loader, optimizer):
            failures = []
            for step, (x, y) in enumerate(loader):
                try:
                    loss = F.cross_entropy(model(x), y)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                except RuntimeError as error:
                    failures.append({kept})
    """
    (finding,) = findings(snippet, CODE)
    assert "`str(error)`" in str(finding.help)


NOTED = """
        def note(kept, step, error):
            kept.append((step, error))

        def train(model, loader, optimizer):
            kept = []
            for step, (x, y) in enumerate(loader):
                try:
                    F.cross_entropy(model(x), y).backward()
                except RuntimeError as e:
                    note(kept, step, e)  # !
"""


def test_where_a_helper_keeps_it_is_related() -> None:
    assert_flagged(NOTED, CODE)
    (finding,) = findings(NOTED, CODE)
    (related,) = finding.related
    assert "kept.append" in source(NOTED).splitlines()[related.line - 1]


BUS = """
from collections import defaultdict

class Bus:
    def __init__(self):
        self.handlers = defaultdict(list)

    def on(self, event, handler):
        self.handlers[event].append(handler)

    def emit(self, event, **details):
        for handler in self.handlers[event]:
            handler(**details)
"""
FAILURES = """
class Failures:
    def __init__(self, bus):
        self.seen = []
        bus.on("failed", self.note)

    def note(self, step, error):
        self.seen.append((step, error))
"""
SOLVER = """
import torch

class Solver:
    def __init__(self, net, bus):
        self.net, self.bus = net, bus

    def solve(self, batches, optimizer):
        for step, points in enumerate(batches):
            optimizer.zero_grad()
            try:
                self.net(points).pow(2).mean().backward()
            except ArithmeticError as error:
                self.bus.emit("failed", step=step, error=error)
                continue
            optimizer.step()
"""
START = """
import torch
from bus import Bus
from failures import Failures
from solver import Solver

bus = Bus()
failures = Failures(bus)
net = torch.nn.Linear(2, 1)
Solver(net, bus).solve([], torch.optim.SGD(net.parameters(), 0.1))
"""


def test_a_handler_of_a_file_that_knows_no_torch(tmp_path: Path) -> None:
    """Neither the handler nor who calls it speaks of torch: the program that they are a part of does."""
    files = {"bus.py": BUS, "failures.py": FAILURES, "solver.py": SOLVER, "start.py": START}
    assert lines_in_files(tmp_path, files, CODE) == [("solver.py", 14)]
    for kept in ("(step, repr(error))", "step", "error.args[0]"):
        said = FAILURES.replace("(step, error))", f"{kept})")
        assert lines_in_files(tmp_path, {**files, "failures.py": said}, CODE) == []
    unheard = FAILURES.replace('bus.on("failed", self.note)', "pass")
    assert lines_in_files(tmp_path, {**files, "failures.py": unheard}, CODE) == []


RETRIED = """
        import functools

        failures = []

        def retry(times):
            def decorate(fn):
                @functools.wraps(fn)
                def wrapper(*args, **kwargs):
                    for attempt in range(times):
                        try:
                            return fn(*args, **kwargs)
                        except RuntimeError as error:
                            failures.append(error)  # !
                    return fn(*args, **kwargs)
                return wrapper
            return decorate

        @retry(3)
        def step(net, optimizer, x, y):
            optimizer.zero_grad()
            F.mse_loss(net(x), y).backward()
            optimizer.step()

        def train(net, optimizer, loader):
            for x, y in loader:
                step(net, optimizer, x, y)
"""
HANDED = """
        def step(net, optimizer, x, y, failures):
            optimizer.zero_grad()
            try:
                F.mse_loss(net(x), y).backward()
            except RuntimeError as error:
                failures.append(error)  # !
            optimizer.step()

        def train(net, optimizer, loader):
            failures = []
            for x, y in loader:
                step(net, optimizer, x, y, failures)
            return len(failures)
"""


@pytest.mark.parametrize("snippet", [RETRIED, RETRIED.replace("def train", "@retry(2)\n        def train"), HANDED])
def test_what_a_function_keeps_that_a_loop_calls(snippet: str) -> None:
    assert_flagged(snippet, "")  # the loop is read for what other rules look for
    assert_clean(twin(snippet, ("append(error)", "append(str(error))")), CODE)
    assert_clean(twin(snippet, ("append(error)", "append(error.with_traceback(None))")), CODE)
    assert_clean(twin(snippet, ("append(error)", "append(type(error))")), CODE)


@pytest.mark.parametrize(
    "edit",
    [
        ("F.mse_loss(net(x), y).backward()", "print(x, y)"),
        ("        @retry(3)\n", ""),
        ("failures.append(error)", "failures[:] = [str(error)]"),
        ("for x, y in loader:", "for x, y in loader:\n                failures.clear()"),
        ("for x, y in loader:", "if (x := next(loader)) is not None:\n                y = x"),
    ],
)
def test_what_a_decorator_keeps_of_no_training(edit: tuple[str, str]) -> None:
    assert_clean(twin(RETRIED, edit), CODE)


@pytest.mark.parametrize(
    "edit",
    [
        ("F.mse_loss(net(x), y).backward()", "print(x, y)"),
        ("for x, y in loader:", "for x, y in loader:\n                failures = []"),
        ("for x, y in loader:", "for x, y in loader:\n                failures.clear()"),
        ("failures = []", "failures = deque(maxlen=4)"),
        ("optimizer, x, y, failures)\n            return", "optimizer, x, y, [])\n            return"),
    ],
)
def test_what_a_list_keeps_that_is_handed_over(edit: tuple[str, str]) -> None:
    assert_clean(twin(HANDED, edit), CODE)
