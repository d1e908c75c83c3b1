"""GG301: a part of a model of unknown class is a module, where a module keeps it and runs it."""

from __future__ import annotations

import pytest

from tests.rules.snippets import assert_clean, assert_flagged, twin

CODE = "GG301"

EXAMPLES = """
class Whole(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

class Model(Whole):
    def __init__(self, net, classes):
        super().__init__(net)
        self.extract = self.net.base

    def forward(self, x):
        return self.net(x)

    def examples(self, batches, device):
        found = []
        self.eval()
        for x, y in batches:
            found.append(self.extract(x.to(device)).clone().detach().cpu())  # !
        return torch.cat(found)
"""


@pytest.mark.parametrize(
    "edits",
    [
        [],
        [("self.net.base", "net.base")],
        [("self.net.base", "net.module.base")],
        [(".clone().detach().cpu()", ".cpu().detach().numpy()"), ("torch.cat(found)", "found")],
    ],
)
def test_a_part_that_is_run(edits: list[tuple[str, str]]) -> None:
    text = EXAMPLES
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    assert_flagged(text, CODE)


@pytest.mark.parametrize(
    "edits",
    [
        [("self.net.base", "self.net.base.weight.shape")],
        [("self.net.base", "classes.base")],
        [("self.net.base", "self.net.base()")],
        [("self.net.base", "classes")],
        [
            (
                "        self.extract = self.net.base",
                "        self.extract = self.net.base\n        net.requires_grad_(False)",
            )
        ],
        [("        self.eval()\n", "        self.train()\n")],
        [("    def examples", "    @torch.no_grad()\n    def examples")],
        [("self.extract(x.to(device))", "x.to(device)")],
        [("found.append(self.extract", "(found.append if y else print)(self.other")],
        [(".clone().detach().cpu()", ".sum().backward()")],
    ],
)
def test_lookalikes(edits: list[tuple[str, str]]) -> None:
    assert_clean(twin(EXAMPLES, *edits), CODE)


def test_a_method_of_a_module_of_the_program() -> None:
    method = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(3, 3)

    def base(self, x):
        return x.argmax(1)
"""
    assert_clean(method + twin(EXAMPLES), CODE)


def test_an_object_that_is_no_module() -> None:
    assert_clean(twin(EXAMPLES, ("class Whole(nn.Module)", "class Whole"), ("self.eval()", "self.net.eval()")), CODE)
