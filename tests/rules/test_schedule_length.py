from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files, twin

CODE = "GG231"
IMPORTS = """
    from torch.optim import lr_scheduler
    from torch.optim.lr_scheduler import CosineAnnealingLR, CosineAnnealingWarmRestarts, LinearLR, MultiStepLR
    from torch.optim.lr_scheduler import OneCycleLR, PolynomialLR, StepLR
    from transformers import get_linear_schedule_with_warmup
"""


def fit(made: str, in_batch: str = "pass", in_epoch: str = "pass", epochs: str = "range(epochs)") -> str:
    """A training with a scheduler, and steps of it in each batch or each epoch."""
    return f"""
    {IMPORTS}

    def fit(net, loader, epochs, warm_up=3):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        total = len(loader) * epochs
        scheduler = {made}
        for epoch in {epochs}:
            net.train()
            for i, (x, y) in enumerate(loader):
                optimizer.zero_grad()
                F.cross_entropy(net(x), y).backward()
                optimizer.step()
                {in_batch}
            {in_epoch}
    """


IN_EPOCHS = [
    "CosineAnnealingLR(optimizer, T_max=epochs)",
    "CosineAnnealingLR(optimizer, epochs, eta_min=1e-5)",
    "lr_scheduler.CosineAnnealingLR(optimizer, epochs)",
    "torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=epochs)",
    "PolynomialLR(optimizer, total_iters=epochs, power=0.9)",
    "MultiStepLR(optimizer, milestones=[int(epochs * 0.5), int(epochs * 0.75)])",
    "get_linear_schedule_with_warmup(optimizer, 0, epochs)",
]
IN_BATCHES = [
    "CosineAnnealingLR(optimizer, T_max=len(loader) * epochs)",
    "CosineAnnealingLR(optimizer, T_max=total)",
    "OneCycleLR(optimizer, 0.1, epochs=epochs, steps_per_epoch=len(loader))",
    "OneCycleLR(optimizer, max_lr=0.1, total_steps=epochs * len(loader))",
    "get_linear_schedule_with_warmup(optimizer, num_warmup_steps=100, num_training_steps=total)",
    "PolynomialLR(optimizer, total_iters=total)",
]


@pytest.mark.parametrize("made", IN_EPOCHS)
def test_made_for_epochs_and_stepped_in_batches(made: str) -> None:
    assert_flagged(fit(made, in_batch="scheduler.step()  # !"), CODE)
    assert_clean(fit(made, in_epoch="scheduler.step()"), CODE)


@pytest.mark.parametrize("made", IN_BATCHES)
def test_made_for_batches_and_stepped_in_epochs(made: str) -> None:
    assert_flagged(fit(made, in_epoch="scheduler.step()  # !"), CODE)
    assert_clean(fit(made, in_batch="scheduler.step()"), CODE)


def test_the_first_epochs_without_a_step() -> None:
    assert_flagged(fit(IN_BATCHES[0], in_epoch="if epoch >= warm_up: scheduler.step()  # !"), CODE)
    assert_clean(fit(IN_BATCHES[0], in_epoch="if warm_up: scheduler.step()"), CODE)
    assert_clean(fit(IN_EPOCHS[0], in_batch="if epoch >= warm_up: scheduler.step()"), CODE)


@pytest.mark.parametrize(
    "epochs",
    [
        "range(1, epochs + 1)",
        "tqdm(range(epochs))",
        "trange(epochs)",
        "range(warm_up, epochs)",
        "range(int(0), epochs)",
    ],
)
def test_loops_over_epochs(epochs: str) -> None:
    assert_flagged(fit(IN_EPOCHS[0], in_batch="scheduler.step()  # !", epochs=epochs), CODE)


def test_a_number_that_is_written() -> None:
    made = "CosineAnnealingLR(optimizer, T_max=90)"
    assert_flagged(fit(made, in_batch="scheduler.step()  # !", epochs="range(90)"), CODE)
    assert_clean(fit(made, in_batch="scheduler.step()", epochs="range(30)"), CODE)


