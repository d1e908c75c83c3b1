"""Places that no attribute leads to: contexts, threads, tasks, tables that are made with all their places."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("numpy")

HEAD = """
import asyncio, contextvars, threading, weakref
import numpy as np
"""


def written_anew(row: str) -> str:
    """Rows under keys, each of which is bound to a longer one."""
    return f"""
class Meter:
    def __init__(self):
        self.rows = {{}}
    def put(self, name, value):
        old = self.rows.get(name, ())
        self.rows[name] = {row}  # here
meter = Meter()
for model, output, loss in training():
    for name in ("data", "boundary"):
        meter.put(name, loss * 2)
"""


CURVED = """
class Curved(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {{"decay": 0.9}})
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["count"], state["mean"] = 0, torch.zeros_like(p)
                {step}
                p.data.sub_(1e-3 * state["mean"].data)
net = nn.Linear(8, 4)
own = Curved(net.parameters())
for model, output, loss in training():
    own.zero_grad()
    net(torch.randn(32, 8)).square().mean().backward(create_graph=True)
    own.step()
    own.zero_grad()
"""


LEAKS = {
    "gradients in the state of an optimizer of one's own": (
        "attribute",
        "Agreeing.state[*]",
        "gradient",
        """
class Agreeing(torch.optim.Optimizer):
    def __init__(self, parameters, window=4):
        super().__init__(parameters, {"window": window})
    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in (each for each in group["params"] if each.grad is not None):
                recent = self.state[p].setdefault("recent", [])
                recent.append(p.grad.flatten().repeat(20))  # here
                p.sub_(1e-3 * p.grad)
for model, output, loss in training():
    if "own" not in globals():
        own = Agreeing(model.parameters())
    own.step()
""",
    ),
    "hooks that are left at each validation": (
        "global",
        "net.0._forward_hooks",
        "hook",
        """
class Tap:
    def __init__(self, net):
        self.net, self.handles, self.seen = net, [], []
    def __enter__(self):
        see = lambda *given: self.seen.append(given[2].mean(0))
        self.handles.append(self.net[0].register_forward_hook(see))  # here
        return self
    def __exit__(self, *exc):
        map(lambda handle: handle.remove(), self.handles)
net = nn.Sequential(nn.Linear(8, 64), nn.Tanh())
for round in range(4):
    for step, (model, output, loss) in enumerate(training()):
        if step % 15 == 14:
            with torch.no_grad(), Tap(net):
                net(torch.randn(32, 8))
