"""What an object computed once and remembers.

``functools.cached_property`` needs an object with a ``__dict__``; one that mypyc compiled has none, and gets a memo.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

_T = TypeVar("_T")
_COMPILED = not __file__.endswith(".py")


class Remembers:
    """Something with cached properties."""

    _memo: dict[str, Any] | None = None


def memo_of(instance: Any) -> dict[str, Any]:
    """The names of what was computed of an object, each with its value."""
    if _COMPILED and instance._memo is None:
        object.__setattr__(instance, "_memo", {})  # it may be frozen
    memo: dict[str, Any] = instance._memo if _COMPILED else vars(instance)
    return memo


class cached_property(Generic[_T]):
    """A property that is computed when it is first asked for; not locked, as that of Python 3.11 and older is."""

    def __init__(self, compute: Callable[[Any], _T]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: Any, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: Any = None) -> cached_property[_T]: ...
    @overload
    def __get__(self, instance: object, owner: Any = None) -> _T: ...
    def __get__(self, instance: object | None, owner: Any = None) -> _T | cached_property[_T]:
        if instance is None:
            return self
        if _COMPILED and self._name in (memo := memo_of(instance)):  # else Python itself finds it in `__dict__`
            known: _T = memo[self._name]
            return known
        computed = self._compute(instance)
        memo_of(instance)[self._name] = computed
        return computed
