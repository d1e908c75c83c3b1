"""How many arguments a ``forward`` takes that computes gradients itself."""

from __future__ import annotations

import sys

import pytest

from gradguard.static.program.learning_forwards import learning_forwards

MANY = sys.maxsize


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ("self, x", (1, 1)),
        ("self", (0, 0)),
        ("self, x, y=None", (1, 2)),
        ("self, x: torch.Tensor, y: Optional[Tuple[int, int]] = None", (1, 2)),
        ("self, *inputs", (0, MANY)),
        ("self, x, *, flag=False", (1, 2)),
        ("self, x, **options", (1, MANY)),
        ("\n        self,\n        x,  # the images, of (N, C)\n        y,\n    ", (2, 2)),
        ("self, x, shape=tuple((1, 2))", (0, MANY)),
        ("self, x, shape=(1, 2)", (1, 2)),
    ],
)
def test_what_it_takes(params: str, expected: tuple[int, int]) -> None:
    text = f"class Attack:\n    def forward({params}):\n        self.loss(x).backward()\n"
    assert learning_forwards(text) == {expected}


def test_what_another_method_computes_for_it() -> None:
    text = """
class Adapting:
    def forward(self, x, y):
        return self.adapt(x, y)

    def adapt(self, x, y):
        return torch.autograd.grad(self.loss(x, y), self.weights)
"""
    assert learning_forwards(text) == {(2, 2)}


def test_a_loop_beside_it() -> None:
    text = """
class Net:
    def forward(self, x):
        return self.layer(x)

def train(net, x):
    net(x).backward()
"""
    assert learning_forwards(text) == frozenset()
