"""The holder's name, its scope and the statement, for every kind of place that a user can store into."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from gradguard.findings import Leak  # noqa: E402

LEAKS = {
    "a dict that is keyed by tensors": ("closure", "memoize.known", "tensor", """
def memoize(fn):
    known = {}
    def wrapper(*args):
        if args not in known:
            known[args] = fn(*args)  # here
        return known[args]
    return wrapper
@memoize
def norm(x):
    return x.norm(dim=1)
for model, output, loss in training():
    norm(torch.randn(64, 16))
"""),
    "entries of a dict that another method began": ("attribute", "Teacher.shadow", "graph", """
class Teacher:
    def __init__(self, model):
        self.shadow = {name: p.detach().clone() for name, p in model.named_parameters()}

    def follow(self, model):
        for name, p in model.named_parameters():
            self.shadow[name] = 0.9 * self.shadow[name] + 0.1 * p  # here

teacher = None
for model, output, loss in training():
    teacher = teacher or Teacher(model)
    teacher.follow(model)
"""),
    "exceptions in tuples, with frames whose variables come and go": ("local", "train.failures", "exception", """
def risky(model, x):
    out = model(x)
    if out.sum() is not None:
        raise ValueError("bad batch")

def train():
    failures = []
    for model, output, loss in training():
        try:
            risky(model, torch.randn(64, 8))
        except ValueError as error:
            failures.append((len(failures), error))  # here
train()
"""),
    "an attribute of one of several callbacks": ("attribute", "Smoothed.value", "graph", """
class Smoothed:
    value = 0.0
    def after(self, loss):
        self.value = 0.9 * self.value + 0.1 * loss  # here

class Patience:
    def __init__(self):
        self.value = 3
    def after(self, loss):
        pass

callbacks = [Smoothed(), Patience()]
for model, output, loss in training():
    for callback in callbacks:
        callback.after(loss)
"""),
    "graphs in a long buffer": ("attribute", "Memory.items", "graph", """
class Memory:
    def __init__(self):
        self.items = deque(maxlen=10_000)

memory = Memory()
for model, output, loss in training():
    memory.items.append((1, loss))  # here
"""),
    "a local": ("local", "train.total", "graph", """
def train():
    total = 0
    for model, output, loss in training():
        total += loss  # here
train()
"""),
    "a global": ("global", "history", "graph", """
history = []
for model, output, loss in training():
    history.append(loss)  # here
"""),
    "a global, rebound": ("global", "mean", "graph", """
mean = torch.zeros(())
for model, output, loss in training():
    mean = 0.9 * mean + 0.1 * loss  # here
"""),
    "an attribute": ("attribute", "Trainer.outputs", "graph", """
class Trainer:
    def __init__(self):
        self.outputs = []
    def fit(self):
        mine = self.outputs
        for model, output, loss in training():
            mine.append({"loss": loss, "output": output})  # here
Trainer().fit()
"""),
    "an item of an attribute": ("attribute", 'Tracker.history["train"]', "graph", """
class Tracker:
    def __init__(self):
        self.history = {"train": [], "eval": []}
    def log(self, value):
        self.history["train"].append(value)  # here
tracker = Tracker()
for model, output, loss in training():
    tracker.log(loss)
"""),
    "a slot": ("attribute", "Meter.total", "graph", """
class Meter:
    __slots__ = ("total",)
    def __init__(self):
        self.total = 0
meter = Meter()
for model, output, loss in training():
    meter.total = meter.total + loss  # here
"""),
    "an inner attribute of a module": ("attribute", "Bank.features", "graph", """
