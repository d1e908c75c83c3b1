"""The gradient mode that a call leaves behind: ``set_grad_enabled`` in a helper."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, findings, twin

CODE = "GG301"

EVALUATES = """
    {helper}

    def evaluate(model, loader):
        model.eval()
        {before}
        total = 0.0
        for x, y in loader:
            total += F.mse_loss(model(x), y).item(){mark}
        return total
"""

SWITCHES = """
    def switch(model, train):
        model.train(train)
        torch.set_grad_enabled(train)
"""
BRANCHES = """
    def switch(model, train):
        if train:
            model.train()
            torch.set_grad_enabled(True)
        else:
            model.eval()
            torch.set_grad_enabled(False)
"""
THROUGH_ANOTHER = """
    def no_gradients():
        torch.autograd.set_grad_enabled(mode=False)

    def switch(model, train):
        if not train:
            no_gradients()
"""
CHOSEN = """
    def switch(model, train):
        torch.set_grad_enabled(True) if train else torch.set_grad_enabled(False)
"""
WORDS = """
    def switch(model, phase):
        torch.set_grad_enabled(phase == "train")
"""
RESTORES = """
    def sample(model, x):
        before = torch.is_grad_enabled()
        torch.set_grad_enabled(False)
        made = model(x)
        torch.set_grad_enabled(before)
        return made
"""
DECORATED = """
    @torch.no_grad()
    def sample(model, x):
        torch.set_grad_enabled(False)
        return model(x)
"""
IN_A_CONTEXT = """
    def sample(model, x):
        with torch.no_grad():
            torch.set_grad_enabled(False)
            return model(x)
"""
CONTEXT = """
    class Frozen:
        def __enter__(self):
            self.before = torch.is_grad_enabled()
            torch.set_grad_enabled(False)

        def __exit__(self, *failure):
            torch.set_grad_enabled(self.before)
"""
OBJECT = """
    class Evaluation:
        def __init__(self):
            torch.set_grad_enabled(False)
"""


def snippet(helper: str, before: str, mark: str = "") -> str:
    return EVALUATES.format(helper=helper.strip(), before=before, mark=mark)


@pytest.mark.parametrize("helper", [SWITCHES, BRANCHES, THROUGH_ANOTHER, CHOSEN])
def test_a_helper_switches_gradients_off(helper: str) -> None:
    assert_clean(snippet(helper, "switch(model, False)"))
    assert_clean(snippet(helper, "switch(model, train=False)"))


@pytest.mark.parametrize("helper", [SWITCHES, BRANCHES, CHOSEN])
def test_a_helper_switches_gradients_on(helper: str) -> None:
    assert_flagged(snippet(helper, "switch(model, True); model.eval()", "  # !"), CODE)


def test_a_helper_is_told_by_a_word() -> None:
    assert_clean(snippet(WORDS, 'switch(model, "val")'))
    assert_flagged(snippet(WORDS, 'switch(model, "train")', "  # !"), CODE)


@pytest.mark.parametrize("helper", [SWITCHES, BRANCHES])
def test_nobody_knows_what_a_helper_is_told(helper: str) -> None:
    assert_clean(snippet(helper, "switch(model, ARGS.train)"))


@pytest.mark.parametrize("helper", [RESTORES, DECORATED, IN_A_CONTEXT])
def test_a_helper_that_puts_the_mode_back(helper: str) -> None:
    assert_flagged(snippet(helper, "sample(model, FIRST)", "  # !"), CODE)


INSIDE = """
    {helper}

    def evaluate(model, loader):
        model.eval()
        with Frozen():
            for x, y in loader:
                print(F.mse_loss(model(x), y).item())
"""


def test_a_context_of_the_program() -> None:
    assert_clean(INSIDE.format(helper=CONTEXT.strip()))
    assert_flagged(snippet(CONTEXT, "with Frozen(): model(FIRST)", "  # !"), CODE)


def test_an_object_that_is_made() -> None:
    assert_clean(snippet(OBJECT, "Evaluation()"))


def test_a_trainer_that_switches_between_training_and_validation() -> None:
    trainer = """
        class Trainer:
            def __init__(self, model, optimizer):
                self.model, self.optimizer = model, optimizer

            def set_mode(self, enable):
                self.model.train(enable)
                torch.set_grad_enabled(enable)

            def validate_batch(self, x, y):
                return F.mse_loss(self.model(x), y).detach()

            def fit(self, loader, val_loader):
                for epoch in range(10):
                    self.set_mode(True)
                    for x, y in loader:
                        self.optimizer.zero_grad()
                        F.mse_loss(self.model(x), y).backward()
                        self.optimizer.step()
                    self.set_mode({validates})
                    self.model.eval()
                    for x, y in val_loader:
                        self.validate_batch(x, y){mark}
    """
    assert_clean(trainer.format(validates="False", mark=""))
    assert_flagged(trainer.format(validates="True", mark="  # !"), CODE)


@pytest.mark.parametrize("flag", ["True", "False"])
def test_a_flag_decides_whether_a_sum_keeps_graphs(flag: str) -> None:
    run = """
        def run(model, loader, optimizer, train):
            total = 0
            with torch.set_grad_enabled(train):
                for x, y in loader:
                    loss = F.mse_loss(model(x), y)
                    if train:
                        optimizer.zero_grad()
                        loss.backward()
                        optimizer.step()
                    total += loss
            return total

        def main(model, loader, optimizer):
            for epoch in range(10):
                history.append(run(model, loader, optimizer, {}))
    """
    assert bool(findings(run.format(flag), "GG104")) is (flag == "True")


NAMED = """
        def run(phase, model, loader):
            CONTEXT
            seen = []
            for x, y in loader:
                with WITH:
                    loss = F.mse_loss(model(x), y)
                if phase.trains:
                    phase.optimizer.zero_grad()
                    loss.backward()
                    phase.optimizer.step()
                    loss = loss.item()
                seen.append(loss)MARK
            return sum(seen)
