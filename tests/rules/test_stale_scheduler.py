from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, findings, lines_in_files, twin

CODE = "GG227"
IMPORTS = """
from torch import optim
from torch.optim import SGD, Adam, lr_scheduler
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, ReduceLROnPlateau, StepLR
"""

SWITCHED = """
    def train(model, loader, epochs):
        optimizer = Adam(model.parameters(), lr=1e-3)
        scheduler = StepLR(optimizer, 10)
        for epoch in range(epochs):
            if epoch == 5:
                optimizer = SGD(model.parameters(), lr=0.1)  # !
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
            scheduler.step()
"""

PHASES = """
    class Trainer:
        def __init__(self, model):
            self.model = model

        def _enter_phase(self, optimizer, length):
            self.optimizer = optimizer
            if not hasattr(self, "scheduler"):
                self.scheduler = CosineAnnealingLR(self.optimizer, T_max=length)  # !

        def _step(self, x, y):
            self.optimizer.zero_grad()
            F.cross_entropy(self.model(x), y).backward()
            self.optimizer.step()
            self.scheduler.step()

        def run(self, loader, phases):
            for optimizer, length in phases:
                self._enter_phase(optimizer, length)
                for x, y in loader:
                    self._step(x, y)
"""

FIT = """
    class Learner:
        def __init__(self, model):
            self.model = model
            self.optimizer = Adam(self.model.parameters())
            self.scheduler = StepLR(self.optimizer, 10)

        def switch(self, lr):
            self.optimizer = SGD(self.model.parameters(), lr=lr)  # !

        def fit(self, loader):
            for x, y in loader:
                self.optimizer.zero_grad()
                F.cross_entropy(self.model(x), y).backward()
                self.optimizer.step()
            self.scheduler.step()

    def main(model, loader):
        learner = Learner(model)
        learner.fit(loader)
        learner.switch(0.1)
        learner.fit(loader)
"""

