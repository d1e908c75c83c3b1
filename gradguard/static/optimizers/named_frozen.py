"""Whether something in a program may freeze what has a name, wherever that stands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradguard.static.files.lines import Line, lines_with

if TYPE_CHECKING:
    from gradguard.static.flow import Flow

# A parameter that is detached in place asks for no gradient any more.
_FREEZES = re.compile(
    r"\bp\w*\.detach_\(|"
    r"\.requires_grad(?:[ \t]*=(?!=)[ \t]*|_\([ \t]*(?:requires_grad[ \t]*=[ \t]*)?)(?!True\b|\))"
)
# A helper that does so, by its name: it may be one of a library.
_HELPER = re.compile(r"(?<!def )\b\w*(?:requires_grad|fre+ze|toggle_grad)\w*\((?!\s*\))")
_FREEZING = ("requires_grad", ".detach_(")
_NEAR = 100
"""Characters before a line that freezes something, in which a loop over parameters begins."""


def may_be_frozen(flow: Flow, name: str) -> bool:
    """Whether a function of this file freezes something, or a helper is given what has this name, that does so."""
    if flow.module.source.shows(_HELPER):
        return True
    named = re.compile(rf"\b{re.escape(name)}\b") if name else None
    survey = flow.project.survey
    texts = [text for word in _FREEZING for text in survey.texts_used(word, flow.module, _FREEZES)]
    if _freezing(flow.module.source.text) or any(_freezes_where_made(text, named) for text in texts):
        return True
    helpers = {each for text in texts for each in _freezing(text)}
    for helper in sorted(helpers):
        for text in survey.texts_used(f"{helper}(", flow.module):
            calls = (line.text for line in lines_with(f"{helper}(", text) if "def " not in line.text)
            if any(named is None or named.search(call) is not None for call in calls):
                return True
    return False


def _freezing(text: str) -> set[str]:
    """The functions that freeze parameters, or as they are told; what is frozen where it is made is known there."""
    return {line.function for line in _lines_that_freeze(text)} - {"__init__", "<module>"}


def _lines_that_freeze(text: str) -> Iterator[Line]:
    return (line for word in _FREEZING for line in lines_with(word, text) if _FREEZES.search(line.text) is not None)


def _freezes_where_made(text: str, named: re.Pattern[str] | None) -> bool:
    """Whether a line that freezes something, or one right before it, has the name of what runs."""
    near = (text[max(0, line.start - _NEAR) : line.start + len(line.text)] for line in _lines_that_freeze(text))
    return any(named is None or named.search(each) is not None for each in near)
