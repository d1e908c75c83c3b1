"""Which functions may hold a finding, told from text alone; the others are read only where one of these calls them.

Each rule says by signs what a function that it could flag contains, or its file (:mod:`gradguard.signs`).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property

from gradguard.catalogue import Rule
from gradguard.signs import LOOP, TRAINING, Sign, Signs
from gradguard.static.outline import Unit
from gradguard.static.prose import without_prose
from gradguard.static.source import Source

_FIRST_BINDING = re.compile(r"\bself\.\w+\s*(?::[^=\n]+)?=(?!=)")
_FIRST_ITEMS = re.compile(r"(?<![\w.])(?:self\.)?[a-z_]\w*\.(?:append|insert|extend|add_module|update)\(")
_LOCAL_SUM = re.compile(r"^([ \t]*[a-z_]\w*\s*)[-+*/@]=", re.M)
_LOOP = re.compile(r"\b(?:for|while)\b")
_LOOP_THAT_MAY_TRAIN = dataclasses.replace(LOOP, reaches=True)
# Where another part of a file begins, at the left edge, and what defines something.
_EDGE = re.compile(rb"^(?=@|def\b|async\b|class\b|(?<=\n)[^\s@#)\]}])", re.M)
_DEFINES = re.compile(rb"(?:async[ \t]+)?def\b|class\b")
_METHOD = re.compile(
    rb"^(?: {1,4}|\t)(?:async[ \t]+)?def[ \t]+(__init__|forward)\b(?:(?!^[ \t]*(?:async[ \t]+)?def\b)[^\n]*\n?)*", re.M
)
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

    functions: frozenset[tuple[str, str]]
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
        return not all(self.signs) or any(_has_one(_text(source, unit), self.signs) for unit in units)


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

    def passes(self, data: bytes) -> tuple[bool, bool]:
        """Whether a part of a file may have all the signs of some rule; and whether so if what it calls trains."""
        code = without_prose(data)
        names = b"".join(b"\n" + b".".join(filter(None, match.groups())) for match in _RENAMED.finditer(code))
        text = code + names
        is_in = cache(lambda sign: sign.is_in(text) if sign.inherited or not sign.own else sign.may_be_in(text))
        parts = cache(lambda: tuple(part + names for part in _parts(code)))
        applies = _may_apply(self._groups, is_in, parts)
        return applies, applies or _may_apply(self._where_trained, is_in, parts)

    def select(self, source: Source, calls_training: Callable[[], bool] = lambda: False) -> Selection:
        """The functions of a file that may hold a finding.

        Args:
            calls_training: whether what it calls in another file may train; asked where nothing in this one speaks of
                training.
        """
        data = without_prose(source.text.encode(errors="replace"))
        is_in = cache(lambda sign: sign.own or sign.is_in(data))
        signs = self._groups if is_in(TRAINING) or not calls_training() else self._where_trained
        groups = [group for group in signs if all(map(is_in, group))]
        if not groups:
            return Selection(frozenset())
        if not all(map(_own, groups)):
            return everything(source)
        texts = {(unit.owner, unit.name): _text(source, unit) for unit in source.outline.units}
        held = {key: _held(_with_own_calls(key, texts), groups) for key in texts}
        showing = frozenset(key for key, found in held.items() if found)
        reaching = frozenset(key for key in showing if any(sign.reaches for group in held[key] for sign in group))
        functions = showing | _with_callers(reaching, texts)
        of_file = tuple(dict.fromkeys(_own(group) for group in groups if _reaches_heirs(group, data)))
        return Selection(functions, frozenset(source.outline.classes if of_file else ()), of_file)


def _where_trained(group: Signs) -> Signs:
    """The signs where another file trains: a loop that may call it, ``agent.learn(batch)``, trains too."""
    return tuple(_LOOP_THAT_MAY_TRAIN if sign is TRAINING else sign for sign in group)


def _may_apply(groups: Iterable[Signs], is_in: Callable[[Sign], bool], parts: Callable[[], tuple[bytes, ...]]) -> bool:
    """Whether a file has all the signs of some group, those of functions in one part of it.

    Args:
        is_in: whether it has a sign at all; of a function's own sign, whether it may have it.
        parts: its functions and classes.
    """
    held = [group for group in groups if all(sign.usual or is_in(sign) for sign in group)]
    if any(sign.inherited for group in held for sign in group) or not all(map(_own, held)):
        return bool(held)  # what a class inherits may be worth reading, or everything
    own = tuple(dict.fromkeys(map(_own, held)))
    return bool(own) and any(_has_one(part, own) for part in parts())


def _parts(code: bytes) -> Iterator[bytes]:
    """The functions and classes of a file as far as the layout tells, and all the rest of it.

    Nothing is taken apart in a notebook.
    """
    if code.lstrip()[:1] == b"{":
        yield code
        return
    decorators, rest = b"", list[bytes]()
    for part in _EDGE.split(code):
        if part[:1] == b"@":
            decorators += part
        elif _DEFINES.match(part) is None:
            rest.append(part)
        else:
            of_class = part.startswith(b"class")
            yield decorators + (_METHOD.sub(_without_first_bindings, part) if of_class else part)
            decorators = b""
    yield b"".join(rest)


def _without_first_bindings(method: re.Match[bytes]) -> bytes:
    return _signs_in(method[1].decode(), method[0].decode(errors="replace")).encode(errors="replace")


def _reaches_heirs(group: Signs, data: bytes) -> bool:
    """Whether methods that the classes of the file inherit may be concerned, if they show the own signs."""
    inherited = [sign for sign in group if sign.inherited]
    return bool(inherited) and all(sign.is_in(data) for sign in inherited)


def _own(group: Signs) -> Signs:
    return tuple(sign for sign in group if sign.own)


def _has_one(text: bytes, groups: Iterable[Signs]) -> bool:
    """Whether a text has all the signs of one of the groups; no sign is looked for twice."""
    is_in = cache(lambda sign: sign.is_in(text))
    return any(all(map(is_in, group)) for group in groups)


def _held(text: bytes, groups: Iterable[Signs]) -> list[Signs]:
    """The groups of whose own signs a function shows all."""
    is_in = cache(lambda sign: not sign.own or sign.is_in(text))
    return [group for group in groups if all(map(is_in, group))]


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


def _with_callers(
    keys: frozenset[tuple[str, str]], texts: Mapping[tuple[str, str], bytes]
) -> frozenset[tuple[str, str]]:
    """Functions, and those that call one of their names: what keeps a graph may be an object that a caller makes."""
    if any(name == "__call__" for _, name in keys):
        return frozenset(texts)  # it is called without being named
    found, names = set(keys), {name for _, name in keys}
    called: dict[tuple[str, str], set[str]] = {}
    while names := {name for name in names if name != "forward" and not name.startswith("__")}:
        called = called or {key: {name.decode() for name in _CALLED.findall(text)} for key, text in texts.items()}
        callers = {key for key in called.keys() - found if not called[key].isdisjoint(names)}
        found |= callers
        names = {name for _, name in callers}
    return frozenset(found)


def _text(source: Source, unit: Unit) -> bytes:
    """The function's lines, with the full names of what it uses under another name."""
    text = _signs_in(unit.name, "".join(map(source.excerpt, unit.extents)))
    names = (dotted for name, dotted in source.outline.renamed.items() if name in text)
    return without_prose("\n".join((text, *names)).encode(errors="replace"))


def _signs_in(name: str, text: str) -> str:
    """The text of a function as far as it is a sign.

    What a constructor binds replaces nothing, and a loop over layers in it or in ``forward`` is over when they return,
    as a sum in a variable is.
    """
    if name in ("__init__", "forward"):
        text = _LOOP.sub("", text)
    if name == "__init__":
        text = _FIRST_ITEMS.sub("", _FIRST_BINDING.sub("", text))
    if name == "forward":
        text = _LOCAL_SUM.sub(r"\1=", text)
    return text
