"""What the text of a file tells of its names: which are models, and what becomes of them. No tree is needed for it."""

from __future__ import annotations

import re

_OWNER = re.compile(r"\b(\w+)\.(?:\w+_)?(?:model|net|network)\b")
_MOVED = r"(?:\.(?:to|cuda|cpu|float|half|double)\([^()\n]*\))*"
_OF_MODULES = re.compile(r"\.(?:eval|(?:named_)?parameters)\(\)")
_ENTRY = r"(?:\[(?:\w+|'\w+'|\"\w+\")\])?"
_MODULE_BEFORE = re.compile(rf"(?<![\w.])(\w+){_ENTRY}{_MOVED}\Z")
_TAKEN = r"\bfor\s+(?:\w+,\s*)?"
# [m.parameters() for m in nets.values()], and a loop over them that does so first
_OF_EACH = re.compile(
    rf"(?<![\w.])(\w+)\.(?:eval|(?:named_)?parameters)\(\)[^\n]*{_TAKEN}\1\s+in\s+(\w+)\.(?:items|values)\(\)|"
    rf"{_TAKEN}(\w+)\s+in\s+(\w+)\.(?:items|values)\(\):\s+\3\.eval\(\)"
)
_EVALUATED = re.compile(rf"^(\w+)(?:\s*=[^\n=]*|{_MOVED})\.eval\(\)", re.M)
_TRAINED = re.compile(r"(?<![\w.])(\w+)\.train\((?!\s*(?:mode\s*=\s*)?False)")
_FROZEN = re.compile(
    r"(?<![\w.])(\w+)(?:\.\w+\(\))*\.requires_grad_\((?:requires_grad\s*=\s*)?False|"
    r"\bin\s+(\w+)\.(?:named_)?parameters\(\):(?:[^\n]*\n){0,2}?[^\n]*\.requires_grad(?:_\(|\s*=\s*)False"
)


def owners(text: str) -> frozenset[str]:
    """The names of objects whose models are taken: ``solver`` of ``solver.model(x)``."""
    return frozenset(_OWNER.findall(text))


def modules(text: str) -> frozenset[str]:
    """The variables that are used as only modules are used, ``enc.parameters()``, or whose entries are."""
    before = (text[text.rfind("\n", 0, use.start()) + 1 : use.start()] for use in _OF_MODULES.finditer(text))
    found = frozenset(found[1] for found in map(_MODULE_BEFORE.search, before) if found is not None)
    return found.union(*_OF_EACH.findall(text)) - {""} if found else found


def evaluated(text: str) -> frozenset[str]:
    """The globals that the file's own statements put into evaluation mode, and nothing in it into the other one."""
    found = _EVALUATED.findall(text) if ".eval()" in text else ()
    return frozenset(found) - frozenset(_TRAINED.findall(text)) if found else frozenset()


def frozen(text: str) -> frozenset[str]:
    """The variables that are modules whose parameters want no gradients."""
    found = _FROZEN.findall(text) if "requires_grad" in text else ()
    return frozenset(name for names in found for name in names if name)
