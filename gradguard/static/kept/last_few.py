"""Collections of which only the newest are read: ``stack(self.seen[-window:])``. What is older is kept for nothing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gradguard.static.model import Form, Store

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

# The one that was best, by its number: not `history[i]`, which a loop may read of all.
_ONE = r"\[[^\]:\n]*(?:best|optimal|arg(?:max|min)|index\((?:max|min))[^\]:\n]*\](?!\s*=(?!=))"
_OF_LAST = r"\[\s*(?:-\s*[\w.]+|1\s*-\s*[\w.]+)\s*:\s*\]"
_LAST = r"\[\s*-\s*1\s*\]"
# Whether there is something in it: `if self.seen and ...`, but not `if self.seen[0]`, `for x in self.seen:`.
_ASKED = r"\s*(?:\band\b|\bor\b|\)|:)"
_NOT_ASKED = r"(?<!\bif )(?<!\band )(?<!\bor )(?<!\bnot )"
_MADE = r"(?::[^=\n]*|,[^=(\n]*)?\s*=(?!=)\s*(?:[\w., ]*,\s*)?(?:\[\s*\]|list\(\))"  # self.size, self.seen = size, []


def only_last_is_read(flow: Flow, store: Store) -> bool:
    """Whether all that the program does with a list is to add to it, to ask for its length, and to read its end.

    By its name, whatever else has that: where another use of the name is seen, it is not told.
    """
    return _is_all(flow, store, _OF_LAST, rf"{_OF_LAST}|{_LAST}")


def only_best_is_read(flow: Flow, store: Store) -> bool:
    """Whether all that it does is to add to a list, to ask for its length, and to read the best."""
    return _is_all(flow, store, _ONE, _ONE)


def _is_all(flow: Flow, store: Store, asked: str, may_be: str) -> bool:
    """Whether the program reads a list in one way, and does nothing else with it but to add to it.

    Args:
        asked: what follows its name where that happens, a regular expression.
        may_be: what may follow it besides.
    """
    name = re.escape(store.holder)
    if store.form is not Form.APPEND or not store.holder.isidentifier():
        return False
    reads_end = re.compile(rf"\b{name}(?:{asked})")
    path = rf"(?<![\w.])(?:\w+\.)*{name}\b"
    other_use = rf"(?<!len\(){path}(?!\.append\(|{may_be}|{_MADE})"
    other = re.compile(rf"{_NOT_ASKED}{other_use}|{other_use}(?!{_ASKED})|\blen\({path}(?!\))")
    survey = flow.project.survey
    return survey.acts(store.holder, reads_end, flow.module) and not survey.acts(store.holder, other, flow.module)
