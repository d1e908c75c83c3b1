from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, findings, lines_in_files

CODE = "GG303"

NET = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(8, 8), {layer}, nn.Linear(8, 2))

        def forward(self, x):
            return self.layers(x)
"""
DROPS = NET.format(layer="nn.Dropout(0.3)")
PLAIN = NET.format(layer="nn.ReLU()")

EVALUATE = """
    def accuracy(net, batches):
        {begin}
        with torch.no_grad():
            return sum((net(x).argmax(1) == y).float().mean().item() for x, y in batches)
"""


def training(*lines: str, before: str = "pass", first: str = "pass", each: str = "pass", net: str = DROPS) -> str:
    after = "\n            ".join(lines)
    return f"""
    {net}

    def fit(train_loader, val_loader, epochs, other):
        net = Net()
        optimizer = torch.optim.Adam(net.parameters())
        {before}
        for epoch in range(epochs):
            {first}
            for x, y in train_loader:
                {each}
                optimizer.zero_grad()
                loss = F.cross_entropy(net(x), y)
                loss.backward()
                optimizer.step()
            {after}
    """


SUMS = "hits = 0"
MEASURES = (
    "with torch.no_grad():",
    "    for x, y in val_loader:",
    "        hits += (net(x).argmax(1) == y).sum().item()",
)


@pytest.mark.parametrize("before", ["pass", "net.train()"])
@pytest.mark.parametrize("puts", ["net.eval()", "net.train(False)", "net.train(mode=False)"])
def test_in_the_loop_itself(before: str, puts: str) -> None:
    assert_flagged(training(f"{puts}  # !", SUMS, *MEASURES, before=before), CODE)


def test_every_tenth_epoch() -> None:
    assert_flagged(training("if epoch % 10 == 9:", "    net.eval()  # !", "    print(net(next(val_loader)))"), CODE)


@pytest.mark.parametrize(
    "net",
    [
        NET.format(layer="nn.BatchNorm1d(8)"),
        NET.format(layer="Block()") + "\n    class Block(nn.Module):\n        def forward(self, x):\n"
        "            return F.dropout(x, 0.1, self.training)\n",
        NET.format(layer="block(8)") + "\n    def block(n):\n        return nn.Sequential(nn.ReLU(), nn.Dropout())\n",
    ],
)
def test_layers_for_which_it_matters(net: str) -> None:
    assert_flagged(training("net.eval()  # !", SUMS, *MEASURES, net=net), CODE)


@pytest.mark.parametrize(
    "net",
    [
        PLAIN,
        NET.format(layer="nn.LayerNorm(8)"),
        NET.format(layer="Always()") + "\n    class Always(nn.Module):\n        def forward(self, x):\n"
        "            return F.dropout(x, 0.1)\n",
        NET.format(layer="nn.GRU(8, 8, dropout=0)"),
    ],
)
def test_layers_for_which_it_does_not(net: str) -> None:
    assert_clean(training("net.eval()", SUMS, *MEASURES, net=net), CODE)


@pytest.mark.parametrize(
    "lines",
    [
        {"first": "net.train()"},
        {"first": "net.train(True)"},
        {"first": "net.layers.train()"},
        {"each": "net.train()"},
        {"first": "for m in (net, other): m.train()"},
    ],
)
def test_said_in_each_iteration(lines: dict[str, str]) -> None:
    assert_clean(training("net.eval()", SUMS, *MEASURES, **lines), CODE)


@pytest.mark.parametrize(
    "lines",
    [
        ("net.eval()", SUMS, *MEASURES, "net.train()"),
        ("mode = net.training", "net.eval()", SUMS, *MEASURES, "net.train(mode)"),
        ("if epoch == epochs - 1:", "    net.eval()", "    print(net(next(val_loader)))"),
        ("if epoch > 3:", "    net.eval()", "    print(net(next(val_loader)))", "    break"),
        ("if epoch > 3:", "    net.eval()", "    return accuracy(net, val_loader)"),
        ("net.layers[1].eval()",),
        ("import copy", "shown = copy.deepcopy(net)", "shown.eval()", "print(shown(next(val_loader)))"),
        ("other.eval()", "print(other(next(val_loader)))"),
    ],
)
def test_look_alikes(lines: tuple[str, ...]) -> None:
    assert_clean(training(*lines), CODE)


@pytest.mark.parametrize("mode", ["getattr(net, mode)()", "set_mode(net, 'train')", "for each in nets: each.train()"])
def test_modes_that_only_the_run_knows(mode: str) -> None:
    helper = """
    def set_mode(net, mode):
        getattr(net, mode)()
    """
    assert_clean(helper + training("net.eval()", SUMS, *MEASURES, first=mode), CODE)


def test_what_is_wrapped_is_set() -> None:
    text = training("net.eval()", SUMS, *MEASURES, before="model = net; net = nn.DataParallel(model)")
    assert_clean(text.replace("optimizer.zero_grad()", "optimizer.zero_grad(); model.train()"), CODE)


SCRIPT = """
    net = Net()
    optimizer = torch.optim.Adam(net.parameters())

    def train(loader):
        {first}
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(net(x), y).backward()
            optimizer.step()

    def test(loader):
        net.eval(){mark}
        with torch.no_grad():
            for x, y in loader:
                print(net(x).argmax(1) == y)

    for epoch in range(9):
        train(train_loader)
        test(test_loader)
