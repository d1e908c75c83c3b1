"""Programs put together from pieces: one leak in the words of many authors."""

from __future__ import annotations

import re
import textwrap
from itertools import product

STEP = """
loss = (net(x) - y).pow(2).mean()
opt.zero_grad()
loss.backward()
opt.step()
"""


def fill(program: str, **pieces: str) -> str:
    """A program in which each line ``<name>`` is replaced by the piece of that name, indented as that line is."""

    def piece(found: re.Match[str]) -> str:
        return textwrap.indent(textwrap.dedent(pieces[found[2]]).strip("\n"), found[1])

    return re.sub(r"^([ ]*)<(\w+)>$", piece, textwrap.dedent(program), flags=re.M)


def combined(*choices: dict[str, str]) -> dict[str, tuple[str, ...]]:
    """One of each, in every combination, by a name that says which they are."""
    return {
        ", ".join(name for name, _ in chosen): tuple(piece for _, piece in chosen)
        for chosen in product(*(choice.items() for choice in choices))
    }
