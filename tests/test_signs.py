"""The words of the screen, in lines that are long and full of them."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from gradguard.signs import loop_over
from tests.support import CHECKOUT

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


LONG = ["for a thing in hand ", "except E as e: f ", "except E as e:\n    f\n", "self.a[b] = ", "x.y[0].z ", "a: b = "]
SEARCH = """
import sys
from gradguard import signs
from gradguard.catalogue import load

named = [each for each in vars(signs).values() if isinstance(each, signs.Sign)]
every = [*named, *(sign for rule in load() for group in rule.signs for sign in group)]
for sign in {id(sign): sign for sign in every}.values():
    for text in (sign.literals[0] + " " + sys.argv[1] * 1_000, sys.argv[1] * 1_000 + " " + sign.literals[0]):
        sign.is_in(text.encode())
"""


@pytest.mark.parametrize("words", LONG)
def test_a_long_text_is_looked_through_once(words: str) -> None:
    """As a list of sentences in one line: an expression that tries all ways through it does not end in minutes."""
    subprocess.run([sys.executable, "-c", SEARCH, words], cwd=CHECKOUT, check=True, timeout=120)