"""


def test_a_script() -> None:
    assert_flagged(DROPS + SCRIPT.format(first="pass", mark="  # !"), CODE)
    assert_clean(DROPS + SCRIPT.format(first="net.train()", mark=""), CODE)


def test_in_evaluation_mode_from_the_start() -> None:
    assert_clean(training("net.eval()", SUMS, *MEASURES, before="net.eval()"), CODE)
    assert_clean(training("net.eval()", SUMS, *MEASURES, first="net.eval()"), CODE)


def test_after_the_loop() -> None:
    assert_clean(
        DROPS
        + """
    def fit(loader, epochs, x):
        net = Net()
        optimizer = torch.optim.Adam(net.parameters())
        for epoch in range(epochs):
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(net(x), y).backward()
                optimizer.step()
        net.eval()
        return net(x)
    """,
        CODE,
    )


def test_a_model_for_each_fold() -> None:
    assert_clean(
        DROPS
        + """
    def folds(loaders, epochs, x):
        for loader in loaders:
            net = Net()
            optimizer = torch.optim.Adam(net.parameters())
            for epoch in range(epochs):
                for x, y in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(net(x), y).backward()
                    optimizer.step()
            net.eval()
            print(net(x))
    """,
        CODE,
    )


TRAINER = """
    class Trainer:
        def __init__(self, model, loader, val_loader):
            self.model, self.loader, self.val_loader = model, loader, val_loader
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

        def train_epoch(self):
            {first}
            for i, (x, y) in enumerate(self.loader):
                {each}
                self.optimizer.zero_grad()
                loss = F.cross_entropy(self.model(x), y)
                loss.backward()
                self.optimizer.step()

        def validate(self):
            self.model.eval(){mark}
            with torch.no_grad():
                for x, y in self.val_loader:
                    print(F.cross_entropy(self.model(x), y))
            {last}

        def run(self, epochs):
            for epoch in range(epochs):
                self.train_epoch()
                {after}
