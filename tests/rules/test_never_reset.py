from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files

CODE = "GG419"

METRIC = """
    class Area:
        def __init__(self):
            self.reset()

        def reset(self):
            self.scores, self.labels = [], []

        def update(self, scores, labels):
            self.scores.append(scores.detach().cpu())  # !
            self.labels.append(labels)

        def compute(self):
            scores, labels = torch.cat(self.scores), torch.cat(self.labels)
            return (scores.argsort() * labels).float().mean().item()
"""
SCRIPT = """
    def train(model, loader, optimizer, epochs):
        metric = Area()
        for epoch in range(epochs):
            START
            for x, y in loader:
                scores = model(x).squeeze(1)
                loss = F.binary_cross_entropy_with_logits(scores, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                metric.update(scores, y)
                STEP
            print(epoch, metric.compute())
"""
TRAINER = """
    class Trainer:
        def __init__(self, model, loader):
            self.model, self.loader = model, loader
            self.metric = Area()
            self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def train_step(self, x, y):
            scores = self.model(x).squeeze(1)
            self.optimizer.zero_grad()
            F.binary_cross_entropy_with_logits(scores, y).backward()
            self.optimizer.step()
            self.metric.update(scores, y)

        def train_epoch(self):
            for x, y in self.loader:
                self.train_step(x, y)

        def end_epoch(self, epoch):
            print(epoch, self.metric.compute())
            END

        def fit(self, epochs):
            for epoch in range(epochs):
                START
                self.train_epoch()
                self.end_epoch(epoch)
"""
VALIDATED = """
    @torch.no_grad()
    def validate(model, loader, metric):
        model.eval()
        for x, y in loader:
            metric.update(model(x).squeeze(1), y)
        model.train()
        return metric.compute()

    def fit(model, train_loader, val_loader, optimizer):
        metric = Area()
        for epoch in range(30):
            for x, y in train_loader:
                optimizer.zero_grad()
                F.binary_cross_entropy_with_logits(model(x).squeeze(1), y).backward()
                optimizer.step()
            print(validate(model, val_loader, metric))
"""
COLLECTED = """
    class Metrics:
        def __init__(self, **metrics):
            self.metrics = metrics

        def update(self, scores, labels):
            for metric in self.metrics.values():
                metric.update(scores, labels)

        def reset(self):
            for metric in self.metrics.values():
                metric.reset()

        def compute(self):
            return {name: metric.compute() for name, metric in self.metrics.items()}

    def run(model, loader, optimizer, epochs):
        metrics = Metrics(area=Area())
        while epochs:
            total = 0.0
            for x, y in loader:
                scores = model(x).squeeze(1)
                optimizer.zero_grad()
                loss = F.binary_cross_entropy_with_logits(scores, y)
                loss.backward()
                optimizer.step()
                metrics.update(scores, y)
            print(metrics.compute())
            epochs -= 1
            END
"""
PLAIN = METRIC.replace("  # !", "")


def written(program: str, start: str = "pass", end: str = "pass", step: str = "pass") -> str:
    return program.replace("START", start).replace("END", end).replace("STEP", step)


@pytest.mark.parametrize("program", [SCRIPT, TRAINER, VALIDATED, COLLECTED])
def test_nothing_calls_it(program: str) -> None:
    assert_flagged(METRIC + written(program), CODE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("reset", "clear"),
        ("self.scores.append(scores.detach().cpu())", "self.scores.append(torch.sigmoid(scores.detach()))"),
        ("torch.cat(self.scores), torch.cat(self.labels)", "torch.stack(self.scores), torch.stack(self.labels)"),
        ("class Area:", "class Area(nn.Module):"),
        ("class Area:", "class Base:\n        pass\n\n    class Area(Base):"),
    ],
)
def test_metrics(old: str, new: str) -> None:
    assert old in METRIC
    assert_flagged(METRIC.replace(old, new) + written(SCRIPT), CODE)