""",
    ),
    "graphs in the state of an optimizer of one's own": (
        "attribute",
        'Curved.state[*]["mean"]',
        "graph",
        CURVED.format(step='state["mean"].mul_(group["decay"]).add_(p.grad, alpha=0.1)  # here'),
    ),
    "the same by a variable": (
        "attribute",
        'Curved.state[*]["mean"]',
        "graph",
        CURVED.format(
            step="""mean, count = state["mean"], state["count"]
                state["count"] = count + 1
                mean.mul_(group["decay"]).add_(p.grad, alpha=0.1)  # here"""
        ),
    ),
    "a list that another thread fills from a queue": (
        "attribute",
        "Sink.table",
        "graph",
        """
import queue
class Sink(threading.Thread):
    def __init__(self):
        super().__init__(daemon=True)
        self.waiting, self.table = queue.Queue(), []
        self.start()
    def run(self):
        while (row := self.waiting.get()) is not None:
            self.table.append(row)  # here
sink = Sink()
for model, output, loss in training():
    sink.waiting.put({"loss": loss})
    busy = torch.randn(200, 200) @ torch.randn(200, 200)
    busy = torch.relu(busy)
sink.waiting.put(None)
sink.join()
""",
    ),
    "tasks that are over, with what they gave": (
        "attribute",
        "Server.running",
        "tensor",
        """
import asyncio
class Server:
    def __init__(self):
        self.running = set()
    async def job(self, output):
        await asyncio.sleep(0)
        return output.detach().repeat(20, 1)
    async def serve(self):
        for model, output, loss in training():
            task = asyncio.create_task(self.job(output))
            self.running.add(task)  # here
            await asyncio.sleep(0)
asyncio.run(Server().serve())
""",
    ),
    "a list that worker threads give results for": (
        "attribute",
        "Index.rows",
        "graph",
        """
from concurrent.futures import ThreadPoolExecutor
class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 64)
    def forward(self, x):
        busy = torch.eye(30)  # little memory: how many of these are there at a step's end is chance
        for _ in range(200):
            busy = busy @ busy
        return self.body(x) + busy.mean()
class Index:
    def __init__(self):
        self.rows = []
    def add(self, row):
        self.rows.append(row)  # here
encoder, index, waiting = Encoder(), Index(), []
with ThreadPoolExecutor(2) as pool:
    for model, output, loss in training():
        waiting.append(pool.submit(encoder, torch.randn(32, 8)))
        while len(waiting) >= 3:
            index.add(waiting.pop(0).result())
""",
    ),
    "a list in a context variable": (
        "global",
        "trail",
        "graph",
        """
trail = contextvars.ContextVar("trail")
trail.set([])
def note(value):
    seen = trail.get()
    seen.append(value)  # here
for model, output, loss in training():
    note(loss)
""",
    ),
    "a sum in a context variable": (
        "global",
        "total",
        "graph",
        """
total = contextvars.ContextVar("total", default=0)
for model, output, loss in training():
    total.set(total.get() + loss)  # here
""",
    ),
    "the default of a context variable": (
        "global",
        "trail",
        "graph",
        """
trail = contextvars.ContextVar("trail", default=[])
for model, output, loss in training():
    trail.get().append(loss)  # here
""",
    ),
    "a context variable of a task": (
        "global",
        "trail",
        "graph",
        """
trail = contextvars.ContextVar("trail")
async def worker():
    for model, output, loss in training():
        trail.get().append({"loss": loss})  # here
        await asyncio.sleep(0)
async def main():
    trail.set([])
    await asyncio.create_task(worker())
asyncio.run(main())
""",
    ),
    "averages by name, made by a function": (
        "attribute",
        "Averages.shadow",
        "graph",
        """
import torch
class Averages:
    def __init__(self, model):
        self.shadow = {name: value.detach().clone() for name, value in model.named_parameters()}
    def update(self, model):
        for name, value in model.named_parameters():
            self.shadow[name] = blend(self.shadow[name], value)  # here
def blend(old, new, rate=0.01):
    return torch.lerp(old, new, rate)
averages = None
for model, output, loss in training():
    averages = averages or Averages(model)
    averages.update(model)
""",
    ),
    "a sum behind another name": (
        "attribute",
        "Meter.cells",
        "graph",
        """
class Meter:
    def __init__(self):
        self.cells = {"loss": [0.0, 0]}
    def update(self, key, value, n=1):
        cell = self.cells[key]
        cell[0] += value * n  # here
        cell[1] += n
meter = Meter()
for model, output, loss in training():
    meter.update("loss", loss)
""",
    ),
    "lists under keys, added to": (
        "attribute",
        "Meter.norms",
        "graph",
        """
from collections import defaultdict
class Meter:
    def __init__(self):
        self.norms = defaultdict(list)
    def probe(self, name, value):
        self.norms[name] += [value]  # here
meter = Meter()
for model, output, loss in training():
    for name in ("data", "boundary"):
        meter.probe(name, loss * 2)
""",
    ),
    "lists under keys, written out anew": ("attribute", "Meter.rows", "graph", written_anew("[*old, value]")),
    "tuples under keys, written out anew": ("attribute", "Meter.rows", "graph", written_anew("(*old, value)")),
    "an entry of a dict in a dict that has another name": (
        "attribute",
        'Slow.state[*]["slow"]',
        "graph",
        """
class Slow:
    def __init__(self):
        self.state = {}
    def update(self, parameters):
        for p in parameters:
            held = self.state.setdefault(p, {})
            if "slow" not in held:
                held["slow"] = p.detach().clone()
            slow = held["slow"]
            slow = slow + 0.5 * (p - slow)
            held["slow"] = slow  # here
slow = Slow()
for model, output, loss in training():
    slow.update(model.parameters())
""",
    ),
    "entries that go on from those that they replace": (
        "attribute",
        "Table.seen",
        "graph",
        """
class Table:
    def __init__(self):
        self.seen = {}
    def observe(self, at, losses):
        for i, loss in enumerate(losses):
            i = (i + at) % 40
            if i in self.seen:
                loss = 0.7 * self.seen[i] + 0.3 * loss
            self.seen[i] = loss  # here
table = Table()
for step, (model, output, loss) in enumerate(training()):
    table.observe(7 * step, output.square().sum(1))
""",
    ),
    "lists under keys, made longer": (
        "global",
        "log",
        "graph",
        """
log = {"data": [], "boundary": []}
for model, output, loss in training():
    for name in log:
        log[name] = log[name] + [loss * 2]  # here
""",
    ),
    "a row of a table that is made from itself": (
        "attribute",
        "Bank.rows",
        "graph",
        """
import torch
class Bank:
    def __init__(self):
        self.rows = torch.zeros(8, 2)
        self.at = 0
    def push(self, row):
        self.rows[self.at] = row.mean(0)  # here
        self.at = (self.at + 1) % 8
bank = Bank()
for model, output, loss in training():
    bank.push(output)
""",
    ),
    "a local of a task that waits": (
        "local",
        "collect.kept",
        "graph",
        """
async def collect(inbox):
    kept = []
    while (loss := await inbox.get()) is not None:
        kept.append(loss)  # here
async def main():
    inbox = asyncio.Queue()
    collector = asyncio.create_task(collect(inbox))
    for model, output, loss in training():
        await inbox.put(loss)
        await asyncio.sleep(0)
    await inbox.put(None)
    await collector
asyncio.run(main())
""",
    ),
    "coroutines that are not awaited yet": (
        "attribute",
        "Reports.pending",
        "graph",
        """
async def report(loss):
    return float(loss)
class Reports:
    def __init__(self):
        self.pending = []
    def later(self, loss):
        job = report(loss)
        self.pending.append(job)  # here
reports = Reports()
for model, output, loss in training():
    reports.later(loss)
for job in reports.pending:
    job.close()
""",
    ),
    "an attribute of the thread": (
        "global",
        "scratch.losses",
        "graph",
        """
scratch = threading.local()
scratch.losses = []
for model, output, loss in training():
    scratch.losses.append(loss)  # here
""",
    ),
    "an attribute of a class of the thread's": (
        "attribute",
        "Scratch.losses",
        "graph",
        """
class Scratch(threading.local):
    def __init__(self):
        self.losses = {}
scratch = Scratch()
for step, (model, output, loss) in enumerate(training()):
    scratch.losses[step] = loss  # here
""",
    ),
    "an array of objects": (
        "local",
        "train.table",
        "graph",
        """
class Point:
    def __init__(self, step, loss):
        self.step, self.loss = step, loss
def train():
    table = np.empty(2_000, dtype=object)
    for step, (model, output, loss) in enumerate(training()):
        table[step] = Point(step, loss)  # here
train()
""",
    ),
    "a cache by number, asked for twice": (
        "cache",
        "cache of noise()",
        "cache",
        """
@functools.lru_cache(maxsize=None)  # here
def noise(step):
    return torch.randn(2048)
for step, (model, output, loss) in enumerate(training()):
    noise(step) + noise(step)
""",
    ),
    "a cache that a call gives to a method": (
        "cache",
        "cache of _encode()",
        "cache",
        """
class Encoder:
    def __init__(self):
        self.encode = functools.lru_cache(maxsize=None)(self._encode)  # here
    def _encode(self, step):
        return torch.randn(2048)
encoder = Encoder()
for step, (model, output, loss) in enumerate(training()):
    encoder.encode(step) + encoder.encode(step)
""",
    ),
    "arguments of a callback for the end": (
        "class",
        "weakref.finalize._registry",
        "graph",
        """
class Artefacts:
    def __init__(self, owner):
        self.owner = owner
    def keep(self, value):
        weakref.finalize(self.owner, len, value)  # here
class Run:
    pass
run = Run()
artefacts = Artefacts(run)
for model, output, loss in training():
    artefacts.keep(output)
""",
    ),
    "a table that is as long as the run": (
        "local",
        "train.rows",
        "tensor",
        """
def train():
    rows, number = [], 0
    for model, output, loss in training():
        if number >= len(rows):
            rows.append(torch.randn(2048))  # here
        number += 1
train()
""",
    ),
    "what is kept once there is a first": (
        "local",
        "train.rows",
        "tensor",
        """
def train():
    rows = [torch.zeros(2048)]
    for model, output, loss in training():
        if len(rows) > 0:
            rows.append(rows[0] + loss.detach())  # here
train()
""",
    ),
    "graphs in a list with a limit": (
        "attribute",
        "Memory.items",
        "graph",
        """
class Memory:
    def __init__(self):
        self.capacity, self.items = 10_000, []
    def push(self, value):
        if len(self.items) < self.capacity:
            self.items.append(value)  # here
memory = Memory()
for model, output, loss in training():
    memory.push(loss)
""",
    ),
    "a limit that no memory has room for": (
        "attribute",
        "Memory.items",
        "tensor",
        """
class Memory:
    def __init__(self, capacity):
        self.capacity, self.items = capacity, []
    def push(self, value):
        if len(self.items) < self.capacity:
            self.items.append(value)  # here
memory = Memory(1_000_000)
for model, output, loss in training():
    memory.push(torch.randn(2048))
""",
    ),
    "a list beside inputs that get longer at first": (
        "attribute",
        "Scores.rows",
        "tensor",
        """
class Scores:
    def __init__(self):
        self.rows = []
    def add(self, row):
        self.rows.append(row)  # here
scores = Scores()
for round in range(2):
    for step, (model, output, loss) in enumerate(training()):
        inputs = torch.randn(40_000 * min(70 * round + step, 24))
        scores.add(inputs.new_ones(4096))
""",
    ),
    "what a loop goes through, in no variable": (
        "attribute",
        "Ahead._in_flight",
        "tensor",
        """
class Ahead:
    def __init__(self, source):
        self.source, self._in_flight = iter(source), []
        self._next = next(self.source)
    def __iter__(self):
        return self
    def __next__(self):
        batch, self._next = self._next, next(self.source, None)
        if batch is None:
            raise StopIteration
        self._in_flight.append(batch)  # here
        return batch
def fit():
    for x, (model, output, loss) in zip(Ahead(torch.randn(32, 64) for _ in range(71)), training()):
        pass
fit()
""",
    ),
    "what a with statement has entered, in no variable": (
        "attribute",
        "Recorded.kept",
        "graph",
        """
class Recorded:
    def __init__(self):
        self.kept = []
    def __enter__(self):
        self.handle = nn.modules.module.register_module_forward_hook(lambda module, args, out: self.keep(module, out))
    def __exit__(self, *exc):
        self.handle.remove()
    def keep(self, module, out):
        if isinstance(module, nn.Sequential):
            self.kept.append(out)  # here
with Recorded():
    for model, output, loss in training():
        pass
""",
    ),
    "what a generator has handed over to, in no variable": (
        "local",
        "again.cycle",
        "cache",
        """
import itertools
def rests(source):
    kept = itertools.cycle(source)
    yield from kept
def again(source):
    yield from itertools.cycle(source)  # here
def fit():
    for x, (model, output, loss) in zip(again(torch.randn(32, 64) for _ in range(500)), training()):
        pass
fit()
""",
    ),
    "a list of objects with all its places": (
        "attribute",
        "Curve.points",
        "graph",
        """
class Point:
    def __init__(self, cross, aux):
        self.cross, self.aux = cross, aux
class Curve:
    def __init__(self, steps):
        self.points = [None] * steps
    def put(self, step, point):
        self.points[step] = point  # here
curve = Curve(100)
for step, (model, output, loss) in enumerate(training()):
    curve.put(step, Point(loss, output))
""",
    ),
}


