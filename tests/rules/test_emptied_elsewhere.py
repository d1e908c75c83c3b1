"""What is emptied is the collection of another object: an attribute of the same name, a tracker of the same class."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files, twin

LAYER = """
        class Gaussian(nn.Module):
            terms = []

            def __init__(self):
                super().__init__()
                self.mu = nn.Linear(3, 3)

            def forward(self, h):
                mu = self.mu(h)
                self.terms.append(mu.pow(2).sum())  # !
                return mu

        class Ladder(nn.Module):
            def __init__(self):
                super().__init__()
                self.one, self.two = Gaussian(), Gaussian()

            def reset(self):
                self.terms = []

            def forward(self, x):
                self.reset()
                return self.two(self.one(x))

        def train(loader, net=Ladder()):
            optimizer = torch.optim.Adam(net.parameters())
            for x, y in loader:
                loss = F.mse_loss(net(x), y) + sum(Gaussian.terms[-2:])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
"""

TRACKER = """
        class Tracker:
            def __init__(self, *keys):
                self.keys, self.values = keys, {}
                self.reset()

            def reset(self):
                for key in self.keys:
                    self.values[key] = []

            def update(self, key, value):
                self.values[key].append(value)

        class Trainer:
            def __init__(self, net, optimizer, loader):
                self.net, self.optimizer, self.loader = net, optimizer, loader
                self.train_metrics = Tracker("loss")
                self.valid_metrics = Tracker("loss")

            def epoch(self):
                self.valid_metrics.reset()
                for x, y in self.loader:
                    self.optimizer.zero_grad()
                    loss = F.cross_entropy(self.net(x), y)
                    loss.backward()
                    self.optimizer.step()
                    self.train_metrics.update("loss", loss)  # !
"""

HOOKED = """
        class Base(nn.Module):
            def __init__(self):
                super().__init__()
                self.outputs = []

            def training_step(self, batch):
                x, y = batch
                return {"loss": (self(x) - y).abs().mean()}

            def on_step_end(self, out):
                self.outputs.append(out)

            def on_epoch_end(self):
                self.outputs.clear()

        class Net(Base):
            def __init__(self):
                super().__init__()
                self.lin = nn.Linear(3, 3)

            def forward(self, x):
                return self.lin(x)

            def on_epoch_end(self):
                print(len(self.outputs))

        def fit(net, loader):
            optimizer = torch.optim.Adam(net.parameters())
            for epoch in range(10):
                for batch in loader:
                    out = net.training_step(batch)
                    optimizer.zero_grad()
                    out["loss"].backward()
                    optimizer.step()
                    net.on_step_end(out)  # !
                net.on_epoch_end()

        def main(loader):
            fit(Net(), loader)