@pytest.mark.parametrize(
    "program",
    [
        written(SCRIPT, start="metric.reset()"),
        written(SCRIPT, start="metric = Area()"),
        written(SCRIPT, start="metric.scores, metric.labels = [], []"),
        written(SCRIPT, step="print(metric.compute())").replace("print(epoch, metric.compute())", "pass"),
        written(SCRIPT).replace("            print(epoch, metric.compute())", "        print(metric.compute())"),
        written(SCRIPT).replace("metric.update(scores, y)", "pass").replace("metric.compute()", "loss.item()"),
        written(TRAINER, start="self.metric.reset()"),
        written(TRAINER, end="self.metric.reset()"),
        written(TRAINER, start="self.metric = Area()"),
        written(TRAINER, end="self.begin()") + "\n        def begin(self):\n            self.metric.reset()\n",
        written(TRAINER).replace("= Area()", "= metric").replace("loader):", "loader, metric):"),
        VALIDATED.replace("metric = Area()", "pass").replace("val_loader, metric)", "val_loader, Area())"),
        VALIDATED.replace("model.eval()", "model.eval(); metric.reset()"),
        VALIDATED.replace("model.eval()", "metric = Area(); model.eval()"),
        written(COLLECTED, end="metrics.reset()"),
        written(COLLECTED, end="metrics = Metrics(area=Area())"),
        written(SCRIPT) + "\n    def runs():\n        for seed in range(3):\n            metric = Area()\n",
    ],
)  # fmt: skip
def test_each_epoch_begins_anew(program: str) -> None:
    assert_clean(PLAIN + program, CODE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("self.scores.append(scores.detach().cpu())", "self.scores.append(scores.mean().item())"),
        ("self.scores.append(scores.detach().cpu())", "self.scores = [scores.detach()]"),
        ("self.scores.append(scores.detach().cpu())", "self.scores.append(scores.detach()); del self.scores[:-9]"),
        ("return (", "self.reset()\n            return ("),
        ("torch.cat(self.scores), torch.cat(self.labels)", "self.scores[-1], self.labels[-1]"),
    ],
)
def test_what_is_no_such_metric(old: str, new: str) -> None:
    assert old in PLAIN
    assert_clean(PLAIN.replace(old, new) + written(SCRIPT), CODE)


def test_it_is_trained_in_another_file(tmp_path: Path) -> None:
    metrics = "    import torch\n" + PLAIN
    main = "    import torch\n    import torch.nn.functional as F\n    from metrics import Area\n"
    files = {"metrics.py": metrics, "main.py": main + written(SCRIPT)}
    assert lines_in_files(tmp_path, files, CODE) == [("metrics.py", 11)]
    files["main.py"] = main + written(SCRIPT, start="metric.reset()")
    assert lines_in_files(tmp_path, files, CODE) == []


HANDED = """
    import torch.nn.functional as F

    class Trainer:
        def __init__(self, model, loader, metrics, optimizer):
            self.model, self.loader, self.metrics, self.optimizer = model, loader, metrics, optimizer

        def fit(self, epochs):
            for epoch in range(epochs):
                for x, y in self.loader:
                    scores = self.model(x).squeeze(1)
                    self.optimizer.zero_grad()
                    F.binary_cross_entropy_with_logits(scores, y).backward()
                    self.optimizer.step()
                    self.metrics.update(scores, y)
                print(self.metrics.compute())
"""
MAIN = """
    import torch
    from trainer import Trainer
    from metrics import Area

    def main(model, loader):
        Trainer(model, loader, Area(), torch.optim.SGD(model.parameters(), lr=0.1)).fit(9)
"""


def test_the_trainer_does_not_know_the_metric(tmp_path: Path) -> None:
    files = {"metrics.py": "    import torch\n" + PLAIN, "trainer.py": HANDED, "main.py": MAIN}
    assert lines_in_files(tmp_path, files, CODE) == [("metrics.py", 11)]


def test_programs_beside_each_other(tmp_path: Path) -> None:
    """What another program calls `compute` of is another metric."""
    copied = (
        "    import copy, torch\n"
        + PLAIN
        + "    def epoch(template):\n        return copy.deepcopy(template)\n\n    KEPT = Area()\n"
    )
    other = "    import torch\n    import torch.nn.functional as F\n" + written(SCRIPT).replace("Area()", "other()")
    assert lines_in_files(tmp_path, {"one.py": copied, "two.py": other}, CODE) == []


