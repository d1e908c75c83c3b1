from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files, twin

CODE = "GG413"

PROGRAM = """
import functools
import types
from functools import partial
from torch.nn.utils import parametrizations, parametrize, prune

def timed(fn, table=None):
    @functools.wraps(fn)
    def run(*args):
        table.append(1)
        return fn(*args)
    return run

def checked(fn):
    if fn is None:
        return None
    def run(*args):
        return fn(*args)
    return run

def as_it_is(fn):
    print(fn)
    return fn

class Sym(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).T

class Holder(nn.Module):
    def __init__(self, inner, scale=1.0):
        super().__init__()
        self.inner, self.scale = inner, scale

class Sizes:
    def __init__(self, inner):
        self.count = len(inner)

def setup(model, table, step=0):
    BEFORE

def train(model, loader, optimizer, epochs, table):
    STARTS
    for step, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        EACH
"""


def program(each: str = "pass", before: str = "pass", starts: str = "pass") -> str:
    indented = {"EACH": each.replace("\n", "\n        ")}
    indented |= {"BEFORE": before.replace("\n", "\n    "), "STARTS": starts.replace("\n", "\n    ")}
    code = PROGRAM
    for word, lines in indented.items():
        code = code.replace(word, lines)
    return code


AGAIN = "setup(model, table, step)"
FLAGGED = {
    "in the loop": program("model.forward = timed(model.forward, table)  # !"),
    "by keyword": program("model.forward = timed(table=table, fn=model.forward)  # !"),
    "each layer": program("for layer in model.layers:\n    layer.forward = timed(layer.forward)  # !"),
    "by a helper": program(AGAIN, "for name, m in model.named_modules():\n    m.forward = timed(m.forward)  # !"),
    "every so often": program(f"if step % 100 == 0:\n    {AGAIN}", "model.forward = timed(model.forward)  # !"),
    "of a kind": program(
        AGAIN, "for m in model.modules():\n    if isinstance(m, nn.Linear):\n        m.forward = timed(m.forward)  # !"
    ),
    "of some layers": program(
        AGAIN, "layers = [m for m in model.modules()]\nfor m in layers:\n    m.forward = timed(m.forward)  # !"
    ),
    "a function of its own": program(
        AGAIN, "old = model.forward\ndef run(x):\n    return old(x) * 2\nmodel.forward = run  # !"
    ),
    "a lambda": program("old = model.head.forward\nmodel.head.forward = lambda x: old(x).relu()  # !"),
    "partial": program("model.encode = partial(timed, model.encode)  # !"),
    "by name": program("setattr(model, 'forward', timed(model.forward))  # !"),
    "a module": program("model.head = Holder(model.head)  # !"),
    "a variable": program("table = Holder(table)  # !"),
    "a function in a variable": program("fn = timed(fn)  # !\nfn(x)", starts="fn = model.forward"),
    "a parametrization": program("parametrize.register_parametrization(model.fc, 'weight', Sym())  # !"),
    "of each layer": program(
        AGAIN,
        "for m in model.modules():\n    if isinstance(m, nn.Linear):\n        parametrizations.weight_norm(m)  # !",
    ),
    "the spectral norm": program("model.fc = parametrizations.spectral_norm(model.fc)  # !"),
    "a mask": program("prune.custom_from_mask(model.fc, 'weight', mask)  # !"),
    "masks of all": program(
        "if step % 10 == 0:\n    prune.global_unstructured([(model.fc, 'weight')], prune.L1Unstructured, amount=2)  # !"
    ),
}  # fmt: skip