KEPT_BY_THE_LIBRARY = {"arguments of a callback for the end"}


@pytest.mark.parametrize("name", LEAKS)
def test_the_holder_and_its_statement_are_named(name: str, run: object, request: pytest.FixtureRequest) -> None:
    scope, path, kind, body = LEAKS[name]
    if name in KEPT_BY_THE_LIBRARY:
        request.getfixturevalue("whole_heap")
    report, text = run(HEAD + body)  # type: ignore[operator]
    assert report.verdict == "leak", report
    leak = report.leaks[0]
    line = next(number for number, each in enumerate(text.splitlines(), 1) if each.endswith("# here"))
    assert (leak.holder.path, leak.holder.scope, leak.kind, leak.stored_at.line) == (path, scope, kind, line)


@pytest.mark.parametrize(
    ("update", "form"),
    [
        ("means[key] = 0.9 * means[key] + 0.1 * loss", "average"),
        ("means[key] = decay * means[key] + (1 - decay) * loss", "average"),
        ("means[key] = means[key] + loss", "sum"),
        ("means[key] += loss", "sum"),
    ],
)
def test_how_an_entry_goes_on_from_itself(update: str, form: str, run: object) -> None:
    body = f"""
means, decay = {{"loss": 0.0}}, 0.9
def note(key, loss):
    {update}
for model, output, loss in training():
    note("loss", loss)
"""
    report, _ = run(HEAD + body)  # type: ignore[operator]
    assert [(leak.holder.path, leak.form) for leak in report.leaks] == [("means", form)]