@pytest.mark.parametrize(
    ("made", "in_batch", "in_epoch"),
    [
        ("StepLR(optimizer, 30)", "scheduler.step()", "pass"),
        ("CosineAnnealingWarmRestarts(optimizer, epochs)", "scheduler.step(epoch + i / len(loader))", "pass"),
        ("CosineAnnealingLR(optimizer, T_max=1000)", "scheduler.step()", "pass"),
        ("LinearLR(optimizer, total_iters=warm_up)", "scheduler.step()", "pass"),
        ("MultiStepLR(optimizer, milestones=[30, 60])", "scheduler.step()", "pass"),
        ("CosineAnnealingLR(optimizer, T_max=epochs - warm_up)", "scheduler.step()", "pass"),
        (IN_EPOCHS[0], "scheduler.step() if i == 0 else None", "scheduler.step()"),
        (IN_EPOCHS[0], "if i == len(loader) - 1: scheduler.step()", "pass"),
        (IN_EPOCHS[0], "if (i + 1) % len(loader) == 0: scheduler.step()", "pass"),
        (IN_BATCHES[0], "scheduler.step()", "print(scheduler.get_last_lr())"),
        (IN_BATCHES[0], "pass", "for _ in range(len(loader)): scheduler.step()"),
        (IN_EPOCHS[0], "other.step()", "scheduler.step()"),
    ],
)
def test_look_alikes(made: str, in_batch: str, in_epoch: str) -> None:
    assert_clean(fit(made, in_batch, in_epoch), CODE)


@pytest.mark.parametrize(
    "loader",
    [
        "loader = [loader]",
        "loader = torch.utils.data.DataLoader([net.graph], batch_size=1)",
        "loader = torch.utils.data.DataLoader(net.data, batch_size=len(net.data))",
        "loader = torch.utils.data.DataLoader(net.data, net.data.x.shape[0], shuffle=True)",
    ],
)
def test_epochs_of_one_batch(loader: str) -> None:
    snippet = fit(IN_EPOCHS[0], in_batch="scheduler.step()")
    assert_clean(snippet.replace("total = len", f"{loader}\n        total = len"), CODE)


def test_the_first_batch_of_each_epoch() -> None:
    assert_clean(fit(IN_EPOCHS[0], in_batch="scheduler.step()\n                break"), CODE)
    left = "scheduler.step()  # !\n                if i > 100: break"
    assert_flagged(fit(IN_EPOCHS[0], in_batch=left), CODE)


TRAINER = f"""
    {IMPORTS}

    class Trainer:
        def __init__(self, net, args):
            self.net, self.args = net, args
            self.optimizer = torch.optim.Adam(net.parameters())
            self.scheduler = CosineAnnealingLR(self.optimizer, T_max=args.epochs)

        def fit(self, loader):
            for epoch in range(self.args.epochs):
                self.train_epoch(loader)
                self.evaluate(loader)

        def train_epoch(self, loader):
            for x, y in loader:
                self.optimizer.zero_grad()
                F.mse_loss(self.net(x), y).backward()
                self.optimizer.step()
                if self.scheduler is not None:
                    self.scheduler.step()  # !

        def evaluate(self, loader):
            self.net.eval()
            with torch.no_grad():
                print(sum(F.mse_loss(self.net(x), y).item() for x, y in loader))
            self.net.train()
"""


def test_an_object_that_trains() -> None:
    assert_flagged(TRAINER, CODE)


def test_a_batch_that_another_method_trains() -> None:
    step = "self.optimizer.zero_grad()\n                F.mse_loss(self.net(x), y).backward()\n"
    method = f"        def train_batch(self, x, y):\n            {step.replace('    ' * 4, '    ' * 3)}\n"
    snippet = TRAINER.replace(step, "self.train_batch(x, y)\n").replace(
        "        def evaluate", method + "        def evaluate"
    )
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [("T_max=args.epochs", "T_max=args.steps")],
        [("T_max=args.epochs", "T_max=args.epochs * args.batches")],
        [("if self.scheduler is not None:", "if self.warm:")],
        [("                if self.scheduler is not None:\n                    self.scheduler.step()", ""),
         ("self.evaluate(loader)\n\n", "self.evaluate(loader)\n                self.scheduler.step()\n\n")],
        [("for epoch in range(self.args.epochs):", "for epoch in range(self.args.rounds):")],
        [("for x, y in loader:", "for phase in ['warm', 'cold']:"), ("self.net(x), y", "self.net(phase), 1")],
    ],
)  # fmt: skip
def test_objects_that_train_otherwise(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(TRAINER, *edits), CODE)


