from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, findings, source

CODE = "GG212"


def loop(*lines: str) -> str:
    body = "\n                ".join(lines)
    return f"""
        def train(model, loader, optimizer, scheduler):
            for x, y in loader:
                loss = F.cross_entropy(model(x), y)
                {body}
    """


FLAGGED = {
    "backward": loop("optimizer.zero_grad()", "loss.backward  # !", "optimizer.step()"),
    "backward of an expression": loop("optimizer.zero_grad()", "(loss / 2).backward  # !", "optimizer.step()"),
    "step": loop("optimizer.zero_grad()", "loss.backward()", "optimizer.step  # !"),
    "zero_grad": loop("optimizer.zero_grad  # !", "loss.backward()", "optimizer.step()"),
    "zero_grad of a model": loop("model.zero_grad  # !", "loss.backward()", "optimizer.step()"),
    "two of them": loop("optimizer.zero_grad()", "loss.backward  # !", "optimizer.step  # !"),
    "a schedule": loop("optimizer.zero_grad()", "loss.backward()", "optimizer.step()", "scheduler.step  # !"),
    "under a condition": loop("loss.backward()", "if x.any():", "    optimizer.step  # !", "    optimizer.zero_grad()"),
    "evaluation": """
        def validate(model, loader):
            model.eval  # !
            with torch.no_grad():
                return [model(x).argmax() for x in loader]
    """,
    "attributes": """
        class Trainer:
            def __init__(self, net):
                self.net = net
                self.optim = torch.optim.SGD(net.parameters(), lr=0.1)
                self.scaler = torch.amp.GradScaler("cuda")

            def update(self, loss):
                self.optim.zero_grad  # !
                self.scaler.scale(loss).backward()
                self.scaler.step(self.optim)
                self.scaler.update  # !
    """,
    "a state": """
        def run(cell, frames, optimizer):
            state = torch.zeros(8)
            for x in frames:
                state = cell(x, state)
                state.detach_  # !
    """,
    "in a try for other errors": """
        def train(model, loader, optimizer):
            for x, y in loader:
                try:
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step  # !
                except RuntimeError:
                    continue
                optimizer.zero_grad()
    """,
    "a method of the program's own schedule": """
        class Warmup:
            def __init__(self, optimizer):
                self.optimizer = optimizer

            def step(self):
                self.optimizer.param_groups[0]["lr"] *= 0.9

        def train(model, loader, optimizer):
            scheduler = Warmup(optimizer)
            for x, y in loader:
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                optimizer.zero_grad()
                scheduler.step  # !
    """,
    "the cache": """
        for x, y in loader:
            torch.cuda.empty_cache  # !
            F.mse_loss(model(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()
    """,
}

CLEAN = {
    "all are called": loop("optimizer.zero_grad()", "loss.backward()", "optimizer.step()", "scheduler.step()"),
    "given to something": loop("timed(loss.backward)", "timed(optimizer.step)", "timed(optimizer.zero_grad)"),
    "bound": loop("step = optimizer.step", "loss.backward()", "step()", "optimizer.zero_grad()"),
    "a step of a record": loop("loss.backward()", "optimizer.step()", "optimizer.zero_grad()", "record.step"),
    "a docstring": loop('"loss.backward"', "loss.backward()", "optimizer.step()", "optimizer.zero_grad()"),
    "the training of a record": "def f(plan): plan.train; plan.eval",
    "asked for": loop("if model.training: loss.backward()", "assert optimizer.step", "optimizer.zero_grad()"),
    "given as a default": "def fit(loss, optimizer, step=None): return (step or optimizer.step)()",
    "returned": "def stepper(optimizer): return optimizer.step",
    "yielded": "def steppers(optimizers):\n            for optimizer in optimizers: yield optimizer.step",
    "an environment": "def play(env, policy):\n            env.step; env.train; env.eval",
    "a name": "def f(backward, step): backward; step",
    "a number of a module": "def f(net): net.step; net.update",
    "in a list": loop("calls = [loss.backward, optimizer.step]", "for call in calls: call()", "optimizer.zero_grad()"),
    "by partial": loop("functools.partial(optimizer.step)()", "loss.backward()", "optimizer.zero_grad()"),
    "called on the next line": loop("loss.backward(", ")", "optimizer.step()", "optimizer.zero_grad()"),
    "asked for by trying": """
        def trainable(optimizer, model):
            try:
                optimizer.step
                optimizer.zero_grad
                model.train
            except (AttributeError, TypeError):
                return False
            return True
    """,
    "it is to raise": """
        def test_no_step(wrapped_optimizer):
            with pytest.raises(AttributeError):
                wrapped_optimizer.step
    """,
    "a property that does it": """
        class Warmup:
            def __init__(self, optimizer):
                self.optimizer, self.count = optimizer, 0

            @property
            def step(self):
                self.count += 1
                self.optimizer.param_groups[0]["lr"] = 0.1 * min(1, self.count / 100)

        def train(model, loader, optimizer):
            scheduler = Warmup(optimizer)
            for x, y in loader:
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                optimizer.zero_grad()
                scheduler.step
    """,
    "a field": """
        class Schedule:
            def __init__(self):
                self.step = 0

        scheduler = Schedule()
        scheduler.step
    """,
    "a property of a loader": "def f(data): data.train_loader; data.update",
}


@pytest.mark.parametrize("snippet", FLAGGED.values(), ids=FLAGGED)
def test_flagged(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize("snippet", CLEAN.values(), ids=CLEAN)
def test_clean(snippet: str) -> None:
    assert_clean(snippet, CODE)


def test_the_fix_calls_it() -> None:
    snippet = loop("optimizer.zero_grad()", "loss.backward", "optimizer.step()")
    (found,) = findings(snippet, CODE)
    assert found.fix is not None
    assert not found.fix.safe
    (edit,) = found.fix.edits
    line = source(snippet).splitlines()[edit.span.line - 1]
    assert line[: edit.span.column - 1] + edit.text == line + "()"