class Bank(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("features", torch.zeros(0, 2))
    def forward(self, x):
        self.features = torch.cat([self.features, x])  # here
        return x
bank = nn.ModuleList([Bank()])
for model, output, loss in training():
    bank[0](output)
"""),
    "a class attribute": ("class", "Registry.losses", "graph", """
class Registry:
    losses = []
    @classmethod
    def add(cls, loss):
        cls.losses.append(loss)  # here
for model, output, loss in training():
    Registry.add(loss)
"""),
    "a closure": ("closure", "make.seen", "graph", """
def make():
    seen = []
    def remember(loss):
        seen.append(loss)  # here
    return remember
remember = make()
for model, output, loss in training():
    remember(loss)
"""),
    "a nonlocal of a running function": ("local", "train.total", "graph", """
def train():
    total = 0
    def add(loss):
        nonlocal total
        total = total + loss  # here
    for model, output, loss in training():
        add(loss)
train()
"""),
    "a default argument": ("default", "log.past", "graph", """
def log(loss, past=[]):
    past.append(loss)  # here
for model, output, loss in training():
    log(loss)
"""),
    "an attribute of a function": ("global", "log.past", "graph", """
def log(loss):
    log.past.append(loss)  # here
log.past = []
for model, output, loss in training():
    log(loss)
"""),
    "a local of a waiting generator": ("local", "keep.kept", "graph", """
def keep(source):
    kept = []
    for model, output, loss in source:
        kept.append(loss)  # here
        yield loss
for loss in keep(training()):
    pass
"""),
    "a list that a waiting generator binds anew": ("local", "keep.kept", "graph", """
def keep(source):
    kept = []
    for model, output, loss in source:
        yield loss
        kept = kept + [loss]  # here
for loss in keep(training()):
    pass
"""),
    "a list of a waiting generator that a function has": ("local", "keep.kept", "graph", """
def keep(source):
    kept = []
    for model, output, loss in source:
        yield loss
        kept = kept + [loss]  # here
def train():
    losses = keep(training())
    for loss in losses:
        pass
train()
"""),
    "a tuple that is bound anew": ("local", "train.state", "graph", """
def train():
    state = (torch.zeros(32, 2), 0)
    for model, output, loss in training():
        state = (state[0] + output, state[1] + 1)  # here
train()
"""),
    "a dict that is made anew": ("local", "train.state", "graph", """
def train():
    state = {"sum": torch.zeros(32, 2)}
    for model, output, loss in training():
        state = {"sum": state["sum"] + output}  # here
train()
"""),
    "a statement over two lines": ("global", 'history["all"]', "graph", """
history = defaultdict(list)
for model, output, loss in training():
    history["all"].append(  # here
        loss
    )
"""),
    "a cache": ("cache", "cache of norm()", "cache", """
@functools.lru_cache(maxsize=None)  # here
def norm(x):
    return x.square()
for model, output, loss in training():
    norm(torch.randn(4096))
"""),
    "a cache of small tensors, keyed by tensors": ("cache", "cache of turned()", "cache", """
@functools.lru_cache(maxsize=None)  # here
def turned(x):
    return x.flip(0), x.square()
for model, output, loss in training():
    turned(torch.randn(64))
"""),
    "a cache of a method, beside a function of its name": ("cache", "cache of rays()", "cache", """
@functools.lru_cache(maxsize=None)
def rays(n):
    return torch.arange(n)
class Camera:
    width = 3
    @functools.lru_cache(maxsize=None)  # here
    def rays(self, pose):
        return pose @ pose, pose.sum()
camera = Camera()
for model, output, loss in training():
    camera.rays(torch.randn(8, 8))
    rays(4)
"""),
    "a cache of a method": ("cache", "cache of norm()", "cache", """
class Cells:
    side = 4

    @functools.lru_cache(maxsize=None)  # here
    def norm(self, x):
        return x.square()
cells = Cells()
for model, output, loss in training():
    cells.norm(torch.randn(4096))
"""),
    "a cache with the name of a method": ("cache", "cache of norm()", "cache", """
def size(x):
    return float(x.norm())

def norm(x):
    return x.square()
norm = functools.lru_cache(maxsize=None)(norm)  # here
for model, output, loss in training():
    norm(torch.randn(4096))
"""),
    "exceptions": ("global", "errors", "exception", """
errors = []
def fail(output):
    doubled = output * 2
    raise ValueError("no")
for model, output, loss in training():
    try:
        fail(output)
    except ValueError as error:
        errors.append(error)  # here
"""),
    "gradients": ("global", "grads", "gradient", """
grads = []
for model, output, loss in training():
    grads.append([p.grad for p in model.parameters()])  # here
"""),
    "snapshots": ("global", "snapshots", "snapshot", """
snapshots = []
for model, output, loss in training():
    snapshots.append(copy.deepcopy(model.state_dict()))  # here
"""),
    "views": ("global", "first_rows", "view", """
first_rows = []
for model, output, loss in training():
    batch = torch.randn(512, 64)
    first_rows.append(batch[0])  # here
"""),
    "hooks": ("global", "layer._forward_hooks", "hook", """
layer = nn.Linear(2, 2)
for model, output, loss in training():
    layer.register_forward_hook(lambda *args: None)  # here
"""),
    "a hook on its own tensor": ("internal", "tensor hook", "cycle", """
for model, output, loss in training():
    kept = output * 3
    def scale(grad, kept=kept):
        return grad * kept.mean()
    kept.register_hook(scale)  # here
"""),
}  # fmt: skip


LEAKS |= {
    "another one is emptied": (
        "attribute",
        "Tap.outputs",
        "graph",
        """
class Tap:
    def __init__(self):
        self.outputs = []
    def take(self, output):
        self.outputs.append(output)  # here
    def clear(self):
        self.outputs.clear()
student, teacher = Tap(), Tap()
for model, output, loss in training():
    student.take(output)
    teacher.take(output.detach())
    teacher.clear()
""",
    ),
    "one key of many is taken": (
        "attribute",
        "Journal.pending",
        "graph",
        """
class Journal:
    def __init__(self):
        self.pending = {}
    def later(self, step, loss):
        self.pending[step] = loss  # here
    def tick(self, step):
        if step % 20 == 0:
            print(self.pending.pop(step).item())
journal = Journal()
for step, (model, output, loss) in enumerate(training()):
    journal.later(step, loss)
    journal.tick(step)
""",
    ),
    "only another key is emptied": (
        "attribute",
        "Task.seen",
        "graph",
        """
class Task:
    def __init__(self):
        self.seen = {"train": [], "dev": []}
    def note(self, loss, split):
        self.seen[split].append(loss)  # here
task = Task()
for step, (model, output, loss) in enumerate(training(), 1):
    task.note(loss, "train")
    task.note(loss.item(), "dev")
    if step % 60 == 0:
        task.seen["dev"].clear()
""",
    ),
    "a bank that is joined to itself by another name": (
        "attribute",
        "Bank.columns",
        "tensor",
        """
class Bank:
    def __init__(self):
        self.columns = torch.randn(64, 512)
    def push(self, keys):
        joined = torch.cat([self.columns, keys.t()], dim=1)
        self.columns = joined[-512:]  # here
bank = Bank()
for model, output, loss in training():
    bank.push(torch.randn(32, 64))
""",
    ),
    "a bank that is joined to itself by a variable that has it": (
        "attribute",
        "Bank.rows",
        "tensor",
        """
class Bank:
    def __init__(self):
        self.rows = None
    def push(self, keys):
        past = keys[:0] if self.rows is None else self.rows
        near = past[-64:]
        self.rows = torch.cat([past, keys])  # here
        return near
bank = Bank()
for model, output, loss in training():
    bank.push(torch.randn(32, 64))
""",
    ),
    "a queue of C under a key of its own": (
        "attribute",
        "Buffers.idle",
        "tensor",
        """
import collections, queue
class Buffers:
    def __init__(self):
        self.idle = collections.defaultdict(queue.SimpleQueue)
    def take(self, shape):
        try:
            return self.idle[shape].get_nowait()
        except queue.Empty:
            return torch.empty(shape)
    def give_back(self, buffer):
        self.idle[tuple(buffer.shape), buffer.dtype].put(buffer)  # here
buffers = Buffers()
for model, output, loss in training():
    buffers.give_back(buffers.take((64, 64)))
""",
    ),
    "one end of a tee that is not read": (
        "global",
        "head",
        "cache",
        """
def batches():
    while True:
        yield torch.randn(64, 64)
head, stream = itertools.tee(batches())  # here
next(head)
for epoch in range(3):
    for model, output, loss in training():
        next(stream)
""",
    ),
    "one end of a tee that is read now and then": (
        "global",
        "probes",
        "cache",
        """
def batches():
    while True:
        yield torch.randn(64, 64)
stream, probes = itertools.tee(batches())  # here
read = 0
for epoch in range(3):
    for model, output, loss in training():
        next(stream)
        read += 1
        if read % 25 == 0:
            next(probes)
""",
    ),
    "an array that looks into a tensor": (
        "attribute",
        "Diary.rows",
        "view",
        """
class Diary:
    def __init__(self):
        self.rows = []
    def write(self, wave):
        self.rows.append(wave[0, ::16].numpy())  # here
diary = Diary()
for model, output, loss in training():
    diary.write(torch.randn(64, 512))
""",
    ),
    "groups of one of two optimizers": (
        "global",
        "codes.param_groups",
        "optimizer",
        """
def thaw(optimizer, part):
    optimizer.add_param_group({"params": part})

codes = torch.optim.SGD([nn.Parameter(torch.zeros(4))], lr=0.1)
for model, output, loss in training():
    code = nn.Parameter(torch.zeros(4_000))
    codes.add_param_group({"params": [code]})  # here
    code.square().sum().backward()
    codes.step()
    codes.zero_grad()
""",
    ),
    "groups that are taken out, and not what the optimizer keeps of them": (
        "global",
        "codes.state",
        "optimizer",
        """
codes = torch.optim.Adam([nn.Parameter(torch.zeros(4))])
for model, output, loss in training():
    code = nn.Parameter(torch.zeros(2_000))
    codes.add_param_group({"params": [code]})
    code.square().sum().backward()
    codes.step()
    codes.zero_grad()
    codes.param_groups.pop()  # here
""",
    ),
    "what an optimizer of one's own keeps for a tensor that is new in each step": (
        "attribute",
        "Signs.state",
        "optimizer",
        """
class Signs(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 1e-3})
    def mean_of(self, tensor):
        kept = self.state[tensor]  # here
        if not kept:
            kept["mean"] = torch.zeros_like(tensor)
        return kept["mean"]
    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(group["lr"] * self.mean_of(p.data).lerp_(p.grad, 0.1).sign())