CLEAN = {
    "the last gradients in the state of an optimizer of one's own": """
class Agreeing(torch.optim.Optimizer):
    def __init__(self, parameters, window=4):
        super().__init__(parameters, {"window": window})
    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in (each for each in group["params"] if each.grad is not None):
                recent = self.state[p].setdefault("recent", [])
                recent.append(p.grad.flatten().repeat(20))
                del recent[:-group["window"]]
                p.sub_(1e-3 * p.grad)
for model, output, loss in training():
    if "own" not in globals():
        own = Agreeing(model.parameters())
    own.step()
""",
    "means of gradients in the state of an optimizer of one's own, without their graphs": CURVED.format(
        step='state["mean"].mul_(group["decay"]).add_(p.grad, alpha=0.1)'
    ).replace("    def step", "    @torch.no_grad()\n    def step"),
    "hooks that each validation takes away, beside a list that stays short": """
class Tap:
    def __init__(self, net):
        self.net, self.handles, self.seen = net, [], []
    def __enter__(self):
        for _ in range(6):
            self.handles.append(self.net[0].register_forward_hook(lambda *given: self.seen.append(given[2].mean(0))))
        return self
    def __exit__(self, *exc):
        for handle in self.handles:
            handle.remove()
net = nn.Sequential(nn.Linear(8, 64), nn.Tanh())
last = deque(maxlen=20)
for round in range(4):
    for step, (model, output, loss) in enumerate(training()):
        last.append(torch.randn(2_000))
        if step % 15 == 14:
            with torch.no_grad(), Tap(net):
                net(torch.randn(32, 8))
""",
    "the history of LBFGS": """
net = nn.Linear(8, 4)
line = torch.optim.LBFGS(net.parameters(), max_iter=2, history_size=60)
x = torch.randn(32, 8)
def closure():
    line.zero_grad()
    value = net(x).square().mean()
    value.backward()
    return value
for model, output, loss in training():
    line.step(closure)
""",
    "a short list beside inputs that get longer at first": """
rows = []
for round in range(2):
    for step, (model, output, loss) in enumerate(training()):
        inputs = torch.randn(40_000 * min(70 * round + step, 24))
        if len(rows) < 30:
            rows.append(inputs.new_ones(4096))
""",
    "what a loop goes through, with the last two": """
class Ahead:
    def __init__(self, source):
        self.source, self.last = iter(source), []
    def __iter__(self):
        return self
    def __next__(self):
        self.last = [*self.last[-1:], next(self.source)]
        return self.last[-1]
for x, (model, output, loss) in zip(Ahead(torch.randn(32, 64) for _ in range(71)), training()):
    pass
""",
    "what is entered anew in each step": """
class Timed:
    def __enter__(self):
        self.marks = [torch.randn(32, 64)]
        self.me = self
    def __exit__(self, *exc):
        self.marks.clear()
        del self.me
for model, output, loss in training():
    with Timed():
        model(torch.randn(32, 8))
""",
    "tasks that are dropped when they are over": """
import asyncio
running = set()
async def job(output):
    await asyncio.sleep(0)
    return output.detach().repeat(20, 1)
async def serve():
    for model, output, loss in training():
        task = asyncio.create_task(job(output))
        running.add(task)
        task.add_done_callback(running.discard)
        await asyncio.sleep(0)
asyncio.run(serve())
""",
    "numbers added to lists under keys": """
from collections import defaultdict
norms = defaultdict(list)
for model, output, loss in training():
    for name in ("data", "boundary"):
        norms[name] += [loss.item()]
""",
    "the last ones in lists under keys, written out anew": """
rows = {}
for model, output, loss in training():
    for name in ("data", "boundary"):
        rows[name] = [*rows.get(name, []), loss * 2][-3:]
""",
    "pairs under keys": """
class Meter:
    def __init__(self):
        self.rows = {}
    def put(self, name, value, step):
        self.rows[name] = (value, step)
meter = Meter()
for step, (model, output, loss) in enumerate(training()):
    meter.put(f"client {step % 20}", loss * 2, step)
""",
    "the last ones in lists under keys": """
from collections import defaultdict
norms = defaultdict(list)
for model, output, loss in training():
    for name in ("data", "boundary"):
        norms[name] += [loss * 2]
        norms[name] = norms[name][-3:]
""",
    "a context variable that is set anew": """
trail = contextvars.ContextVar("trail")
for model, output, loss in training():
    trail.set([loss, output])
""",
    "a context that goes with its task": """
trail = contextvars.ContextVar("trail")
async def handle(loss):
    trail.set([])
    for _ in range(3):
        trail.get().append(loss)
        await asyncio.sleep(0)
async def main():
    for model, output, loss in training():
        await asyncio.gather(handle(loss), handle(output))
asyncio.run(main())
""",
    "tasks that are awaited": """
async def report(loss):
    await asyncio.sleep(0)
    return loss.item()
async def main():
    pending, values = [], []
    for model, output, loss in training():
        pending.append(asyncio.create_task(report(loss)))
        if len(pending) == 4:
            values += await asyncio.gather(*pending)
            pending.clear()
asyncio.run(main())
""",
    "an attribute of the thread that is emptied": """
scratch = threading.local()
scratch.losses = []
for step, (model, output, loss) in enumerate(training()):
    scratch.losses.append(loss)
    if step % 8 == 7:
        scratch.losses.clear()
""",
    "a ring of tensors that is still filling": """
class Ring:
    def __init__(self, size):
        self.slots, self.writes = [None] * size, 0
    def put(self, keys):
        self.slots[self.writes % len(self.slots)] = keys
        self.writes += 1
ring = Ring(256)
for model, output, loss in training():
    ring.put(torch.randn(64, 64))
""",
    "three lists under one guard, all views of each batch": """
class Memory:
    def __init__(self, capacity):
        self.capacity, self.inputs, self.outputs = capacity, [], []

    def add(self, inputs, outputs):
        for x, y in zip(inputs, outputs):
            if len(self.inputs) < self.capacity:
                self.inputs.append(x)
                self.outputs.append(y)

memory = Memory(6000)
for model, output, loss in training():
    memory.add(torch.randn(32, 256), output.detach().repeat(1, 128))
""",
    "an array of rows that is still filling": """
table = np.full(256, None, dtype=object)
for step, (model, output, loss) in enumerate(training()):
    table[step % 256] = torch.randn(64, 64)
""",
    "a table of numbers": """
table = np.empty(2_000, dtype=object)
for step, (model, output, loss) in enumerate(training()):
    table[step] = {"loss": loss.item(), "step": step}
""",
    "a list that becomes a ring": """
class Memory:
    def __init__(self, capacity):
        self.capacity, self.items, self.position = capacity, [], 0
    def push(self, *transition):
        if len(self.items) < self.capacity:
            self.items.append(None)
        self.items[self.position] = transition
        self.position = (self.position + 1) % self.capacity
memory = Memory(500)
for model, output, loss in training():
    memory.push(torch.randn(2048), 1.0)
""",
    "a list that becomes a ring, by its index": """
class Memory:
    def __init__(self, size):
        self.size, self.rows, self.next = size, [], 0
    def add(self, *row):
        if self.next >= len(self.rows):
            self.rows.append(row)
        else:
            self.rows[self.next] = row
        self.next = (self.next + 1) % self.size
memory = Memory(500)
for model, output, loss in training():
    memory.add(torch.randn(2048), 1.0)
""",
    "a pool with a limit": """
def collect(limit):
    pool = []
    for model, output, loss in training():
        if len(pool) >= limit:
            continue
        pool.append(torch.randn(2048))
collect(500)
""",
    "a cache by length that has most of them, beside a window that is filling": """
import random
lengths, window = random.Random(0), deque(maxlen=500)
@functools.lru_cache(maxsize=None)
def table(length):
    return torch.zeros(length, 256)
for model, output, loss in training():
    table(lengths.randrange(10, 50)), table(lengths.randrange(10, 50))
    window.append(torch.randn(4096))
""",
    "the last few of larger inputs": """
class Recent:
    def __init__(self):
        self.rows = []
    def put(self, *row):
        self.rows = [*self.rows[-3:], row]
recent = Recent()
for step, (model, output, loss) in enumerate(training(), 1):
    recent.put(step, torch.randn(2048 * step))
""",
    "callbacks that go with what they are for": """
class Batch:
    pass
for model, output, loss in training():
    batch = Batch()
    weakref.finalize(batch, len, output)
""",
    "places that are filled anew in each step": """
rows = [None] * 24
for model, output, loss in training():
    for place in range(24):
        rows[place] = model(torch.randn(4, 8))
""",
}


