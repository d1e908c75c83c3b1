"""GG104: what a flag has a function keep, which only calls without a graph set."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files

CODE = "GG104"

CLASS = """
    class Runner:
        def __init__(self, net, optimizer):
            self.net, self.optimizer = net, optimizer

        def one_pass(self, loader, learn, collect=False):
            total, kept = 0.0, []
            for x, y in loader:
                scores = self.net(x)
                loss = F.mse_loss(scores, y)
                total += loss.item()
                if learn:
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()
                IF:
                    kept.append(scores)MARK
            return total, kept

        def fit(self, loader, FLAG):
            return self.one_pass(loader, True, collect)

        def validate(self, loader, FLAG):
            with CONTEXT:
                return self.one_pass(loader, False, GIVEN)

    def main(net, loader, held_out, args):
        runner = Runner(net, torch.optim.SGD(net.parameters(), 0.1))
        for _ in range(args.epochs):
            FIT
            _, scores = runner.validate(held_out, collect=True)
"""


def runner(**edits: str) -> str:
    defaults = {
        "IF": "if collect", "FLAG": "collect=False", "CONTEXT": "torch.no_grad()", "GIVEN": "collect",
        "FIT": "runner.fit(loader)", "MARK": "",
    }  # fmt: skip
    snippet = CLASS
    for word, text in {**defaults, **edits}.items():
        snippet = snippet.replace(word, text)
    return snippet


@pytest.mark.parametrize("fit", ["runner.fit(loader)", "runner.fit(loader, False)", "runner.fit(loader, collect=None)"])
@pytest.mark.parametrize(
    ("test", "given"),
    [
        ("if collect", "collect"),
        ("if collect", "True"),
        ("if collect", "collect=collect"),
        ("if collect and total > 0", "True"),
        ("if not collect:\n                    continue\n                elif collect", "True"),
    ],
)
def test_only_the_evaluation_asks_for_it(fit: str, test: str, given: str) -> None:
    assert_clean(runner(FIT=fit, IF=test, GIVEN=given), CODE)


@pytest.mark.parametrize(
    "edits",
    [
        {"FIT": "runner.fit(loader, True)"},
        {"FIT": "runner.fit(loader, collect=args.collect)"},
        {"FIT": "runner.fit(loader, *args.rest)"},
        {"FIT": "runner.fit(loader, **vars(args))"},
        {"FLAG": "collect=True"},
        {"FLAG": "collect"},
        {"IF": "if learn or collect"},
        {"IF": "if not collect"},
        {"IF": "if total > 0"},
        {"CONTEXT": "torch.autograd.profiler.profile()"},
        {"CONTEXT": "torch.enable_grad()"},
        {"GIVEN": "False"},
        {"IF": "collect = collect or total > 9\n                if collect"},
    ],
)
def test_others_ask_for_it_or_might(edits: dict[str, str]) -> None:
    if edits.get("FLAG") == "collect":
        edits = {**edits, "FIT": "runner.fit(loader, args.collect)"}
    assert_flagged(runner(**edits, MARK="  # !"), CODE)


FUNCTIONS = """
    def run(net, batches, optimizer=None, *, outputs=False):
        found = {"scores": []}
        for x, y in batches:
            scores = net(x)
            if optimizer is not None:
                optimizer.zero_grad()
                F.mse_loss(scores, y).backward()
                optimizer.step()
            if outputs:
                found["scores"].append(scores)MARK
        return found

    @DECORATOR
    def predict(net, batches):
        return run(net, batches, outputs=True)["scores"]

    def main(net, batches, test):
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        for _ in range(9):
            run(net, batches, optimizerGIVEN)
        return predict(net, test)
"""


def _functions(given: str, decorator: str, mark: str) -> str:
    return FUNCTIONS.replace("GIVEN", given).replace("DECORATOR", decorator).replace("MARK", mark)


@pytest.mark.parametrize("decorator", ["torch.no_grad()", "torch.inference_mode()"])
@pytest.mark.parametrize("given", ["", ", outputs=False"])
def test_functions(decorator: str, given: str) -> None:
    assert_clean(_functions(given, decorator, ""), CODE)


@pytest.mark.parametrize(
    ("given", "decorator"),
    [(", outputs=True", "torch.no_grad()"), (", outputs=len(batches) < 9", "torch.no_grad()"), ("", "timed")],
)
def test_functions_with_a_graph(given: str, decorator: str) -> None:
    assert_flagged(_functions(given, decorator, "  # !"), CODE)


TWO = """
import torch
import torch.nn.functional as F


class First:
    def __init__(self, net, optimizer):
        self.net, self.optimizer = net, optimizer

    def work(self, loader, learn, keep=False):
        found = []
        for x, y in loader:
            scores = self.net(x)
            loss = F.mse_loss(scores, y)
            if learn:
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
            if keep:
                found.append(scores)
        return found

    def learn(self, loader, keep=False):
        return self.work(loader, True, keep)

    def look(self, loader, keep=False):
        with torch.no_grad():
            return self.work(loader, False, keep)


class Second:
    def __init__(self, net):
        self.net = net

    def work(self, keep):
        return self.net(keep)

    def other(self, keep):
        return self.work(keep)
"""
MAIN = """
import torch
from work import First, Second


def main(net, loader):
    first = First(net, torch.optim.SGD(net.parameters(), 0.1))
    for _ in range(9):
        first.learn(loader, keep=KEEP)
        seen = first.look(loader, keep=True)
    Second(net).other(True)
"""


@pytest.mark.parametrize(("keep", "flagged"), [("False", False), ("True", True)])
def test_calls_of_other_files(tmp_path: Path, keep: str, flagged: bool) -> None:
    """Another class has a method of the name, and is told otherwise."""
    found = lines_in_files(tmp_path, {"work.py": TWO, "main.py": MAIN.replace("KEEP", keep)}, CODE)
    assert bool(found) is flagged
