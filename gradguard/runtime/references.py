"""What an object refers to, under the names that a user would write.

No code of the user is run: attributes come from ``__dict__`` and slots, items from the built-in types' own methods.
"""

from __future__ import annotations

import functools
import gc
import itertools
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from queue import SimpleQueue
from types import BuiltinMethodType, CellType, FunctionType, MappingProxyType, MethodType, ModuleType, TracebackType
from typing import Any

from gradguard.runtime.roots import SUSPENDED, is_function_frame, may_read, read_locals, suspended_frame
from gradguard.runtime.usercode import is_user_code, is_user_type

ANY_ITEM = "[*]"
CONTENT = "[get]"
"""What a context variable holds: its name is the variable's own."""

NAMED_KEYS = 16
"""A dict with more keys than this is a collection; its entries have no names of their own."""

_MODULE_PARTS = frozenset({"_parameters", "_buffers", "_modules"})
"""An ``nn.Module`` keeps its parts in these dicts; a user knows them by their own names."""

_FUTURES = "_asyncio"
"""The module of asyncio's futures and tasks, by its name: most programs import none of them."""

References = Iterable[tuple[str, Any]]

ATOMS = frozenset(
    {int, float, complex, bool, str, bytes, bytearray, type(None), range, slice, type(Ellipsis), type(NotImplemented)}
)

TEE: type = type(itertools.tee(())[0])
ITERATORS = (
    enumerate, zip, map, filter, itertools.chain, itertools.islice, itertools.accumulate, itertools.starmap,
    itertools.takewhile, itertools.dropwhile, itertools.filterfalse, itertools.groupby, itertools.repeat,
    itertools.product, itertools.zip_longest,
)  # fmt: skip
"""Iterators of C over what somebody gave them."""
CACHE_TYPES = (type(functools.lru_cache(lambda: None)), itertools.cycle, TEE)


def references(thing: Any) -> References:
    """What ``thing`` refers to, each with the piece of a path that leads to it (``.name``, ``["key"]``, ``[*]``)."""
    cls = type(thing)
    if cls in ATOMS or issubclass(cls, ModuleType):
        return ()
    for base, expand in _EXPANDERS:
        if issubclass(cls, base):
            return expand(thing)
    return _future(thing) if cls.__module__ == _FUTURES else _attributes(thing)


def _dict(thing: dict[Any, Any]) -> Iterator[tuple[str, Any]]:
    named = len(thing) <= NAMED_KEYS
    for key, value in list(dict.items(thing)):
        yield (f'["{key}"]' if named and type(key) is str else ANY_ITEM), value
        if type(key) not in ATOMS:
            yield ANY_ITEM, key
    if type(thing) not in (dict, OrderedDict):
        yield from _attributes(thing)


def _items(read: Callable[[Any], Iterable[Any]]) -> Callable[[Any], Iterator[tuple[str, Any]]]:
    def expand(thing: Any) -> Iterator[tuple[str, Any]]:
        for item in list(read(thing)):
            yield ANY_ITEM, item
        if hasattr(type(thing), "__dictoffset__") and type(thing).__dictoffset__:
            yield from _attributes(thing)

    return expand


def items_of(collection: Any) -> list[Any]:
    """The values of a dict, the items of anything else; of an array of objects, these."""
    if isinstance(collection, dict):
        return list(dict.values(collection))
    flat = collection.ravel().tolist() if is_array(type(collection)) else collection
    return list(flat)


def is_array(cls: type) -> bool:
    """Whether a class is numpy's array."""
    return cls.__module__ == "numpy" and hasattr(cls, "nbytes")