def test_a_helper_in_another_file(tmp_path: Path) -> None:
    files = {
        "engine.py": """
            def train_one_epoch(model, loader, opt, sched, scaler=None):
                for x, y in loader:
                    opt.zero_grad()
                    model(x).sub(y).pow(2).mean().backward()
                    opt.step()
                    sched.step()
            """,
        "main.py": """
            import torch
            from engine import train_one_epoch

            def main(args, model, loader):
                opt = torch.optim.Adam(model.parameters())
                lr_sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs)
                for epoch in range(args.start, args.epochs):
                    train_one_epoch(model, loader, opt, sched=lr_sched)
            """,
    }
    assert lines_in_files(tmp_path, files, CODE) == [("engine.py", 7)]
    right = {**files, "main.py": files["main.py"].replace("args.epochs)\n", "args.epochs * len(loader))\n", 1)}
    assert lines_in_files(tmp_path, right, CODE) == []


# Batches that are accumulated, where the loop says how many updates there are to be.
UPDATES = """
    from torch.optim.lr_scheduler import CosineAnnealingLR
    from transformers import get_linear_schedule_with_warmup

    def train(net, loader, args):
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        sched = CosineAnnealingLR(opt, T_max=args.max_steps)
        done = 0
        for epoch in range(100):
            for i, (x, y) in enumerate(loader):
                (F.cross_entropy(net(x), y) / args.accum).backward()
                if (i + 1) % args.accum == 0:
                    opt.step()
                    opt.zero_grad()
                    done += 1
                sched.step()  # !
                if done >= args.max_steps:
                    return
"""
MULTIPLIED = """
    from torch.optim.lr_scheduler import OneCycleLR

    def train(net, batches, steps, accum=4):
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        sched = OneCycleLR(opt, 0.1, total_steps=steps)
        for i in range(steps * accum):
            x, y = next(batches)
            (F.cross_entropy(net(x), y) / accum).backward()
            if (i + 1) % accum == 0:
                opt.step()
                opt.zero_grad()
            sched.step()  # !
"""
OF_OBJECT = """
    class Fit:
        def __init__(self, net, cfg):
            self.net, self.cfg, self.done = net, cfg, 0
            self.opt = torch.optim.SGD(net.parameters(), lr=0.1)
            self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, cfg.max_steps)

        def run(self, loader):
            while self.done < self.cfg.max_steps:
                for i, (x, y) in enumerate(loader):
                    (F.cross_entropy(self.net(x), y) / self.cfg.accum).backward()
                    if (i + 1) % self.cfg.accum == 0:
                        self.opt.step()
                        self.opt.zero_grad()
                        self.done += 1
                    self.sched.step()  # !
"""
COSINE = "CosineAnnealingLR(opt, T_max=args.max_steps)"


@pytest.mark.parametrize(
    ("snippet", "edits"),
    [
        (UPDATES, []),
        (UPDATES, [(COSINE, "get_linear_schedule_with_warmup(opt, 10, args.max_steps)")]),
        (UPDATES, [(COSINE, "CosineAnnealingLR(opt, total)"), ("lr=0.1)", "lr=0.1); total = args.max_steps")]),
        (UPDATES, [("if done >= args.max_steps:", "if args.max_steps == done:")]),
        (MULTIPLIED, []),
        (MULTIPLIED, [("range(steps * accum)", "range(accum * steps)")]),
        (MULTIPLIED, [("range(steps * accum)", "tqdm(range(steps * accum))")]),
        (OF_OBJECT, []),
        (OF_OBJECT, [("cfg.max_steps)", "self.cfg.max_steps)")]),
    ],
)
def test_a_loop_that_counts_its_updates(snippet: str, edits: list[tuple[str, str]]) -> None:
    for old, new in edits:
        assert old in snippet
        snippet = snippet.replace(old, new)
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    ("snippet", "edits"),
    [
        (UPDATES, [("    sched.step()", "        sched.step()")]),
        (UPDATES, [("T_max=args.max_steps", "T_max=args.max_steps * args.accum")]),
        (UPDATES, [("T_max=args.max_steps", "T_max=args.max_batches")]),
        (UPDATES, [("    done += 1", "done += 1")]),  # of batches
        (UPDATES, [("                sched.step()", "                done += 1\n                sched.step()")]),
        (UPDATES, [("if done >= args.max_steps:", "if i >= args.max_steps:")]),
        (UPDATES, [("done = 0", "done = 0; sched = accelerator.prepare(sched)")]),
        (UPDATES, [(COSINE, "torch.optim.lr_scheduler.StepLR(opt, args.max_steps)")]),
        (MULTIPLIED, [("range(steps * accum)", "range(steps)")]),
        (MULTIPLIED, [("total_steps=steps", "total_steps=steps * accum")]),
        (MULTIPLIED, [("total_steps=steps", "total_steps=total"), ("lr=0.1)", "lr=0.1); total = steps * accum")]),
        (MULTIPLIED, [("            sched.step()", "                sched.step()")]),
        (OF_OBJECT, [("                    self.sched.step()", "                        self.sched.step()")]),
        (OF_OBJECT, [("cfg.max_steps)", "cfg.max_steps * cfg.accum)")]),
        (OF_OBJECT, [("self.sched.step()", "self.sched.step(self.done)")]),
    ],
)
def test_a_loop_that_counts_otherwise(snippet: str, edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(snippet, *edits), CODE)