FLAGGED = {
    "a switch within the loop": SWITCHED,
    "a script": """
        model = nn.Linear(4, 2)
        optimizer = torch.optim.Adam(model.parameters())
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)  # !
        for epoch in range(10):
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
            scheduler.step()
    """,
    "a script whose functions use its variables": """
        def train_epoch(loader):
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
            scheduler.step()

        model = nn.Linear(4, 2)
        optimizer = torch.optim.Adam(model.parameters())
        scheduler = lr_scheduler.ExponentialLR(optimizer, gamma=0.9)
        train_epoch(loader)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)  # !
        train_epoch(loader)
    """,
    "helpers that make them, and one that trains": """
        def make_optimizer(name, model):
            if name == "sgd":
                return SGD(model.parameters(), lr=0.1)
            return Adam(model.parameters())

        def make_scheduler(optimizer, epochs):
            scheduler = LambdaLR(optimizer, lambda epoch: 1 - epoch / epochs)
            return scheduler

        def fit(model, loader, opt, sched):
            for x, y in loader:
                opt.zero_grad()
                F.cross_entropy(model(x), y).backward()
                opt.step()
                sched.step()

        def main(model, head, loader):
            opt = make_optimizer("sgd", head)
            sched = make_scheduler(opt, 10)
            fit(model, loader, opt, sched)
            opt = make_optimizer("adam", model)  # !
            fit(model, loader, opt, sched)
    """,
    "a plateau, and a scaler": """
        def train(model, loader, scaler):
            optimizer = SGD(model.parameters(), lr=0.1)
            plateau = ReduceLROnPlateau(optimizer)
            best = None
            while best is None:
                optimizer = getattr(optim, "Adam")(model.parameters())  # !
                for x, y in loader:
                    loss = F.cross_entropy(model(x), y)
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
                plateau.step(loss)
    """,
    "a class of the program": """
        class Warmup(lr_scheduler.LRScheduler):
            def get_lr(self):
                return [0.1 for _ in self.base_lrs]

        def train(model, loader):
            optimizer = SGD(model.parameters(), lr=0.1)
            warmup = Warmup(optimizer=optimizer)
            for stage in range(3):
                optimizer = SGD(model.stages[stage].parameters(), lr=0.1)  # !
                for x, y in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
                    warmup.step()
    """,
    "a scheduler of each stage, made too early": """
        def train(model, loader, optimizer):
            for stage in model.stages:
                scheduler = StepLR(optimizer, 10)
                optimizer = SGD(stage.parameters(), lr=0.1)  # !
                for x, y in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
                    scheduler.step()
    """,
    "phases": PHASES,
    "phases that are asked for None": twin(
        PHASES,
        ("self.model = model", "self.model = model\n            self.scheduler = None"),
        ('not hasattr(self, "scheduler")', "self.scheduler is None"),
        ("T_max=length)", "T_max=length)  # !"),
    ),
    "phases that a script names": """
        class Trainer:
            scheduler = None

            def begin(self, opt):
                self.opt = opt
                if not self.scheduler:
                    self.scheduler = StepLR(opt, 10)  # !

            def epoch(self, model, loader):
                for x, y in loader:
                    self.opt.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    self.opt.step()
                self.scheduler.step()

        def main(model, loader):
            trainer = Trainer()
            trainer.begin(SGD(model.head.parameters(), lr=0.1))
            trainer.epoch(model, loader)
            trainer.begin(SGD(model.parameters(), lr=0.01))
            trainer.epoch(model, loader)
    """,
    "phases in one loop": """
        class Trainer:
            def begin(self, opt):
                self.opt = opt
                if getattr(self, "scheduler", None) is None:
                    self.scheduler = StepLR(opt, 10)  # !

            def epoch(self, model, loader):
                for x, y in loader:
                    self.opt.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    self.opt.step()
                self.scheduler.step()

        def main(model, loader):
            trainer = Trainer()
            for epoch in range(10):
                if epoch == 0:
                    trainer.begin(SGD(model.head.parameters(), lr=0.1))
                elif epoch == 5:
                    trainer.begin(SGD(model.parameters(), lr=0.1))
                trainer.epoch(model, loader)
    """,
    "a cached property": """
        import functools

        class Trainer:
            @functools.cached_property
            def scheduler(self):
                return StepLR(self.opt, 10)  # !

            def fit(self, model, loader):
                self.opt = SGD(model.parameters(), lr=0.1)
                for x, y in loader:
                    self.opt.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    self.opt.step()
                    self.scheduler.step()

        def main(models, loader):
            trainer = Trainer()
            for model in models:
                trainer.fit(model, loader)
    """,
    "a method that switches": FIT,
    "a method that trains with a new one": """
        class Learner:
            def __init__(self, model):
                self.model = model
                self.opt = Adam(model.parameters())
                self.sched = StepLR(self.opt, step_size=10)

            def finetune(self, loader):
                self.opt = SGD(self.model.head.parameters(), lr=0.1)  # !
                for x, y in loader:
                    self.opt.zero_grad()
                    F.cross_entropy(self.model(x), y).backward()
                    self.opt.step()
                    self.sched.step()
    """,
    "two names at once": """
        class Learner:
            def __init__(self, model):
                self.model = model
                self.opt = opt = Adam(model.parameters())
                self.sched = sched = StepLR(opt, step_size=10)

            def finetune(self, loader):
                self.opt = opt = SGD(self.model.head.parameters(), lr=0.1)  # !
                for x, y in loader:
                    opt.zero_grad()
                    F.cross_entropy(self.model(x), y).backward()
                    self.opt.step()
                    self.sched.step()
    """,
    "methods that make both": """
        class Learner:
            def __init__(self, model):
                self.model = model
                self.optimizer = self.make_optimizer(1e-3)
                self.scheduler = self.make_scheduler()

            def make_optimizer(self, lr):
                return Adam(self.model.parameters(), lr=lr)

            def make_scheduler(self):
                return StepLR(self.optimizer, 10)

            def restart(self, lr):
                self.optimizer = self.make_optimizer(lr)  # !

            def train_epoch(self, loader):
                for x, y in loader:
                    self.optimizer.zero_grad()
                    F.cross_entropy(self.model(x), y).backward()
                    self.optimizer.step()
                self.scheduler.step()

            def run(self, loader):
                for epoch in range(100):
                    if epoch % 10 == 9:
                        self.restart(1e-4)
                    self.train_epoch(loader)
    """,
    "a setter, given another one": """
        class Learner:
            def __init__(self, model, optimizer):
                self.model, self.optimizer = model, optimizer
                self.scheduler = StepLR(optimizer, 10)

            def use(self, optimizer):
                self.optimizer = optimizer  # !

            def fit(self, loader):
                for x, y in loader:
                    self.optimizer.zero_grad()
                    F.cross_entropy(self.model(x), y).backward()
                    self.optimizer.step()
                self.scheduler.step()

        first = Adam(net.parameters())
        second = SGD(net.parameters(), lr=0.1)
        learner = Learner(net, first)
        learner.fit(loader)
        learner.use(second)
        learner.fit(loader)
    """,
}

