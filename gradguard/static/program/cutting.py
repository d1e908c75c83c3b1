"""Which functions of a file cut the graph of an attribute, ``self.h = self.h.detach()``: told from text alone."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gradguard.static.files.lines import lines_with
from gradguard.static.program.clearing import AT_START, sets_by_name

_DETACH = re.compile(r"\bdetach|repackage|\btruncate")
_CUTS_BY_NAME = re.compile(
    r"\bgetattr\(\s*[\w.]+\s*,\s*[^\s'\"][^()]*\)\.detach_\(|(?:__dict__|\bvars\(\w+\))\.update\([^\n]*\bdetach\("
)


def cutting_functions(attribute: str, text: str) -> set[str]:
    """The functions of a file that bind ``x.attribute`` to what is detached of it, or detach it in place."""
    name = re.escape(attribute)
    bound = re.compile(rf"\.{name}(?:\[[^\]\n]*\])?\s*(?:,[^=(\n]*)?=(?!=)[^\n]*(?:{_DETACH.pattern})")
    in_place = re.compile(rf"\.{name}\b[^=\n]*\.detach_\(")
    each = re.compile(rf"\bfor\s+(\w+)\s+in\b[^:\n]*\.{name}\b")
    found = set(_by_name(attribute, text))
    for line in lines_with(f".{attribute}", text):
        loop = each.search(line.text)  # for part in (self.state, self.level): part.detach_()
        if loop is not None:
            after = (other for other in lines_with(f"{loop[1]}.detach_(", text) if other.start >= line.start)
            found.update(other.function for other in after if other.function == line.function)
        if bound.search(line.text) or in_place.search(line.text):
            found.add(line.function)
    return found - {*AT_START}


def _by_name(attribute: str, text: str) -> Iterator[str]:
    """Those that do so for attributes of which there is a list: ``setattr(self, name, value.detach())``."""
    detaching = {line.function for line in lines_with("detach", text)}
    yield from sets_by_name(attribute, text) & detaching
    if re.search(rf"['\"]{re.escape(attribute)}['\"]", text):
        yield from (line.function for line in lines_with("detach", text) if _CUTS_BY_NAME.search(line.text))