"""


@pytest.mark.parametrize(
    ("context", "entered"),
    [
        ("mode = phase.grad_mode()", "mode"),
        ("pass", "phase.grad_context()"),
        ("pass", "phase.with_grad"),
        ("make = phase.grad_mode", "make()"),
    ],
)
def test_a_context_that_is_named_after_gradients_may_switch_them_off(context: str, entered: str) -> None:
    assert_clean(NAMED.replace("CONTEXT", context).replace("WITH", entered).replace("MARK", ""), "GG104")


@pytest.mark.parametrize("entered", ["phase.timer()", "phase.gradual()", "torch.autocast('cpu')", "phase.lock"])
def test_any_other_context_switches_nothing(entered: str) -> None:
    snippet = NAMED.replace("CONTEXT", "pass").replace("WITH", entered).replace("MARK", "  # !")
    assert_flagged(snippet.replace("loss = loss.item()", "pass"), "GG104")


BY_FLAG = """
    import contextlib

    class Runner:
        def __init__(self, net):
            self.net, self.optimizer = net, torch.optim.SGD(net.parameters(), lr=0.1)
            self.contexts = TABLE

        def context(self, train):
            MADE

        def run(self, loader, train):
            self.net.train(train)
            total = 0.0
            with ENTERED:
                for x, y in loader:
                    loss = F.mse_loss(self.net(x), y)
                    if train:
                        self.optimizer.zero_grad()
                        loss.backward()
                        self.optimizer.step()
                    total += loss.item()
            return total

    def fit(net, loader, valid):
        runner = Runner(net)
        for epoch in range(9):
            print(runner.run(loader, True), runner.run(valid, False))MARK
"""
TABLE = "{True: contextlib.nullcontext, False: torch.inference_mode}"
STACK = """stack = contextlib.ExitStack()
            if not train:
                stack.enter_context(torch.no_grad())
            return stack"""


def by_flag(entered: str, table: str = "{}", made: str = "pass", mark: str = "") -> str:
    return BY_FLAG.replace("TABLE", table).replace("MADE", made).replace("ENTERED", entered).replace("MARK", mark)


@pytest.mark.parametrize(
    ("entered", "table", "made"),
    [
        ("self.contexts[train]()", TABLE, "pass"),
        ("self.contexts[train]()", "[torch.no_grad, torch.enable_grad]", "pass"),
        ("self.contexts[train]", "{True: contextlib.nullcontext(), False: torch.no_grad()}", "pass"),
        ("self.context(train)", "{}", STACK),
        ("self.context(train)", "{}", "return contextlib.nullcontext() if train else torch.no_grad()"),
        ("self.context(train)", "{}", "return torch.set_grad_enabled(train)"),
    ],
)
def test_a_context_that_is_chosen_may_turn_them_off(entered: str, table: str, made: str) -> None:
    assert_clean(by_flag(entered, table, made), "GG301")


@pytest.mark.parametrize(
    ("entered", "table", "made"),
    [
        ("self.contexts[train]()", "{True: contextlib.nullcontext, False: torch.profiler.profile}", "pass"),
        ("self.context(train)", "{}", "return contextlib.nullcontext()"),
        ("self.context(train)", "{}", STACK.replace("torch.no_grad()", "torch.autocast('cpu')")),
    ],
)
def test_a_context_that_is_chosen_and_does_not(entered: str, table: str, made: str) -> None:
    assert_flagged(by_flag(entered, table, made, "  # !"), "GG301")


OWN_CONTEXT = """
        import contextlib

        class Model:
            def __init__(self, network, optimizer, criterion):
                self.network, self.optimizer, self.criterion = network, optimizer, criterion

            @contextlib.contextmanager
            def set_mode(self, training):
                before = self.network.training
                self.network.train(training)
                with torch.set_grad_enabled(training):
                    yield
                self.network.train(before)

            def evaluate(self, loader):
                total = 0.0
                with self.set_mode(False):
                    for x, y in loader:
                        total += float(self.criterion(self.network(x), y))
                return total

            def fit(self, loader, valid):
                for epoch in range(10):
                    with self.set_mode(True):
                        for x, y in loader:
                            self.optimizer.zero_grad()
                            self.criterion(self.network(x), y).backward()
                            self.optimizer.step()
                    self.evaluate(valid)
"""


@pytest.mark.parametrize(
    "changes",
    [
        (),
        (("with torch.set_grad_enabled(training):", "with torch.no_grad():"), ("with self.set_mode(True)", "if True")),
        (("import contextlib", "from contextlib import contextmanager"), ("@contextlib.", "@")),
        (("self.network.train(training)", "self.network.train(mode=training)"),),
        (("self.set_mode(False)", "self.set_mode(training=False)"),),
    ],
)  # fmt: skip
def test_a_context_of_its_own_that_switches_gradients_off(changes: tuple[tuple[str, str], ...]) -> None:
    assert_clean(twin(OWN_CONTEXT, *changes), "GG301")


@pytest.mark.parametrize(
    "changes",
    [
        (("with torch.set_grad_enabled(training):", "if True:"),),
        (("with torch.set_grad_enabled(training):", "with torch.set_grad_enabled(True):"),),
    ],
)
def test_a_context_of_its_own_that_leaves_them_on(changes: tuple[tuple[str, str], ...]) -> None:
    snippet = OWN_CONTEXT.replace("float(self.criterion(self.network(x), y))", "float(self.network(x).sum())  # !")
    for old, new in changes:
        snippet = snippet.replace(old, new)
    assert_flagged(snippet, "GG301")