net = nn.Linear(40, 40)
signs = Signs(net.parameters())
for model, output, loss in training():
    signs.zero_grad()
    net(torch.randn(8, 40)).square().mean().backward()
    signs.step()
""",
    ),
    "groups of small parameters": (
        "global",
        "codes.param_groups",
        "optimizer",
        """
codes = torch.optim.Adam([nn.Parameter(torch.zeros(4))])
for model, output, loss in training():
    code = nn.Parameter(torch.zeros(128))
    codes.add_param_group({"params": [code]})  # here
    code.square().sum().backward()
    codes.step()
    codes.zero_grad()
""",
    ),
}


@pytest.mark.parametrize("name", LEAKS)
def test_the_holder_and_its_statement_are_named(name: str, run: object) -> None:
    scope, path, kind, body = LEAKS[name]
    report, text = run(body)  # type: ignore[operator]
    assert report.verdict == "leak", report
    leak: Leak = report.leaks[0]
    line = next(number for number, each in enumerate(text.splitlines(), 1) if each.endswith("# here"))
    assert leak.holder is not None
    assert leak.stored_at is not None
    assert (leak.holder.path, leak.holder.scope, leak.kind, leak.stored_at.line) == (path, scope, kind, line)
    assert leak.advice


CLEAN = {
    "this key is emptied": """
