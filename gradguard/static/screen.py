"""Which functions may hold a finding, told from text alone; the others are read only where one of these calls them.

Each rule says by signs what a function that it could flag contains, or its file (:mod:`gradguard.signs`).
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache

from gradguard.catalogue import Rule
from gradguard.signs import BOUND, CHANGED, LOOP, TRAINING, Sign, Signs
from gradguard.static import tree as t
from gradguard.static.files.layout import Key
from gradguard.static.files.layout import functions as layout
from gradguard.static.files.outline import Extent
from gradguard.static.files.prose import without_prose
from gradguard.static.source import Source

_FIRST_BINDING = re.compile(rb"\bself\.\w+\s*(?::[^=\n]+)?=(?!=)")
_FIRST_ITEMS = re.compile(rb"(?<![\w.])(?:self\.)?[a-z_]\w*\.(?:append|insert|extend|add_module|update)\(")
_LOCAL_SUM = re.compile(rb"^([ \t]*[a-z_]\w*\s*)[-+*/@]=([^\n]*)", re.M)
_LOOP = re.compile(rb"\b(?:for|while)\b")
_LOOP_THAT_MAY_TRAIN = dataclasses.replace(LOOP, reaches=True)
_DEF = re.compile(rb"^[ \t]*(?:async[ \t]+)?def\b", re.M)
_RENAMED = re.compile(
    rb"\bfrom[ \t]+([\w.]+)[ \t]+import[ \t]+[^\n]*?\b(\w+)[ \t]+as\b|\bimport[ \t]+([\w.]+)[ \t]+as\b"
)
_CALLED = re.compile(rb"\b(\w+)\(")
_IN_NAMES = re.compile(rb"\w+")
_NAMES_ALONE = bytes(byte if chr(byte).isalnum() or byte > 127 or byte == 95 else 32 for byte in range(256))
_CALLED_ON_SELF = re.compile(rb"\bself\.(\w+)\(")


@dataclass(frozen=True)
class Selection:
    """The functions of a file that are worth reading.

    Args:
        functions: the names of their classes, or "", with their own.
        heirs: the classes whose inherited methods may be worth it too.
        signs: what an inherited method must show then: the signs of one of these groups.
        shapes: of some functions, what their trees must have to be worth it: one of these shapes.
    """

    functions: frozenset[Key]
    heirs: frozenset[str] = frozenset()
    signs: tuple[Signs, ...] = ((),)
    shapes: frozenset[tuple[Key, frozenset[str]]] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.functions or self.heirs)

    def has_class(self, name: str) -> bool:
        return name in self.heirs or any(owner == name for owner, _ in self.functions)

    def has_function(self, owner: str, name: str) -> bool:
        return (owner, name) in self.functions

    def has_shape(self, owner: str, define: t.Define) -> bool:
        """Whether a function that it has is worth reading by its tree, too."""
        if not self.shapes:
            return True
        from gradguard.static.shapes import has_one  # only what is chosen needs it

        names = next((names for key, names in self.shapes if key == (owner, define.name)), None)
        return names is None or has_one(define, names)

    def has_inherited(self, source: Source, owner: str, name: str) -> bool:
        """Whether a method that ``owner``, a class in ``source``, gives to its heirs is worth reading for them."""
        units = (u for u in source.outline.units if (u.owner, u.name) == (owner, name))
        return not all(self.signs) or any(
            _has_one(_text(source, (owner, name), unit.extents, source.outline.renamed), self.signs) for unit in units
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
        groups = [(_cheapest_first(group), rule.shape) for rule in rules for group in (rule.signs or ((),))]
        self._groups = tuple(dict.fromkeys(group for group, _ in groups))
        self._shapes = _shapes_of(groups)
        self._where_trained = tuple(dict.fromkeys((*self._groups, *map(_where_trained, self._groups))))
        self._vocabulary = _Vocabulary(sign for group in self._where_trained for sign in group)

    def passes(self, data: bytes, calls_training: bool = False) -> bool:
        """Whether a part of a file may have all the signs of some rule.

        Args:
            calls_training: what it calls in another file trains.
        """
        code = without_prose(data)
        names = b"".join(b"\n" + b".".join(filter(None, match.groups())) for match in _renamed(code))
        groups = self._where_trained if calls_training else self._groups
        text = code + names
        words = _Words(self._vocabulary, text)
        may_show = cache(
            lambda sign: bool(words.of(sign)) if _is_of_lines(sign) and not sign.inherited else words.show(sign, text)
        )
        return _may_apply(
            words.having(groups),
            may_show,
            lambda: _Functions(layout(code), lambda key, part: _signs_in(key, part) + names, words, names),
        )

    def select(self, source: Source, calls_training: Callable[[], bool] = lambda: False) -> Selection:
        """The functions of a file that may hold a finding.

        Args:
            calls_training: whether what it calls in another file may train; asked where nothing in this one speaks of
                training.
        """
        data = without_prose(source.data)
        names = _names_in(source.data, source.outline.renamed)
        words = _Words(self._vocabulary, source.data + names)
        is_shown = cache(lambda sign: words.show(sign, data))
        is_in = cache(lambda sign: sign.own or is_shown(sign))
        signs = self._groups if is_in(TRAINING) or not calls_training() else self._where_trained
        groups = [group for group in signs if all(map(is_in, group))]
        if not groups:
            return Selection(frozenset())
        if not all(map(_own, groups)):
            return everything(source)
        named = data + names
        may_show = cache(lambda sign: not sign.own or sign.across or words.show(sign, named))
        shown = [group for group in words.having(groups) if all(map(may_show, group))]
        functions = _functions(source, words, names) if shown else _NO_FUNCTIONS
        chosen = functions.with_callers(functions.holding_one(map(_own, filter(_reaches, shown))))
        others = [(_own(group), self._shapes.get(group)) for group in shown if not _reaches(group)]
        chosen |= functions.holding_one((group for group, shape in others if shape is None), besides=chosen)
        shaped = functions.holding_each(((group, shape) for group, shape in others if shape is not None), chosen)
        of_file = tuple(dict.fromkeys(_own(group) for group in groups if _reaches_heirs(group, is_shown)))
        heirs = frozenset(source.outline.classes if of_file else ())
        return Selection(chosen.union(shaped), heirs, of_file, frozenset(shaped.items()))


class _Vocabulary:
    """The words of signs, the shorter ones first."""

    def __init__(self, signs: Iterable[Sign]) -> None:
        words = sorted({word for sign in signs for word in sign.words}, key=lambda word: (len(word), word))
        within = ({shorter for shorter in words[:place] if shorter in word} for place, word in enumerate(words))
        self._words = [(w, parts, _name_in(w), w.split()[0]) for w, parts in zip(words, within, strict=True)]

    def of(self, text: bytes) -> set[bytes]:
        """Those that stand in a text.

        Looked for in the names of the text, then in what stands between white space, each once, which is a fraction of
        it; and a word that has another one in it where there is that one: without ``grad`` there is no ``zero_grad``.
        """
        names = b" ".join(set(text.translate(_NAMES_ALONE).split()))
        once = b" ".join(set(text.split()))
        there: set[bytes] = set()
        for word, within, name, start in self._words:
            may_be = within <= there and name in names
            if may_be and (name == word or (start in once and (start == word or word in text))):
                there.add(word)
        return there


def _name_in(word: bytes) -> bytes:
    """The longest name, or part of one, in a word: ``zero_grad`` of ``.zero_grad(``."""
    return max(_IN_NAMES.findall(word), key=len, default=b"")


class _Words:
    """The words of signs that stand in a text, and which of the signs it shows, or what is left of it."""

    def __init__(self, vocabulary: _Vocabulary, text: bytes) -> None:
        self._there = vocabulary.of(text)
        self._of: dict[Sign, list[bytes]] = {}

    def of(self, sign: Sign) -> list[bytes]:
        """The words of a sign that are there."""
        words = self._of.get(sign)
        if words is None:
            words = self._of[sign] = [word for word in sign.words if word in self._there]
        return words

    def having(self, groups: Iterable[Signs]) -> list[Signs]:
        """The groups of whose signs each has a word there."""
        return [group for group in groups if all(map(self.of, group))]

    def show(self, sign: Sign, text: bytes) -> bool:
        """Whether the text, or a part of it, shows a sign."""
        words = self.of(sign)
        return bool(words) and sign.is_in(text, words)


class _Functions:
    """The functions of a file, and what they show: each sign is looked for once in each.

    What counts of a function's text is found out only where one of the words of a sign stands in it: nearly nowhere.

    Args:
        parts: their texts, with all that does not count; what is left out of them stands between words, so that
            no word is in what is left that was not there before.
        text_of: what counts of one, and the full names of what it uses under another name.
        words: those in the file, what does not count and those names included.
        names: all these names.
    """

    def __init__(
        self, parts: Mapping[Key, bytes], text_of: Callable[[Key, bytes], bytes], words: _Words, names: bytes
    ) -> None:
        self.parts = parts
        self._text_of = text_of
        self._words = words
        self._names = names
        self._place = _Places(parts)
        self._members: dict[str, list[Key]] = {}
        for key in parts:
            self._members.setdefault(key[0], []).append(key)
        self._texts: dict[Key, bytes] = {}
        self._with_words: dict[Sign, frozenset[Key]] = {}
        self._may_show: dict[Sign, frozenset[Key]] = {}
        self._shown: dict[tuple[Key, Sign], bool] = {}
        self._calls: dict[Key, tuple[Key, ...]] = {}
        self._called_there: dict[str, list[Key]] = {}
        self._showing: dict[tuple[str, Sign], frozenset[Key]] = {}

    def with_callers(self, keys: frozenset[Key]) -> frozenset[Key]:
        """Functions, and those that call one of their names, as what keeps a graph may be an object of a caller."""
        if not keys:
            return keys
        if any(name == "__call__" for _, name in keys):
            return frozenset(self.parts)  # it is called without being named
        found, names = set(keys), {name for _, name in keys}
        while names := {name for name in names if name != "forward" and not name.startswith("__")}:
            callers = {key for key in self.parts.keys() - found if self._calls_one_of(key, names)}
            found |= callers
            names = {name for _, name in callers}
        return frozenset(found)

    def _calls_one_of(self, key: Key, names: set[str]) -> bool:
        part = self.parts[key]  # what counts of it is only found out where one of the names stands in it
        calls = [call for name in names if (call := f"{name}(".encode()) in part]
        return bool(calls) and not names.isdisjoint(name.decode() for name in _CALLED.findall(self._text(key)))

    def holding_one(self, groups: Iterable[Signs], besides: frozenset[Key] = frozenset()) -> frozenset[Key]:
        """The functions that hold one of some groups, and are not known already."""
        found: set[Key] = set()
        for group in dict.fromkeys(groups):
            found.update(self.holding(group, besides | found))
        return frozenset(found)

    def holding_each(self, groups: Iterable[tuple[Signs, str]], besides: frozenset[Key]) -> dict[Key, frozenset[str]]:
        """The functions that hold one of some groups, and are not known already, with the names of all these groups."""
        found: dict[Key, frozenset[str]] = {}
        for group, name in dict.fromkeys(groups):
            for key in self.holding(group, besides):
                found[key] = found.get(key, frozenset()) | {name}
        return found

    def holding(self, signs: Signs, besides: Set[Key] = frozenset()) -> Iterator[Key]:
        """The functions that show all of some signs of functions, a method with those that it calls on ``self``."""
        keys = min((self._candidates(sign) for sign in signs), key=len) - besides
        for sign in signs:
            keys = keys & self._candidates(sign)
        for key in keys:
            if all(self._shows(key, sign) or self._reaches(key, sign) for sign in signs):
                yield key

    def _candidates(self, sign: Sign) -> frozenset[Key]:
        """The functions that have a word of a sign, and the methods of classes in which a method has one."""
        known = self._may_show.get(sign)
        if known is None:
            with_word = self._with_word_of(sign)
            owners = {owner for owner, _ in with_word if owner}
            mates = (key for owner in owners for key in self._members[owner])
            known = self._may_show[sign] = with_word.union(mates)
        return known

    def _with_word_of(self, sign: Sign) -> frozenset[Key]:
        known = self._with_words.get(sign)
        if known is None:
            words = self._words.of(sign)
            is_everywhere = sign.usual or any(word in self._names for word in words)
            found = self.parts if is_everywhere else (key for word in words for key in self._place.holding(word))
            known = self._with_words[sign] = frozenset(found)
        return known

    def _text(self, key: Key) -> bytes:
        text = self._texts.get(key)
        if text is None:
            text = self._texts[key] = self._text_of(key, self.parts[key])
        return text

    def _shows(self, key: Key, sign: Sign) -> bool:
        shown = self._shown.get((key, sign))
        if shown is None:
            shown = self._shown[key, sign] = self._is_shown(key, sign)
        return shown

    def _is_shown(self, key: Key, sign: Sign) -> bool:
        return key in self._with_word_of(sign) and sign.is_in(self._text(key), self._words.of(sign))

    def _reaches(self, key: Key, sign: Sign) -> bool:
        showing = self._called_showing(key[0], sign) if key[0] else ()
        return bool(showing) and any(other in showing for other in self._called(key))

    def _called_showing(self, owner: str, sign: Sign) -> frozenset[Key]:
        """The methods of a class that show a sign, of those that any of its methods calls on ``self``."""
        known = self._showing.get((owner, sign))
        if known is None:
            called = self._called_in(owner)
            known = self._showing[owner, sign] = frozenset(key for key in called if self._shows(key, sign))
        return known

    def _called_in(self, owner: str) -> list[Key]:
        """The methods of a class that may be called on ``self`` in it."""
        if owner not in self._called_there:
            keys = self._members[owner]
            names = {name.decode() for key in keys for name in _CALLED_ON_SELF.findall(self.parts[key])}
            self._called_there[owner] = [key for key in keys if key[1] in names]
        return self._called_there[owner]

    def _called(self, key: Key) -> tuple[Key, ...]:
        """The other methods that a method calls on ``self``, and those that they call."""
        if key not in self._calls:
            found, waiting = {key: None}, [key] if key[0] else []
            while waiting:
                called = [(key[0], name.decode()) for name in _CALLED_ON_SELF.findall(self._text(waiting.pop()))]
                new = [other for other in called if other in self.parts and other not in found]
                found |= dict.fromkeys(new)
                waiting += new
            self._calls[key] = tuple(found)[1:]
        return self._calls[key]


class _Places:
    """Where a word stands: it is looked for in all functions at once."""

    def __init__(self, parts: Mapping[Key, bytes]) -> None:
        self._keys = list(parts)
        self._text = b"\0".join(parts.values())
        self._starts = list(itertools.accumulate((len(part) + 1 for part in parts.values()), initial=0))

    def holding(self, word: bytes) -> Iterator[Key]:
        """The functions in whose text a word stands."""
        found = self._text.find(word)
        while found >= 0:
            after = bisect_right(self._starts, found)
            yield self._keys[after - 1]
            found = self._text.find(word, self._starts[after])


_NO_FUNCTIONS = _Functions({}, lambda _, part: part, _Words(_Vocabulary(()), b""), b"")


def _renamed(code: bytes) -> Iterator[re.Match[bytes]]:
    """The imports that give another name."""
    found = code.find(b" as ")
    while found >= 0:
        start, end = code.rfind(b"\n", 0, found) + 1, code.find(b"\n", found)
        yield from _RENAMED.finditer(code, start, end if end >= 0 else len(code))
        found = code.find(b" as ", end) if end >= 0 else -1


def _cheapest_first(group: Signs) -> Signs:
    """The signs in the order in which they are looked for: what is not there is soon known not to be."""
    return tuple(sorted(group, key=lambda sign: (sign.across, bool(sign.pattern))))


def _where_trained(group: Signs) -> Signs:
    """The signs where another file trains: a loop that may call it, ``agent.learn(batch)``, trains too."""
    return tuple(_LOOP_THAT_MAY_TRAIN if sign is TRAINING else sign for sign in group)


def _shapes_of(groups: Sequence[tuple[Signs, str]]) -> dict[Signs, str]:
    """The shapes that rules ask for besides their signs; none where another rule asks for the signs alone."""
    plain = {group for group, shape in groups if not shape}
    shapes = {group: shape for group, shape in groups if group not in plain}
    return shapes | {_where_trained(group): shape for group, shape in shapes.items()}


def _may_apply(groups: Iterable[Signs], is_in: Callable[[Sign], bool], parts: Callable[[], _Functions]) -> bool:
    """Whether a file has all the signs of some group, those of functions in one of them.

    Args:
        is_in: whether it has a sign at all; of one that may go over lines, whether it may have it.
        parts: its functions; asked where the file shows enough.
    """
    functions: _Functions | None = None
    looked_for: set[Signs] = set()
    for group in groups:
        if all(sign.usual or is_in(sign) for sign in group):
            own = _own(group)
            if not own or any(sign.inherited for sign in group):
                return True  # everything may be worth reading, or what a class inherits
            if own not in looked_for:
                functions = functions or parts()
                if any(True for _ in functions.holding(own)):
                    return True
                looked_for.add(own)
    return False


def _reaches(group: Signs) -> bool:
    """Whether what is found by a group may lie in a caller of the function that shows it."""
    return any(sign.reaches for sign in group)


def _reaches_heirs(group: Signs, is_shown: Callable[[Sign], bool]) -> bool:
    """Whether methods that the classes of the file inherit may be concerned, if they show the own signs."""
    inherited = [sign for sign in group if sign.inherited]
    return bool(inherited) and all(map(is_shown, inherited))


def _is_of_lines(sign: Sign) -> bool:
    """Whether it goes over lines of one function: not looked for in a whole file, where it may go over far more."""
    return sign.own and sign.across


@cache
def _own(group: Signs) -> Signs:
    return tuple(sign for sign in group if sign.own)


def _has_one(text: bytes, groups: Iterable[Signs]) -> bool:
    """Whether a text has all the signs of one of the groups; no sign is looked for twice."""
    is_in = cache(lambda sign: sign.is_in(text))
    return any(all(map(is_in, group)) for group in groups)


def _functions(source: Source, words: _Words, names: bytes) -> _Functions:
    """The functions of a file, each by its lines.

    Args:
        words: those in the file.
        names: the full names of all that it uses under another name.
    """
    extents: dict[Key, list[tuple[Extent, ...]]] = {}
    for unit in source.outline.units:
        extents.setdefault((unit.owner, unit.name), []).append(unit.extents)
    parts = {key: b"".join(source.data_of(e) for each in of_key for e in each) for key, of_key in extents.items()}
    renamed = source.outline.renamed
    return _Functions(
        parts,
        lambda key, _: b"".join(_text(source, key, each, renamed) for each in extents[key]),
        words,
        names,
    )


def _text(source: Source, key: Key, extents: Iterable[Extent], renamed: Mapping[str, str]) -> bytes:
    """The function's lines, with the full names of what it uses under another name."""
    text = b"".join(map(source.data_of, extents))
    return _signs_in(key, without_prose(text)) + _names_in(text, renamed)


def _names_in(text: bytes, renamed: Mapping[str, str]) -> bytes:
    """The full names of what a text uses under another name."""
    return b"".join(f"\n{dotted}".encode() for name, dotted in renamed.items() if name.encode() in text)


def _signs_in(key: Key, text: bytes) -> bytes:
    """The text of a function as far as it is a sign.

    What a constructor binds replaces nothing, a mark is left of it; and a loop over layers in it or in ``forward`` is
    over when they return, as a sum in a variable is, of which a mark is left behind what it adds.
    """
    if key[1] not in ("__init__", "forward"):
        return text
    nested = next(itertools.islice(_DEF.finditer(text), 1, None), None)
    before, after = (text[: nested.start()], text[nested.start() :]) if nested is not None else (text, b"")
    before = _LOOP.sub(b"", before)
    if key[1] == "__init__":
        return _FIRST_ITEMS.sub(b"", _FIRST_BINDING.sub(BOUND.encode(), before)) + after
    return _LOCAL_SUM.sub(rb"\1=\2" + CHANGED.encode(), before) + after