STEPS = """
    def train(model, batches, optimizer, every):
        metric = Area()
        for step, (x, y) in enumerate(batches):
            scores = model(x).squeeze(1)
            loss = F.binary_cross_entropy_with_logits(scores, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            metric.update(scores, y)
            if (step + 1) % every == 0:
                print(step, metric.compute())
                END
"""
CONTINUES = """
    def train(model, batches, optimizer):
        metric = Area()
        for step, (x, y) in enumerate(batches):
            scores = model(x).squeeze(1)
            optimizer.zero_grad()
            F.binary_cross_entropy_with_logits(scores, y).backward()
            optimizer.step()
            metric.update(scores, y)
            if step % 50:
                continue
            print(step, metric.compute())
            END
"""
REPORTING = """
    class Trainer:
        def __init__(self, model, optimizer, metrics, every=20):
            self.model, self.optimizer, self.metrics, self.every, self.step = model, optimizer, metrics, every, 0

        def train_step(self, x, y):
            scores = self.model(x).squeeze(1)
            loss = F.binary_cross_entropy_with_logits(scores, y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.metrics.update(scores.sigmoid(), y)
            return loss.item()

        def fit(self, stream):
            for x, y in stream:
                loss = self.train_step(x, y)
                self.step += 1
                if self.step % self.every == 0:
                    self.report(loss)

        def report(self, loss):
            values = self.metrics.compute()
            END
            print(f"step {self.step} loss={loss:.4f} {values}")

    def main(model, stream, optimizer):
        Trainer(model, optimizer, Area()).fit(stream)
"""
ASKS_ITSELF = REPORTING.replace(
    "                if self.step % self.every == 0:\n                    self.report", "                self.report"
).replace(
    "            values =", "            if self.step % self.every:\n                return\n            values ="
)
VALIDATED_IN_STEPS = (
    VALIDATED.replace("for epoch in range(30):\n            for x, y in", "for step, (x, y) in")
    .replace("                optimizer", "            optimizer")
    .replace("                F.", "            F.")
    .replace("            print", "            if step % 500 == 0:\n                print")
    .replace("in train_loader:", "in enumerate(train_loader):")
)


@pytest.mark.parametrize("program", [STEPS, CONTINUES, REPORTING, ASKS_ITSELF, VALIDATED_IN_STEPS])
def test_it_is_read_every_so_many_steps(program: str) -> None:
    assert_flagged(METRIC + written(program), CODE)


def test_it_is_given_tensors_of_others() -> None:
    """That these are tensors is seen where they are joined."""
    assert_flagged(METRIC.replace("scores.detach().cpu()", "scores") + written(REPORTING), CODE)


@pytest.mark.parametrize(
    "program",
    [
        written(STEPS, end="metric.reset()"),
        written(STEPS, end="metric = Area()"),
        written(STEPS).replace("if (step + 1) % every == 0:", "if True:"),
        written(STEPS).replace("if (step + 1) % every == 0:", "if step == 100:"),
        written(STEPS).replace("loss.backward()", "pass"),
        written(CONTINUES, end="metric.reset()"),
        written(REPORTING, end="self.metrics.reset()"),
        written(REPORTING).replace("self.report(loss)", "self.report(loss); self.metrics.reset()"),
        written(REPORTING).replace("self.report(loss)", "pass"),
        written(ASKS_ITSELF, end="self.metrics.reset()"),
        VALIDATED_IN_STEPS.replace("model.eval()", "model.eval(); metric.reset()"),
        VALIDATED_IN_STEPS.replace("model.eval()", "metric = Area(); model.eval()"),
    ],
)
def test_each_window_begins_anew(program: str) -> None:
    assert_clean(PLAIN + program, CODE)


def test_numbers_that_are_made_a_tensor() -> None:
    numbers = PLAIN.replace("scores.detach().cpu()", "scores").replace("torch.cat(", "torch.tensor(")
    assert_clean(numbers + written(REPORTING), CODE)


