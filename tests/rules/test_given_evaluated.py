"""GG301: a model that a function of the program has put into evaluation mode, and gives."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, twin

CODE = "GG301"

SCRIPT = """
    def prepare(path):
        data = torch.load(path)
        net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
        net.load_state_dict(data["net"])
        net.eval()
        return net, data["batches"]

    def choose(net, batches):
        found = []
        for size in range(3):
            for x in batches:
                found.append(net(x).argmax(-1).item())
        return found

    net, batches = prepare("net.pt")
    print(choose(net, batches))  # !
"""

METHODS = """
    class Chat:
        def __init__(self, path):
            self.path = path

        def load(self):
            net = nn.LSTM(8, 8)
            net.load_state_dict(torch.load(self.path))
            return net.cpu().eval()

        def run(self, batches):
            net = self.load()
            scores = []
            for batch in batches:
                scores.append(net(batch)[0].mean().item())  # !
            return scores
"""


@pytest.mark.parametrize(
    "edit",
    [
        ("", ""),
        ("        net.eval()\n        return net,", "        return net.eval(),"),
        ("net.eval()\n", "net.train(False)\n"),
        ("net.eval()\n", "net = net.eval()\n"),
        ("net, batches = prepare", "(net, batches) = prepare"),
    ],
)
def test_a_model_beside_something_else(edit: tuple[str, str]) -> None:
    snippet = SCRIPT.replace(*edit) if edit[0] else SCRIPT
    taken = (
        snippet.replace("net, batches = prepare", "net, batches, n = prepare") if 'batches"], 3' in snippet else snippet
    )
    assert_flagged(taken, CODE)


def test_a_model_that_a_method_gives() -> None:
    assert_flagged(METHODS, CODE)
    assert_flagged(METHODS.replace("return net.cpu().eval()", "net.eval()\n            return net"), CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [("        net.eval()\n", "")],
        [("net.eval()\n", "net.eval(); net.train()\n")],
        [("net.eval()\n", "other = nn.Linear(2, 2).eval()\n")],
        [("        net.eval()\n", "        if path.endswith('.best'):\n            net.eval()\n")],
        [("return net, data", "if not data: return nn.Linear(2, 2), data\n        return net, data")],
        [("print(choose(net, batches))", "with torch.no_grad(): print(choose(net, batches))")],
        [("    def choose", "    @torch.no_grad()\n    def choose")],
        [("print(choose", "net.train()\n    print(choose")],
        [
            ("net, batches = prepare", "given, batches = prepare"),
            ("print(choose(net", "print(choose(nn.Linear(8, 2)"),
        ],
        # trained all the same, with dropout switched off
        [("found.append(net(x).argmax(-1).item())", "net(x).sum().backward()")],
        [
            ("found.append(net(x).argmax(-1).item())", "found.append(net(x))"),
            ("print(choose(net, batches))", "sum(choose(net, batches)).backward()"),
        ],
        [("net.eval()\n", "net.eval(); net.requires_grad_(False)\n")],
    ],
)
def test_look_alikes(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(SCRIPT, *edits), CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [(".eval()", "")],
        [(".eval()", ".eval().train()")],
        [("return net.cpu().eval()", "net.cpu().eval()\n            yield net"), ("self.load()", "next(self.load())")],
        [("        def run", "        @torch.inference_mode()\n        def run")],
        [("scores = []", "scores = []; net.train()")],
        [(".item())", ")"), ("return scores", "sum(scores).backward()")],
    ],
)
def test_look_alikes_of_methods(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(METHODS, *edits), CODE)