class Task:
    def __init__(self):
        self.seen = {"train": [], "dev": []}
    def note(self, loss, split):
        self.seen[split].append(loss)
task = Task()
for step, (model, output, loss) in enumerate(training(), 1):
    task.note(loss, "train")
    task.note(loss.item(), "dev")
    if step % 35 == 0:
        task.seen["train"].clear()
""",
    "a bank of one size": """
class Bank:
    def __init__(self):
        self.columns = torch.randn(64, 512)
    def push(self, keys):
        joined = torch.cat([self.columns, keys.t()], dim=1)
        self.columns = joined[:, -512:]
bank = Bank()
for model, output, loss in training():
    bank.push(torch.randn(32, 64))
""",
    "the last rows of a bank beside inputs that get larger": """
class Bank:
    def __init__(self):
        self.rows = torch.randn(64, 64)
    def push(self, keys):
        past = self.rows
        self.rows = torch.cat([past[-64:], keys])
bank = Bank()
for step, (model, output, loss) in enumerate(training(), 1):
    bank.push(torch.randn(16 * step, 64))
""",
    "a queue of C that is emptied": """
import queue
waiting = queue.SimpleQueue()
for model, output, loss in training():
    waiting.put(torch.randn(64, 64))
    if waiting.qsize() > 8:
        waiting.get()