"""


@pytest.mark.parametrize(
    "code",
    [
        {"after": "self.validate()"},
        {"after": "if epoch % 5 == 0: self.validate()"},
        {"first": "self.model.train()", "each": "if i % 100 == 99: self.validate()"},
        {"first": "self.model.train()", "each": "if i % 100 == 99:\n                    self.validate()"},
    ],
)
def test_methods(code: dict[str, str]) -> None:
    blank = {"first": "pass", "each": "pass", "last": "pass", "after": "pass", "mark": "  # !"}
    assert_flagged(DROPS + TRAINER.format(**(blank | code)), CODE)


@pytest.mark.parametrize(
    "code",
    [
        {"first": "self.model.train()", "after": "self.validate()"},
        {"last": "self.model.train()", "after": "self.validate()"},
        {"each": "self.model.train()", "after": "self.validate()"},
        {"each": "[m.train() for m in (self.model,)]", "after": "self.validate()"},
        {"first": "self.model.train()", "each": "if i % 100 == 99: self.validate(); self.model.train()"},
        {"after": "self.validate(); return"},
    ],
)
def test_methods_that_set_it_again(code: dict[str, str]) -> None:
    blank = {"first": "pass", "each": "pass", "last": "pass", "after": "pass", "mark": ""}
    assert_clean(DROPS + TRAINER.format(**(blank | code)), CODE)


CONTEXT = """
    import contextlib

    @contextlib.contextmanager
    def evaluating(net):
        {before}
        net.eval()
        try:
            yield net
        finally:
            {after}
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [("pass", "net.train()"), ("was = net.training", "net.train(was)"), ("pass", "net.train(True)")],
)
def test_contexts_that_put_it_back(before: str, after: str) -> None:
    body = ("with evaluating(net):", "    print(net(next(val_loader)))")
    assert_clean(CONTEXT.format(before=before, after=after) + training(*body), CODE)


def test_a_class_that_puts_it_back() -> None:
    context = """
    class Evaluating:
        def __init__(self, net):
            self.net = net

        def __enter__(self):
            self.was = self.net.training
            self.net.eval()

        def __exit__(self, *exc):
            self.net.train(self.was)
    """
    assert_clean(context + training("with Evaluating(net):", "    print(net(next(val_loader)))"), CODE)


@pytest.mark.parametrize(
    "lines",
    [
        ("net = copy.deepcopy(net)", "net.eval()", "y = net(x)"),
        ("net = net.to('cpu')", "net.eval()", "y = net(x)", "net.train()"),
        ("was = net.training", "net.eval()", "y = net(x)", "net.train(was)"),
    ],
)
def test_helpers_that_leave_it(lines: tuple[str, ...]) -> None:
    body = "\n        ".join((*lines, "return y"))
    helper = f"\n    import copy\n\n    def sampled(net, x):\n        {body}\n"
    assert_clean(helper + training("print(sampled(net, next(val_loader)))"), CODE)


def test_a_helper_that_moves_it() -> None:
    helper = """
    def sampled(net, x):
        net = net.to("cpu")
        net.eval()  # !
        return net(x)
    """
    assert_flagged(helper + training("print(sampled(net, next(val_loader)))"), CODE)


def test_a_head_that_is_trained_over_a_backbone_that_is_not() -> None:
    snippet = """
    class Detector(nn.Module):
        def __init__(self, backbone):
            super().__init__()
            self.backbone, self.head = backbone, nn.Sequential(nn.Linear(8, 2), nn.Dropout())

        def forward(self, x):
            return self.head(self.backbone(x))

    def fit(backbone, loader, val_loader, epochs):
        net = Detector(backbone)
        optimizer = torch.optim.Adam(net.parameters())
        for epoch in range(epochs):
            {first}
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(net(x), y).backward()
                optimizer.step()
            net.eval(){mark}
            with torch.no_grad():
                print(net(next(val_loader)))
    """
    assert_clean(snippet.format(first="net.head.train()", mark=""), CODE)
    assert_flagged(snippet.format(first="pass", mark="  # !"), CODE)


def test_a_phase_for_each() -> None:
    assert_clean(
        DROPS
        + """
    def fit(loaders, epochs):
        net = Net()
        optimizer = torch.optim.Adam(net.parameters())
        for epoch in range(epochs):
            for phase in ("train", "val"):
                {set_mode}
                for x, y in loaders[phase]:
                    optimizer.zero_grad()
                    with torch.set_grad_enabled(phase == "train"):
                        loss = F.cross_entropy(net(x), y)
                    if phase == "train":
                        loss.backward()
                        optimizer.step()
    """.format(set_mode="net.train(phase == 'train')"),
        CODE,
    )


