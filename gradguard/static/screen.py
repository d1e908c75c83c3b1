"""Which functions may hold a finding, told from text alone; the others are read only where one of these calls them.

Each rule says by signs what a function that it could flag contains, or its file (:mod:`gradguard.signs`).
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property

from gradguard.catalogue import Rule
from gradguard.signs import LOOP, TRAINING, Sign, Signs
from gradguard.static.layout import Key
from gradguard.static.layout import functions as layout
from gradguard.static.outline import Unit
from gradguard.static.prose import without_prose
from gradguard.static.source import Source

_FIRST_BINDING = re.compile(rb"\bself\.\w+\s*(?::[^=\n]+)?=(?!=)")
_FIRST_ITEMS = re.compile(rb"(?<![\w.])(?:self\.)?[a-z_]\w*\.(?:append|insert|extend|add_module|update)\(")
_LOCAL_SUM = re.compile(rb"^([ \t]*[a-z_]\w*\s*)[-+*/@]=", re.M)
_LOOP = re.compile(rb"\b(?:for|while)\b")
_LOOP_THAT_MAY_TRAIN = dataclasses.replace(LOOP, reaches=True)
_DEF = re.compile(rb"^[ \t]*(?:async[ \t]+)?def\b", re.M)
_RENAMED = re.compile(
    rb"\bfrom[ \t]+([\w.]+)[ \t]+import[ \t]+[^\n]*?\b(\w+)[ \t]+as\b|\bimport[ \t]+([\w.]+)[ \t]+as\b"
)
_CALLED = re.compile(rb"\b(\w+)\(")
_CALLED_ON_SELF = re.compile(rb"\bself\.(\w+)\(")


@dataclass(frozen=True)
class Selection:
    """The functions of a file that are worth reading.

    Args:
        functions: the names of their classes, or "", with their own.
        heirs: the classes whose inherited methods may be worth it too.
        signs: what an inherited method must show then: the signs of one of these groups.
    """

    functions: frozenset[Key]
    heirs: frozenset[str] = frozenset()
    signs: tuple[Signs, ...] = ((),)

    def __bool__(self) -> bool:
        return bool(self.functions or self.heirs)

    @cached_property
    def _classes(self) -> frozenset[str]:
        return self.heirs | {owner for owner, _ in self.functions}

    def has_class(self, name: str) -> bool:
        return name in self._classes

    def has_function(self, owner: str, name: str) -> bool:
        return (owner, name) in self.functions

    def has_inherited(self, source: Source, owner: str, name: str) -> bool:
        """Whether a method that ``owner``, a class in ``source``, gives to its heirs is worth reading for them."""
        units = (u for u in source.outline.units if (u.owner, u.name) == (owner, name))
        return not all(self.signs) or any(
            _has_one(_text(source, unit, source.outline.renamed), self.signs) for unit in units
        )


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
        self._groups = tuple(dict.fromkeys(group for rule in rules for group in (rule.signs or ((),))))
        self._where_trained = tuple(dict.fromkeys((*self._groups, *map(_where_trained, self._groups))))

    def passes(self, data: bytes, calls_training: bool = False) -> bool:
        """Whether a part of a file may have all the signs of some rule.

        Args:
            calls_training: what it calls in another file trains.
        """
        code = without_prose(data)
        names = b"".join(b"\n" + b".".join(filter(None, match.groups())) for match in _renamed(code))
        text = code + names
        is_in = cache(lambda sign: sign.may_be_in(text) if sign.across and not sign.inherited else sign.is_in(text))
        groups = self._where_trained if calls_training else self._groups
        return _may_apply(
            groups, is_in, lambda: {key: _signs_in(key, part) + names for key, part in layout(code).items()}
        )

    def select(self, source: Source, calls_training: Callable[[], bool] = lambda: False) -> Selection:
        """The functions of a file that may hold a finding.

        Args:
            calls_training: whether what it calls in another file may train; asked where nothing in this one speaks of
                training.
        """
        data = without_prose(source.data)
        is_in = cache(lambda sign: sign.own or sign.is_in(data))
        signs = self._groups if is_in(TRAINING) or not calls_training() else self._where_trained
        groups = [group for group in signs if all(map(is_in, group))]
        if not groups:
            return Selection(frozenset())
        if not all(map(_own, groups)):
            return everything(source)
        named = data + _names_in(source.data, source.outline.renamed)
        may_show = cache(lambda sign: not sign.own or sign.across or sign.is_in(named))
        shown = [group for group in groups if all(map(may_show, group))]
        functions = _Functions(_texts(source) if shown else {})
        held = {key: functions.held(key, shown) for key in functions.texts}
        showing = frozenset(key for key, found in held.items() if found)
        reaching = frozenset(key for key in showing if any(sign.reaches for group in held[key] for sign in group))
        chosen = showing | _with_callers(reaching, functions.texts)
        of_file = tuple(dict.fromkeys(_own(group) for group in groups if _reaches_heirs(group, data)))
        return Selection(chosen, frozenset(source.outline.classes if of_file else ()), of_file)


class _Functions:
    """The functions of a file, and what they show: each sign is looked for once in each."""

    def __init__(self, texts: Mapping[Key, bytes]) -> None:
        self.texts = texts
        self._shown: dict[tuple[Key, Sign], bool] = {}
        self._calls: dict[Key, tuple[Key, ...]] = {}

    def held(self, key: Key, groups: Iterable[Signs]) -> list[Signs]:
        """The groups of whose own signs a function shows all, a method with those that it calls on ``self``."""
        return [g for g in groups if all(self._shows(key, sign) or self._reaches(key, sign) for sign in _own(g))]

    def _shows(self, key: Key, sign: Sign) -> bool:
        shown = self._shown.get((key, sign))
        if shown is None:
            shown = self._shown[key, sign] = sign.is_in(self.texts[key])
        return shown

    def _reaches(self, key: Key, sign: Sign) -> bool:
        return any(self._shows(other, sign) for other in self._called(key))

    def _called(self, key: Key) -> tuple[Key, ...]:
        """The other methods that a method calls on ``self``, and those that they call."""
        if key not in self._calls:
            found, waiting = {key: None}, [key] if key[0] else []
            while waiting:
                called = [(key[0], name.decode()) for name in _CALLED_ON_SELF.findall(self.texts[waiting.pop()])]
                new = [other for other in called if other in self.texts and other not in found]
                found |= dict.fromkeys(new)
                waiting += new
            self._calls[key] = tuple(found)[1:]
        return self._calls[key]


def _renamed(code: bytes) -> Iterator[re.Match[bytes]]:
    """The imports that give another name."""
    found = code.find(b" as ")
    while found >= 0:
        start, end = code.rfind(b"\n", 0, found) + 1, code.find(b"\n", found)
        yield from _RENAMED.finditer(code, start, end if end >= 0 else len(code))
        found = code.find(b" as ", end) if end >= 0 else -1


def _where_trained(group: Signs) -> Signs:
    """The signs where another file trains: a loop that may call it, ``agent.learn(batch)``, trains too."""
    return tuple(_LOOP_THAT_MAY_TRAIN if sign is TRAINING else sign for sign in group)


def _may_apply(
    groups: Iterable[Signs], is_in: Callable[[Sign], bool], texts: Callable[[], Mapping[Key, bytes]]
) -> bool:
    """Whether a file has all the signs of some group, those of functions in one of them.

    Args:
        is_in: whether it has a sign at all; of one that may go over lines, whether it may have it.
        texts: those of its functions; asked where the file shows enough.
    """
    held = [group for group in groups if all(sign.usual or is_in(sign) for sign in group)]
    if any(sign.inherited for group in held for sign in group) or not all(map(_own, held)):
        return bool(held)  # what a class inherits may be worth reading, or everything
    own = tuple(dict.fromkeys(map(_own, held)))
    if not own:
        return False
    functions = _Functions(texts())
    return any(functions.held(key, own) for key in functions.texts)


def _reaches_heirs(group: Signs, data: bytes) -> bool:
    """Whether methods that the classes of the file inherit may be concerned, if they show the own signs."""
    inherited = [sign for sign in group if sign.inherited]
    return bool(inherited) and all(sign.is_in(data) for sign in inherited)


@cache
def _own(group: Signs) -> Signs:
    return tuple(sign for sign in group if sign.own)


def _has_one(text: bytes, groups: Iterable[Signs]) -> bool:
    """Whether a text has all the signs of one of the groups; no sign is looked for twice."""
    is_in = cache(lambda sign: sign.is_in(text))
    return any(all(map(is_in, group)) for group in groups)


def _with_callers(keys: frozenset[Key], texts: Mapping[Key, bytes]) -> frozenset[Key]:
    """Functions, and those that call one of their names: what keeps a graph may be an object that a caller makes."""
    if any(name == "__call__" for _, name in keys):
        return frozenset(texts)  # it is called without being named
    found, names = set(keys), {name for _, name in keys}
    called: dict[Key, set[str]] = {}
    while names := {name for name in names if name != "forward" and not name.startswith("__")}:
        called = called or {key: {name.decode() for name in _CALLED.findall(text)} for key, text in texts.items()}
        callers = {key for key in called.keys() - found if not called[key].isdisjoint(names)}
        found |= callers
        names = {name for _, name in callers}
    return frozenset(found)


def _texts(source: Source) -> dict[Key, bytes]:
    found: dict[Key, bytes] = {}
    renamed = source.outline.renamed
    for unit in source.outline.units:
        key = (unit.owner, unit.name)
        found[key] = found.get(key, b"") + _text(source, unit, renamed)
    return found


def _text(source: Source, unit: Unit, renamed: Mapping[str, str]) -> bytes:
    """The function's lines, with the full names of what it uses under another name."""
    text = b"".join(map(source.data_of, unit.extents))
    return _signs_in((unit.owner, unit.name), without_prose(text)) + _names_in(text, renamed)


def _names_in(text: bytes, renamed: Mapping[str, str]) -> bytes:
    """The full names of what a text uses under another name."""
    return b"".join(f"\n{dotted}".encode() for name, dotted in renamed.items() if name.encode() in text)


def _signs_in(key: Key, text: bytes) -> bytes:
    """The text of a function as far as it is a sign.

    What a constructor binds replaces nothing, and a loop over layers in it or in ``forward`` is over when they return,
    as a sum in a variable is.
    """
    if key[1] not in ("__init__", "forward"):
        return text
    nested = next(itertools.islice(_DEF.finditer(text), 1, None), None)
    before, after = (text[: nested.start()], text[nested.start() :]) if nested is not None else (text, b"")
    before = _LOOP.sub(b"", before)
    if key[1] == "__init__":
        return _FIRST_ITEMS.sub(b"", _FIRST_BINDING.sub(b"", before)) + after
    return _LOCAL_SUM.sub(rb"\1=", before) + after
