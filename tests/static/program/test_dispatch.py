from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, findings, lines_in_files, twin

CALLBACKS = """
        class Callback:
            def on_step_end(self, trainer, loss):
                pass

        class Curve(Callback):
            def __init__(self):
                self.values = []

            def on_step_end(self, trainer, loss):
                self.values.append({stored})

        class Printer(Callback):
            def on_step_end(self, trainer, loss):
                print(float(loss))
"""

TRAINER = """
        class Trainer:
            def __init__(self, model, optimizer, callbacks=()):
                self.model = model
                self.optimizer = optimizer
                self.callbacks = list(callbacks)
                self.state = None

            def fire(self, event, *args):
                for callback in self.callbacks:
                    getattr(callback, event)(self, *args)

            def fit(self, loader):
                for x, y in loader:
                    loss = F.mse_loss(self.model(x), y)
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()
"""

FLAGGED = {
    "an append of two things": """
        class Storage:
            def __init__(self):
                self.values = defaultdict(list)

            def append(self, losses, split):
                for name, loss in losses.items():
                    self.values[name, split].append(loss)

        class Trainer:
            def __init__(self, model, optimizer, storage):
                self.model, self.optimizer, self.storage = model, optimizer, storage

            def fit(self, loader):
                for x, y in loader:
                    loss = F.mse_loss(self.model(x), y)
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()
                    self.storage.append({"loss": loss}, "train")  # !
    """,
    "a loop over callbacks": CALLBACKS.format(stored="loss")
    + TRAINER
    + """
                    for callback in self.callbacks:
                        callback.on_step_end(self, loss)  # !
    """,
    "an event's name that a method is given": CALLBACKS.format(stored="loss")
    + TRAINER
    + """
                    self.fire("on_step_end", loss)  # !
    """,
    "several events, each fired by its name": """
        class Callback:
            def on_fit_begin(self, trainer): pass
            def on_step_end(self, trainer, logs): pass
            def on_epoch_end(self, trainer, logs): pass

        class Curve(Callback):
            def on_fit_begin(self, trainer):
                self.values = defaultdict(list)

            def on_step_end(self, trainer, logs):
                for name, value in logs.items():
                    self.values[name].append(value)

        class Callbacks:
            def __init__(self, callbacks):
                self.callbacks = list(callbacks)

            def fire(self, event, *args):
                for callback in self.callbacks:
                    getattr(callback, event)(*args)

        class Trainer:
            def __init__(self, model, optimizer, callbacks=()):
                self.model, self.optimizer, self.callbacks = model, optimizer, Callbacks(callbacks)

            def fit(self, loader, epochs):
                self.callbacks.fire("on_fit_begin", self)
                for epoch in range(epochs):
                    logs = {}
                    for x, y in loader:
                        loss = F.mse_loss(self.model(x), y)
                        self.optimizer.zero_grad()
                        loss.backward()
                        self.optimizer.step()
                        logs = {"loss": loss}
                        self.callbacks.fire("on_step_end", self, logs)  # !
                    self.callbacks.fire("on_epoch_end", self, logs)
    """,
    "a comprehension": CALLBACKS.format(stored="loss")
    + TRAINER
    + """
                    [callback.on_step_end(self, loss) for callback in self.callbacks]  # !
    """,
    "what a callback reads of its trainer": """
        class Curve:
            def __init__(self):
                self.values = []

            def after_step(self, learner):
                self.values.append(learner.loss)  # !
    """
    + TRAINER
    + """
                    self.loss = loss
                    for plugin in sorted(self.callbacks, key=lambda plugin: plugin.order):
                        plugin.after_step(self)
    """,
    "a meter from a registry": """
        class Mean:
            def __init__(self):
                self.total, self.count = 0.0, 0

            def record(self, value, n=1):
                self.total += value * n
                self.count += n

        METERS = {"mean": Mean}

        def train(model, optimizer, loader, name):
            meter = METERS[name]()
            for x, y in loader:
                loss = F.mse_loss(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                meter.record(loss, x.size(0))  # !
    """,
    "a dict of objects": """
        class Tracker:
            def __init__(self):
                self.seen = []

            def track(self, value):
                self.seen.append(value)

        def train(model, optimizer, loader, trackers):
            for x, y in loader:
                loss = F.mse_loss(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                for name, tracker in trackers.items():
                    tracker.track(loss)  # !
    """,
}

