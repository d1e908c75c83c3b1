"""`backward(create_graph=True)` in a function that makes a model for each fold: the last gradients tie it for ever."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, findings, twin

CODE = "GG102"

FOLD = """
        def train_fold(x, y, held):
            net = nn.Sequential(nn.Linear(12, 128), nn.Tanh(), nn.Linear(128, 1))
            opt = torch.optim.SGD(net.parameters(), lr=0.1)
            for _ in range(8):
                loss = F.mse_loss(net(x), y)
                opt.zero_grad()
                loss.backward(create_graph=True)  # !
                opt.step()
            with torch.no_grad():
                return F.mse_loss(net(held), y).item()

        def main(x, y, folds):
            scores = []
            for held in folds:
                scores.append(train_fold(x, y, held))
            print(scores)
"""
ENDS = "            with torch.no_grad():\n                return"


def test_a_model_for_each_fold() -> None:
    assert_flagged(FOLD, CODE)


def test_in_a_comprehension() -> None:
    start, end = FOLD.index("            scores = []"), FOLD.index("            print(scores)")
    each = "            scores = [train_fold(x, y, held) for held in folds]\n"
    assert_flagged(FOLD[:start] + each + FOLD[end:], CODE)


def test_the_model_that_stays_is_named() -> None:
    [finding] = findings(FOLD, CODE)
    assert "the model of each call stays" in finding.message
    assert "after the last iteration, too" in (finding.help or "")


@pytest.mark.parametrize(
    "edit",
    {
        "reset at the end": (ENDS, "            opt.zero_grad()\n" + ENDS),
        "by the model": (ENDS, "            net.zero_grad()\n" + ENDS),
        "by hand": (ENDS, "            for p in net.parameters(): p.grad = None\n" + ENDS),
        "reset after the step": ("opt.step()\n", "opt.step()\n                opt.zero_grad()\n"),
        "autograd.grad": (
            "loss.backward(create_graph=True)",
            "torch.autograd.grad(loss, net.parameters(), create_graph=True)",
        ),
        "no graph of gradients": ("loss.backward(create_graph=True)", "loss.backward()"),
        "once": (
            "for held in folds:\n                ",
            "if folds:\n                held = folds[0]\n                ",
        ),
        "given back": ("return F.mse_loss(net(held), y).item()", "return net"),
        "handed on": ("return F.mse_loss(net(held), y).item()", "return evaluate(net, held)"),
        "kept": ("            opt = torch", "            train_fold.net = net\n            opt = torch"),
        "of the caller": (
            "def train_fold(x, y, held):",
            "def train_fold(x, y, held, make=None, net=None):\n            net = net or make()",
        ),
        "a part of a larger model": ("nn.Sequential(nn.Linear(12, 128), nn.Tanh(), nn.Linear(128, 1))", "shared"),
    }.values(),
)
def test_a_model_that_is_reset_or_lives_on(edit: tuple[str, str]) -> None:
    assert_clean(twin(FOLD, edit), CODE)


REPTILE = """
    class Reptile:
        def __init__(self, meta, cfg):
            self.meta, self.cfg = meta, cfg
            self.opt = torch.optim.Adam(meta.parameters())

        def adapt(self, draw):
            learner = MAKES
            for _ in range(self.cfg.inner_steps):
                learner.zero_grad()
                x, y = draw()
                loss = F.mse_loss(learner(x), y)
                loss.backward(create_graph=True)  # !
                with torch.no_grad():
                    for p in learner.parameters():
                        p -= self.cfg.inner_lr * p.grad
            END
            return learner

        def meta_step(self, draw):
            learner = self.adapt(draw)
            for slow, fast in zip(self.meta.parameters(), learner.parameters()):
                slow.grad = slow.detach() - fast.detach()
            self.opt.step()
            with torch.no_grad():
                x, y = draw(32)
                value = F.mse_loss(learner(x), y).item()
            USED
            return value

    def main(meta, cfg, tasks):
        algo = Reptile(meta, cfg)
        for step in range(cfg.steps):
            algo.meta_step(tasks.task())
"""
WITH_OPTIMIZER = """
    def adapted(meta, task, lr):
        fast = copy.deepcopy(meta)
        inner = torch.optim.SGD(fast.parameters(), lr=lr)
        for x, y in task:
            inner.zero_grad()
            F.cross_entropy(fast(x), y).backward(create_graph=True)  # !
            inner.step()
        END
        return fast

    def outer_step(meta, tasks, outer):
        for task in TASKS:
            fast = adapted(meta, task.support, 0.01)
            score(fast(task.query))
        outer.step()

    def train(meta, batches, outer):
        while True:
            outer_step(meta, next(batches), outer)
"""


def _reptile(makes: str = "copy.deepcopy(self.meta)", end: str = "pass", used: str = "pass") -> str:
    return REPTILE.replace("MAKES", makes).replace("END", end).replace("USED", used)


@pytest.mark.parametrize("makes", ["copy.deepcopy(self.meta)", "self.meta.clone()", "nn.Linear(self.cfg.size, 1)"])
def test_a_loop_calls_what_calls_it(makes: str) -> None:
    assert_flagged(_reptile(makes), CODE)


@pytest.mark.parametrize("tasks", ["tasks", "[tasks[0]]"])
def test_functions_that_call_each_other(tasks: str) -> None:
    assert_flagged(WITH_OPTIMIZER.replace("END", "pass").replace("TASKS", tasks), CODE)


@pytest.mark.parametrize(
    "code",
    [
        _reptile(end="learner.zero_grad()"),
        _reptile(end="for p in learner.parameters():\n                p.grad = None"),
        _reptile(used="learner.zero_grad(set_to_none=True)"),
        _reptile(used="self.last = learner"),
        _reptile().replace("create_graph=True", "retain_graph=False"),
        _reptile().replace("for step in range(cfg.steps):", "if cfg.steps:"),
        WITH_OPTIMIZER.replace("END", "inner.zero_grad()").replace("TASKS", "tasks"),
        WITH_OPTIMIZER.replace("END", "fast.zero_grad()").replace("TASKS", "tasks"),
    ],
)
def test_a_loop_calls_what_calls_it_and_it_is_reset(code: str) -> None:
    assert_clean(code.replace("  # !", ""), CODE)
