"""Attributes of one name in objects of several classes, and the object on which something is called: told from text.

``self.terms = []`` in a model does nothing to the ``terms`` of its layers, and ``self.valid_metrics.reset()`` does not
reset ``self.train_metrics``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gradguard.static.files.lines import Line, class_around, lines_with

_HEADER = re.compile(r"class\s+(\w+)\s*(?:\(([^()]*)\))?\s*:")
_PLAIN_BASES = frozenset(("", "object", "Module", "LightningModule", "ABC"))
_LEFT_EDGE = re.compile(r"^[^\s)\]}#'\"]", re.M)


@dataclass(frozen=True)
class Owner:
    """The object that has an attribute.

    Args:
        classes: the names of its class and of what that is derived from.
        name: the attribute of ``self`` that it is, ``train_metrics``; empty where it is none.
        is_base: whether a class of this name has others derived from it.
        replaces: whether it has another method in place of one of its base of this name, and that calls no such one.
    """

    classes: tuple[str, ...]
    name: str
    is_base: Callable[[str], bool]
    replaces: Callable[[str, str], bool]

    def is_of_another(self, attribute: str, line: Line, text: str) -> bool:
        """Whether a line binds the attribute of this name of another object: one of a class that is no kin."""
        if re.match(rf"\s*self\.{re.escape(attribute)}\s*(?::[^=]+)?=(?!=)", line.text) is None:
            return False
        around = class_around(line, text)
        header = _HEADER.match(around)
        if header is None or header[1] in self.classes or self.is_base(header[1]):
            return False
        bases = (base.strip().rpartition(".")[2] for base in (header[2] or "").split(","))
        inside = text[text.find(around) + header.end() : line.start]
        hands_on = re.search(rf"\bdef\s+(?:{re.escape(attribute)}|__setattr__)\b", around) is not None
        return _PLAIN_BASES.issuperset(bases) and _LEFT_EDGE.search(inside) is None and not hands_on

    def never_runs(self, line: Line, text: str) -> bool:
        """Whether a line stands in a method of a base class in whose place the object has its own."""
        header = _HEADER.match(class_around(line, text))
        return header is not None and header[1] in self.classes and self.replaces(header[1], line.function)

    def is_spared(self, method: str, texts: Iterable[str]) -> bool:
        """Whether a method of the object is only ever called on others that are made beside it, and by constructors."""
        if not self.name:
            return False
        called = re.compile(rf"([\w.\[\]()]*)\.{re.escape(method)}\b")
        named = list(texts)
        on = {
            (match[1], line.function)
            for text in named
            for line in lines_with(f".{method}", text)
            for match in called.finditer(line.text)
        }
        others = {receiver for receiver, function in on if (receiver, function) != ("self", "__init__")}
        return bool(others) and all(self._is_made_beside(receiver, named) for receiver in others)

    def _is_made_beside(self, receiver: str, texts: list[str]) -> bool:
        """Whether it is an attribute to which an object of the same class is bound, and nothing else."""
        head, _, name = receiver.partition(".")
        if head != "self" or not name.isidentifier() or name == self.name:
            return False
        bound = [match for text in texts for match in re.findall(rf"\.{name}\s*(?::[^=\n]+)?=(?!=)\s*([^\n]*)", text)]
        made = re.compile(rf"(?:\w+\.)*{self.classes[0]}\([^\n]*\)\s*")
        return bool(bound) and all(made.fullmatch(value) for value in bound)