# A callback that has the scheduler, of a trainer that accumulates.
CALLED_BACK = """
    from torch.optim.lr_scheduler import LambdaLR

    class Warm:
        def __init__(self, warm, total):
            self.warm, self.total = warm, total

        def factor(self, n):
            return min(n / self.warm, (self.total - n) / self.total)

        def begin(self, run):
            self.sched = LambdaLR(run.opt, self.factor)

        def after_batch(self, run):
            self.sched.step()  # !

    class Run:
        def __init__(self, net, opt, accum, hooks):
            self.net, self.opt, self.accum, self.hooks = net, opt, accum, hooks

        def fire(self, name):
            for hook in self.hooks:
                getattr(hook, name)(self)

        def fit(self, batches):
            self.fire("begin")
            for i, (x, y) in enumerate(batches):
                (F.cross_entropy(self.net(x), y) / self.accum).backward()
                if (i + 1) % self.accum == 0:
                    self.opt.step()
                    self.opt.zero_grad()
                    self.fire("after_update")
                self.fire("after_batch")

    def main(net, args):
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        run = Run(net, opt, args.accum, [Warm(args.steps // 10, args.steps)])
        run.fit(draw(args.steps * args.accum))
"""
FIRES = 'self.fire("after_batch")'


@pytest.mark.parametrize(
    "edits",
    [
        [],
        [(FIRES, "for hook in self.hooks:\n                    hook.after_batch(self)")],
        [("LambdaLR(run.opt, self.factor)", "torch.optim.lr_scheduler.LinearLR(run.opt, 1, 0, self.total)")],
        [("Warm(args.steps // 10, args.steps)", "Warm(10, total=args.steps)")],
        [("args.steps * args.accum", "args.accum * args.steps")],
        [("def fire(self, name):", "def fire(self, name, *more):"), ("begin(self, run)", "begin(self, run, seed=0)")],
    ],
)
def test_a_callback_that_steps_with_each_batch(edits: list[tuple[str, str]]) -> None:
    snippet = CALLED_BACK
    for old, new in edits:
        assert old in snippet
        snippet = snippet.replace(old, new)
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [("def after_batch", "def after_update")],
        [("self.sched.step()", "if run.is_update: self.sched.step()")],
        [("self.sched.step()", "self.sched.step(run.updates)")],
        [("draw(args.steps * args.accum)", "draw(args.steps)")],
        [("Warm(args.steps // 10, args.steps)", "Warm(10, args.steps * args.accum)")],
        [("Warm(args.steps // 10, args.steps)", "Warm(10, 1000)")],
        [("self.warm, self.total = warm, total", "self.warm, self.total = warm, total * accum")],
        [("self.sched = LambdaLR(run.opt, self.factor)", "self.sched = Counter()")],
        [(FIRES, "pass")],
        [("                " + FIRES, "                    " + FIRES)],
        [("LambdaLR(run.opt, self.factor)", "LambdaLR(run.opt, lambda n: self.factor(n // run.accum))")],
        [("                if (i + 1) % self.accum == 0:", "                if self.is_update(i):")],
    ],
)
def test_callbacks_that_step_with_each_update(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(CALLED_BACK, *edits), CODE)