CLEAN = {
    "before the loop": program(starts="model.forward = timed(model.forward, table)"),
    "by a helper before the loop": program("pass", "model.forward = timed(model.forward)", "setup(model, table)"),
    "once": program(f"if step == 0:\n    {AGAIN}", "model.forward = timed(model.forward)"),
    "the first time": program(
        AGAIN, "if not hasattr(model, 'is_timed'):\n    model.is_timed = True\n    model.forward = timed(model.forward)"
    ),
    "what is not wrapped yet": program(
        AGAIN, "if not hasattr(model.forward, '__wrapped__'):\n    model.forward = timed(model.forward)"
    ),
    "of what is known": program(AGAIN, "if id(model) not in table:\n    model.forward = timed(model.forward)"),
    "put back": program("old = model.forward\nmodel.forward = timed(model.forward)\nmodel(x)\nmodel.forward = old"),
    "put back by another function": program(
        "model.forward = timed(model.forward)\nrestore(model)"
    ) + "\ndef restore(model):\n    model.forward = model.original\n",
    "taken off": program("model.forward = timed(model.forward)\ndel model.forward"),
    "as it is": program("model.forward = as_it_is(model.forward)"),
    "what may give None": program("model.forward = checked(model.forward)"),
    "of what stays": program("model.forward = timed(model.original, table)"),
    "of the class": program("model.forward = types.MethodType(timed(type(model).forward), model)"),
    "of what is made here": program("model = Holder(y)\nmodel.forward = timed(model.forward)"),
    "what is made for each": program("inner = nn.Linear(2, 2)\ninner = Holder(inner)"),
    "a part that is made anew": program(
        "model.head = nn.Linear(4, 4)\nmodel.head.forward = timed(model.head.forward)"
    ),
    "layers that are made anew": program(
        "rebuild(model)\nfor m in model.layers:\n    m.forward = timed(m.forward)"
    ) + "\ndef rebuild(model):\n    model.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))\n",
    "a mask for what another function makes anew": program(
        "rebuild(model)\nprune.custom_from_mask(model.fc, 'weight', mask)"
    ) + "\ndef rebuild(model):\n    model.fc = nn.Linear(4, 4)\n",
    "names that go round": program(AGAIN, "net = other.net\nother = net.other\nnet.forward = timed(net.forward)"),
    "what keeps nothing of it": program("table = Sizes(table)"),
    "another one": program("table = Holder(model)"),
    "of an unknown function": program("model.forward = torch.compile(model.forward)"),
    "a helper that makes its layers": program(AGAIN, "net = nn.Linear(2, 2)\nnet.forward = timed(net.forward)"),
    "of a copy": program("twin = copy.deepcopy(model)\nsetup(twin, table)", "model.forward = timed(model.forward)"),
    "for the first layers": program(
        before="for m in model.modules():\n    m.forward = timed(m.forward)",
        starts="for _ in range(3):\n    setup(model, table)",
    ),
    "where nothing trains": program("model.forward = timed(model.forward)").replace(".backward()", ".item()"),
    "each layer its own": program(starts="for m in model.modules():\n    parametrizations.weight_norm(m)"),
    "removed": program(
        "parametrize.register_parametrization(model.fc, 'weight', Sym())\n"
        "parametrize.remove_parametrizations(model.fc, 'weight')"
    ),
    "where there is none": program(
        "if not parametrize.is_parametrized(model.fc):\n    parametrizations.weight_norm(model.fc)"
    ),
    "the old norm, which raises": program("nn.utils.weight_norm(model.fc)"),
    "pruned by its size": program("prune.l1_unstructured(model.fc, 'weight', 0.1)"),
    "a mask that is made final": program(
        "prune.custom_from_mask(model.fc, 'weight', mask)\nprune.remove(model.fc, 'weight')"
    ),
    "a new layer": program("fc = nn.Linear(2, 2)\nprune.custom_from_mask(fc, 'weight', mask)"),
}  # fmt: skip


