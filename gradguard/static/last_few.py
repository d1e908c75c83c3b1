"""Collections of which only the newest are read: ``stack(self.seen[-window:])``. What is older is kept for nothing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gradguard.static.model import Form, Store

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

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
    name = re.escape(store.holder)
    if store.form is not Form.APPEND or not store.holder.isidentifier():
        return False
    reads_end = re.compile(rf"\b{name}{_OF_LAST}")
    path = rf"(?<![\w.])(?:\w+\.)*{name}\b"
    other_use = rf"(?<!len\(){path}(?!\.append\(|{_OF_LAST}|{_LAST}|{_MADE})"
    other = re.compile(rf"{_NOT_ASKED}{other_use}|{other_use}(?!{_ASKED})|\blen\({path}(?!\))")
    survey = flow.project.survey
    return survey.acts(store.holder, reads_end, flow.module) and not survey.acts(store.holder, other, flow.module)