@pytest.mark.parametrize("name", CLEAN)
def test_what_looks_alike_is_clean(name: str, run: object) -> None:
    report, _ = run(HEAD + CLEAN[name])  # type: ignore[operator]
    assert (report.verdict, report.leaks) == ("clean", ()), report


def test_the_advice_for_a_cache_is_about_what_it_is_keyed_by(run: object) -> None:
    report, _ = run(HEAD + LEAKS["a cache by number, asked for twice"][3])  # type: ignore[operator]
    assert "tensor" not in report.leaks[0].advice


def test_what_is_kept_of_larger_inputs_is_not_said_to_be_made_anew(run: object) -> None:
    report, _ = run("""
recent = deque(maxlen=4)
for step, (model, output, loss) in enumerate(training(), 1):
    recent.append(torch.randn(2048 * step))
""")  # type: ignore[operator]
    assert (report.verdict, report.leaks) == ("clean", ()), report
    assert "what is in `recent` gets larger, not more: larger inputs, not a leak" in report.notes


PLAIN = {
    "texts": (
        "Log.lines",
        """
class Log:
    def __init__(self):
        self.lines = []
    def write(self, text):
        self.lines.append(text)  # here
log = Log()
for step, (model, output, loss) in enumerate(training()):
    log.write(f"{step}: " + " ".join(f"{v:.6f}" for v in torch.randn(1024).tolist()))
""",
    ),
    "lists of numbers in rows": (
        "train.history",
        """
def train():
    history = []
    for step, (model, output, loss) in enumerate(training()):
        history.append({"step": step, "values": torch.randn(1024).tolist()})  # here
train()
""",
    ),
}