@pytest.mark.parametrize(
    "modes",
    [
        "net.train() if phase == 'train' else net.eval()",
        "if phase == 'train': net.train()\n                else: net.eval()",
        "{'train': net.train, 'val': net.eval}[phase]()",
    ],
)
def test_phases_in_branches(modes: str) -> None:
    assert_clean(
        DROPS
        + f"""
    def fit(loaders, epochs):
        net = Net()
        optimizer = torch.optim.Adam(net.parameters())
        for epoch in range(epochs):
            for phase in ("train", "val"):
                {modes}
                for x, y in loaders[phase]:
                    optimizer.zero_grad()
                    with torch.set_grad_enabled(phase == "train"):
                        loss = F.cross_entropy(net(x), y)
                    if phase == "train":
                        loss.backward()
                        optimizer.step()
    """,
        CODE,
    )


RUN = """
    def run(net, loader, optimizer=None):
        {modes}
        for x, y in loader:
            loss = F.cross_entropy(net(x), y)
            if optimizer is not None:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

    def fit(train_loader, val_loader, epochs):
        net = Net()
        optimizer = torch.optim.Adam(net.parameters())
        for epoch in range(epochs):
            run(net, train_loader, optimizer)
            with torch.no_grad():
                run(net, val_loader)
"""


@pytest.mark.parametrize(
    "modes",
    [
        "net.train(optimizer is not None)",
        "net.train() if optimizer is not None else net.eval()",
        "is_training = optimizer is not None\n        net.train(mode=is_training)",
    ],
)
def test_one_function_for_both(modes: str) -> None:
    assert_clean(DROPS + RUN.format(modes=modes), CODE)


def test_a_module_with_a_train_of_its_own() -> None:
    own = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.3))

        def train(self, mode=True):
            super().train(mode)
            self.layers[0].eval()
            return self

        def forward(self, x):
            return self.layers(x)
    """
    assert_clean(training("net.eval()", SUMS, *MEASURES, first="net.train()", net=own), CODE)


def test_a_call_that_cannot_be_read() -> None:
    evaluation = ("net.eval()", SUMS, *MEASURES)
    assert_clean("    from lab import begin_epoch\n" + training(*evaluation, first="begin_epoch(net)"), CODE)


def test_two_networks() -> None:
    assert_flagged(
        """
    def fit(loader, noise, steps):
        G = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8))
        D = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 1))
        opt_g = torch.optim.Adam(G.parameters())
        opt_d = torch.optim.Adam(D.parameters())
        for step in range(steps):
            D.train()
            for x in loader:
                opt_d.zero_grad()
                loss_d = F.softplus(-D(x)).mean() + F.softplus(D(G(noise).detach())).mean()
                loss_d.backward()
                opt_d.step()
                opt_g.zero_grad()
                loss_g = F.softplus(-D(G(noise))).mean()
                loss_g.backward()
                opt_g.step()
            G.eval()  # !
            D.eval()
            print(D(G(noise)))
    """,
        CODE,
    )


def test_the_edit_stands_at_the_start_of_the_iteration() -> None:
    (finding,) = findings(training("net.eval()  # !", SUMS, *MEASURES), CODE)
    assert finding.fix is not None
    assert not finding.fix.safe
    (edit,) = finding.fix.edits
    assert edit.text.startswith("net.train()\n")
    assert "iteration of the loop in line" in finding.help


def test_an_evaluation_in_another_file(tmp_path: Path) -> None:
    files = {
        "evaluation.py": "import torch\n" + dedent(EVALUATE).format(begin="net.eval()"),
        "main.py": """
            import torch
            from torch import nn
            from torch.nn import functional as F
            from evaluation import accuracy

            def fit(loader, val_loader, epochs):
                net = nn.Sequential(nn.Linear(8, 8), nn.Dropout(), nn.Linear(8, 2))
                optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
                for epoch in range(epochs):
                    for x, y in loader:
                        optimizer.zero_grad()
                        F.cross_entropy(net(x), y).backward()
                        optimizer.step()
                    print(accuracy(net, val_loader))
        """,
    }
    assert lines_in_files(tmp_path, files, CODE) == [("evaluation.py", 4)]
    files["evaluation.py"] = files["evaluation.py"].replace("\n    with", "\n    net.train()\n    with")
    assert lines_in_files(tmp_path, files, CODE) == []


def test_an_object_that_probes_a_model() -> None:
    text = TRAINER.format(first="pass", each="pass", last="pass", after="self.validate()", mark="")
    assert_clean(DROPS + text.replace("self.optimizer = torch", "self.model.eval(); self.optimizer = torch"), CODE)


AGENT = """
    class Agent:
        def __init__(self, net, optimizer):
            self.net, self.optimizer = net, optimizer

        def act(self, state):
            self.net.eval(){mark}
            with torch.no_grad():
                action = self.net(state).argmax(1)
            {after}
            return action

        def learn(self, states, targets):
            {first}
            loss = F.mse_loss(self.net(states), targets)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

    def main(env, memory, steps):
        net = Net()
        agent = Agent(net, torch.optim.Adam(net.parameters()))
        {begin}
        state = env.reset()
        for step in range(steps):
            state = env.step(agent.act(state))
            agent.learn(*memory.sample())