def _tuple(thing: tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
    fields = getattr(type(thing), "_fields", None)
    for index, item in enumerate(tuple.__iter__(thing)):
        yield (f".{fields[index]}" if isinstance(fields, tuple) and index < len(fields) else f"[{index}]"), item


def _attributes(thing: Any) -> Iterator[tuple[str, Any]]:
    try:
        own = object.__getattribute__(thing, "__dict__")
    except Exception:
        own = None
    if isinstance(own, dict):
        for name, value in list(own.items()):
            if name in _MODULE_PARTS and isinstance(value, dict) and "_modules" in own:
                yield from ((f".{key}", item) for key, item in list(value.items()) if item is not None)
            elif type(value) not in ATOMS:
                yield f".{name}", value
    for cls in type(thing).__mro__:
        for name, descriptor in vars(cls).items() if "__slots__" in vars(cls) else ():
            if type(descriptor).__name__ == "member_descriptor":
                try:
                    yield f".{name}", descriptor.__get__(thing)
                except AttributeError:
                    continue  # the slot is empty


def _function(thing: FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(thing.__code__.co_freevars, thing.__closure__ or ()):
        yield f"<closure>.{name}", _content(cell)
    code = thing.__code__
    defaults = thing.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount]
    for name, value in zip(names[len(names) - len(defaults) :], defaults):
        yield f"<default>.{name}", value
    for name, value in (thing.__kwdefaults__ or {}).items():
        yield f"<default>.{name}", value
    for name, value in thing.__dict__.items():
        yield f".{name}", value


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _method(thing: MethodType) -> Iterator[tuple[str, Any]]:
    yield ".__self__", thing.__self__
    yield ".__func__", thing.__func__


def _builtin(thing: BuiltinMethodType) -> Iterator[tuple[str, Any]]:
    owner = thing.__self__
    if owner is not None and not isinstance(owner, ModuleType):
        yield ".__self__", owner


def _partial(thing: Any) -> Iterator[tuple[str, Any]]:
    yield ".func", thing.func
    yield ".args", thing.args
    yield ".keywords", thing.keywords


def _class(thing: type) -> Iterator[tuple[str, Any]]:
    if is_user_type(thing):
        for name, value in list(vars(thing).items()):
            if (type(value) not in ATOMS and not name.startswith("__")) or name == "__init__":
                yield f".{name}", getattr(value, "__func__", value) if type(value) in _WRAPPERS else value


def _property(thing: property) -> Iterator[tuple[str, Any]]:
    for name in ("fget", "fset"):
        yield f".{name}", getattr(thing, name)


def _exception(thing: BaseException) -> Iterator[tuple[str, Any]]:
    yield ".args", thing.args
    yield ".__traceback__", thing.__traceback__
    yield ".__cause__", thing.__cause__
    yield ".__context__", thing.__context__
    yield from _attributes(thing)


def _traceback(thing: TracebackType) -> Iterator[tuple[str, Any]]:
    entry: TracebackType | None = thing
    while entry is not None:
        frame = entry.tb_frame
        if is_function_frame(frame) and may_read(frame):
            for name, value in read_locals(frame).items():
                yield f".{frame.f_code.co_name}.{name}", value
        entry = entry.tb_next


def _suspended(thing: Any) -> Iterator[tuple[str, Any]]:
    frame = suspended_frame(thing)
    if frame is not None and is_user_code(frame.f_code) and may_read(frame):
        for name, value in read_locals(frame).items():
            yield f".{name}", value


def _future(thing: Any) -> Iterator[tuple[str, Any]]:
    """What a future or a task of asyncio has come to: to ask for it by a method would say that somebody has seen it."""
    yield ".result()", getattr(thing, "_result", None)
    yield ".exception()", getattr(thing, "_exception", None)
    yield from _attributes(thing)


def _context_variable(thing: ContextVar[Any]) -> Iterator[tuple[str, Any]]:
    yield CONTENT, value_of(thing)


def value_of(variable: ContextVar[Any]) -> Any:
    """What a context variable holds here, where the step has ended: a value that was set, or its own default."""
    try:
        return variable.get()
    except LookupError:
        return None


def _thread_local(thing: Any) -> Iterator[tuple[str, Any]]:
    """The attributes of all threads; to ask for them by name would run ``__init__`` in a thread that has none yet."""
    for known in gc.get_referents(thing):
        for thread, own in list(known.items()) if type(known) is dict else ():
            if type(own) is dict and type(thread) is not str:
                yield from ((f".{name}", value) for name, value in list(own.items()))


def _referents(thing: Any) -> Iterator[tuple[str, Any]]:
    """What the garbage collector sees: for types of C that hide their content."""
    for value in gc.get_referents(thing):
        if value is not type(thing) and not isinstance(value, (type, ModuleType)):
            yield ANY_ITEM, value


def _inner(thing: Any) -> Iterator[tuple[str, Any]]:
    """The collection that a type of C keeps to itself: what waits in a ``SimpleQueue``, what a read-only dict shows."""
    yield from (("", value) for value in gc.get_referents(thing) if isinstance(value, (list, dict)))


def tee_items(thing: Any) -> Iterator[tuple[str, Any]]:
    """What one end of ``itertools.tee`` has still to give: a chain of blocks of C."""
    blocks = gc.get_referents(thing)
    while blocks:
        block = blocks.pop()
        if type(block).__name__ == "_tee_dataobject":
            for value in gc.get_referents(block):
                if type(value) is type(block):
                    blocks.append(value)
                else:
                    yield ANY_ITEM, value


_WRAPPERS = (staticmethod, classmethod)

_EXPANDERS: list[tuple[Any, Callable[[Any], References]]] = [
    (dict, _dict),
    (list, _items(list.__iter__)),
    (deque, _items(deque.__iter__)),
    (tuple, _tuple),
    (set, _items(set.__iter__)),
    (frozenset, _items(frozenset.__iter__)),
    (type, _class),
    (FunctionType, _function),
    (MethodType, _method),
    (BuiltinMethodType, _builtin),
    (functools.partial, _partial),
    (property, _property),
    (_WRAPPERS, lambda thing: ((".__func__", thing.__func__),)),
    (BaseException, _exception),
    (TracebackType, _traceback),
    (SUSPENDED, _suspended),
    (ContextVar, _context_variable),
    (threading.local, _thread_local),
    (TEE, tee_items),
    ((SimpleQueue, MappingProxyType), _inner),
    (CACHE_TYPES, _referents),
    (ITERATORS, _referents),
]