CLEAN = {
    "callbacks that keep numbers": CALLBACKS.format(stored="loss.item()")
    + TRAINER
    + """
                    for callback in self.callbacks:
                        callback.on_step_end(self, loss)
    """,
    "what is handed over is a number": CALLBACKS.format(stored="loss")
    + TRAINER
    + """
                    for callback in self.callbacks:
                        callback.on_step_end(self, loss.item())
                    self.fire("on_step_end", loss.detach())
    """,
    "another event": CALLBACKS.format(stored="loss")
    + TRAINER
    + """
                    self.fire("on_batch_end", loss)
    """,
    "callbacks that are made for each batch": CALLBACKS.format(stored="loss")
    + TRAINER
    + """
                    made = [Curve(), Printer()]
                    for callback in made:
                        callback.on_step_end(self, loss)
    """,
    "callbacks under no_grad": CALLBACKS.format(stored="loss")
    + """
        class Trainer:
            def __init__(self, model, callbacks=()):
                self.model = model
                self.callbacks = list(callbacks)

            @torch.no_grad()
            def evaluate(self, loader):
                for x, y in loader:
                    loss = F.mse_loss(self.model(x), y)
                    for callback in self.callbacks:
                        callback.on_step_end(self, loss)
    """,
    "a name that dicts and tensors have too": """
        class Mean:
            def __init__(self):
                self.total = 0.0

            def update(self, value):
                self.total += value

            def mean(self, value):
                self.total += value

        def train(model, optimizer, loader, logs):
            for x, y in loader:
                loss = F.mse_loss(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                logs.update(loss=float(loss))
                spread = x.std() if logs is None else logs.mean(loss)
    """,
    "an append that makes numbers": """
        class Storage:
            def __init__(self):
                self.values = defaultdict(list)

            def append(self, losses, split):
                for name, loss in losses.items():
                    self.values[name, split].append(loss.item())

        class Trainer:
            def __init__(self, model, optimizer, storage):
                self.model, self.optimizer, self.storage = model, optimizer, storage

            def training_step(self, batch):
                x, y = batch
                loss = F.mse_loss(self.model(x), y)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                self.storage.append({"loss": loss}, "train")
    """,
    "only the base has it, and does nothing": """
        class Callback:
            def on_step_end(self, trainer, loss):
                \"\"\"Called after each step.\"\"\"
    """
    + TRAINER
    + """
                    for callback in self.callbacks:
                        callback.on_step_end(self, loss)
    """,
    "a collection that the method empties": """
        class Smooth:
            def __init__(self):
                self.window = []

            def record(self, value):
                self.window.append(value)
                if len(self.window) == 10:
                    print(float(sum(self.window)))
                    self.window.clear()

        def train(model, optimizer, loader, meters):
            for x, y in loader:
                loss = F.mse_loss(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                for meter in meters:
                    meter.record(loss)
    """,
}


@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name: str) -> None:
    code = "GG104" if name == "what a callback reads of its trainer" else "GG107"
    assert_flagged(FLAGGED[name], code)
    assert {finding.code for finding in findings(FLAGGED[name])} == {code}


@pytest.mark.parametrize("name", CLEAN)
def test_clean(name: str) -> None:
    assert_clean(CLEAN[name])


