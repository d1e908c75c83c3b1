"""The words of the screen, in lines that are long and full of them."""

from __future__ import annotations

import re

import pytest

from gradguard import signs
from gradguard.catalogue import load
from gradguard.signs import Sign, loop_over

LOOP = re.compile(loop_over(r"(?:oader|batches)"))


@pytest.mark.parametrize(
    "line",
    [
        "for x in loader:",
        "    for i, (x, y) in enumerate(self.train_loader):",
        "xs = [f(x) for x in batches]",
        "for x in xs: [y for y in z.loader]",
        "pass\nfor x in loader:",
    ],
)
def test_a_loop_over(line: str) -> None:
    assert LOOP.search(line)


@pytest.mark.parametrize(
    "line",
    ["loader = x", "for x in y:", "for x of loader", "loader for x in y", "for x in y:\nloader", "format in loader"],
)
def test_no_loop_over(line: str) -> None:
    assert not LOOP.search(line)


def _all_signs() -> list[Sign]:
    named = [each for each in vars(signs).values() if isinstance(each, Sign)]
    return [*named, *(sign for rule in load().rules for group in rule.signs for sign in group)]


@pytest.mark.parametrize(
    "words",
    ["for a thing in hand ", "except E as e: f ", "except E as e:\n    f\n", "self.a[b] = ", "x.y[0].z ", "a: b = "],
)
def test_a_long_text_is_soon_looked_through(words: str) -> None:
    """As a list of sentences in one line: an expression that tries all ways through it takes minutes."""
    for sign in {id(sign): sign for sign in _all_signs()}.values():
        word = sign.literals[0]
        for text in (f"{word} {words * 1_000}", f"{words * 1_000} {word}"):
            sign.is_in(text.encode())