@pytest.mark.parametrize("snippet", FLAGGED.values(), ids=FLAGGED)
def test_flagged(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize("snippet", CLEAN.values(), ids=CLEAN)
def test_clean(snippet: str) -> None:
    assert_clean(snippet, CODE)


PRUNER = """
from torch.nn.utils import prune

class Pruner:
    def __init__(self, net, every):
        self.layers = [m for m in net.modules() if isinstance(m, nn.Linear)]
        self.every = every

    def after_step(self, step):
        if step % self.every:
            return
        for layer in self.layers:
            prune.custom_from_mask(layer, "weight", self.mask(layer))  # !

def train(net, optimizer, loader):
    pruner = Pruner(net, 10)
    for step, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
        pruner.after_step(step)
"""
OF_ROUNDS = PRUNER.replace(
    "    for step, (x, y) in enumerate(loader):", "    for level in range(levels):\n      for step in range(90):"
)
OF_ROUNDS = OF_ROUNDS.replace("        pruner.after_step(step)", "      pruner.after_step(level)")
OF_EPOCHS = PRUNER.replace("    for step", "    for epoch in range(90):\n      for step").replace(
    "        pruner.after_step(step)", "      pruner.after_step(epoch)"
)

ROUNDS = """
import random

def proximal(loss_fn, anchor, mu):
    def objective(model, x, y):
        gap = sum((p - anchor[name]).pow(2).sum() for name, p in model.named_parameters())
        return loss_fn(model, x, y) + mu * gap
    return objective

def plain(model, x, y):
    return F.cross_entropy(model(x), y)

class Client:
    def __init__(self, model, loader):
        self.model, self.loader, self.objective = model, loader, plain

    def receive(self, state):
        self.model.load_state_dict(state)
        self.objective = proximal(self.objective, {k: v.clone() for k, v in state.items()}, 0.1)  # !

    def fit(self, optimizer):
        for x, y in self.loader:
            optimizer.zero_grad()
            self.objective(self.model, x, y).backward()
            optimizer.step()

def main(model, loaders, rounds, optimizer):
    clients = [Client(copy.deepcopy(model), loader) for loader in loaders]
    for each in range(rounds):
        picked = random.sample(clients, max(1, len(clients) // 2))
        for client in picked:
            client.receive(model.state_dict())
            client.fit(optimizer)
"""
CHOSEN = [
    ROUNDS,
    ROUNDS.replace("random.sample(clients, max(1, len(clients) // 2))", "sample(clients, k=5)").replace(
        "import random", "from random import sample"
    ),
]
MADE_ANEW = [
    twin(ROUNDS, ("proximal(self.objective,", "proximal(plain,")),
    twin(ROUNDS, ("    for each in range(rounds):", "    if rounds:")),
    twin(ROUNDS, ("        picked", "        clients = [Client(model, loader) for loader in loaders]\n        picked")),
    twin(ROUNDS, ("random.sample(clients,", "self.choose(clients,")),
    twin(ROUNDS, ("random.sample(clients,", "random.sample([Client(model, each) for each in loaders],")),
    twin(ROUNDS, ("    def fit", "    def leave(self):\n        self.objective = plain\n\n    def fit")),
]


@pytest.mark.parametrize("snippet", CHOSEN)
def test_some_of_all(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize("snippet", MADE_ANEW)
def test_some_that_are_others(snippet: str) -> None:
    assert_clean(snippet, CODE)


GENERATIONS = """
class Student(nn.Module):
    def __init__(self, dim, teacher=None):
        super().__init__()
        self.dim, self.net = dim, nn.Linear(dim, dim)
        self._teacher = (teacher,)  # !

    def forward(self, x):
        return self.net(x)

    def successor(self):
        self.requires_grad_(False)
        child = Student(self.dim, teacher=self)
        return child

def train(student, loader, optimizer):
    for x, y in loader:
        loss = F.cross_entropy(student(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

def main(loader, steps):
    student, count = Student(8), 0
    while count < steps:
        train(student, loader, torch.optim.Adam(student.parameters()))
        student, count = student.successor(), count + 1
"""
HANDED = GENERATIONS.replace(
    "        child = Student(self.dim, teacher=self)\n        return child", "        return Student(self.dim, self)"
)
AS_A_PART = GENERATIONS.replace("(teacher,)  # !", "teacher  # !")


@pytest.mark.parametrize("snippet", [PRUNER, GENERATIONS, HANDED, AS_A_PART])
def test_objects(snippet: str) -> None:
    assert_flagged(snippet, CODE)


NEXT = "        student, count = student.successor()"
KEEPING_NONE = [
    twin(PRUNER, ("            prune.", "            prune.remove(layer, 'weight')\n            prune.")),
    twin(
        PRUNER,
        ("    pruner = Pruner(net, 10)\n", ""),
        ("        pruner.after", "        pruner = Pruner(make(), 10)\n        pruner.after"),
    ),
    twin(PRUNER, ("custom_from_mask", "l1_unstructured")),
    twin(
        PRUNER, ("        if step % self.every:", "        self.layers = self.choose()\n        if step % self.every:")
    ),
    twin(PRUNER, ("        pruner.after_step(step)", "    pruner.after_step(step)")),
    twin(PRUNER, ("if step % self.every:", "if step != self.every:")),
    twin(OF_EPOCHS),
    twin(OF_ROUNDS),
    twin(GENERATIONS, ("teacher=self", "teacher=self.net")),
    twin(GENERATIONS, ("(teacher,)", "(copy.deepcopy(teacher),)")),
    twin(GENERATIONS, ("(teacher,)", "weakref.ref(teacher)")),
    twin(GENERATIONS, ("self._teacher = (teacher,)", "self.size = teacher.dim if teacher else 0")),
    twin(GENERATIONS, (NEXT, f"        student._teacher = None\n{NEXT}")),
    twin(GENERATIONS, (NEXT, "        student, count = first.successor()")),
    twin(GENERATIONS, (NEXT, f"        student = Student(8)\n{NEXT}")),
    twin(GENERATIONS, ("while count < steps:", "if True:")),
    twin(GENERATIONS, ("loss.backward()", "loss.item()")),
]


@pytest.mark.parametrize("snippet", KEEPING_NONE)
def test_objects_that_keep_none(snippet: str) -> None:
    assert_clean(snippet, CODE)


CHAIN = """
class Stage(nn.Module):
    def __init__(self, dim, before=None, rate=0.1):
        super().__init__()
        self.net, self.rate = nn.Linear(dim, dim), rate
        self.before = before

    def loss(self, x, y):
        aim = self.before(x) if self.before is not None else y
        return F.mse_loss(self(x), aim)

    def forward(self, x):
        return self.net(x)

def train(stage, loader):
    optimizer = torch.optim.Adam(stage.net.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        stage.loss(x, y).backward()
        optimizer.step()

def main(loader, count):
    stage, pool = Stage(8), []
    for level in range(count):
        train(stage, loader)
        stage = Stage(8, stage)  # !
    return stage
"""


def by(*forward: str, more: str = "") -> str:
    """The chain in which ``forward`` does this, with another method."""
    lines = [*(f"        {line}" for line in forward), "", *(f"    {line}" for line in more.split("\n"))]
    return twin(CHAIN, ("        return self.net(x)", "\n".join(lines)))


def put(*lines: str) -> str:
    """The chain whose loop does this besides."""
    return CHAIN.replace("        train(stage, loader)\n", "\n".join(f"        {line}" for line in lines) + "\n")


STARTED = "train(stage, loader)"
A_MODEL = {
    "a sum": by("out = self.net(x)", "if self.before is not None:", "    out = out + self.before(x)", "return out"),
    "in place": by("out = self.net(x)", "out += self.rate * self.before(x)", "return out"),
    "one or the other": by("h = self.net(x)", "return h if self.before is None else h + self.before(x)"),
    "without a graph": by("with torch.no_grad():", "    base = self.before(x)", "return base + self.net(x)"),
    "its input": by("x = self.before(x)", "return x + torch.relu(self.net(x))"),
    "a list of all": by("outs = [self.net(x)]", "outs.append(self.before(x))", "return torch.stack(outs).mean(0)"),
    "by another name": by("before = self.before", "return before(x) + self.net(x) if before else self.net(x)"),
    "by another method": by(
        "return self.net(x) + self.base(x)", more="def base(self, x):\n    return self.before(x)"
    ),
    "by a method of all": by(
        "return self.net(x)",
        more="def log_prob(self, x):\n    z = self.net(x)\n    return self.before.log_prob(z) + z.sum()",
    ),
    "by a method of all, which adds up": by(
        "return self.net(x)",
        more="def predict(self, x):\n    y = self.before.predict(x)\n    return y + self.net(x)",
    ),
    "one is called": twin(by("return self.before(x) + self.net(x)"), ("forward", "__call__"), ("(nn.Module)", "")),
    "one that is given layers": twin(
        by("return self.before(x) + self.net(x)"),
        ("(nn.Module)", ""),
        ("nn.Linear(dim, dim)", "dim"),
        ("        super().__init__()\n", ""),
        ("Stage(8", "Stage(make()"),
    ),
    "of an object": twin(
        by("return self.before(x) + self.net(x)"),
        ("def main(loader, count):", "def main(self, loader, count):"),
        ("stage, pool = Stage(8), []", "self.stage = Stage(8)"),
        ("        train(stage, loader)\n        stage =", "        train(self.stage, loader)\n        self.stage ="),
        ("(8, stage)", "(8, self.stage)"),
    ),
    "gone through": CHAIN.replace("  # !", "") + """
def ensemble(stage, x):
    out = 0
    while stage is not None:
        out = out + stage.net(x)
        stage = stage.before
    return out
""",
}  # fmt: skip
A_LEAGUE = {
    "a list": put("pool.append(stage)", STARTED),
    "after it is trained": put(STARTED, "pool.append(stage.eval().requires_grad_(False))"),
    "with its number": put("pool.append((level, stage))", STARTED),
    "a dict": put("pool[level] = stage", STARTED),
    "records": put("pool.append({'stage': stage, 'level': level})", STARTED),
    "joined": put("pool += [stage]", STARTED),
    "of an object": put("self.pool.append(stage)", STARTED),
}
ONLY_ASKED = {
    "in the loss": CHAIN,
    "some are listed": put("if level % 5 == 0:", "    pool.append(stage)", STARTED),
    "the last ones are listed": put("pool.append(stage)", "if len(pool) > 3:", "    pool.pop(0)", STARTED),
    "a list of each iteration": put("pool = []", "pool.append(stage)", STARTED),
    "a bounded list": put("pool.append(stage)", STARTED).replace("[]", "deque(maxlen=3)"),
    "what it has learnt is listed": put("pool.append(stage.state_dict())", STARTED),
    "asked whether there is one": CHAIN.replace(
        "return self.net(x)", "if self.before is None:\n            x = x * 2\n        return self.net(x)"
    ),
    "put into evaluation with it": CHAIN.replace(
        "    def loss",
        "    def train(self, mode):\n        self.before.train(False)\n"
        "        return super().train(mode)\n\n    def loss",
    ),
}
WRAPPING = """
class Watched(nn.Module):
    def __init__(self, inner, log):
        super().__init__()
        self.inner, self.log = inner, log

    def forward(self, x):
        self.log.append(x.shape)
        return self.inner(x)
"""


@pytest.mark.parametrize("snippet", [*A_MODEL.values(), *(each.replace("  # !", "") for each in A_LEAGUE.values())])
def test_chains_that_are_meant(snippet: str) -> None:
    assert_clean(snippet, CODE)


@pytest.mark.parametrize("snippet", ONLY_ASKED.values(), ids=ONLY_ASKED)
def test_chains_of_which_only_the_last_is_needed(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize("each", ["model.act = Watched(model.act, table)  # !", AGAIN])
def test_a_module_around_a_part_of_the_model(each: str) -> None:
    """It computes with the one before it, as a model does, and adds nothing."""
    before = "for m in model.layers:\n    m.act = Watched(m.act, table)" + "  # !" * (each is AGAIN)
    assert_flagged(WRAPPING + program(each, before if each is AGAIN else "pass"), CODE)


def test_a_module_around_a_part_by_another_file(tmp_path: Path) -> None:
    helper = "\ndef watch(net, log):\n    for m in net.layers:\n        m.act = Watched(m.act, log)\n"
    training = program("watch(model, table)").replace("import functools", "from watching import watch")
    head = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n"
    files = {"watching.py": f"{head}{WRAPPING}{helper}", "main.py": head + training}
    found = files["watching.py"].split("\n").index("        m.act = Watched(m.act, log)") + 1
    assert lines_in_files(tmp_path, files, CODE) == [("watching.py", found)]


def test_several_files(tmp_path: Path) -> None:
    """The helper that wraps is imported by the loop, and a helper of that wraps."""
    files = {
        "wrapping.py": """
            def logged(fn, log):
                def run(*args):
                    log.append(len(args))
                    return fn(*args)
                return run
        """,
        "patches.py": """
            from wrapping import logged

            def instrument(net, log):
                for block in net.blocks:
                    for op in block.ops:
                        op.forward = logged(op.forward, log)
        """,
        "main.py": """
            import torch
            from patches import instrument

            def evaluate(net, log, x):
                instrument(net, log)
                with torch.no_grad():
                    return net(x)

            def main(net, loader, optimizer):
                for step, (x, y) in enumerate(loader):
                    loss = (net(x) - y).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    if step % 50 == 0:
                        evaluate(net, [], x)
        """,
    }
    assert lines_in_files(tmp_path, files, CODE) == [("patches.py", 7)]
    (tmp_path / "twin").mkdir()
    files["main.py"] = files["main.py"].replace("if step % 50 == 0:", "if step == 50:")
    assert lines_in_files(tmp_path / "twin", files, CODE) == []


ATTRIBUTE = """
    class Step:
        def __init__(self, number, scores, before):
            self.number, self.scores, self.before = number, scores, before

        def drift(self):
            return 0.0 if self.before is None else (self.scores - self.before.scores).abs().mean().item()

    class Engine:
        def __init__(self, model, optimizer):
            self.model, self.optimizer = model, optimizer
            self.last = None

        def advance(self, number, x, y):
            scores = self.model(x)
            self.optimizer.zero_grad()
            F.mse_loss(scores, y).backward()
            self.optimizer.step()
            self.last = Step(number, scores.detach(), self.last)  # !
            return self.last.drift()

        def fit(self, loader):
            for number, (x, y) in enumerate(loader):
                print(self.advance(number, x, y))
"""


def test_an_attribute_that_the_constructor_begins() -> None:
    assert_flagged(ATTRIBUTE, CODE)


@pytest.mark.parametrize(
    "change",
    [
        ("scores.detach(), self.last)", "scores.detach(), None)"),
        ("            return self.last.drift()", "            self.last.before.before = None"),
        ("        for number,", "        self.last = None\n            for number,"),
        (
            "self.number, self.scores, self.before = number, scores, before",
            "self.number, self.scores, self.before = number, scores, None",
        ),
    ],
)
def test_an_attribute_whose_chain_is_cut(change: tuple[str, str]) -> None:
    assert_clean(twin(ATTRIBUTE, change), CODE)


MEASURED = """
import contextlib

def undo(layer):
    inner = layer.__dict__.pop("forward")
    layer.forward = inner

@contextlib.contextmanager
def watched(layer, weights, sink):
    plain = layer.forward

    def measured(*args):
        out = plain(*args)
        sink.append((out.detach() * weights).sum().item())
        return out

    layer.forward = measured  # !
    try:
        yield sink
    finally:
        undo(layer)

def train(net, optimizer, loader, sink):
    for x, y, weights in loader:
        with watched(net.head, weights, sink):
            loss = F.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
PATCH = """
class Patch:
    def __init__(self, layer):
        self.layer = layer
        self.plain = None

    def attach(self):
        before = self.layer.forward
        self.layer.forward = lambda x: before(x).relu()  # !
        self.plain = self.layer.forward

    def detach(self):
        self.layer.forward = self.plain

def train(net, optimizer, loader):
    patch = Patch(net.head)
    for x, y in loader:
        patch.attach()
        loss = F.cross_entropy(net(x), y)
        patch.detach()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
UNDO = '    inner = layer.__dict__.pop("forward")\n    layer.forward = inner\n'
INLINE = [("def undo(layer):\n" + UNDO, ""), ("        undo(layer)", "        layer.forward = saved")]
PUT_BACK_IN_VAIN = {
    "by a helper": MEASURED,
    "read as it is": twin(MEASURED, (UNDO, "    inner = layer.forward\n    layer.forward = inner\n")).replace(
        "layer.forward = measured", "layer.forward = measured  # !"
    ),
    "by its name": MEASURED.replace('layer.__dict__.pop("forward")', 'getattr(layer, "forward")'),
    "of the dict": MEASURED.replace('layer.__dict__.pop("forward")', 'layer.__dict__["forward"]'),
    "read behind the wrapper": twin(
        MEASURED, *INLINE, ("    try:\n", "    saved = layer.forward\n    try:\n")
    ).replace("layer.forward = measured", "layer.forward = measured  # !"),
    "read at the end": twin(
        MEASURED, *INLINE, ("    finally:\n", "    finally:\n        saved = layer.forward\n")
    ).replace("layer.forward = measured", "layer.forward = measured  # !"),
}  # fmt: skip
PUT_BACK = {
    "what it wraps": twin(MEASURED, ("layer.forward = inner", "layer.forward = inner.__wrapped__")),
    "the one of the class": twin(MEASURED, (UNDO, '    layer.__dict__.pop("forward")\n')),
    "deleted": twin(MEASURED, (UNDO, "    del layer.forward\n")),
    "deleted by its name": twin(MEASURED, (UNDO, '    delattr(layer, "forward")\n')),
    "deleted in the end": twin(MEASURED, (UNDO, UNDO + "    del layer.forward\n")),
    "taken off in the end": twin(MEASURED, (UNDO, UNDO + '    layer.__dict__.pop("forward")\n')),
    "by the dict, in place": twin(MEASURED, ("        undo(layer)", '        layer.__dict__.pop("forward", None)')),
    "by its name, in place": twin(MEASURED, ("        undo(layer)", '        setattr(layer, "forward", plain)')),
    "what was given": twin(
        MEASURED,
        (UNDO, "    layer.forward = plain\n"),
        ("        undo(layer)", "        undo(layer, plain)"),
        ("def undo(layer)", "def undo(layer, plain)"),
    ),
    "of another layer": twin(MEASURED, ("inner = layer.__dict__", "inner = layer.first.__dict__")),
    "another attribute of it": twin(MEASURED, ('layer.__dict__.pop("forward")', "layer.plain_forward")),
    "read before the wrapper": twin(
        MEASURED, *INLINE, ("    layer.forward = measured", "    saved = layer.forward\n    layer.forward = measured")
    ),
    "one of two": twin(
        MEASURED, *INLINE, ("    try:\n", "    saved = layer.forward\n    if sink:\n        saved = plain\n    try:\n")
    ),
    "read before": twin(MEASURED, ("        undo(layer)", "        layer.forward = plain")),
    "by who calls": twin(
        MEASURED, ("        loss.backward()", "        del net.head.forward\n        loss.backward()")
    ),
    "an attribute read before": twin(
        PATCH,
        ("        self.plain = self.layer.forward\n", ""),
        ("        before =", "        self.plain = self.layer.forward\n        before ="),
    ),
    "an attribute of the constructor": twin(
        PATCH, ("        self.plain = self.layer.forward\n", ""), ("self.plain = None", "self.plain = layer.forward")
    ),
    "an attribute that is set again": twin(
        PATCH, ("    def detach", "    def begin(self, plain):\n        self.plain = plain\n\n    def detach")
    ),
}  # fmt: skip


@pytest.mark.parametrize("snippet", [*PUT_BACK_IN_VAIN.values(), PATCH], ids=[*PUT_BACK_IN_VAIN, "an attribute"])
def test_what_puts_back_the_wrapper(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize("snippet", PUT_BACK.values(), ids=PUT_BACK)
def test_what_takes_the_wrapper_off(snippet: str) -> None:
    assert_clean(snippet, CODE)