CURVE = """
class Curve:
    def __init__(self):
        self.values = []

    def on_step_end(self, logs):
        self.values.append(logs["loss"])
"""
FIT = """
import torch

class Trainer:
    def __init__(self, model, optimizer, callbacks):
        self.model, self.optimizer, self.callbacks = model, optimizer, callbacks

    def fit(self, loader):
        for x, y in loader:
            loss = torch.nn.functional.mse_loss(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            for callback in self.callbacks:
                callback.on_step_end({"loss": loss})
"""
MAIN = """
import torch
from curve import Curve
from trainer import Trainer

model = torch.nn.Linear(2, 2)
Trainer(model, torch.optim.SGD(model.parameters(), 0.1), [Curve()]).fit([])
"""


def test_a_class_in_another_file_of_the_program(tmp_path: Path) -> None:
    files = {"curve.py": CURVE, "trainer.py": FIT, "main.py": MAIN}
    assert lines_in_files(tmp_path, files) == [("trainer.py", 15)]


def test_a_class_of_another_program_says_nothing(tmp_path: Path) -> None:
    assert lines_in_files(tmp_path, {"curve.py": CURVE, "trainer.py": FIT}) == []


def test_a_name_that_many_classes_have_says_nothing(tmp_path: Path) -> None:
    many = "\n".join(CURVE.replace("class Curve", f"class Curve{number}") for number in range(9))
    assert lines_in_files(tmp_path, {"curve.py": CURVE + many, "trainer.py": FIT, "main.py": MAIN}) == []


METRICS = """
        class Metric:
            def __init__(self):
                self.count = 0

            def __call__(self, out, y):
                self.count += 1
                self.note(out, y)

            def note(self, out, y):
                raise NotImplementedError

        class Gap(Metric):
            def __init__(self):
                super().__init__()
                self.total = torch.zeros(3)

            def note(self, out, y):
                gap = (out - y).abs()
                self.total = self.total + gap.sum(0)

        class Hits(Metric):
            def __init__(self):
                super().__init__()
                self.hits = 0

            def note(self, out, y):
                self.hits += (out.argmax(-1) == y.argmax(-1)).sum().item()

        class Collection:
            def __init__(self{taken}):
                self.metrics = {kept}

            def update(self, out, y):
                for {target} in self.metrics{over}:
                    metric(out, y)

        def train(net, loader, optimizer):
            lifetime = Collection({given})
            for x, y in loader:
                out = net(x)
                optimizer.zero_grad()
                F.mse_loss(out, y).backward()
                optimizer.step()
                lifetime.update(out, y)  # !
"""
IN_DICT = {"target": "metric", "over": ".values()"}
IN_LIST = {"target": "metric", "over": ""}
COLLECTIONS = {
    "keywords": METRICS.format(taken=", **metrics", kept="metrics", given="gap=Gap(), hits=Hits()", **IN_DICT),
    "a dict": METRICS.format(
        taken=", metrics", kept="dict(metrics)", given="{'gap': Gap(), 'hits': Hits()}", **IN_DICT
    ),
    "its items": METRICS.format(
        taken=", metrics", kept="metrics", given="dict(gap=Gap())", target="name, metric", over=".items()"
    ),
    "arguments": METRICS.format(taken=", *metrics", kept="list(metrics)", given="Gap(), Hits()", **IN_LIST),
    "a list": METRICS.format(taken=", metrics", kept="metrics", given="[Gap(), Hits()]", **IN_LIST),
    "its own": METRICS.format(taken="", kept="[Gap(), Hits()]", given="", **IN_LIST),
}


@pytest.mark.parametrize("name", COLLECTIONS)
def test_elements_that_are_called(name: str) -> None:
    assert_flagged(COLLECTIONS[name], "GG107")


@pytest.mark.parametrize("name", COLLECTIONS)
@pytest.mark.parametrize(
    "edit",
    [
        ("(out - y).abs()", "(out - y).abs().detach()"),
        ("self.note(out, y)", "self.note(out.detach(), y)"),
        ("def update(self", "@torch.no_grad()\n            def update(self"),
        ("self.total = self.total + gap.sum(0)", "self.total = gap.sum(0)"),
    ],
)
def test_elements_that_keep_nothing(name: str, edit: tuple[str, str]) -> None:
    assert_clean(twin(COLLECTIONS[name], edit), "GG107")


