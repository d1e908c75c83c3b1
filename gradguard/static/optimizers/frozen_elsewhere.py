"""Parameters that helpers freeze: ``set_requires_grad(discriminator, False)``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gradguard.static.program.functions import FunctionRef

if TYPE_CHECKING:
    from gradguard.static.program.survey import Survey

_SETS = r"requires_grad(?:[ \t]*=(?!=)[ \t]*|_\([ \t]*(?:requires_grad[ \t]*=[ \t]*)?)"
_AS_TOLD = re.compile(rf"{_SETS}(?!True\b|False\b)[\w(]")
_FREEZES = re.compile(rf"{_SETS}False\b")
# What is frozen where it is made stays so, and is known there.
_WHERE_IT_IS_MADE = ("__init__", "<module>")


def freezes_by_others(survey: Survey, ref: FunctionRef) -> bool:
    """Whether something in the program of a function freezes parameters for it, or does so as it is told."""
    word = "requires_grad"
    if survey.mentions(_AS_TOLD, ref.module, word):
        return True
    return survey.acts(word, _FREEZES, ref.module, besides=(ref.define.name, *_WHERE_IT_IS_MADE))
