"""GG301: an evaluation that is handed over runs as whom it is handed to calls it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, lines_in_files

CODE = "GG301"

FLAGGED = {
    "handed to what calls it with graphs": """
        class Recipe:
            def __init__(self, net, test):
                self.net, self.test = net, test

            def run(self, loader):
                with torch.no_grad():
                    before = sum(p.norm() for p in self.net.parameters())
                return self.test(loader), before

        def main(net: nn.Module, loader):
            def test(batches):
                net.eval()
                for x in batches:  # what a batch gives is shown
                    print(net(x).argmax(1))  # !

            Recipe(net, test).run(loader)
    """,
    "handed to two, of whom one does so": """
        def quietly(function, *args):
            with torch.no_grad():
                return function(*args)

        def aloud(function, *args):
            print(function.__name__)
            return function(*args)

        def test(net: nn.Module, batches):
            net.eval()
            for x in batches:
                print(net(x).argmax(1))  # !

        def main(net, loader, verbose):
            (aloud(test, net, loader) if verbose else quietly(test, net, loader))
    """,
    "another function is handed to it": """
        def quietly(function, *args):
            with torch.no_grad():
                return function(*args)

        def show(net: nn.Module, batches):
            net.eval()
            for x in batches:
                print(net(x).argmax(1))

        def test(net: nn.Module, batches):
            net.eval()
            for x in batches:
                print(net(x).argmax(1))  # !

        def main(net, loader):
            quietly(show, net, loader)
            test(net, loader)
    """,
    "handed to a library": """
        from ignite.engine import Engine

        def main(net: nn.Module, loader):
            def test(engine, batches):
                net.eval()
                for x in batches:
                    print(net(x).argmax(1))  # !

            Engine(test).run(loader)
    """,
    "run by nobody who has it": """
        class Recipe:
            def __init__(self, net, test):
                self.net, self.test = net, test

        def main(net: nn.Module, loader):
            def test(batches):
                net.eval()
                for x in batches:
                    print(net(x).argmax(1))  # !

            return Recipe(net, test)
    """,
}

CLEAN = {
    "a function that wraps it": """
        def make_recipe(G, D, train, test, loader):
            def wrapped(batch):
                D.eval()
                with torch.no_grad():
                    out = test(batch)
                D.train()
                return out

            return Loop(train, loader), Loop(wrapped, loader)

        def main(G: nn.Module, D: nn.Module, loader):
            def train(batch):
                loss = D(G(batch)).mean()
                loss.backward()

            def test(batches):
                G.eval()
                for x in batches:
                    print(G(x).mean())

            return make_recipe(G, D, train, test, loader)
    """,
    "an object that keeps it": """
        class Recipe:
            def __init__(self, net, test):
                self.net = net
                self.test = test

            def run(self, loader):
                with torch.no_grad():
                    return self.test(loader)

        def main(net: nn.Module, loader):
            def test(batches):
                net.eval()
                for x in batches:
                    print(net(x).argmax(1))

            Recipe(net, test=test).run(loader)
    """,
    "an object that keeps it, of a class that hands it to its base": """
        class Recipe:
            def __init__(self, test, every=10):
                self._test, self.every = test, every

            @torch.no_grad()
            def run(self, loader):
                return self._test(loader)

        class Careful(Recipe):
            def __init__(self, net, test_function):
                super().__init__(test_function)
                self.net = net

        def main(net: nn.Module, loader):
            def test(batches):
                net.eval()
                for x in batches:
                    print(net(x).argmax(1))

            Careful(net, test).run(loader)
    """,
    "a decorated function, by keyword": """
        @torch.inference_mode()
        def quietly(*args, function):
            return function(*args)

        def test(net: nn.Module, batches):
            net.eval()
            for x in batches:
                print(net(x).argmax(1))

        def main(net, loader):
            quietly(net, loader, function=test)
    """,
    "a bound method": """
        def quietly(function, loader):
            with torch.set_grad_enabled(False):
                return function(loader)

        class Trainer:
            def __init__(self, net: nn.Module):
                self.net = net

            def score(self, batches):
                self.net.eval()
                for x in batches:
                    print(self.net(x).argmax(1))

            def fit(self, loader):
                quietly(self.score, loader)
    """,
    "handed on": """
        def quietly(function, loader):
            with torch.no_grad():
                function(loader)

        def timed(work, loader):
            started = time.time()
            quietly(work, loader)
            print(time.time() - started)

        def main(net: nn.Module, loader):
            def test(batches):
                net.eval()
                for x in batches:
                    print(net(x).argmax(1))

            timed(test, loader)
    """,
    "what has it is called without graphs itself": """
        def apply(function, loader):
            return function(loader)

        def main(net: nn.Module, loader):
            def test(batches):
                net.eval()
                for x in batches:
                    print(net(x).argmax(1))

            with torch.no_grad():
                apply(test, loader)
    """,
}


@pytest.mark.parametrize("snippet", FLAGGED.values(), ids=FLAGGED)
def test_reports_an_evaluation_that_is_run_with_graphs(snippet: str) -> None:
    assert_flagged(snippet, CODE)


@pytest.mark.parametrize("snippet", CLEAN.values(), ids=CLEAN)
def test_leaves_an_evaluation_that_is_run_without_graphs(snippet: str) -> None:
    assert_clean(snippet, CODE)


RECIPE = """
    import torch

    class Recipe:
        def __init__(self, net, test):
            self.net, self.test = net, test

        def run(self, loader):
            {context}:
                return self.test(self.net, loader)
"""
EVALUATION = """
    import torch.nn as nn

    def test(net: nn.Module, batches):
        net.eval()
        for x in batches:
            print(net(x).argmax(1))
"""
SCRIPT = """
    import torch
    from evaluation import test
    from recipe import Recipe

    Recipe(torch.load("net.pt"), test).run([])
"""


@pytest.mark.parametrize(("context", "found"), [("with torch.no_grad()", []), ("if loader", [("evaluation.py", 7)])])
def test_knows_the_files_of_a_program(tmp_path: Path, context: str, found: list[tuple[str, int]]) -> None:
    files = {"recipe.py": RECIPE.format(context=context), "evaluation.py": EVALUATION, "main.py": SCRIPT}
    assert lines_in_files(tmp_path, files, CODE) == found