"""
AS_IT_IS = {"mark": "", "after": "pass", "first": "pass", "begin": "pass"}


def test_an_agent_that_acts_in_evaluation_mode() -> None:
    assert_flagged(DROPS + AGENT.format(**(AS_IT_IS | {"mark": "  # !"})), CODE)


@pytest.mark.parametrize(
    "lines",
    [
        {"after": "self.net.train()"},
        {"first": "self.net.train()"},
        {"first": "self.net.eval()"},
        {"begin": "agent.net.eval()"},
    ],
)
def test_an_agent_that_learns_in_the_mode_that_is_meant(lines: dict[str, str]) -> None:
    assert_clean(DROPS + AGENT.format(**(AS_IT_IS | lines)), CODE)


def test_an_agent_for_whose_network_it_does_not_matter() -> None:
    assert_clean(PLAIN + AGENT.format(**AS_IT_IS), CODE)


REMEMBERS = """
    def accuracy(model, batches):
        {first}
        {second}
        with torch.no_grad():
            hits = sum((model(x).argmax(1) == y).float().mean().item() for x, y in batches)
        {after}
        return hits
"""
MEASURED = ("print(accuracy(net, val_loader))",)


@pytest.mark.parametrize("after", ["model.train(was)", "model.train(mode=was)"])
def test_a_mode_that_is_remembered_too_late(after: str) -> None:
    helper = REMEMBERS.format(first="model.eval()", second="was = model.training  # !", after=after)
    assert_flagged(helper + training(*MEASURED), CODE)


def test_a_mode_that_is_remembered_too_late_in_the_loop() -> None:
    lines = ("net.eval()", "was = net.training  # !", SUMS, *MEASURES, "net.train(was)")
    assert_flagged(training(*lines, before="net.train()"), CODE)


def test_a_mode_that_is_remembered_too_late_and_put_back_at_last() -> None:
    lines = ("net.eval()", "was = net.training  # !", "try:", "    print(net(other))", "finally:", "    net.train(was)")
    assert_flagged(training(*lines, before="net.train()"), CODE)


@pytest.mark.parametrize(
    ("first", "second", "after"),
    [
        ("was = model.training", "model.eval()", "model.train(was)"),
        ("was = model.training", "model.eval()", "model.train(mode=was)"),
        ("model.eval()", "was = True", "model.train(was)"),
        ("model.eval()", "was = model.training", "model.train()"),
        ("model.eval()", "was = model.training", "model.train(not was)"),
        ("model.eval()", "was = model.training or True", "model.train(was)"),
        ("batches.eval()", "was = model.training", "model.eval(); model.train(was)"),
        ("model.eval()", "was = batches.training", "model.train(was)"),
        ("model.eval(); model.train()", "was = model.training", "model.train(was)"),
        ("was = model.training; model.eval()", "was = was or model.training", "model.train(was)"),
    ],
)
def test_modes_that_are_remembered_in_time(first: str, second: str, after: str) -> None:
    assert_clean(REMEMBERS.format(first=first, second=second, after=after) + training(*MEASURED), CODE)


def test_a_mode_that_is_asked_after_a_condition() -> None:
    helper = REMEMBERS.format(
        first="if len(batches) > 2:\n            model.eval()", second="was = model.training", after="model.train(was)"
    )
    assert_clean(helper + training(*MEASURED), CODE)


INFERENCE = """
    class Inference:
        def __init__(self, model):
            self.model = model

        def __enter__(self):
            {first}
            {second}
            return self.model

        def __exit__(self, *exc):
            self.model.train(self.was)
            return False