""",
    "one end of a tee that is dropped": """
def batches():
    while True:
        yield torch.randn(64, 64)
head, stream = itertools.tee(batches())
next(head)
del head
for model, output, loss in training():
    next(stream)
""",
    "an array of its own": """
rows = []
for model, output, loss in training():
    rows.append(torch.randn(64, 512)[0, ::16].clone().numpy())
""",
    "what an optimizer of one's own keeps for each parameter": """
class Signs(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 1e-3})
    def mean_of(self, tensor):
        kept = self.state[tensor]
        if not kept:
            kept["mean"] = torch.zeros_like(tensor)
        return kept["mean"]
    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(group["lr"] * self.mean_of(p).lerp_(p.grad, 0.1).sign())
net = nn.Linear(40, 40)
signs = Signs(net.parameters())
for model, output, loss in training():
    signs.zero_grad()
    net(torch.randn(8, 40)).square().mean().backward()
    signs.step()
""",
    "a queue of a fixed length, and lists of each step that get longer": """
waiting = [torch.randn(64, 64) for _ in range(4)]
for step, (model, output, loss) in enumerate(training(), 1):
    waiting.append(torch.randn(64, 64))
    waiting.pop(0)
    parts = [torch.randn(64, 64) for _ in range(step)]
""",
    "groups of parameters that were there before": """
blocks = [nn.Linear(16, 16).requires_grad_(False) for _ in range(90)]
net = nn.Sequential(*blocks)
head = nn.Linear(16, 16)
tuned = torch.optim.Adam(head.parameters())
for step, (model, output, loss) in enumerate(training()):
    if step % 2 == 0:
        tuned.add_param_group({"params": list(blocks.pop().requires_grad_().parameters())})
    head(net(torch.randn(4, 16))).square().sum().backward()
    tuned.step()
    tuned.zero_grad()
""",
    "a group that goes with its state": """
codes = torch.optim.Adam([nn.Parameter(torch.zeros(4))])
for model, output, loss in training():
    code = nn.Parameter(torch.zeros(128))
    codes.add_param_group({"params": [code]})
    code.square().sum().backward()
    codes.step()
    codes.zero_grad()
    for code in codes.param_groups.pop()["params"]:
        codes.state.pop(code)
""",
    "emptied key by key": """
class Journal:
    def __init__(self):
        self.pending = {}
    def later(self, step, loss):
        self.pending[step] = loss
    def flush(self):
        for step in list(self.pending):
            self.pending.pop(step)
journal = Journal()
for step, (model, output, loss) in enumerate(training()):
    journal.later(step, loss)
    if step % 30 == 29:
        journal.flush()
""",
    "each of two is emptied at its time": """
class Tap:
    def __init__(self):
        self.outputs = []
    def clear(self):
        self.outputs.clear()
student, teacher = Tap(), Tap()
for step, (model, output, loss) in enumerate(training(), 1):
    student.outputs.append(output)
    teacher.outputs.append(output.detach())
    teacher.clear()
    if step % 45 == 0:
        student.clear()
""",
    "a window": """
window = deque(maxlen=10)
for model, output, loss in training():
    window.append(loss)
""",
    "a window that is still filling": """