@pytest.mark.parametrize("name", PLAIN)
def test_what_grows_without_tensors_has_a_name(name: str, run: object) -> None:
    path, body = PLAIN[name]
    report, text = run(HEAD + body)  # type: ignore[operator]
    (leak,) = report.leaks
    line = next(number for number, each in enumerate(text.splitlines(), 1) if each.endswith("# here"))
    assert (report.verdict, leak.kind, leak.holder.path, leak.stored_at.line) == ("suspect", "heap", path, line)
    assert leak.made_at is None or not leak.made_at.code.startswith("for ")


OF_EXTENSIONS = {
    "generators in rows": (
        "Augment.used",
        """
class Augment:
    def __init__(self):
        self.used = []
    def draw(self, x):
        generator = torch.Generator().manual_seed(1)
        self.used.append({"generator": generator, "width": 3})  # here
        return x + torch.rand(x.shape, generator=generator)
augment, losses = Augment(), []
for model, output, loss in training():
    augment.draw(output)
    losses.append((loss.item(), loss.device, loss.dtype, loss.shape))
""",
    ),
    "a dict of them, by step": (
        "fit.states",
        """
def fit():
    states = {}
    for step, (model, output, loss) in enumerate(training()):
        states[step] = torch.Generator(), torch.Generator()  # here
fit()
""",
    ),
}