AGENT = """
        class Agent:
            def __init__(self, capacity=200_000):
                self.q = nn.Linear(3, 2)
                self.optimizer = torch.optim.Adam(self.q.parameters())
                self.memory = deque(maxlen=capacity)

            def act(self, obs):
                return self.q(obs).max()

            def remember(self, *fields):
                self.memory.append(fields)

            def learn(self):
                loss = self.q(torch.randn(8, 3)).pow(2).mean()
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()

        class Bold(Agent):
            temperature = 2.0

        class Shy(Agent):
            temperature = 0.5

        AGENTS = {registry}

        def make_agent(name, **settings):
            {chosen}

        def play(env, config):
            agent = make_agent(config.agent)
            obs = torch.randn(3)
            for step in range(1000):
                value = agent.act(obs)
                reward = env.step(value.item())
                agent.remember(obs, reward, value)  # !
                agent.learn()
"""
REGISTRIES = {
    "one class": AGENT.format(registry='{"bold": Bold}', chosen="return AGENTS[name](**settings)"),
    "several classes of one family": AGENT.format(
        registry='{"bold": Bold, "shy": Shy}', chosen="return AGENTS[name](**settings)"
    ),
    "a family with its parent": AGENT.format(
        registry="dict(plain=Agent, bold=Bold)", chosen="cls = AGENTS[name]\n            return cls(**settings)"
    ),
    "looked up": AGENT.format(
        registry='{"bold": Bold, "shy": Shy}', chosen="cls = AGENTS.get(name)\n            return cls(**settings)"
    ),
}


@pytest.mark.parametrize("name", REGISTRIES)
def test_a_class_of_a_registry(name: str) -> None:
    assert_flagged(REGISTRIES[name], "GG107")


@pytest.mark.parametrize("name", REGISTRIES)
@pytest.mark.parametrize(
    "edit",
    [
        ("return self.q(obs).max()", "return self.q(obs).max().detach()"),
        ("def act(self, obs):", "@torch.no_grad()\n            def act(self, obs):"),
        ("capacity=200_000", "capacity=200"),
        ("self.memory.append(fields)", "self.memory.append([f.item() if torch.is_tensor(f) else f for f in fields])"),
        ("agent.remember(obs, reward, value)", "agent.remember(obs, reward, float(value.detach()))"),
        ("agent.learn()", "agent.learn()\n                agent.memory.clear()"),
    ],
)
def test_a_class_of_a_registry_that_keeps_no_graph(name: str, edit: tuple[str, str]) -> None:
    assert_clean(twin(REGISTRIES[name], edit), "GG107")


REGISTER = """{{}}

        def register(name):
            def keep(cls):
                {kept}
                return cls

            return keep
"""
DECORATED = (
    AGENT.format(registry=REGISTER, chosen="return AGENTS[name](**settings)")
    .replace("class Bold", '@register("bold")\n        class Bold')
    .replace("class Shy", '@register("shy")\n        class Shy')
)
KEEPING = [
    "AGENTS[name] = cls",
    "AGENTS.setdefault(name, cls)",
    "assert name not in AGENTS\n                AGENTS[name] = cls",
]


@pytest.mark.parametrize("kept", KEEPING)
def test_a_registry_that_a_decorator_fills(kept: str) -> None:
    assert_flagged(DECORATED.format(kept=kept), "GG107")


@pytest.mark.parametrize("kept", KEEPING)
@pytest.mark.parametrize(
    "edit",
    [
        ("return self.q(obs).max()", "return self.q(obs).max().item()"),
        ("def act(self, obs):", "@torch.no_grad()\n            def act(self, obs):"),
        ("capacity=200_000", "capacity=200"),
        ("agent.learn()", "agent.learn()\n                agent.memory.clear()"),
    ],
)
def test_a_registry_that_a_decorator_fills_with_what_keeps_no_graph(kept: str, edit: tuple[str, str]) -> None:
    assert_clean(twin(DECORATED.format(kept=kept), edit), "GG107")


