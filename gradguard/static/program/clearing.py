"""Which functions of a file empty an attribute, or bind it anew: told from text alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

from gradguard.signs import loop_over
from gradguard.static.files.lines import Line, class_around, lines_with, told_once
from gradguard.static.knowledge import SETTINGS_NAME
from gradguard.static.program.owners import Owner
from gradguard.static.reading.keys import TEXT, is_number

AT_START = ("__init__", "__post_init__", "__new__")
"""What these do is done once, when an object is made."""
ANY = "*"
"""An attribute whose name only the run knows."""
COMPUTED = "()"
"""The key of a collection that a call makes: ``self._key(name)``."""

AT_BEGINNING = re.compile(r"(?:on_(?:fit|run|train|training)_(?:begin|start)|(?:before|begin)_(?:fit|run|training))$")
"""What these do is done once, before the first step of a training: what it adds to goes on from there."""

_CLEARED = r"\.(?:clear\(|pop\(|popleft\(|popitem\(|remove\((?!\)))"
_FRESH = re.compile(r"=.*(?:\[\]|\{\}|\bNone\b|\blist\(\)|\bdict\(\)|\bdeque\()")
_DECLARES = re.compile(r"\s*(?:global|nonlocal)\b")
_LOOKED_UP = ("getattr(", "vars(", "__dict__")
_LISTS_OF_ATTRIBUTES = ("vars(", "__dict__", "fields(", "__slots__", "__annotations__")
_EACH_ATTRIBUTE = re.compile(loop_over(r"(?:\bvars\(|\bfields\(|\.__(?:dict|slots|annotations|dataclass_fields)__\b)"))
_SOME_FIELDS = re.compile(r"\bfields\(\s*\w+\s*\)\[\s*(-?\d+)?\s*:\s*(-?\d+)?\s*\]")
_FIELD = re.compile(r"^[ \t]+(\w+)[ \t]*:[ \t]*(\w[^\n]*)$", re.M)
_OF_MANY = re.compile(r"\b(?:[Ll]ist|[Dd]ict|[Dd]eque|defaultdict)\b")
_SETS_ANY = re.compile(r"\bsetattr\(\s*(\w+)\s*,\s*[^\s'\"]")
_EMPTIES = re.compile(rf"{_CLEARED}|\bsetattr\(|\bdel\s+(?:\w+|getattr\([^()]*\))\[:\]|[\w)]\[:\]\s*=\s*\[\]")
# An attribute whose name only the run knows: `self.__dict__[name]`, `getattr(self, name)`.
_BY_KEY = r"(?:\.__dict__|\bvars\(\w+\))\[[^\s'\"\]][^\]]*\]"
_BY_NAME = rf"(?:\bgetattr\(\s*[\w.]+\s*,\s*[^\s'\"][^()]*\)|{_BY_KEY})"
_EMPTIES_ANY = re.compile(rf"{_BY_NAME}(?:{_CLEARED}|\[:\]\s*=)|\bdel\s[^\n]*{_BY_NAME}|{_BY_KEY}\s*=(?!=)")
_MAKES_AGAIN = re.compile(r"(?<![\w.)])[\w.]+\.__init__\(")


def clearing_methods(
    attribute: str,
    text: str,
    anew: bool = False,
    bare: bool = False,
    slot: str | None = None,
    owner: Owner | None = None,
) -> set[str]:
    """The functions of a file that empty or rebind ``x.attribute`` (or only rebind it), other than constructors.

    Args:
        bare: it stands for a variable: who binds it has to say that it is none of its own.
        slot: the key that is meant; what is done to ``x.attribute["another"]`` does not count.
        owner: the object that has it, where that is known.
    """
    name = re.escape(attribute)
    declared = {line.function for line in lines_with(attribute, text) if _DECLARES.match(line.text)} if bare else None
    emptied = re.compile(
        rf"\.{name}(?:\[(?P<key>[^\]\n]*)\])?{_CLEARED}(?P<popped>[^,)\n]*)|\bdel\s[^\n]*\.{name}\b"
        rf"|\.{name}\[(?P<slot>[^\]]*)\]\s*=(?!=)\s*(?:\[|None|0|(?:torch|np|numpy)\.(?:zeros|ones|empty|full)(?:_like)?\()|setattr\([^,]+,\s*['\"]{name}['\"]"
    )
    rebound = re.compile(rf"\.{name}\s*(?::[^=]+)?=(?!=)|^(?:[^=(]*,)?\s*[\w.]+\.{name}\s*(?:,[^=(]*)?=(?!=)")
    from_itself = re.compile(rf"\.{name}\s*(?::[^=]+)?=(?!=).*\.{name}\b")
    at_first = re.compile(
        rf"\bif\b[^\n]*\.{name}\s+is\s+None\s*:|\bif\s+not\s+[\w.]+\.{name}\s*:|\bif\s+not\s+hasattr\("
    )
    each = re.compile(rf"\bfor\s+(?:\w+\s*,\s*)*(\w+)\s+in\b[^:\n]*\.{name}\b")
    found = set(_clearing_all(attribute, text))
    for line in chain(lines_with(f".{attribute}", text), lines_with("setattr(", text)):
        if owner is not None and owner.never_runs(line, text):
            continue
        loop = each.search(line.text)  # for outputs in self.kept.values(): outputs.clear()
        if any(_empties_by(other, line, text) for other in (*_named(attribute, line), *([loop[1]] if loop else []))):
            found.add(line.function)
        at_edge = line.function == "<module>" and not line.text[:1].isspace()  # runs once
        is_its_own = declared is not None and line.function not in declared
        anew_here = not (line.function in AT_START or at_edge or is_its_own) and rebound.search(line.text) is not None
        if anew_here and owner is not None and owner.is_of_another(attribute, line, text):
            continue
        is_fresh = _FRESH.search(line.text) is not None
        if anew_here and not is_fresh:  # if cls._log is None: cls._log = Log()
            anew_here = at_first.search(_with_line_before(line, text)) is None and not from_itself.search(line.text)
        if (not anew and _empties(emptied.search(line.text), slot, line, text)) or anew_here:
            found.add(line.function)
    return {function for function in found if not AT_BEGINNING.match(function)}


def _empties_by(name: str, line: Line, text: str) -> bool:
    """Whether what a line gives a name is emptied by that name, further down in its function."""
    part = rf"{name}\[[^\]\n]*:[^\]\n]*\]"
    empties = re.compile(rf"\b{name}{_CLEARED}|\bdel\s[^\n]*\b{part}|\b{part}\s*=\s*\[\]")
    after = (other for other in lines_with(name, text) if other.start >= line.start)
    return any(other.function == line.function and empties.search(other.text) for other in after)


def _named(attribute: str, line: Line) -> list[str]:
    """The other names that a line gives to an attribute: ``logs, ends = self.logs, self.ends``."""
    names, _, values = line.text.partition("=")
    pairs = list(zip(names.split(","), values.split(",")))
    is_plain = names.count(",") == values.count(",") and all(name.strip().isidentifier() for name, _ in pairs)
    return [name.strip() for name, value in pairs if is_plain and value.strip().endswith(f".{attribute}")]


def _with_line_before(line: Line, text: str) -> str:
    return text[text.rfind("\n", 0, max(line.start - 1, 0)) + 1 : line.start] + line.text


def _empties(found: re.Match[str] | None, slot: str | None, line: Line, text: str) -> bool:
    """Whether what is emptied may be what is stored under a key."""
    if found is None:
        return False
    if slot == TEXT and found["key"] is None and found["popped"] is not None:
        return not is_number(found["popped"].strip())
    key = (found["key"] or found["slot"] or "").strip().replace("'", '"')
    if slot == COMPUTED and key.isidentifier():
        return not _is_made_into_key(key, found.group().split("[", 1)[0], line, text)
    return slot is None or not (key.startswith('"') and slot.startswith('"')) or key == slot


def _is_made_into_key(name: str, holder: str, line: Line, text: str) -> bool:
    """Whether a function also reads under what it makes of a name, so that the name itself is another key.

    ``window = self.series[self._key(name)]``, ``self.series[name] = []``.
    """
    computes = re.compile(rf"{re.escape(holder)}\[[\w.]+\([^\n]*\b{name}\b")
    others = (other for other in lines_with(f"{holder}[", text) if other.function == line.function)
    return any(computes.search(other.text) for other in others)


def _clearing_all(attribute: str, text: str) -> frozenset[str]:
    return sets_by_name(attribute, text) | _made_again(attribute, text)


def sets_by_name(attribute: str, text: str) -> frozenset[str]:
    """The functions of a file that do so for every attribute, or for those of whose names there is a list."""
    every, listed = (
        frozenset(function for function in found if not _leaves_out(attribute, function, text))
        for found in _clearing_many(text)
    )
    among_words = rf"['\"](?:\w+[ ,]+)*{re.escape(attribute)}(?:[ ,]+\w+)*['\"]"
    is_listed = bool(listed) and (attribute == ANY or re.search(among_words, text) is not None)
    return every | listed if is_listed else every


def _leaves_out(attribute: str, function: str, text: str) -> bool:
    """Whether a function goes over some fields of a record only, and not over this one: ``fields(self)[:4]``.

    Of ``ANY``, whether it leaves out a collection.
    """
    for line in lines_with("fields(", text):
        part = _SOME_FIELDS.search(line.text) if line.function == function else None
        if part is None:
            continue
        fields = list(_FIELD.finditer(class_around(line, text)))
        start, end = (int(limit) if limit else None for limit in part.groups())
        taken = fields[start:end]
        missing = [field for field in fields if field not in taken]
        if attribute == ANY and any(_OF_MANY.search(field[2]) for field in missing):
            return True
        if attribute != ANY and bool(fields) and all(field[1] != attribute for field in taken):
            return True
    return False


def _made_again(attribute: str, text: str) -> frozenset[str]:
    """The functions that call the constructor of an object that is there, of a class with this attribute."""
    again = (line for line in _matching(".__init__(", _MAKES_AGAIN, text) if line.function not in AT_START)
    word = re.compile(r"" if attribute == ANY else rf"\b{re.escape(attribute)}\b")
    return frozenset(line.function for line in again if word.search(class_around(line, text)))


@told_once
def _clearing_many(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """The functions of a file that do so for every attribute, and those that do it for a name from elsewhere."""
    going = {line.function for word in _LISTS_OF_ATTRIBUTES for line in _matching(word, _EACH_ATTRIBUTE, text)}
    every = {
        line.function for word in (".clear(", "setattr(", "[:]") for line in _matching(word, _EMPTIES, text)
    } & going
    listed = {line.function for line in lines_with("setattr(", text) if _sets_any(line)}
    listed |= {line.function for word in _LOOKED_UP for line in _matching(word, _EMPTIES_ANY, text)}
    at_start = {*AT_START, "__setattr__"}
    return frozenset(every - at_start), frozenset(listed - at_start)


def _sets_any(line: Line) -> bool:
    """Whether an attribute is set whose name only the run knows, of something other than settings."""
    return any(not SETTINGS_NAME.match(name) for name in _SETS_ANY.findall(line.text))


def _matching(word: str, pattern: re.Pattern[str], text: str) -> Iterator[Line]:
    """The lines of a text with a word in them that match."""
    return (line for line in lines_with(word, text) if pattern.search(line.text))


def with_object(name: str, text: str) -> str:
    """The text with each use of a global written like that of an attribute."""
    return re.sub(rf"(?<![\w.]){re.escape(name)}\b", f"module.{name}", text)