"""
OWN_HOOK = "print(len(self.outputs))"
EMPTYING = "            def forget(self):\n                self.outputs.clear()"

RESET = "self.terms = []"

FLAGGED = {
    "a list of the class": (LAYER, "GG104"),
    "a list of each object": (
        LAYER.replace("            terms = []\n\n", "").replace("self.mu = nn", "self.terms, self.mu = [], nn"),
        "GG104",
    ),
    "None": (LAYER.replace(RESET, "self.terms = None"), "GG104"),
    "a plain object": (LAYER.replace("class Ladder(nn.Module)", "class Ladder(torch.nn.Module)"), "GG104"),
    "annotated": (LAYER.replace(RESET, "self.terms: list = []"), "GG104"),
    "another tracker": (TRACKER, "GG107"),
    "another tracker, twice": (
        TRACKER.replace(
            "self.valid_metrics.reset()", "self.valid_metrics.reset()\n                self.valid_metrics.reset()"
        ),
        "GG107",
    ),
    "a tracker that an epoch sums in": (TRACKER.replace("self.values[key] = []", "self.values[key].clear()"), "GG107"),
    "a method in whose place there is another": (HOOKED, "GG107"),
    "a method of a base of its base": (
        HOOKED.replace("def main", "class Wide(Net):\n            pass\n\n        def main").replace("Net()", "Wide()"),
        "GG107",
    ),
    "a method that binds it anew": (HOOKED.replace("self.outputs.clear()", "self.outputs = []"), "GG107"),
}

LOOKALIKES = {
    "the list of the class": twin(LAYER, (RESET, "Gaussian.terms.clear()")),
    "the list of the class, bound anew": twin(LAYER, (RESET, "Gaussian.terms = []")),
    "the lists of the layers": twin(LAYER, (RESET, "self.one.terms, self.two.terms = [], []")),
    "the list of each layer": twin(
        LAYER, (RESET, "for layer in (self.one, self.two):\n                    layer.terms = []")
    ),
    "of a class derived from it": twin(LAYER, ("class Ladder(nn.Module)", "class Ladder(Gaussian)")),
    "of a class that has a base of its own": twin(
        LAYER,
        ("class Ladder(nn.Module)", "class Ladder(Base)"),
        ("        class Ladder", "        class Base(Gaussian):\n            pass\n\n        class Ladder"),
    ),
    "of a class that it is derived from": twin(
        LAYER,
        (RESET, "self.one.begin()\n                self.two.begin()"),
        (
            "        class Gaussian(nn.Module):\n            terms = []\n",
            "        class Noted:\n            def begin(self):\n                self.terms = []\n\n"
            "        class Gaussian(Noted, nn.Module):\n            terms = []\n",
        ),
    ),
    "a property that hands it on": twin(
        LAYER,
        (
            "            def reset(self)",
            "            @property\n            def terms(self):\n                return Gaussian.terms\n\n"
            "            @terms.setter\n            def terms(self, value):\n                Gaussian.terms = value\n\n"
            "            def reset(self)",
        ),
    ),
    "both are one class later": twin(
        LAYER, ("        def train", "        class Both(Ladder, Gaussian):\n            pass\n\n        def train")
    ),
    "detached": twin(LAYER, ("mu.pow(2).sum()", "mu.pow(2).sum().detach()")),
    "the tracker itself": twin(TRACKER, ("self.valid_metrics.reset", "self.train_metrics.reset")),
    "both trackers": twin(
        TRACKER,
        ("self.valid_metrics.reset()", "self.valid_metrics.reset()\n                self.train_metrics.reset()"),
    ),
    "each of the trackers": twin(
        TRACKER,
        (
            "self.valid_metrics.reset()",
            "for metrics in (self.train_metrics, self.valid_metrics):\n                    metrics.reset()",
        ),
    ),
    "by another name": twin(
        TRACKER,
        (
            "self.valid_metrics = Tracker",
            "self.metrics = self.train_metrics\n                self.valid_metrics = Tracker",
        ),
        ("self.valid_metrics.reset", "self.metrics.reset"),
    ),
    "the same by another name": twin(
        TRACKER, ('self.valid_metrics = Tracker("loss")', "self.valid_metrics = self.train_metrics")
    ),
    "handed over": twin(
        TRACKER, ("self.valid_metrics.reset()", "begin(self.train_metrics.reset, self.valid_metrics.reset)")
    ),
    "of a local name": twin(
        TRACKER,
        ("self.valid_metrics.reset()", "metrics = self.train_metrics\n                metrics.reset()"),
    ),
    "numbers": twin(TRACKER, ('"loss", loss)', '"loss", loss.item())')),
    "by the method of the base": twin(HOOKED, (OWN_HOOK, f"super().on_epoch_end()\n                {OWN_HOOK}")),
    "by the method of the base, by its name": twin(HOOKED, (OWN_HOOK, "Base.on_epoch_end(self)")),
    "by the method of the base, handed over": twin(HOOKED, (OWN_HOOK, "return super(Net, self).on_epoch_end()")),
    "by its own method": twin(HOOKED, (OWN_HOOK, "self.outputs.clear()")),
    "by a method that it inherits": twin(
        HOOKED,
        (OWN_HOOK, "self.forget()"),
        ("            def on_epoch_end(self):\n                self.outputs.clear()", EMPTYING),
    ),
    "of a class that has none of its own": twin(
        HOOKED, ("            def on_epoch_end(self):\n                print(len(self.outputs))\n", "")
    ),
    "of a class beside it": twin(
        HOOKED,
        ("def main", "class Other(Base):\n            forward = nn.Identity.forward\n\n        def main"),
        ("            fit(Net(), loader)", "            fit(Other(), loader)\n            fit(Net(), loader)"),
    ),
    "of a class derived from it, which has its own": twin(
        HOOKED,
        ("def main", f"class Wide(Net):\n{EMPTYING}\n\n        def main"),
        ("fit(Net(), loader)", "fit(Wide(), loader)"),
        ("def forget", "def on_epoch_end"),
    ),
    "numbers of a step": twin(HOOKED, ("append(out)", "append({'loss': out['loss'].item()})")),
}


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name: str) -> None:
    assert_flagged(*FLAGGED[name])


@pytest.mark.parametrize("name", LOOKALIKES)
def test_lookalikes(name: str) -> None:
    assert_clean(LOOKALIKES[name])


DEPOSIT = """
    _SCORES = []

    def deposit(scores):
        global _SCORES
        _SCORES.append(scores)

    def balance():
        return sum(scores.mean() for scores in _SCORES)

    def empty():
        _SCORES.clear()
