"""Caches of ``functools``, and dicts: how much one takes, what it is keyed by, and the function that it is of."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from types import CodeType
from typing import Any

CACHE: Any = type(functools.lru_cache(lambda: None))
LATEST_KEYS = 4
"""How many keys are looked at: those of one function are alike."""


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