GOES_ON = "            scheduler.step()\n"
SWAP = "optimizer = SGD(model.parameters(), lr=0.1)"
CLEAN = {
    "made anew beside": twin(SWITCHED, (SWAP, f"{SWAP}; scheduler = StepLR(optimizer, 10)")),
    "made anew by a helper": twin(SWITCHED, (SWAP, f"{SWAP}; scheduler = renew(optimizer)")),
    "both by a helper": twin(SWITCHED, (SWAP, "optimizer, scheduler = renew(model)")),
    "given the new one": twin(SWITCHED, (SWAP, f"{SWAP}; scheduler.optimizer = optimizer")),
    "attached": twin(SWITCHED, (SWAP, f"{SWAP}; scheduler.attach(optimizer)")),
    "wrapped": twin(SWITCHED, (SWAP, "optimizer = hvd.DistributedOptimizer(optimizer)")),
    "prepared": twin(SWITCHED, (SWAP, "model, optimizer = accelerator.prepare(model, optimizer)")),
    "of the same groups": twin(SWITCHED, (SWAP, "optimizer = SGD(optimizer.param_groups, lr=0.1)")),
    "copied": twin(SWITCHED, (SWAP, "optimizer.load_state_dict(state)")),
    "under another name": twin(SWITCHED, (SWAP, "other = SGD(model.parameters(), lr=0.1)")),
    "put back": twin(SWITCHED, (SWAP, f"first = optimizer; {SWAP}; warm_up(optimizer); optimizer = first")),
    "rates by hand": twin(SWITCHED, (GOES_ON, f"{GOES_ON}            optimizer.param_groups[0]['lr'] = rate\n")),
    "a rate that is handed on": twin(
        SWITCHED, (GOES_ON, f"{GOES_ON}            set_rate(optimizer, scheduler.get_last_lr()[0])\n")
    ),
    "handed over by a helper": twin(SWITCHED, (SWAP, f"{SWAP}; use(scheduler, optimizer)"))
    + "\n    def use(sched, other):\n        sched.optimizer = other\n",
    "no step of the scheduler": twin(SWITCHED, (GOES_ON, "")),
    "the scheduler only before": twin(
        SWITCHED, (GOES_ON, "            if epoch < 5:\n                scheduler.step()\n")
    ),
    "another scheduler after": twin(
        SWITCHED,
        (SWAP, f"{SWAP}; second = StepLR(optimizer, 1)"),
        (GOES_ON, "            (second if epoch >= 5 else scheduler).step()\n"),
    ),
    "left at once": twin(SWITCHED, (SWAP, f"{SWAP}; return optimizer")),
    "two stages in turn": """
        def train(model, loader):
            optimizer = Adam(model.head.parameters())
            scheduler = StepLR(optimizer, 10)
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                scheduler.step()
            optimizer = SGD(model.parameters(), lr=0.1)
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
    """,
    "each stage makes both": """
        def train(model, loader):
            for stage in model.stages:
                optimizer = SGD(stage.parameters(), lr=0.1)
                scheduler = StepLR(optimizer, 10)
                for x, y in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
                    scheduler.step()
    """,
    "one or the other": """
        def train(model, loader, adam):
            if adam:
                optimizer = Adam(model.parameters())
                scheduler = StepLR(optimizer, 10)
            else:
                optimizer = SGD(model.parameters(), lr=0.1)
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                if adam:
                    scheduler.step()
    """,
    "one or the other, asked for twice": """
        def train(model, loader, name):
            if name == "adam":
                optimizer = Adam(model.parameters())
                scheduler = StepLR(optimizer, 10)
            if name == "sgd":
                optimizer = SGD(model.parameters(), lr=0.1)
                scheduler = StepLR(optimizer, 20)
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                scheduler.step()
    """,
    "replaced before": """
        def train(model, loader):
            optimizer = Adam(model.parameters())
            optimizer = SGD(model.parameters(), lr=0.1)
            scheduler = StepLR(optimizer, 10)
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                scheduler.step()
    """,
    "two of each": """
        def train(g, d, loader):
            g_opt = Adam(g.parameters())
            g_sched = StepLR(g_opt, 10)
            d_opt = Adam(d.parameters())
            d_sched = StepLR(d_opt, 10)
            for x in loader:
                d_opt.zero_grad()
                d(g(x).detach()).mean().backward()
                d_opt.step()
                g_opt.zero_grad()
                d(g(x)).mean().backward()
                g_opt.step()
                g_sched.step()
                d_sched.step()
    """,
    "one name, a list of schedulers": """
        def train(nets, loader):
            schedulers = []
            for net in nets:
                optimizer = Adam(net.parameters())
                schedulers.append(StepLR(optimizer, 10))
            for scheduler in schedulers:
                scheduler.step()
    """,
    "a trial each": """
        def trial(model, loader):
            optimizer = SGD(model.parameters(), lr=0.1)
            scheduler = StepLR(optimizer, 10)
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                scheduler.step()

        for _ in range(3):
            trial(net, loader)
        optimizer = Adam(net.parameters())
        trial(net, loader)
    """,
    "phases with a scheduler each": twin(PHASES, ('if not hasattr(self, "scheduler")', "if length > 0")),
    "phases that forget the scheduler": twin(
        PHASES, ("self.optimizer = optimizer\n", "self.optimizer = optimizer\n            self.scheduler = None\n")
    ),
    "a first phase in a loop": """
        class Trainer:
            def begin(self, opt):
                self.opt = opt
                if getattr(self, "scheduler", None) is None:
                    self.scheduler = StepLR(opt, 10)

            def epoch(self, model, loader):
                for x, y in loader:
                    self.opt.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    self.opt.step()
                self.scheduler.step()

        def main(model, loader):
            trainer = Trainer()
            for epoch in range(10):
                if epoch == 0:
                    trainer.begin(SGD(model.head.parameters(), lr=0.1))
                trainer.epoch(model, loader)
    """,
    "one phase": twin(
        PHASES,
        ("for optimizer, length in phases:", "if phases:"),
        ("self._enter_phase(optimizer, length)", "self._enter_phase(*phases)"),
    ),
    "phases of one optimizer": twin(
        PHASES,
        ("loader, phases", "loader, optimizer, phases"),
        ("for optimizer, length in phases", "for length in phases"),
    ),
    "phases that know": twin(
        PHASES,
        (
            "self.optimizer = optimizer\n",
            "self.optimizer = optimizer\n            if hasattr(self, 'scheduler'):\n"
            "                self.scheduler.optimizer = optimizer\n",
        ),
    ),
    "an optimizer that is made once, too": twin(
        PHASES,
        ("self.optimizer = optimizer\n", "if self.optimizer is None:\n                self.optimizer = optimizer\n"),
    ),
    "an object for each phase": """
        class Trainer:
            scheduler = None

            def fit(self, model, loader):
                self.opt = SGD(model.parameters(), lr=0.1)
                if self.scheduler is None:
                    self.scheduler = StepLR(self.opt, 10)
                for x, y in loader:
                    self.opt.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    self.opt.step()
                self.scheduler.step()

        def main(models, loader):
            for model in models:
                trainer = Trainer()
                trainer.fit(model, loader)
    """,
    "a switch that makes both": twin(FIT, ("lr=lr)", "lr=lr)\n            self.scheduler = StepLR(self.optimizer, 5)")),
    "a switch that nobody calls": twin(FIT, ("        learner.switch(0.1)\n", "")),
    "a switch at the end": twin(FIT, ("switch(0.1)\n        learner.fit(loader)", "switch(0.1)")),
    "a switch of another object": twin(FIT, ("learner.switch(0.1)", "other = Learner(model); other.switch(0.1)")),
    "a switch, and a scheduler from outside": twin(
        FIT, ("learner.switch(0.1)", "learner.switch(0.1); learner.scheduler = StepLR(learner.optimizer, 5)")
    ),
    "a reset of everything": """
        class Learner:
            def __init__(self, model):
                self.model = model
                self.reset(1e-3)

            def reset(self, lr):
                self.optimizer = SGD(self.model.parameters(), lr=lr)
                self.scheduler = StepLR(self.optimizer, 10)

            def fit(self, loader):
                for x, y in loader:
                    self.optimizer.zero_grad()
                    F.cross_entropy(self.model(x), y).backward()
                    self.optimizer.step()
                self.scheduler.step()

        def main(model, loader):
            learner = Learner(model)
            learner.fit(loader)
            learner.reset(0.1)
            learner.fit(loader)
    """,
    "a reset in two methods": """
        class Learner:
            def __init__(self, model):
                self.model = model
                self.reset(1e-3)

            def set_optimizer(self, lr):
                self.optimizer = SGD(self.model.parameters(), lr=lr)

            def set_scheduler(self):
                self.scheduler = StepLR(self.optimizer, 10)

            def reset(self, lr):
                self.set_optimizer(lr)
                self.set_scheduler()

            def fit(self, loader):
                for x, y in loader:
                    self.optimizer.zero_grad()
                    F.cross_entropy(self.model(x), y).backward()
                    self.optimizer.step()
                self.scheduler.step()

            def again(self, loader):
                self.reset(0.1)
                self.fit(loader)
    """,
    "a second stage without the scheduler": """
        class Learner:
            def __init__(self, model):
                self.model = model
                self.opt = Adam(model.parameters())
                self.sched = StepLR(self.opt, step_size=10)

            def fit(self, loader):
                for x, y in loader:
                    self.opt.zero_grad()
                    F.cross_entropy(self.model(x), y).backward()
                    self.opt.step()
                    self.sched.step()

            def finetune(self, loader):
                self.opt = SGD(self.model.head.parameters(), lr=0.1)
                for x, y in loader:
                    self.opt.zero_grad()
                    F.cross_entropy(self.model(x), y).backward()
                    self.opt.step()

        def main(model, loader):
            learner = Learner(model)
            learner.fit(loader)
            learner.finetune(loader)
    """,
    "a setter, given the same one": """
        class Learner:
            def __init__(self, model, optimizer):
                self.model, self.optimizer = model, optimizer
                self.scheduler = StepLR(optimizer, 10)

            def use(self, optimizer):
                self.optimizer = optimizer

            def fit(self, loader):
                for x, y in loader:
                    self.optimizer.zero_grad()
                    F.cross_entropy(self.model(x), y).backward()
                    self.optimizer.step()
                self.scheduler.step()

        opt = Adam(net.parameters())
        learner = Learner(net, opt)
        for epoch in range(10):
            learner.use(opt)
            learner.fit(loader)
    """,
}


