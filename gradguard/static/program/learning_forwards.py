"""Modules whose ``forward`` computes gradients itself: a method that adapts to what it is given, an attack."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

from gradguard.static.files.lines import lines_with, mentioning

COMPUTES_GRADIENTS = (".backward(", "autograd.grad(")
_SIGNATURE = re.compile(r"def forward\(\s*\w+\s*,?((?:[^()]|\([^()]*\))*)\)")
_INNER = re.compile(r"\[[^][]*\]|\([^()]*\)|#.*")


def learning_forwards(text: str) -> frozenset[tuple[int, int]]:
    """How few and how many arguments such a ``forward`` of a file may take: of one that has none, nothing.

    Of several, some of which compute no gradients, it is not told which.
    """
    if not _has_one(text):
        return frozenset()
    found = _SIGNATURE.findall(text)
    if len(found) < text.count("def forward("):  # one is written in a way that is not read
        return frozenset({(0, sys.maxsize)})
    return frozenset(map(_arity, found))


def _has_one(text: str) -> bool:
    """Whether a ``forward`` computes gradients, or another method of its object that it may call."""
    learning = {line.function for word in COMPUTES_GRADIENTS for line in lines_with(word, text)}
    return "forward" in learning or any("forward" in mentioning(f"self.{name}", text) for name in learning)


def _arity(params: str) -> tuple[int, int]:
    names = list(_split(params))
    own = [name for name in names if not name.startswith("*")]
    most = sys.maxsize if any(name.startswith("*") and name != "*" for name in names) else len(own)
    return sum("=" not in name for name in own), most


def _split(params: str) -> Iterator[str]:
    while (plain := _INNER.sub("", params)) != params:
        params = plain
    return (name for part in params.split(",") if (name := part.strip()))