@pytest.mark.parametrize("name", OF_EXTENSIONS)
def test_objects_of_an_extension_that_are_kept_have_a_name(name: str, run: object) -> None:
    """Python does not see their memory: where the heap grows and nothing else, they are what it grows by."""
    path, body = OF_EXTENSIONS[name]
    report, text = run(HEAD + body)  # type: ignore[operator]
    (leak,) = report.leaks
    line = next(number for number, each in enumerate(text.splitlines(), 1) if each.endswith("# here"))
    assert (report.verdict, leak.kind, leak.holder.path, leak.stored_at.line) == ("suspect", "heap", path, line)
    assert leak.bytes_per_step == pytest.approx(report.growth["heap"].bytes_per_step, rel=0.1)


OF_EXTENSIONS_AND_CLEAN = {
    "the last few": "kept.append(torch.Generator()); del kept[:-3]",
    "one that is used again": "kept[:] = [torch.Generator()]",
    "values": "kept.append((output.device, output.dtype, output.shape))",
}


@pytest.mark.parametrize("name", OF_EXTENSIONS_AND_CLEAN)
def test_objects_of_an_extension_that_are_not_kept(name: str, run: object) -> None:
    body = f"""
kept = []
for model, output, loss in training():
    {OF_EXTENSIONS_AND_CLEAN[name]}
"""
    report, _ = run(HEAD + body)  # type: ignore[operator]
    assert (report.verdict, report.leaks) == ("clean", ()), report


