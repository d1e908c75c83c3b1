"""Objects of extensions, whose memory Python does not see: images, data frames, CUDA events.

Nobody says how large they are. Where the heap grows and nothing else does, the collection that gained most of them is
what holds that growth.
"""

from __future__ import annotations

import builtins
import sys
from dataclasses import dataclass

from gradguard.runtime.spots import Spot

_HEAP_TYPE = 1 << 9
"""Py_TPFLAGS_HEAPTYPE: a class that is made at run time, as all of Python are (https://docs.python.org/3/c-api/typeobj.html)."""

_BINDINGS = frozenset({"pybind11_object"})
"""Bases by which libraries make such types at run time."""


@dataclass(frozen=True, slots=True)
class Grown:
    """A collection that has more of them.

    Args:
        label: of the namespace in which its path begins.
        spot: the collection.
        entries: items that it gained.
        objects: of extensions that it, and all below it, gained.
    """

    label: str
    spot: Spot
    entries: int
    objects: int


def is_native(cls: type) -> bool:
    """Whether an extension makes objects of this class, and they are no values, which compare by what they are.

    A ``torch.device``, a number of NumPy and a time stamp of pandas are values: small, and kept everywhere.
    """
    is_value = getattr(cls, "__eq__", None) is not getattr(object, "__eq__", None)
    return not is_value and not issubclass(cls, type) and any(map(_is_of_an_extension, cls.__mro__))


def _is_of_an_extension(cls: type) -> bool:
    if cls.__flags__ & _HEAP_TYPE and cls.__name__ not in _BINDINGS:
        return False
    if cls.__module__ == "builtins":  # so it is said where an extension does not tell: ImagingCore of Pillow
        return cls.__name__[:1].isupper() and not hasattr(builtins, cls.__name__)
    return cls.__module__.partition(".")[0] not in sys.stdlib_module_names


def grown(before: Spot, after: Spot, least: int) -> Grown | None:
    """The collection that gained most objects of extensions, the innermost of several that gained the same ones.

    Args:
        before: the top of a census.
        after: that of a later one.
        least: fewer of them are nobody's leak.
    """
    found = []
    for label, top in after.below.items():
        pairs: list[tuple[Spot | None, Spot]] = [(before.below.get(label), top)]
        for old, new in pairs:
            pairs += [(old.below.get(name), below) for name, below in new.below.items()] if old is not None else []
            is_same = old is not None and old.ident == new.ident and old.count == new.count
            if old is not None and is_same and new.length > old.length:
                found.append(Grown(label, new, new.length - old.length, _natives(new) - _natives(old)))
    best = max(found, key=lambda each: (each.objects, len(each.spot.chain())), default=None)
    return best if best is not None and best.objects >= least else None


def _natives(spot: Spot) -> int:
    return sum(each.natives for each in spot.walk())