MODULE = """
    import lightning.pytorch as pl

    class Lit(pl.LightningModule):
        def __init__(self, net):
            super().__init__()
            self.net, self.outputs = net, []

        def training_step(self, batch, i):
            x, y = batch
            return F.cross_entropy(self.net(x), y)

        def validation_step(self, batch, i):
            x, y = batch
            logits = self.net(x)
            self.outputs.append({"logits": logits, "target": y})  # !

        def on_validation_epoch_end(self):
            outs = self.outputs
            logits = torch.cat([out["logits"] for out in outs])
            target = torch.cat([out["target"] for out in outs])
            self.log("acc", (logits.argmax(1) == target).float().mean())
"""
KEEPS = 'self.outputs.append({"logits": logits, "target": y})'
JOINED = 'torch.cat([out["logits"] for out in outs])'
BASE = "(pl.LightningModule):"
OWN_BASE = """
    class Base(nn.Module):
        def on_validation_epoch_end(self):
            pass

    class Lit(Base):"""


@pytest.mark.parametrize(
    "edits",
    [
        [],
        [("    class Lit(pl.LightningModule):", OWN_BASE)],
        [("self.outputs.append({", "self.outputs.append({'i': i, ")],
        [("in outs]", "in self.outputs]")],
        [(KEEPS, "self.outputs.append(logits)"), (JOINED, "torch.stack(self.outputs)"), ('out["target"]', "out")],
        [(KEEPS, "self.outputs.append(F.cross_entropy(logits, y))"), (JOINED, "torch.stack(outs)"),
         ('out["target"]', "out")],
    ],
)  # fmt: skip
def test_outputs_of_a_module(edits: list[tuple[str, str]]) -> None:
    assert_flagged(changed(MODULE, edits), CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [('self.log("acc"', 'self.outputs.clear()\n            self.log("acc"')],
        [('self.log("acc"', 'outs.clear()\n            self.log("acc"')],
        [('self.log("acc"', 'self.outputs = []\n            self.log("acc"')],
        [('self.log("acc"', 'del self.outputs[:]\n            self.log("acc"')],
        [('self.log("acc"', 'del outs[:]\n            self.log("acc"')],
        [("outs = self.outputs", "outs, self.outputs = self.outputs, []")],
        [("def training_step", "def on_validation_epoch_start(self):\n            self.outputs = []\n\n"
                              "        def training_step")],
        [("def training_step", "def on_train_epoch_start(self):\n            self.outputs.clear()\n\n"
                              "        def training_step")],
        [("def training_step", "def restart(self):\n            setattr(self, 'outputs', [])\n\n"
                              "        def training_step")],
        [(KEEPS, "self.outputs = [*self.outputs[-9:], logits]")],
        [("x, y = batch\n            logits", "self.outputs = self.outputs[-9:]\n            x, y = batch\n"
                                              "            logits")],
        [("net, []", "net, deque(maxlen=9)")],
        [(KEEPS, "outputs = []; outputs.append(logits)")],
        [(JOINED, "outs[-1]"), ('torch.cat([out["target"] for out in outs])', "outs[-1]")],
        [(KEEPS, "self.outputs.append((logits.argmax(1) == y).sum().item())"), (JOINED, "sum(outs)"),
         ('torch.cat([out["target"] for out in outs])', "len(outs)")],
        [("def validation_step", "def test_step"), ("on_validation_epoch_end", "on_test_epoch_end")],
        [("def on_validation_epoch_end", "def summary")],
        [("    import lightning.pytorch as pl", "    from frame import Base"), (BASE, "(Base):")],
    ],
)  # fmt: skip
def test_outputs_that_are_dropped(edits: list[tuple[str, str]]) -> None:
    assert_clean(changed(MODULE, edits).replace("  # !", ""), CODE)


def changed(text: str, edits: list[tuple[str, str]]) -> str:
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    return text


def test_another_file_clears_them(tmp_path: Path) -> None:
    module = "    import torch\n    import torch.nn.functional as F\n" + MODULE
    callback = "    class Clear:\n        def on_validation_end(self, trainer, module):\n"
    main = "    from module import Lit\n    from callbacks import Clear\n"
    files = {"module.py": module, "main.py": main, "callbacks.py": callback + "            module.outputs.clear()\n"}
    assert lines_in_files(tmp_path, files, CODE) == []
    files["callbacks.py"] = callback + "            print(module.outputs)\n"
    assert [name for name, _ in lines_in_files(tmp_path, files, CODE)] == ["module.py"]