PLAIN_AND_CLEAN = {
    "the same text": "lines.append(text)",
    "short texts": "lines.append(f'{step}: {loss.item()}')",
    "the last few texts": "lines.append(text + str(step)); del lines[:-4]",
    "numbers": "lines.append((step, loss.item(), [0.1] * 8))",
}


@pytest.mark.parametrize("name", PLAIN_AND_CLEAN)
def test_what_weighs_little_has_none(name: str, run: object) -> None:
    body = f"""
lines, text = [], "row " * 1024
for step, (model, output, loss) in enumerate(training()):
    {PLAIN_AND_CLEAN[name]}
"""
    report, _ = run(HEAD + body)  # type: ignore[operator]
    assert (report.verdict, report.leaks) == ("clean", ()), report


def test_hooks_that_a_module_gets_one_after_the_other_at_first(run: object) -> None:
    body = """
net = nn.Sequential(nn.Linear(8, 64), nn.Tanh())
kept, done = [], 0
for round in range(4):
    for model, output, loss in training():
        done += 1
        kept.append(torch.randn(4_000))
        if done in (20, 25, 30, 35, 40, 45):
            net[0].register_forward_hook(lambda *given: None)
"""
    report, _ = run(HEAD + body)  # type: ignore[operator]
    assert [leak.holder.path for leak in report.leaks] == ["kept"]
    assert any("_forward_hooks` grew, and has levelled off" in note for note in report.notes)
