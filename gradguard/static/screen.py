"""Which functions may hold a finding, told from text alone; the others are read only where one of these calls them.

Each rule says by signs what a function that it could flag contains, or its file (:mod:`gradguard.signs`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gradguard.catalogue import Rule
from gradguard.signs import Sign, Signs
from gradguard.static.outline import Unit
from gradguard.static.source import Source

_CALLED_ON_SELF = re.compile(rb"\bself\.(\w+)\(")


@dataclass(frozen=True)
class Selection:
    """The functions of a file that are worth reading.

    Args:
        functions: the names of their classes, or "", with their own.
        heirs: the classes whose inherited methods are worth it too.
    """

    functions: frozenset[tuple[str, str]]
    heirs: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.functions or self.heirs)

    def has_class(self, name: str) -> bool:
        return name in self.heirs or any(owner == name for owner, _ in self.functions)

    def has_function(self, owner: str, name: str) -> bool:
        return (owner, name) in self.functions


def everything(source: Source) -> Selection:
    """All functions of a file, and what its classes inherit."""
    outline = source.outline
    return Selection(frozenset((unit.owner, unit.name) for unit in outline.units), frozenset(outline.classes))


def calling(source: Source, name: str) -> Selection:
    """The functions of a file that mention one of this name, and the classes that have one."""
    if name == "forward" or name.startswith("__"):
        return everything(source)  # it is called without being named: `model(x)`
    units = source.outline.units
    mentioning = ((u.owner, u.name) for u in units if any(name in source.excerpt(extent) for extent in u.extents))
    return Selection(frozenset(mentioning), frozenset(u.owner for u in units if u.name == name and u.owner))


class Screen:
    """The signs of some rules."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        groups = {group for rule in rules for group in (rule.signs or ((),))}
        self._of_files = [group for group in groups if not any(sign.own for sign in group)]
        self._of_functions = [group for group in groups if any(sign.own for sign in group)]

    def passes(self, data: bytes) -> bool:
        """Whether a file has all the signs of some rule, wherever in it."""
        return _has_one(data, (*self._of_files, *self._of_functions))

    def select(self, source: Source) -> Selection:
        """The functions of a file that may hold a finding."""
        data = source.text.encode(errors="replace")
        if _has_one(data, self._of_files):
            return everything(source)
        groups = [group for group in self._of_functions if all(sign.own or sign.is_in(data) for sign in group)]
        own = [tuple(sign for sign in group if sign.own) for group in groups]
        if not own:
            return Selection(frozenset())
        texts = {(unit.owner, unit.name): _text(source, unit) for unit in source.outline.units}
        return Selection(frozenset(key for key in texts if _has_one(_with_own_calls(key, texts), own)))


def _has_one(text: bytes, groups: Iterable[Signs]) -> bool:
    """Whether a text has all the signs of one of the groups; no sign is looked for twice."""
    seen: dict[Sign, bool] = {}

    def has(sign: Sign) -> bool:
        if sign not in seen:
            seen[sign] = sign.is_in(text)
        return seen[sign]

    return any(all(map(has, group)) for group in groups)


def _with_own_calls(key: tuple[str, str], texts: Mapping[tuple[str, str], bytes]) -> bytes:
    """The text of a function; of a method also those of the methods that it calls on ``self``."""
    owner, name = key
    found: dict[str, bytes] = {}
    waiting = [name]
    while waiting:
        name = waiting.pop()
        if name not in found and (owner, name) in texts:
            found[name] = texts[owner, name]
            waiting += [called.decode() for called in _CALLED_ON_SELF.findall(found[name])] if owner else []
    return b"\n".join(found.values())


def _text(source: Source, unit: Unit) -> bytes:
    """The function's lines; with the full names of what it uses under another name."""
    text = "".join(map(source.excerpt, unit.extents))
    names = (dotted for name, dotted in source.outline.renamed.items() if name in text)
    return "\n".join((text, *names)).encode(errors="replace")