window = deque(maxlen=1000)
for model, output, loss in training():
    window.append(output.detach())
""",
    "a list that is trimmed": """
recent = []
for model, output, loss in training():
    recent.append(loss)
    if len(recent) > 8:
        recent.pop(0)
""",
    "a list that is emptied": """
class Epoch:
    def __init__(self):
        self.outputs = []
    def run(self):
        for step, (model, output, loss) in enumerate(training(), 1):
            self.outputs.append(output)
            if step % 20 == 0:
                self.outputs.clear()
Epoch().run()
""",
    "the last value": """
class Net:
    pass
net = Net()
for model, output, loss in training():
    net.last = output
    previous = loss
""",
    "numbers": """
numbers, by_step = [], {}
for step, (model, output, loss) in enumerate(training()):
    numbers.append(loss.item())
    by_step[step] = float(loss)
""",
    "detached losses": """
losses = []
for model, output, loss in training():
    losses.append(loss.detach())
""",
    "a list of each step's own, longer each time": """
def episode(length):
    lasting = []
    model = nn.Linear(8, 8)
    state = torch.zeros(4, 8)
    for _ in range(length):
        state = torch.tanh(model(state))
        lasting.append(state)
    return lasting
for step, (model, output, loss) in enumerate(training()):
    states = episode(10 + step)
    torch.stack(states).mean().backward()
""",
    "a list that is emptied in each step, longer each time": """
class Policy:
    def __init__(self):
        self.saved = []
    def act(self, model):
        self.saved.append(model(torch.randn(4, 8)))
    def finish(self):
        torch.stack(self.saved).mean().backward()
        del self.saved[:]
policy = Policy()
for step, (model, output, loss) in enumerate(training()):
    for _ in range(5 + step):
        policy.act(model)
    policy.finish()
""",
    "a sum that is backpropagated": """
total = 0
parameter = nn.Parameter(torch.ones(()))
for step, (model, output, loss) in enumerate(training(), 1):
    total = total + parameter * loss.detach()
    if step % 10 == 0:
        total.backward()
        total = 0
""",
    "hooks that are removed": """
layer = nn.Linear(2, 2)
for model, output, loss in training():
    handle = layer.register_forward_hook(lambda *args: None)
    handle.remove()
""",
    "a bounded cache": """
@functools.lru_cache(maxsize=4)
def norm(x):
    return x.square()
for model, output, loss in training():
    norm(torch.randn(4096))
""",
    "a bounded cache that is still filling": """
@functools.lru_cache(maxsize=256)
def norm(x):
    return x.square(), x.flip(0)
for model, output, loss in training():
    norm(torch.randn(64))
""",
    "a cache of small tensors, keyed by numbers": """
@functools.lru_cache(maxsize=None)
def table(n):
    return torch.arange(64) * n, torch.arange(64) + n
for step, _ in enumerate(training()):
    table(step)
""",
    "a cache that is asked for the same tensors again": """
probes = [torch.randn(64) for _ in range(8)]
@functools.lru_cache(maxsize=None)
def norm(x):
    return x.square(), x.flip(0)
for step, _ in enumerate(training()):
    norm(probes[step % 8])
""",
    "a dict that is asked for the same tensors again": """
known, probes = {}, [torch.randn(64) for _ in range(8)]
for step, _ in enumerate(training()):
    x = probes[step % 8]
    if x not in known:
        known[x] = x.norm()
""",
    "a dict of parameters that is filled late": """
averages = {}
for step, (model, _, _) in enumerate(training()):
    for p in model.parameters() if step > 25 else ():
        averages[p] = 0.9 * averages.get(p, 0.0) + 0.1 * p.detach()
""",
    "two optimizers that begin after a while": """
import random
class Learner:
    def __init__(self, *nets):
        self.nets = nets
        self.actor, self.critic = (torch.optim.Adam(net.parameters(), lr=1e-3) for net in nets)

    def improve(self, rows):
        x = torch.stack([row[0] for row in rows])
        for net, optimizer in zip(self.nets, (self.actor, self.critic)):
            loss = (net(x) - 1).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