"""
INFERS = {
    "alone": ("with Inference(net):", "    print(net(next(val_loader)))"),
    "by its name": ("with Inference(net) as model:", "    print(model(next(val_loader)))"),
    "made before": ("inference = Inference(net)", "with inference:", "    print(net(next(val_loader)))"),
}


@pytest.mark.parametrize("lines", INFERS.values(), ids=INFERS)
def test_a_context_that_remembers_too_late(lines: tuple[str, ...]) -> None:
    context = INFERENCE.format(first="self.model.eval()", second="self.was = self.model.training  # !")
    assert_flagged(context + training(*lines), CODE)


@pytest.mark.parametrize("lines", INFERS.values(), ids=INFERS)
def test_a_context_that_remembers_in_time(lines: tuple[str, ...]) -> None:
    context = INFERENCE.format(first="self.was = self.model.training", second="self.model.eval()")
    assert_clean(context + training(*lines), CODE)
    context = INFERENCE.format(first="self.model.eval()", second="pass").replace("train(self.was)", "train()")
    assert_clean(context + training(*lines), CODE)


def test_a_context_that_leaves_it() -> None:
    context = INFERENCE.format(first="self.model.eval()  # !", second="pass").replace(
        "self.model.train(self.was)", "pass"
    )
    assert_flagged(context + training(*INFERS["alone"]), CODE)


def test_a_context_in_another_file_that_remembers_too_late(tmp_path: Path) -> None:
    context = INFERENCE.format(first="self.model.eval()", second="self.was = self.model.training")
    head = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"
    files = {
        "modes.py": dedent(context),
        "train.py": head + "from modes import Inference\n" + dedent(training(*INFERS["alone"])),
    }
    assert lines_in_files(tmp_path, files, CODE) == [("modes.py", 8)]
    files["modes.py"] = dedent(INFERENCE.format(first="self.was = self.model.training", second="self.model.eval()"))
    assert lines_in_files(tmp_path, files, CODE) == []


GIVES_BACK = """
    from contextlib import contextmanager

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))

        def forward(self, x):
            return self.layers(x)

    @contextmanager
    def inference(model):
        was_training = model.training
        model.eval(){mark}
        with torch.no_grad():
            yield model
        {last}

    def predict(model, loader):
        with inference(model) as m:
            {block}

    def train(loader, val_loader):
        model = Net()
        opt = torch.optim.Adam(model.parameters())
        model.train()
        for epoch in range(8):
            for x, y in loader:
                opt.zero_grad()
                F.mse_loss(model(x), y).backward()
                opt.step()
            print(predict(model, val_loader))
"""


@pytest.mark.parametrize("block", ["return [m(x) for x in loader]", "found = [m(x) for x in loader]"])
def test_a_context_that_gives_the_mode_back(block: str) -> None:
    assert_clean(GIVES_BACK.format(mark="", last="model.train(was_training)", block=block), CODE)
    assert_flagged(GIVES_BACK.format(mark="  # !", last="print(model)", block=block), CODE)


GIVEN = """
    class Plain(nn.Module):
        def __init__(self, dim=8):
            super().__init__()
            self.layer = nn.Linear(dim, 2)

        def forward(self, x):
            return self.layer(x)

    class Noisy(Plain):
        def forward(self, x):
            return F.dropout(self.layer(x), 0.1, self.training)

    @torch.no_grad()
    def score(net, data):
        net.eval(){mark}
        return sum(F.cross_entropy(net(x), y).item() for x, y in data)

    def fit(net, data, held_out, optimizer):
        for epoch in range(30):
            for x, y in data:
                optimizer.zero_grad()
                F.cross_entropy(net(x), y).backward()
                optimizer.step()
            print(score(net, held_out))

    def run(data, held_out):
        net = {made}
        fit(net, data, held_out, torch.optim.Adam(net.parameters()))