AVERAGES = """
        AVERAGES = {{}}

        class Average:
            table = {{}}

            def __init_subclass__(cls, name, **kwargs):
                super().__init_subclass__(**kwargs)
                {kept}

            def __init__(self, model):
                self.shadow = [p.detach().clone() for p in model.parameters()]

            def mix(self, average, value):
                raise NotImplementedError

            def update(self, model):
                self.shadow = [self.mix(s, p) for s, p in zip(self.shadow, model.parameters())]  # !

        class Exponential(Average, name="ema"):
            def mix(self, average, value):
                return average * 0.9 + value * 0.1

        def train(model, loader, opt, name):
            average = {made}
            for x, y in loader:
                loss = F.mse_loss(model(x), y)
                opt.zero_grad()
                loss.backward()
                opt.step()
                average.update(model)
"""
HEIRS = [
    ("AVERAGES[name] = cls", "AVERAGES[name](model)"),
    ("cls.table[name] = cls", "Average.table[name](model)"),
    ("globals()[name] = cls", "globals()[name](model)"),
]


@pytest.mark.parametrize(("kept", "made"), HEIRS)
def test_an_object_that_is_updated_from_a_module_is_no_collection(kept: str, made: str) -> None:
    averages = AVERAGES.format(kept=kept, made=made)
    assert_flagged(averages, "GG105")
    for edit in (
        ("value * 0.1", "value.detach() * 0.1"),
        ("def update(self", "@torch.no_grad()\n            def update(self"),
        ("average.update(model)", "average.update({'model': model})"),
        ("average.update(model)", "with torch.no_grad():\n                    average.update(model)"),
        (f"average = {made}", "from timm.utils import ModelEma\n            average = ModelEma(model)"),
    ):
        assert_clean(twin(averages, edit))


REGISTERING = """
PROBES = {}

def probe(name):
    def keep(cls):
        PROBES[name] = cls
        return cls
    return keep

def make(name, *args):
    return PROBES[name](*args)
"""
PROBE = """
import torch
from registry import probe

@probe("act")
class Act:
    def __init__(self, layer):
        self.act = None
        self.handle = layer.register_forward_hook(self.look)

    def look(self, layer, given, output):
        self.act = output.detach().mean()
"""
USER = """
import torch
import probes
from registry import make

def train(model, loader, optimizer):
    for x, y in loader:
        probe = make("act", model[0])
        loss = torch.nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(probe.act)
"""


def test_a_class_that_another_file_registers(tmp_path: Path) -> None:
    files = {"registry.py": REGISTERING, "probes.py": PROBE, "train.py": USER}
    assert lines_in_files(tmp_path, files) == [("probes.py", 9)]
    removed = USER + "        probe.handle.remove()\n"
    assert lines_in_files(tmp_path, {**files, "train.py": removed}) == []
    assert lines_in_files(tmp_path, {**files, "probes.py": PROBE.replace('@probe("act")', "")}) == []


def test_a_decorator_that_keeps_other_things_than_classes() -> None:
    for kept in ("AGENTS[name] = cls.__doc__", "AGENTS[name] = len(AGENTS)", "print(name, cls)"):
        assert_clean(twin(DECORATED.format(kept=kept)), "GG107")
    strangers = DECORATED.format(kept=KEEPING[0]).replace("class Shy(Agent)", "class Shy")
    assert_clean(twin(strangers), "GG107")


def test_classes_that_have_nothing_in_common() -> None:
    strangers = AGENT.format(registry='{"bold": Bold, "other": Other}', chosen="return AGENTS[name](**settings)")
    other = "class Other:\n            def act(self, obs):\n                return 0\n\n        AGENTS"
    assert_clean(twin(strangers, ("AGENTS = {", other + " = {")), "GG107")