@pytest.mark.parametrize("name", FLAGGED)
def test_a_scheduler_of_an_optimizer_that_is_replaced_is_flagged(name: str) -> None:
    assert_flagged(IMPORTS + dedent(FLAGGED[name]), CODE)


@pytest.mark.parametrize("name", CLEAN)
def test_what_looks_alike_is_not(name: str) -> None:
    assert_clean(IMPORTS + dedent(CLEAN[name]), CODE)


def test_what_other_files_make_and_call(tmp_path: Path) -> None:
    files = {
        "making.py": """
            import torch

            def make_optimizer(net, lr):
                return torch.optim.SGD(net.parameters(), lr=lr)

            def make_schedule(optimizer):
                return torch.optim.lr_scheduler.StepLR(optimizer, 10)
        """,
        "learner.py": """
            import torch.nn.functional as F
            from making import make_optimizer, make_schedule

            class Learner:
                def __init__(self, net):
                    self.net = net
                    self.optimizer = make_optimizer(net, 0.1)
                    self.schedule = make_schedule(self.optimizer)

                def begin(self, part):
                    self.optimizer = make_optimizer(part, 0.01)

                def fit(self, loader):
                    for x, y in loader:
                        self.optimizer.zero_grad()
                        F.cross_entropy(self.net(x), y).backward()
                        self.optimizer.step()
                    self.schedule.step()
        """,
        "main.py": """
            from learner import Learner

            def main(net, loader):
                learner = Learner(net)
                for part in net.parts:
                    learner.begin(part)
                    learner.fit(loader)
        """,
    }
    assert lines_in_files(tmp_path, files, CODE) == [("learner.py", 12)]