def layers():
    return nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 2))

def main():
    torch.manual_seed(0)
    learner, rows = Learner(layers(), layers()), []
    x = torch.zeros(4)
    for step in range(160):
        with torch.no_grad():
            action = learner.nets[0](x)
        rows.append((x, action))
        x = torch.randn(4)
        if step > 64:
            learner.improve(random.sample(rows, 16))

main()
""",
    "second order, and the gradients set to None": """
for model, output, loss in training():
    other = nn.Linear(2, 2)
    other(output.detach()).square().mean().backward(create_graph=True)
    other.weight.grad = other.bias.grad = None
""",
}


@pytest.mark.parametrize("name", CLEAN)
def test_what_looks_alike_is_clean(name: str, run: object) -> None:
    report, _ = run(CLEAN[name])  # type: ignore[operator]
    assert (report.verdict, report.leaks) == ("clean", ()), report


def test_an_array_that_looks_into_an_array_is_named(run: object) -> None:
    report, _ = run("""
corners = []
for model, output, loss in training():
    corners.append(torch.randn(64, 512).numpy().copy()[:2, :2])
""")  # type: ignore[operator]
    (leak,) = report.leaks
    assert leak.holder is not None
    assert (report.verdict, leak.holder.path) == ("suspect", "corners")
    assert leak.bytes_per_step == pytest.approx(64 * 512 * 4, rel=0.1)


def test_a_dict_that_only_a_read_only_view_shows_is_named(run: object) -> None:
    report, _ = run("""
import types
def registry():
    known = {}
    return types.MappingProxyType(known), known.__setitem__
seen, note = registry()
for step, (model, output, loss) in enumerate(training()):
    note(step, torch.randn(64, 64))
""")  # type: ignore[operator]
    (leak,) = report.leaks
    assert leak.holder is not None
    assert (report.verdict, leak.holder.path) == ("leak", "seen")


def test_results_collected_on_purpose_are_no_leak(run: object) -> None:
    body = """
def predict():
    results = []
    with torch.no_grad():
        for model, output, loss in same():
            results.append(model(torch.randn(256, 8)))
    return torch.cat(results)

def same():
    model = nn.Linear(8, 64)
    for _ in range(70):
        yield model, None, None
predict()
"""
    report, _ = run(body)  # type: ignore[operator]
    assert report.verdict == "suspect"
    assert [leak.kind for leak in report.leaks] == ["collected"]


def test_what_a_script_collects_and_uses_later_is_no_leak(run: object) -> None:
    body = """
features = {}
model = nn.Linear(8, 64)
with torch.no_grad():
    for number in range(70):
        features[number] = model(torch.randn(256, 8))
print(len(features))
"""
    report, _ = run(body)  # type: ignore[operator]
    assert report.verdict == "suspect"
    assert [leak.kind for leak in report.leaks] == ["collected"]


def test_what_is_to_be_emptied_later_is_a_suspect_with_a_name(run: object) -> None:
    body = """
class Epoch:
    def __init__(self):
        self.outputs = []
    def run(self):
        for model, output, loss in training():
            self.outputs.append(output)
    def end(self):
        self.outputs.clear()
for number in range(1):
    epoch = Epoch()
    epoch.run()
    epoch.end()
"""
    report, _ = run(body)  # type: ignore[operator]
    assert report.verdict == "suspect"
    assert [leak.holder.path for leak in report.leaks if leak.holder] == ["Epoch.outputs"]
    assert any("in this run it never got shorter" in note for note in report.notes)


def test_a_queue_that_gets_longer_has_a_name(run: object) -> None:
    """Each step puts in two and takes out one, as what a checkpoint computes again in backward does."""
    report, text = run("""
class Router:
    def __init__(self):
        self.routed = []
    def put(self, output):
        self.routed.append(output * 2)  # here
        self.routed.append(output * 3)
    def oldest(self):
        return self.routed.pop(0).mean().item()
router = Router()
for model, output, loss in training():
    router.put(output)
    router.oldest()
