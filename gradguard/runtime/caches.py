"""Caches of ``functools``, and dicts: how much one takes, what it is keyed by, and the function that it is of."""

from __future__ import annotations

import functools
import gc
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from types import CodeType
from typing import Any

CACHE: Any = type(functools.lru_cache(lambda: None))
LATEST_KEYS = 4
"""How many keys are looked at: those of one function are alike."""

FEWEST_STEPS = 8
"""Steps after which the rate of new questions can be compared with that before."""


def limit(cache: Any) -> int | None:
    """How many results a cache keeps; None where it is none of ``functools``, or keeps all."""
    found = cache.cache_parameters()["maxsize"] if type(cache) is CACHE else None
    return found if isinstance(found, int) else None


def is_keyed_by(cache: Any, matches: Callable[[Any], bool]) -> bool:
    """Whether a cache of ``functools``, or a dict, has keys with something in them that matches.

    Only the latest keys are looked at.
    """
    if type(cache) is not CACHE and type(cache) is not dict:
        return False
    return any(matches(part) for key in _latest_keys(cache) for part in key)


def code_of(things: Iterable[Any]) -> CodeType | None:
    """The code of the function whose cache is among ``things``."""
    cached = (getattr(thing, "__wrapped__", None) for thing in things if type(thing) is CACHE)
    return next((code for each in cached if isinstance(code := getattr(each, "__code__", None), CodeType)), None)


def _latest_keys(cache: Any) -> Iterator[tuple[Any, ...]]:
    attributes = getattr(cache, "__dict__", None)
    for entries in [cache] if type(cache) is dict else gc.get_referents(cache):
        if type(entries) is dict and entries is not attributes:
            for key in islice(reversed(entries), LATEST_KEYS):
                yield key if isinstance(key, tuple) else (key,)


def misses(cache: Any) -> int:
    """How often a cache of ``functools`` was asked for what it had not got."""
    return int(CACHE.cache_info(cache).misses)


class Asked:
    """Whether a cache goes on to be asked for what it has not got.

    Args:
        cache: one of ``functools``; it is not kept alive.
        step: when it was looked at first.
        missed: how often it had been asked in vain by then.
    """

    __slots__ = ("_cache", "_missed", "_step")

    def __init__(self, cache: Any, step: int, missed: int) -> None:
        self._cache = weakref.ref(cache)
        self._missed = missed
        self._step = step

    def has_settled(self, step: int) -> bool:
        """Whether it has been asked for new things half as often since, at most: most of what is asked for is there.

        Args:
            step: the last one.
        """
        cache, later = self._cache(), step - self._step
        if cache is None or later < FEWEST_STEPS:
            return False
        return misses(cache) - self._missed <= 0.5 * self._missed / max(self._step, 1) * later


def asked(step: int, missed: Mapping[int, int], things: Iterable[Any]) -> Asked | None:
    """What the cache among ``things`` is asked for, if there is one that was there at ``step``.

    Args:
        step: when all were looked at first.
        missed: by the identity of each cache, how often it had been asked in vain by then.
    """
    return next((Asked(each, step, missed[id(each)]) for each in things if id(each) in missed), None)
