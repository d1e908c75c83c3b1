"""Keys of two kinds: what is stored under a text is not taken out by a number."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gradguard.static import tree as t
from gradguard.static.knowledge import COUNTER_NAME
from gradguard.static.program.functions import FunctionRef

if TYPE_CHECKING:
    from gradguard.static.reading.called import Called

TEXT = 'f"'
"""Stands for a key that is a text made anew each time, ``f"epoch-{n}"``."""

_NUMBER = re.compile(r"\d+|(?:int|len)\(.*")


def text_key(c: Called, index: t.Expr) -> str | None:
    """``TEXT``, if a key surely is a text: an f-string, or what a function of the project gives as one.

    Args:
        c: the call that stores something there.
        index: the key.
    """
    if isinstance(index, t.Text):
        return TEXT
    if not isinstance(index, t.Call):
        return None
    if t.path_of(index.func) == "str" and len(index.args) == 1:
        return TEXT
    ref = c.flow.value(index.func, c.state).ref if isinstance(index.func, t.Name) else None
    body = ref.define.body if isinstance(ref, FunctionRef) else []
    returned = [stmt.value for stmt in t.walk_statements(body) if isinstance(stmt, t.Return)]
    return TEXT if returned and all(isinstance(value, t.Text) for value in returned) else None


def is_number(key: str) -> bool:
    """Whether a key that is written surely is a number: that of an epoch or a step, which an object counts."""
    counted = "." in key and re.fullmatch(r"[\w.]+", key) is not None and COUNTER_NAME.search(key) is not None
    return counted or _NUMBER.fullmatch(key) is not None