"""
EXPERTS = """
    import torch
    from torch import nn
    from balance import deposit

    class Experts(nn.Module):
        def __init__(self):
            super().__init__()
            self.router, self.out = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x):
            scores = self.router(x).softmax(-1)
            deposit(scores)
            return self.out(x) * scores

    def check(x):
        out = Experts()(x).mean()
        out.backward()
"""
SEEN = """
    import torch
    from balance import deposit

    def train(net, loader, optimizer):
        for x, y in loader:
            loss = torch.nn.functional.mse_loss(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            deposit(loss)
"""


@pytest.mark.parametrize("empties", ["_SCORES.clear()", "global _SCORES\n        _SCORES = []", "del _SCORES[:]"])
def test_a_global_of_another_file_that_its_users_are_to_empty(tmp_path: Path, empties: str) -> None:
    files = {"balance.py": DEPOSIT.replace("_SCORES.clear()", empties), "experts.py": EXPERTS}
    assert lines_in_files(tmp_path, files, "GG107") == []


@pytest.mark.parametrize("empties", ["_OTHER_SCORES.clear()", "_SCORES.sort()", "_SCORES = []", "pass"])
def test_a_global_of_another_file_that_nothing_empties(tmp_path: Path, empties: str) -> None:
    files = {"balance.py": DEPOSIT.replace("_SCORES.clear()", empties), "experts.py": EXPERTS}
    assert lines_in_files(tmp_path, files, "GG107") == [("experts.py", 13)]


def test_a_global_of_another_file_that_the_loop_does_not_empty(tmp_path: Path) -> None:
    assert lines_in_files(tmp_path, {"balance.py": DEPOSIT, "seen.py": SEEN}, "GG107") == [("seen.py", 11)]
    emptied = SEEN.replace("import deposit", "import deposit, empty") + "            empty()\n"
    assert lines_in_files(tmp_path, {"balance.py": DEPOSIT, "seen.py": emptied}, "GG107") == []


TURING = """
        class Memory(nn.Module):
            def __init__(self, size: int):
                super().__init__()
                self.register_buffer("begin", torch.ones(size) * 1e-6)

            def reset(self, batch_size: int):
                self.matrix = self.begin.clone().repeat(batch_size, 1, 1)

            def write(self, w, e):
                self.matrix = self.matrix * (1 - w) + e

        class Head(nn.Module):
            def __init__(self, memory: Memory, hidden: int):
                super().__init__()
                self.memory = memory
                self.erase = nn.Linear(hidden, 3)

        class WriteHead(Head):
            def __init__(self, memory: Memory, hidden: int):
                super().__init__(memory=memory, hidden=hidden)
                self.weigh = nn.Linear(hidden, 3)

            def forward(self, x):
                self.memory.write(self.weigh(x), self.erase(x))  # !

        class Turing(nn.Module):
            def __init__(self):
                super().__init__()
                self.memory = Memory(3)
                self.head = WriteHead(memory=self.memory, hidden=30)
                self.out = nn.Linear(3, 5)

            def begin(self, batch_size: int):
                self.memory.reset(batch_size)

            def forward(self, x):
                self.head(x)
                return self.out(x)

        def step(model: Turing, optimizer, xs, y):
            BEGIN
            seen = []
            for x in xs:
                seen.append(model(x))
            loss = F.cross_entropy(torch.stack(seen), y)
            model.zero_grad()
            loss.backward()
            optimizer.step()

        model = Turing()
        optimizer = torch.optim.Adam(model.parameters())
        for xs, y in loader:
            step(model, optimizer, xs, y)
"""
BEGUN = TURING.replace("BEGIN", "model.begin(8)")


@pytest.mark.parametrize(
    "edit",
    [
        ("model.begin(8)", "model.begin(8)"),
        ("model.begin(8)", "model.memory.reset(8)"),
        ("memory=self.memory, hidden=30", "self.memory, 30"),
        ("super().__init__(memory=memory, hidden=hidden)", "Head.__init__(self, memory, hidden)"),
    ],
)
def test_the_memory_of_a_part_is_that_of_the_whole(edit: tuple[str, str]) -> None:
    assert_clean(twin(BEGUN, edit), "GG107")


@pytest.mark.parametrize(
    "edit",
    [
        ("model.begin(8)", "pass"),
        ("model.begin(8)", "model.head.train()"),
        ("self.memory = memory", "self.memory = Memory(3)"),
        ("self.memory = memory", "self.memory = memory or Memory(3)"),
        ("memory=self.memory, hidden=30", "memory=Memory(3), hidden=30"),
        ("self.out = nn.Linear(3, 5)", "self.out, self.memory = nn.Linear(3, 5), Memory(3)"),
    ],
)
def test_the_memory_of_a_part_that_is_never_begun_anew(edit: tuple[str, str]) -> None:
    assert_flagged(BEGUN.replace(*edit), "GG107")


PROBED = (
    BEGUN[: BEGUN.index("        def step")]
    + """
        def probe(model: Turing, xs):
            model.eval()
            model.begin(8)
            return [model(x).argmax(-1) for x in xs[:2]], predict(model, xs)

        def predict(model: Turing, xs):
            model.eval()
            model.begin(8)
            out = 0
            for x in xs:
                out += model(x).argmax(-1)
            return out
"""
)


def test_a_state_that_is_evaluated_as_it_is_trained() -> None:
    assert_clean(twin(PROBED), "GG107")
    assert_flagged(PROBED.replace("for x in xs:", "for x, _ in loader:"), "GG107")
    assert_flagged(PROBED.replace("model.begin(8)\n            out", "out"), "GG107")


DRAINED = {
    "agent.py": """
        import torch
        from torch import nn

        class Agent:
            def __init__(self):
                self.net = nn.Linear(3, 3)
                self.optimizer = torch.optim.Adam(self.net.parameters())
                self.loss = self.count = 0

            def act(self, x):
                out = self.net(x)
                loss = out.pow(2).mean()
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                self.loss += loss
                return out.detach()

            def report(self):
                losses = {"loss": float(self.loss)}
                self.loss = 0
                return losses
    """,
    "loop.py": """
        from agent import Agent

        def play(env, steps):
            agent = Agent()
            x = env.reset()
            for step in range(steps):
                out = agent.act(x)
                x = env.step(out)
                print(agent.report())
            return agent

        def test(agent, env):
            x = env.reset()
            while not env.done:
                x = env.step(agent.act(x))
    """,
}
REPORT, START, RESET = (
    "                print(agent.report())",
    "            for step in range(steps):",
    "self.loss = 0\n",
)
LINE = 17


def drained(folder: Path, *edits: tuple[str, str]) -> list[tuple[str, int]]:
    files = dict(DRAINED)
    for old, new in edits:
        assert any(old in text for text in files.values()), old
        files = {name: text.replace(old, new) for name, text in files.items()}
    return lines_in_files(folder, files, "GG103")


@pytest.mark.parametrize(
    "edits",
    [
        [],
        [(RESET, "self.loss, self.count = 0, 1\n")],
        [(RESET, "self.loss = self.count = torch.zeros(1)\n")],
        [(RESET, "with torch.no_grad():\n                    self.loss = torch.zeros(1)\n")],
        [(REPORT, "                with env.lock:\n                    print(agent.report())")],
        [("out = agent.act(x)", "out = agent.act(x) if env.mine else None")],
        [("agent = Agent()", "agent = env.made(Agent)")],
        [("from agent import Agent", "import torch")],
        [(START, "            while True:")],
    ],
)
def test_a_sum_that_the_caller_begins_anew_each_time(edits: list[tuple[str, str]], tmp_path: Path) -> None:
    assert drained(tmp_path, *edits) == []


@pytest.mark.parametrize(
    "edits",
    [
        [(REPORT, "                pass")],
        [(REPORT, "            print(agent.report())")],
        [(REPORT, "                if step % 100 == 0:\n                    print(agent.report())")],
        [
            (
                REPORT,
                "                if env.quiet:\n                    continue\n                print(agent.report())",
            )
        ],
        [(REPORT, "                print(env.report())")],
        [(RESET, "self.count = 0\n")],
        [(RESET, "self.loss = self.loss * 0.9\n")],
        [(RESET, "if self.count > 100:\n                    self.loss = 0\n")],
        [('losses = {"loss"', 'if not self.count:\n                    return {}\n                losses = {"loss"')],
        [("def report(", "def reset_all("), ("agent.report()", "agent.summary()")],
    ],
)
def test_a_sum_that_the_caller_lets_grow(edits: list[tuple[str, str]], tmp_path: Path) -> None:
    assert ("agent.py", LINE) in drained(tmp_path, *edits)


HISTORY = """
    class Callbacks:
        def __init__(self, callbacks):
            self.callbacks = list(callbacks)

        def {begin}(self):
            for each in self.callbacks:
                each.{begin}()

        def on_batch_end(self, logs):
            for each in self.callbacks:
                each.on_batch_end(logs)

    class History:
        def {begin}(self):
            {empties}

        def on_batch_end(self, logs):
            self.rows.append(logs)

    class Trainer:
        def __init__(self, net):
            self.net, self.callbacks = net, Callbacks([History()])
            self.opt = torch.optim.SGD(net.parameters(), 0.1)

        def fit(self, loader):
            {before}
            for epoch in range(10):
                {inside}
                for x in loader:
                    loss = self.net(x).mean()
                    self.opt.zero_grad()
                    loss.backward()
                    self.opt.step()
                    self.callbacks.on_batch_end({{"loss": loss}})  # !
"""
ONCE = [
    "on_train_begin",
    "on_train_start",
    "on_fit_start",
    "before_fit",
    "begin_fit",
    "before_run",
    "on_training_start",
]
EACH = ["on_epoch_begin", "on_batch_begin", "before_batch", "before_train", "reset", "on_train_epoch_start", "begin"]


@pytest.mark.parametrize("empties", ["self.rows = []", "self.rows.clear()"])
@pytest.mark.parametrize("begin", ONCE)
def test_what_is_begun_with_the_training_grows_in_it(begin: str, empties: str) -> None:
    call = f"self.callbacks.{begin}()"
    assert_flagged(HISTORY.format(begin=begin, empties=empties, before=call, inside="pass"), "GG107")


@pytest.mark.parametrize("empties", ["self.rows = []", "self.rows.clear()"])
@pytest.mark.parametrize("begin", EACH)
def test_what_is_begun_anew_in_the_training_does_not(begin: str, empties: str) -> None:
    call = f"self.callbacks.{begin}()"
    assert_clean(twin(HISTORY.format(begin=begin, empties=empties, before="pass", inside=call)), "GG107")
