"""What the parameters of a function may be."""

from __future__ import annotations

import ast

import pytest

from gradguard.static import build
from gradguard.static import tree as t
from gradguard.static.program.parameters import is_plain


def parameter(text: str) -> t.Param:
    (define,) = build.build(ast.parse(f"def f({text}): ...")).statements
    assert isinstance(define, t.Define)
    return define.params[0]


@pytest.mark.parametrize(
    "text",
    ["n=3", "mode='train'", "flag=False", "n: int", "n: int | None = None", "x: Optional[torch.Tensor] = None",
     "shapes: list[tuple[int, ...]]", "by_name: dict[str, Tensor]", "device: torch.device"],
)  # fmt: skip
def test_numbers_words_and_tensors_are_plain(text: str) -> None:
    assert is_plain(parameter(text))


@pytest.mark.parametrize(
    "text",
    ["x", "model=None", "meter: Meter", "layers: list[nn.Module]", "bank: Optional[Bank] = None", "fn: Callable",
     "meter: 'Meter'", "x: Any"],
)  # fmt: skip
def test_what_may_be_an_object_of_the_program_is_not(text: str) -> None:
    assert not is_plain(parameter(text))