def test_the_argument_that_has_the_graph_is_named() -> None:
    (finding,) = findings(REGISTRIES["one class"], "GG107")
    assert "`value` is kept" in finding.message


FORWARDED = """
        class Dice:
            def __init__(self):
                self.overlap = 0.0

            def {name}(self, out, y):
                self.overlap += (out.sigmoid() * y).sum()

        class Accuracy:
            def __init__(self):
                self.hits = 0

            def {name}(self, out, y):
                self.hits += ((out > 0) == y).sum().item()

        class Meters:
            def __init__(self, **meters):
                self.meters = meters

            def {name}(self, {taken}):
                for meter in self.meters.values():
                    meter.{name}({given})

        def train(net, loader, optimizer):
            meters = Meters(dice=Dice(), accuracy=Accuracy())
            for x, y in loader:
                out = net(x)
                optimizer.zero_grad()
                F.binary_cross_entropy_with_logits(out, y).backward()
                optimizer.step()
                meters.{name}(out, y)  # !
"""
ALL = "*args, **kwargs"
FORWARDING = {
    "all positional arguments": FORWARDED.format(name="update", taken="*values", given="*values"),
    "all arguments": FORWARDED.format(name="update", taken=ALL, given=ALL),
    "to add": FORWARDED.format(name="add", taken="*args", given="*args"),
}


@pytest.mark.parametrize("name", FORWARDING)
def test_all_arguments_are_handed_on_to_each_element(name: str) -> None:
    assert_flagged(FORWARDING[name], "GG107")


@pytest.mark.parametrize("name", FORWARDING)
@pytest.mark.parametrize(
    "edit",
    [
        ("(out.sigmoid() * y).sum()", "float((out.detach().sigmoid() * y).sum())"),
        ("(out, y)\n", "(out.detach(), y)\n"),
        ("self.overlap += (out", "self.overlap = (out"),
        ("(out.sigmoid() * y).sum()", "(y * y).sum()"),
        ("(out.sigmoid() * y).sum()", "(out.detach().sigmoid() * y).sum()"),
    ],
)
def test_elements_that_are_handed_all_and_keep_nothing(name: str, edit: tuple[str, str]) -> None:
    assert_clean(twin(FORWARDING[name], edit), "GG107")


METER_OR_BUFFER = """
        class Buffer:
            def __init__(self, size):
                self.rows = []

            def update({taken}):
                self.rows.append({kept})

        class Meter:
            def __init__(self):
                self.total, self.count = 0.0, 0

            def update(self, value, n=1):
                self.total += float(value) * n
                self.count += n

        def train(model, optimizer, loader, meters):
            for x, y in loader:
                loss = F.mse_loss(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                meters["loss"].update({given})  # !
"""
TAKING = [
    ("self, samples, labels, step", "samples", "loss"),
    ("self, samples, labels, *, step", "samples", "loss, 1"),
    ("self, samples, step=0", "samples", "loss, n=1"),
    ("self, samples", "samples", "loss, 1"),
    ("self", "self.last", "loss"),
]


@pytest.mark.parametrize(("taken", "kept", "given"), TAKING)
def test_a_method_that_does_not_take_these_arguments_is_not_called(taken: str, kept: str, given: str) -> None:
    assert_clean(twin(METER_OR_BUFFER.format(taken=taken, kept=kept, given=given)))


@pytest.mark.parametrize(
    ("taken", "kept", "given"),
    [
        ("self, sample", "sample", "loss"),
        ("self, sample, step=0", "sample", "loss, 1"),
        ("self, sample, n", "sample", "loss, n=x.size(0)"),
        ("self, *samples", "samples", "loss, 1"),
        ("self, sample, **others", "sample", "loss, n=1"),
    ],
)
def test_a_method_that_takes_these_arguments_may_be_called(taken: str, kept: str, given: str) -> None:
    assert_flagged(METER_OR_BUFFER.format(taken=taken, kept=kept, given=given), "GG107")


