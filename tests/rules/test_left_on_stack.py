from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, twin

CODE = "GG414"

PROGRAM = """
import contextlib
from contextlib import ExitStack
from functools import partial

def fit(model, batches, optimizer, writer, steps):
    with ExitStack() as stack:
        for step in range(steps):
            x, y = next(batches)
            out = model(x)
            loss = F.cross_entropy(out, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            stack.callback(writer.write, step, out)  # !
        print(loss.item())
"""
EPOCHS = """
import contextlib

def train_step(model, x, y, optimizer):
    out = model(x)
    loss = F.cross_entropy(out, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item(), out.detach()

def fit(model, loader, optimizer, writer, epochs):
    with open("log") as log, contextlib.ExitStack() as stack:
        for epoch in range(epochs):
            for x, y in loader:
                loss, out = train_step(model, x, y, optimizer)
                if epoch % 2 == 0:
                    stack.push(partial(writer.write, out))  # !
"""
EPOCHS = EPOCHS.replace("import contextlib", "import contextlib\nfrom functools import partial")
HANDED = """
from contextlib import ExitStack

def step(model, batch, optimizer, writer, stack: ExitStack):
    x, y = batch
    out = model(x)
    optimizer.zero_grad()
    F.cross_entropy(out, y).backward()
    optimizer.step()
    stack.callback(writer.write, out.detach().cpu())  # !

def fit(model, batches, optimizer, writer, steps):
    stack = ExitStack()
    for number in range(steps):
        step(model, next(batches), optimizer, writer, stack)
    stack.close()
"""
CONTEXT = """
from contextlib import ExitStack

class Frozen:
    def __init__(self, critic, samples):
        self.critic = critic
        self.samples = samples

    def __enter__(self):
        self.critic.requires_grad_(False)
        return self

    def __exit__(self, *error):
        self.critic.requires_grad_(True)

class Game:
    def __init__(self, gen, critic):
        self.gen, self.critic = gen, critic
        self.optimizer = torch.optim.Adam(gen.parameters())

    def step(self, n, scope):
        fake = self.gen(torch.randn(n, 8))
        scope.enter_context(Frozen(self.critic, fake))  # !
        loss = F.softplus(-self.critic(fake)).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

def main(gen, critic, steps):
    game = Game(gen, critic)
    with ExitStack() as whole:
        for number in range(steps):
            game.step(64, whole)
"""
GENERATOR = """
import contextlib

@contextlib.contextmanager
def noted(log, output):
    log.begin()
    yield
    log.end(output.mean().item())

def fit(model, batches, optimizer, log, steps):
    with contextlib.ExitStack() as stack:
        for step in range(steps):
            x, y = next(batches)
            out = model(x)
            stack.enter_context(noted(log, out))  # !
            loss = F.cross_entropy(out, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
"""
FLAGGED = {
    "a context": CONTEXT,
    "a context of a generator": GENERATOR,
    "steps": PROGRAM,
    "epochs": EPOCHS,
    "handed to a function": HANDED,
}
INNER = """
        for step in range(steps):
            with ExitStack() as stack:
                x, y = next(batches)
                out = model(x)
                loss = F.cross_entropy(out, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                stack.callback(writer.write, step, out)
"""
CLEAN = {
    "opened in each step": PROGRAM[: PROGRAM.index("    with ExitStack")] + INNER.replace("\n    ", "\n"),
    "opened in each epoch": twin(
        EPOCHS,
        ("    with open", "    for epoch in range(epochs):\n      with open"),
        ("        for epoch in range(epochs):\n", ""),
    ),
    "closed in each step": twin(PROGRAM, ("step, out)", "step, out)\n            stack.close()")),
    "handed on": twin(PROGRAM, ("step, out)", "step, out)\n            flush(stack)")),
    "numbers": twin(PROGRAM, ("step, out)", "step, loss.item())")),
    "a number that a function gives": twin(EPOCHS, ("writer.write, out", "writer.write, loss")),
    "a lambda, which sees the last": twin(PROGRAM, ("writer.write, step, out", "lambda: writer.write(out)")),
    "behind the loop": twin(PROGRAM, ("            stack.callback", "        stack.callback")),
    "once": twin(PROGRAM, ("            stack.callback", "            if step == 9:\n                stack.callback")),
    "what is no stack": twin(PROGRAM, ("with ExitStack() as", "with Callbacks() as")),
    "nothing trains": twin(PROGRAM, ("loss.backward()", "loss.item()")),
    "handed a stack for each step": twin(
        HANDED,
        ("    stack = ExitStack()\n", ""),
        ("        step(", "        stack = ExitStack()\n        step("),
    ),
    "a context in a stack of each step": twin(
        CONTEXT,
        (
            "    with ExitStack() as whole:\n        for number in range(steps):",
            "    if steps:\n        for number in range(steps):",
        ),
        (
            "            game.step(64, whole)",
            "            with ExitStack() as whole:\n                game.step(64, whole)",
        ),
    ),
    "a stack that the caller empties": twin(CONTEXT, ("step(64, whole)", "step(64, whole)\n            whole.close()")),
    "what keeps nothing of it": twin(CONTEXT, ("self.samples = samples", "self.count = len(samples)")),
    "what lets it go": twin(CONTEXT, ("        self.critic.requires_grad_(False)", "        self.samples = None")),
    "given numbers": twin(CONTEXT, ("(self.critic, fake))", "(self.critic, n))")),
    "no stack": twin(CONTEXT, ("with ExitStack() as whole", "with Scope() as whole")),
    "entered at once": twin(
        CONTEXT,
        (
            "        scope.enter_context(Frozen(self.critic, fake))",
            "        with Frozen(self.critic, fake):\n            pass",
        ),
    ),
    "another one gives something else": twin(
        CONTEXT, ("    game = Game(gen, critic)", "    game = Game(gen, critic)\n    game.step(1, Scope())")
    ),
    "a generator that lets it go": twin(GENERATOR, ("    yield", "    output = output.mean().item()\n    yield")),
    "a context without a tensor": twin(GENERATOR, ("noted(log, out)", "noted(log, step)")),
    "batches of an epoch": twin(PROGRAM, ("for step in range(steps):", "for step in train_loader:")),
}


@pytest.mark.parametrize("snippet", FLAGGED.values(), ids=FLAGGED)
def test_flagged(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize("snippet", CLEAN.values(), ids=CLEAN)
def test_clean(snippet: str) -> None:
    assert_clean(snippet, CODE)