""")  # type: ignore[operator]
    (leak,) = report.leaks
    assert (report.verdict, leak.holder.path, leak.kind) == ("leak", "Router.routed", "graph")
    assert "self.routed.append" in text.splitlines()[leak.stored_at.line - 1]


def test_two_holders_are_both_named(run: object) -> None:
    body = """
total, outputs = 0, []
for model, output, loss in training():
    total += loss
    outputs.append(output)
"""
    report, _ = run(body)  # type: ignore[operator]
    assert {leak.holder.path for leak in report.leaks if leak.holder} == {"total", "outputs"}
    assert sum(leak.explained or 0 for leak in report.leaks) == pytest.approx(1, abs=0.05)


def test_a_row_with_a_tensor_in_it_is_not_told_to_detach(run: object) -> None:
    body = """
import collections
Row = collections.namedtuple("Row", "step loss")
class Report:
    def __init__(self):
        self.by_epoch = collections.defaultdict(list)
    def note(self, row):
        self.by_epoch[row.step // 30].append(row)
report = Report()
for step, (model, output, loss) in enumerate(training()):
    report.note(Row(step, loss))
"""
    report, _ = run(body)  # type: ignore[operator]
    (leak,) = report.leaks
    assert "by_epoch" in leak.holder.path
    assert leak.advice
    assert "row.detach()" not in leak.advice


@pytest.mark.parametrize(("given", "made"), [("loss=loss", "report.note("), ("{'loss': loss}", "report.note(")])
def test_a_loop_through_what_a_caller_gives_makes_nothing(run: object, given: str, made: str) -> None:
    stars = "**" if "=" in given else ""
    body = f"""
class Report:
    def __init__(self):
        self.rows = {{}}
    def note(self, epoch, {stars}values):
        for name, value in values.items():
            self.rows.setdefault(name, []).append(value)
report = Report()
for step, (model, output, loss) in enumerate(training()):
    report.note(step, {given})
"""
    report, _ = run(body)  # type: ignore[operator]
    (leak,) = report.leaks
    assert ".append(value)" in leak.stored_at.code
    assert made in leak.made_at.code


def test_a_large_data_set_is_not_walked_through(run: object) -> None:
    body = """
class Sample:
    def __init__(self, number):
        self.number, self.labels = number, {"a": [number]}
data = [Sample(i) for i in range(100_000)]
def train():
    kept = []
    for model, output, loss in training():
        kept.append(loss)
train()
"""
    report, _ = run(body)  # type: ignore[operator]
    assert [leak.holder.path for leak in report.leaks if leak.holder] == ["train.kept"]
    assert not any("too many objects" in note for note in report.notes)


VIEW_ON_CONTEXT = """
class Shrink(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        out = x.sign() * (x.abs() - 0.1).clamp_min(0)
        {store}
        return out

    @staticmethod
    def backward(ctx, grad):
        units = ctx.units
        return grad * (units[0].sum() != 0)

for model, output, loss in training():
    Shrink.apply(output).sum()
"""


@pytest.mark.parametrize(
    "store", ["ctx.units = out.t()", "ctx.units = out.unbind()", 'setattr(ctx, "units", out.transpose(0, 1))']
)
def test_a_view_of_an_output_on_its_context_is_named(store: str, run: object) -> None:
    report, text = run(VIEW_ON_CONTEXT.format(store=store))  # type: ignore[operator]
    (leak,) = report.leaks
    assert leak.holder is not None
    assert (report.verdict, leak.kind, leak.holder.path) == ("leak", "cycle", "ctx.units of Shrink")
    assert text.splitlines()[leak.stored_at.line - 1].strip() == store
    assert "save_for_backward" in leak.advice


@pytest.mark.parametrize("kept", ["out.detach()", "out.t().clone()", "x.t()"])
def test_what_a_context_keeps_without_a_graph_is_clean(kept: str, run: object) -> None:
    report, _ = run(VIEW_ON_CONTEXT.format(store=f"ctx.units = {kept}"))  # type: ignore[operator]
    assert (report.verdict, report.leaks) == ("clean", ()), report