"""


def test_a_model_that_all_callers_give() -> None:
    assert_flagged(GIVEN.format(made="Noisy(16).to('cpu')", mark="  # !"), CODE)


@pytest.mark.parametrize("made", ["Plain()", "Plain(16).to('cpu')"])
def test_a_model_that_all_callers_give_and_for_which_the_mode_does_not_matter(made: str) -> None:
    assert_clean(GIVEN.format(made=made, mark=""), CODE)


STEPPED = """
    class Proto(nn.Module):
        def __init__(self, encoder):
            super().__init__()
            self.encoder = nn.Sequential(encoder, nn.Dropout())

        def set_loss(self, episode):
            return F.cross_entropy(self.encoder(episode["x"]), episode["y"])

    def train(model, options, episodes, valid_episodes):
        optimizer = torch.optim.Adam(model.parameters())
        {before}
        epoch = 0
        while epoch < options["epochs"] and not options["stop"]:
            {first}
            for _ in range(options["episodes"]):
                optimizer.zero_grad()
                loss, stats = score(model.set_loss(next(episodes)))
                loss.backward()
                optimizer.step()
            {then}
            epoch += 1

    def score(loss):
        return loss, loss.item()

    def evaluate(model, episodes):
        model.eval(){mark}
        total = 0.0
        for episode in episodes:
            total += model.set_loss(episode).item()
        {last}
        return total
"""


def stepped(mark: str = "", **lines: str) -> str:
    parts = {"before": "model.train()", "first": "pass", "then": "evaluate(model, valid_episodes)", "last": "pass"}
    return STEPPED.format(mark=mark, **(parts | lines))


def test_a_model_whose_methods_only_the_run_knows() -> None:
    assert_flagged(stepped("  # !"), CODE)
    assert_flagged(stepped("  # !", first="adjust(optimizer, epoch)"), CODE)


@pytest.mark.parametrize(
    "lines",
    [
        {"before": "pass"},
        {"before": "model.eval()"},
        {"before": "model.train(); model.eval()"},
        {"before": "if options['train']: model.train()"},
        {"first": "model.train()"},
        {"first": "model.to_training()"},
        {"first": "prepare(model)"},
        {"last": "model.train()"},
        {"then": "if epoch == options['epochs'] - 1: evaluate(model, valid_episodes)"},
        {"then": "if epoch > 3: evaluate(model, valid_episodes); break"},
        {"then": "pass"},
        {"first": "model = make()"},
    ],
)
def test_a_model_whose_methods_only_the_run_knows_and_that_trains(lines: dict[str, str]) -> None:
    assert_clean(stepped(**lines), CODE)


PROBED = """
    class Probe:
        def __init__(self, width, device):
            self.head = nn.Linear(width, 2).to(device)

        def score(self, loader):
            with torch.no_grad():
                self.head.eval()
                hits = sum((self.head(x).argmax(1) == y).sum().item() for x, y in loader)
                self.head.train()
            return hits

    def test(net, loader):
        net.eval()  # !
        with torch.no_grad():
            feats = [(net(x), y) for x, y in loader]
        probe = Probe(8, "cpu")
        return probe.score(feats)
"""


def test_a_probe_that_is_made_there_is_another_module() -> None:
    then = "if epoch % 5 == 0:", "    test(net, val_loader)"
    assert_flagged(PROBED + training(*then), CODE)
    validated = "if epoch % 2 == 0:", "    net.eval()", "    accuracy(net, val_loader)", "    net.train()"
    assert_flagged(PROBED + EVALUATE.format(begin="pass") + training(*validated, *then), CODE)


def test_a_probe_that_is_given_the_model() -> None:
    given = (
        PROBED.replace("  # !", "").replace("nn.Linear(width, 2).to(device)", "width").replace("Probe(8", "Probe(net")
    )
    assert_clean(given + training("test(net, val_loader)"), CODE)
    wrapped = PROBED.replace("  # !", "").replace("nn.Linear(width, 2)", "Wrapped(model)").replace("width", "model")
    assert_clean(wrapped.replace("Probe(8", "Probe(net") + training("test(net, val_loader)"), CODE)