def test_the_condition_by_which_it_is_made_once_is_shown() -> None:
    snippet = """
    class Trainer:
        def __init__(self, model):
            self.model, self.optimizer, self.scheduler = model, None, None

        def enter(self, phase):
            self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=phase.lr)
            if self.scheduler is None:
                self.scheduler = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, 0.9)

        def run(self, phases, loader):
            for phase in phases:
                self.enter(phase)
                for x, y in loader:
                    self.optimizer.zero_grad()
                    F.mse_loss(self.model(x), y).backward()
                    self.optimizer.step()
                self.scheduler.step()
    """
    (found,) = findings(snippet, CODE)
    condition, replaced = found.related
    assert condition.message == "it is made once, by this condition: `self.scheduler is None`"
    assert replaced.message.startswith("the next one takes its place here: `self.optimizer = ")
    assert condition.line == found.span.line - 1


STAGED = """
    class FineTuner:
        def __init__(self, model):
            self.model = model
            self.stage = 0
            self.enter(0)
            self.scheduler = StepLR(self.optimizer, 10)

        def enter(self, stage):
            self.stage = stage
            self.model.unfreeze(stage)
            self.optimizer = SGD((p for p in self.model.parameters() if p.requires_grad), lr=0.1)  # !

        def begin(self, epoch):
            if epoch // 10 != self.stage:
                self.enter(epoch // 10)

        def train(self, x, y):
            self.optimizer.zero_grad()
            F.cross_entropy(self.model(x), y).backward()
            self.optimizer.step()

        def fit(self, loader, epochs):
            for epoch in range(epochs):
                self.begin(epoch)
                for x, y in loader:
                    self.train(x, y)
                self.scheduler.step()
"""
OUTSIDE = """
    def main(model, loader):
        tuner = FineTuner(model)
        for epoch in range(30):
            if epoch % 10 == 9:
                tuner.enter(epoch // 10)
            for x, y in loader:
                tuner.train(x, y)
            tuner.scheduler.step()
"""
NO_BEGIN = STAGED.replace("                self.begin(epoch)\n", "")
STAGES = {
    "in each stage": STAGED,
    "by the loop itself": STAGED.replace("self.begin(epoch)", "if epoch == 10: self.enter(1)").replace(
        "if epoch == 10", "if epoch in (10, 20)"
    ),
    "from outside": NO_BEGIN + OUTSIDE,
    "by a helper of the constructor": STAGED.replace(
        "            self.enter(0)\n            self.scheduler = StepLR(self.optimizer, 10)\n",
        "            self.build()\n\n        def build(self):\n            self.enter(0)\n"
        "            self.scheduler = StepLR(self.optimizer, 10)\n",
    ),
}
STAGES_OF_BOTH = {
    "the constructor alone": NO_BEGIN,
    "the scheduler with it": twin(
        STAGED, ("            self.scheduler = StepLR(self.optimizer, 10)\n", ""),
        ("        def begin", "            self.scheduler = StepLR(self.optimizer, 10)\n\n        def begin"),
    ),
    "the scheduler anew": twin(STAGED, ("self.enter(epoch // 10)",
                                        "self.enter(epoch // 10); self.scheduler = StepLR(self.optimizer, 10)")),
    "given the new one": twin(STAGED, ("self.enter(epoch // 10)",
                                       "self.enter(epoch // 10); self.scheduler.optimizer = self.optimizer")),
    "no steps of it": twin(STAGED, ("                self.scheduler.step()\n", "")),
    "the groups anew": twin(STAGED, ("self.optimizer = SGD((", "self.optimizer.param_groups[0]['params'] = list((")),
    "before the scheduler": twin(STAGED, ("            self.enter(0)\n", "            self.enter(0)\n"
                                          "            self.begin(10)\n"), ("                self.begin(epoch)\n", "")),
    "everything anew": twin(NO_BEGIN, ("        def train(", "        def reset(self):\n            self.__init__("
                                       "self.model)\n\n        def train(")),
}  # fmt: skip