def test_a_decorator_may_change_what_a_method_takes() -> None:
    decorated = METER_OR_BUFFER.format(taken="self, sample, rank, step", kept="sample", given="loss").replace(
        "def update(self, sample, rank", "@fill_in\n            def update(self, sample, rank"
    )
    assert_flagged(decorated, "GG107")


CALLED_BACK = """
        class Log:
            def __init__(self):
                self.rows = []

            def __call__(self, step, loss):
                self.rows.append(loss)

        class Printer:
            def __call__(self, step, loss):
                print(step, loss.item())

        def main(model, loader, opt):
            callbacks = [Log(), printer := Printer()]
            for step, (x, y) in enumerate(loader):
                loss = F.cross_entropy(model(x), y)
                opt.zero_grad()
                loss.backward()
                opt.step()
                for cb in callbacks:
                    cb(step, loss)  # !
"""


@pytest.mark.parametrize("made", ["[Log(), printer := Printer()]", "(Printer(), Log())", "[Log(), Printer(), Log()]"])
def test_objects_of_several_classes_that_are_called(made: str) -> None:
    assert_flagged(CALLED_BACK.replace("[Log(), printer := Printer()]", made), "GG107")


@pytest.mark.parametrize(
    "edit",
    [
        ("[Log(), printer := Printer()]", "[print, printer := Printer()]"),
        ("[Log(), printer := Printer()]", "[Log().rows.count, Printer()]"),
        ("append(loss)", "append(loss.item())"),
        ("self.rows.append(loss)", "self.rows = [loss]"),
        ("cb(step, loss)", "cb(step, loss.detach())"),
        (
            "def __call__(self, step, loss):\n                self.rows",
            "def note(self, step, loss):\n                self.rows",
        ),
    ],
)
def test_objects_of_several_classes_that_keep_nothing(edit: tuple[str, str]) -> None:
    assert_clean(twin(CALLED_BACK, edit))


SEARCHED = """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.lin = nn.Linear(3, 3)

            def forward(self, x):
                return self.lin(x)

            def search(self, x):
                return [self.lin(x).sum() for _ in range(3)]

        class Best:
            def __init__(self, held_out):
                self.held_out, self.found = held_out, {}

            def on_step_end(self, trainer, step):
                found = trainer.model.search(self.held_out)
                self.found[step] = found  # !

        class Trainer:
            def __init__(self, model, callbacks):
                self.model, self.callbacks = model, callbacks
                self.optimizer = torch.optim.Adam(model.parameters())

            def fire(self, event, *args):
                for callback in self.callbacks:
                    getattr(callback, event)(self, *args)

            def fit(self, loader):
                for step, (x, y) in enumerate(loader):
                    loss = F.mse_loss(self.model(x), y)
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()
                    self.fire("on_step_end", step)

        def main(loader, held_out):
            Trainer(Net(), [Best(held_out)]).fit(loader)
"""


def test_a_method_of_the_module_of_an_object_that_only_the_run_knows() -> None:
    assert_flagged(SEARCHED, "GG104")
    assert_flagged(SEARCHED.replace("self.held_out)\n", "self.held_out)[0]\n"), "GG104")


@pytest.mark.parametrize(
    "edit",
    [
        ("self.lin(x).sum() for", "self.lin(x).sum().item() for"),
        ("def search", "@torch.no_grad()\n            def search"),
        (
            "                found = trainer",
            "                with torch.no_grad():\n                    found = trainer",
        ),
        ("self.found[step] = found", "self.found[step] = [each.item() for each in found]"),
        ("self.found[step] = found", "self.found = {step: found}"),
        ("def search(self, x):", "def search(self, x, width, depth):"),
        ("def search", "def look"),
        ("class Net(nn.Module)", "class Net"),
    ],
)
def test_a_method_of_such_a_module_that_gives_no_graph(edit: tuple[str, str]) -> None:
    assert_clean(twin(SEARCHED, edit))
