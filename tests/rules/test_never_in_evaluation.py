from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files

CODE = "GG306"

NET = """
    class Net(nn.Module):
        def __init__(self{more}):
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(8, 8), {layer}, nn.Linear(8, 2))

        def forward(self, x):
            {first}
            return self.layers(x)
"""


def net(layer: str = "nn.BatchNorm1d(8)", more: str = "", first: str = "pass") -> str:
    return NET.format(layer=layer, more=more, first=first)


TEST = """
    def test(net, test_loader):
        {begin}
        hits = 0
        with torch.no_grad():
            for x, y in test_loader:
                {before}
                hits += (net(x).argmax(1) == y).sum().item()  # !
        return hits
"""
MAIN = """
    def main(train_loader, test_loader, epochs, args):
        net = {made}
        optimizer = torch.optim.Adam(net.parameters())
        for epoch in range(epochs):
            {first}
            for x, y in train_loader:
                optimizer.zero_grad()
                F.cross_entropy(net(x), y).backward()
                optimizer.step()
            {then}
            print(test({given}, test_loader))
            {last}
"""


def program(
    *,
    model: str = "",
    made: str = "Net()",
    begin: str = "pass",
    before: str = "pass",
    first: str = "pass",
    then: str = "pass",
    given: str = "net",
    last: str = "pass",
    beside: str = "",
) -> str:
    return (
        beside
        + (model or net())
        + TEST.format(begin=begin, before=before)
        + MAIN.format(made=made, first=first, then=then, given=given, last=last)
    )


@pytest.mark.parametrize(
    "model",
    [
        net(),
        net("nn.Dropout()"),
        net("nn.Dropout(0.3)"),
        net("nn.Dropout(p)", more=", p=0.1"),
        net("nn.SyncBatchNorm(8)"),
    ],
)
def test_what_nothing_puts_into_evaluation_mode(model: str) -> None:
    assert_flagged(program(model=model), CODE)


@pytest.mark.parametrize(
    "made",
    ["Net().to(args.device)", "nn.DataParallel(Net())", "torch.compile(Net())", "Net() if args.small else Net()"],
)
def test_models_that_are_wrapped(made: str) -> None:
    assert_flagged(program(made=made), CODE)


def test_rates_that_are_handed_on() -> None:
    inner = """
    class Block(nn.Module):
        def __init__(self, width, drop):
            super().__init__()
            self.out = nn.Sequential(nn.Linear(width, width), nn.Dropout(drop))

        def forward(self, x):
            return x + self.out(x)
    """
    flagged = inner + net("Block(8, drop=rate)", more=", rate=0.1")
    assert_flagged(program(model=flagged), CODE)
    assert_clean(program(model=flagged, made="Net(rate=0)").replace("  # !", ""), CODE)
    assert_clean(program(model=flagged, made="Net(args.rate)").replace("  # !", ""), CODE)


def test_training_mode_is_said_before_the_training_and_an_export_comes_after() -> None:
    assert_flagged(program(first="net.train()"), CODE)
    assert_flagged(program(first="net.train()", last="net.eval()"), CODE)


def test_what_comes_after_the_training() -> None:
    for line in ("net.eval()", "torch.onnx.export(net, x, 'net.onnx')", "publish(net)"):
        assert_flagged(program() + f"        {line}\n", CODE)


def test_an_average_that_is_in_evaluation_mode_is_another_model() -> None:
    beside = """
    class Ema:
        def __init__(self, net):
            self.shadow = copy.deepcopy(net)
            self.shadow.eval()
    """
    assert_flagged(program(beside=beside), CODE)


def test_an_object_that_trains_and_evaluates() -> None:
    assert_flagged(
        net()
        + """
    class Trainer:
        def __init__(self, train_loader, val_loader):
            self.net = Net().cuda()
            self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
            self.train_loader, self.val_loader = train_loader, val_loader

        def fit(self, epochs):
            for epoch in range(epochs):
                for x, y in self.train_loader:
                    self.optimizer.zero_grad()
                    F.cross_entropy(self.net(x), y).backward()
                    self.optimizer.step()
                losses = []
                for x, y in self.val_loader:
                    out = self.net(x)  # !
                    losses.append(F.cross_entropy(out, y).item())
                print(sum(losses))
    """,
        CODE,
    )


def test_one_that_only_tests_is_given_the_model() -> None:
    assert_flagged(
        net()
        + """
    class Tester:
        def __init__(self, encoder, test_loader):
            self.encoder, self.test_loader = encoder, test_loader

        def test(self):
            hits = 0
            with torch.no_grad():
                for x, y in self.test_loader:
                    hits += (self.encoder(x).argmax(1) == y).sum().item()  # !
            return hits

    def main(test_loader):
        print(Tester(Net(), test_loader).test())
    """,
        CODE,
    )


def clean(**parts: str) -> None:
    assert_clean(program(**parts).replace("  # !", ""), CODE)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "layer",
    [
        "nn.ReLU()",
        "nn.LayerNorm(8)",
        "nn.GroupNorm(2, 8)",
        "nn.InstanceNorm1d(8)",
        "nn.BatchNorm1d(8, track_running_stats=False)",
        "nn.Dropout(0)",
        "nn.Dropout(0.0)",
        "nn.Dropout(rate)",
    ],
)
def test_no_layer_for_which_it_matters(layer: str) -> None:
    clean(model=net(layer, more=", rate=None"))


@pytest.mark.parametrize(
    "begin", ["net.eval()", "net.train(False)", "net.train(mode=False)", "was = net.training; net.eval()"]
)
def test_said_where_it_is_evaluated(begin: str) -> None:
    clean(begin=begin)