@pytest.mark.parametrize("name", STAGES)
def test_what_the_constructor_calls_is_called_again(name: str) -> None:
    assert_flagged(IMPORTS + dedent(STAGES[name]), CODE)


@pytest.mark.parametrize("name", STAGES_OF_BOTH)
def test_look_alikes_of_what_is_called_again(name: str) -> None:
    assert_clean(IMPORTS + dedent(STAGES_OF_BOTH[name]), CODE)


TRAINER = """
    class Trainer:
        def __init__(self, model, callbacks, steps):
            self.model, self.callbacks, self.steps = model, callbacks, steps
            self.optimizer = self.make_optimizer(1e-2)
            self.scheduler = self.make_scheduler()

        def make_optimizer(self, lr):
            return Adam([p for p in self.model.parameters() if p.requires_grad], lr=lr)

        def make_scheduler(self):
            return StepLR(self.optimizer, 10)

        def train_step(self, x, y):
            self.optimizer.zero_grad()
            F.cross_entropy(self.model(x), y).backward()
            self.optimizer.step()
            self.scheduler.step()

        def fit(self, loader):
            for step, (x, y) in enumerate(loader):
                for callback in self.callbacks:
                    callback.on_step_begin(self, step)
                self.train_step(x, y)
"""
CALLBACK = """
    class Unfreeze:
        def __init__(self, step):
            self.step = step

        def on_step_begin(self, trainer, step):
            if step == self.step:
                trainer.model.requires_grad_(True)
                trainer.optimizer = trainer.make_optimizer(1e-3)  # !
"""
LIST = """
    class Callbacks:
        def __init__(self, callbacks):
            self.callbacks = callbacks

        def on_step_begin(self, trainer, step):
            for callback in self.callbacks:
                callback.on_step_begin(trainer, step)
"""
MAIN = """
    def main(model, loader):
        trainer = Trainer(model, [], 100)
        for epoch in range(10):
            if epoch == 5:
                trainer.optimizer = SGD(model.parameters(), lr=0.1)  # !
            trainer.fit(loader)
"""
FROM_OUTSIDE = {
    "a callback": TRAINER + CALLBACK,
    "a list of callbacks": TRAINER + CALLBACK + LIST,
    "a callback that makes it itself": TRAINER + CALLBACK.replace(
        "trainer.make_optimizer(1e-3)", "SGD(trainer.model.parameters(), lr=0.1)"),
    "a loop beside": TRAINER + MAIN,
    "a helper": TRAINER + MAIN.replace("                trainer.optimizer = SGD(model.parameters(), lr=0.1)  # !\n",
                                       "                thaw(trainer)\n")
        + "    def thaw(tr):\n        tr.optimizer = SGD(tr.model.parameters(), lr=0.1)  # !\n",
}  # fmt: skip
SEEN_TO = {
    "the scheduler anew": twin(TRAINER + CALLBACK, ("trainer.make_optimizer(1e-3)", "trainer.make_optimizer(1e-3); "
                                                    "trainer.scheduler = trainer.make_scheduler()")),
    "given the new one": twin(TRAINER + CALLBACK, ("trainer.make_optimizer(1e-3)", "trainer.make_optimizer(1e-3); "
                                                   "trainer.scheduler.optimizer = trainer.optimizer")),
    "a method that makes both": twin(
        TRAINER + CALLBACK, ("trainer.make_optimizer(1e-3)", "trainer.make_optimizer(1e-3); trainer.again()"),
        ("        def train_step", "        def again(self):\n            self.scheduler = self.make_scheduler()\n\n"
         "        def train_step")),
    "by its name": twin(TRAINER + CALLBACK, ("trainer.make_optimizer(1e-3)", "trainer.make_optimizer(1e-3); "
                                             "setattr(trainer, 'scheduler', None)")),
    "more groups": twin(TRAINER + CALLBACK, ("trainer.optimizer = trainer.make_optimizer(1e-3)",
                                             "trainer.optimizer.add_param_group({'params': trainer.model.top})")),
    "wrapped": twin(TRAINER + CALLBACK, ("trainer.make_optimizer(1e-3)", "Adam(trainer.optimizer.param_groups)")),
    "the first one": twin(TRAINER + CALLBACK, ("if step == self.step", "if trainer.optimizer is None")),
    "of something else": twin(TRAINER + CALLBACK, ("callback.on_step_begin(self, step)",
                                                   "callback.on_step_begin(self.model, step)")),
    "of other trainers too": twin(TRAINER + CALLBACK + "    def run(cb, other):\n        cb.on_step_begin(other, 1)\n"),
    "before the scheduler": twin(
        TRAINER + CALLBACK, ("            self.optimizer = self.make_optimizer(1e-2)\n",
                             "            callbacks.on_step_begin(self, 0)\n"),
        ("                    callback.on_step_begin(self, step)\n", "                    pass\n")),
    "no scheduler steps": twin(TRAINER + CALLBACK, ("            self.scheduler.step()\n", "")),
    "nobody calls it": twin(TRAINER + CALLBACK, ("callback.on_step_begin(self, step)", "callback(self, step)")),
    "another attribute": twin(TRAINER + CALLBACK, ("trainer.optimizer =", "trainer.second_optimizer =")),
    "a rate by hand": twin(TRAINER + CALLBACK, ("trainer.make_optimizer(1e-3)", "trainer.make_optimizer(1e-3); "
                                                "trainer.optimizer.param_groups[0]['lr'] = 0.1")),
    "the trainer anew": twin(TRAINER + MAIN, ("            if epoch == 5:\n    ",
                                              "            trainer = Trainer(model, [], 100)\n"),
                             ("            trainer.fit(loader)\n", "")),
    "when all is done": twin(TRAINER + MAIN, ("        for epoch in range(10):\n            if epoch == 5:\n        ",
                                              "        trainer.fit(loader)\n"),
                             ("            trainer.fit(loader)\n", "")),
    "a trainer of another class": twin(TRAINER + MAIN, ("trainer = Trainer(", "trainer = Simple(")),
}  # fmt: skip


@pytest.mark.parametrize("name", FROM_OUTSIDE)
def test_an_optimizer_that_is_replaced_from_outside(name: str) -> None:
    assert_flagged(IMPORTS + dedent(FROM_OUTSIDE[name]), CODE)


@pytest.mark.parametrize("name", SEEN_TO)
def test_look_alikes_of_what_is_replaced_from_outside(name: str) -> None:
    assert_clean(IMPORTS + dedent(SEEN_TO[name]), CODE)


def test_a_callback_of_another_file(tmp_path: Path) -> None:
    header = "import torch.nn.functional as F\nfrom torch.optim import Adam, SGD\n"
    header += "from torch.optim.lr_scheduler import StepLR\n"
    main = "from trainer import Trainer\nfrom unfreeze import Unfreeze\nTrainer(model, [Unfreeze(5)], 9).fit(loader)\n"
    files = {"trainer.py": header + dedent(TRAINER), "unfreeze.py": dedent(CALLBACK), "main.py": main}
    assert lines_in_files(tmp_path, files, CODE) == [("unfreeze.py", 9)]