@pytest.mark.parametrize(
    "then",
    ["net.eval()", "net.train(False)", "net.train(not args.test)", 'getattr(net, "eval")()', "set_mode(net, False)"],
)
def test_said_where_it_is_called(then: str) -> None:
    clean(then=then)
    clean(then=then, first="net.train()")


def test_said_after_an_evaluation_and_left_so() -> None:
    clean(last="net.eval()")


@pytest.mark.parametrize(
    "beside",
    [
        """
    def set_mode(net, training):
        net.train(training)
    """,
        """
    class Modes:
        def evaluating(self, nets):
            for net in nets:
                net.eval()
    """,
        """
    class Base(nn.Module):
        def train(self, mode=True):
            return super().train(mode)
    """,
        "import pytorch_lightning as pl\n",
        "from ignite.engine import create_supervised_evaluator\n",
        "from transformers import Trainer\n",
    ],
)
def test_others_may_say_so(beside: str) -> None:
    assert_clean(dedent(beside) + dedent(program().replace("  # !", "")), CODE)


def test_what_answers_otherwise_in_training() -> None:
    clean(model=net(first="if self.training: return self.layers(x).sum()"))


def test_dropout_that_is_drawn_on_purpose() -> None:
    clean(before="# Monte Carlo dropout: what it draws is wanted")
    clean(before="# net.eval() is left away, as batches are small")


def test_generators_draw_as_in_training() -> None:
    snippet = program().replace("net", "netG").replace("  # !", "")
    assert_clean(snippet, CODE)


def test_loops_that_learn() -> None:
    clean(before="F.cross_entropy(net(x), y).backward()")


def test_unknown_models() -> None:
    clean(made="args.model")
    clean(made="torch.load(args.path)")
    assert_clean(net() + TEST.format(begin="pass", before="pass").replace("  # !", ""), CODE)


def test_several_files(tmp_path: Path) -> None:
    files = {
        "nets.py": "import torch.nn as nn\n" + dedent(net()),
        "engine.py": "import torch\n" + dedent(TEST.format(begin="pass", before="pass")),
        "run.py": "import torch\nimport torch.nn.functional as F\nfrom nets import Net\nfrom engine import test\n"
        + dedent(MAIN.format(made="Net()", first="pass", then="pass", given="net", last="pass")),
    }
    assert lines_in_files(tmp_path, files, CODE) == [("engine.py", 9)]
    files["run.py"] = files["run.py"].replace("Net()\n", "Net().eval()\n")
    assert lines_in_files(tmp_path, files, CODE) == []


def test_training_mode_that_is_said_in_an_evaluation() -> None:
    only = net() + TEST.format(begin="net.train()", before="pass") + "\n    print(test(Net(), loader))\n"
    assert_clean(only.replace("  # !", ""), CODE)
    assert_flagged(only.replace("net.train()", "pass"), CODE)


def test_a_model_that_a_helper_gives_with_others_and_whose_layers_a_method_makes() -> None:
    made = (
        net("self.block(8)")
        + """
        def block(self, width):
            return nn.Sequential(nn.Linear(width, width), nn.BatchNorm1d(width))

    def build(rate):
        net = Net()
        return {"net": net, "optimizer": torch.optim.Adam(net.parameters(), lr=rate)}

    class Trainer:
        def __init__(self, train_loader, val_loader, device):
            self.parts = build(0.1)
            self.net = self.parts["net"].to(device)
            self.optimizer = self.parts["optimizer"]
            self.train_loader, self.val_loader = train_loader, val_loader

        def update(self, x, y):
            self.optimizer.zero_grad()
            loss = F.cross_entropy(self.net(x), y)
            loss.backward()
            self.optimizer.step()

        def fit(self, epochs):
            for epoch in range(epochs):
                {first}
                for x, y in self.train_loader:
                    self.update(x, y)
                {then}
                total = 0.0
                for x, y in self.val_loader:
                    total += F.cross_entropy(self.net(x), y).item()  # !
                print(total)
    """
    )
    plain = made.replace("{first}", "pass").replace("{then}", "pass")
    assert_flagged(plain, CODE)
    assert_clean(plain.replace('"net": net', '"other": net').replace("  # !", ""), CODE)
    assert_clean(plain.replace("nn.BatchNorm1d(width)", "nn.LayerNorm(width)").replace("  # !", ""), CODE)
    assert_clean(
        made.replace("{first}", "self.net.train()").replace("{then}", "self.net.eval()").replace("  # !", ""), CODE
    )


TOLD = """
    class Trainer:
        def __init__(self, train_data, test_data):
            self.net = Net()
            self.train_data, self.test_data = train_data, test_data
            self.optimizer = torch.optim.Adam(self.net.parameters())

        def train(self, epoch):
            self.iteration(epoch, self.train_data)

        def {name}(self, epoch):
            self.iteration(epoch, self.test_data, train=False)  # !

        def iteration(self, epoch, loader, train=True):
            {begin}
            total = 0.0
            for x, y in loader:
                loss = F.cross_entropy(self.net(x), y)
                if train:
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()
                total += loss.item()
            print(epoch, total)
"""


def test_one_method_for_both() -> None:
    assert_flagged(net() + TOLD.format(name="test", begin="pass"), CODE)
    for name, begin in (("test", "self.net.train(train)"), ("replay", "pass")):
        assert_clean(net() + TOLD.format(name=name, begin=begin).replace("  # !", ""), CODE)
    assert_clean(net("nn.ReLU()") + TOLD.format(name="test", begin="pass").replace("  # !", ""), CODE)
