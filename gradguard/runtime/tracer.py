"""Which statement stores: for a few steps, the user's own lines are followed and the holder is looked at after each.

Only frames of the user's code are traced, only in this thread, and only once growth is established and a holder is
known. When somebody else traces (a debugger, coverage), or torch.compile has compiled anything, nothing is traced and
the source alone is asked (:mod:`gradguard.runtime.origin`).
"""

from __future__ import annotations

import sys
import threading
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from time import thread_time_ns
from types import FrameType
from typing import Any

from gradguard.runtime import beside
from gradguard.runtime.holders import Suspect
from gradguard.runtime.references import ANY_ITEM, CONTENT, items_of, value_of
from gradguard.runtime.roots import is_function_frame, may_read, read_locals
from gradguard.runtime.usercode import is_user_code, user_caller, user_frames

MAX_SECONDS = 1.5
MAX_STEPS = 48
MAX_CALLS = 2_000_000
"""Calls of Python functions, anybody's, after which tracing ends: each costs a fraction of a microsecond."""

MOST_ITEMS = 64
"""Items of a collection, or of all those at one place, that are looked at one by one after each line."""

ENOUGH = 3
"""Stores seen after which a holder's statement is known."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the user's code, and the line that called it.

    Args:
        filename: as the code object has it.
        number: from 1.
        caller: the line of the calling frame, if that is the user's too.
    """

    filename: str
    number: int
    caller: tuple[str, int] | None = None


class Tracer:
    """Follows lines until every holder was seen to be stored into.

    Args:
        suspects: the holders to look at.
        handles: counts hook handles, for what hangs on hooks.
    """

    def __init__(self, suspects: list[Suspect], handles: Callable[[], int] | None) -> None:
        self.stores: list[Counter[Line]] = [Counter() for _ in suspects]
        self.gained = [0 for _ in suspects]
        """How many items the stores put into a collection."""
        self.rebound: list[Counter[int]] = [Counter() for _ in suspects]
        self.outlived: list[set[tuple[str, int]]] = [set() for _ in suspects]
        """Lines that ran before a store into the holder, and did not make it shorter: they do not empty it."""
        self.aliases: list[tuple[beside.Alias, ...]] = [() for _ in suspects]
        """What the functions that other threads are in call the collections."""
        self.beside = False
        """Whether there are other threads: they may store while a line of this one runs."""
        self.steps = 0
        self.seconds = 0.0
        self.broken: str | None = None
        self._probes = [_probe(suspect, handles) for suspect in suspects]
        self._collections = [suspect.spot.thing if suspect.entries else None for suspect in suspects]
        self._last: list[tuple[Any, ...] | None] = [None for _ in suspects]
        self._line: Line | None = None
        self._ran: set[tuple[str, int]] = set()
        self._shortened: list[set[tuple[str, int]]] = [set() for _ in suspects]
        self._calls = 0
        self._traced: list[FrameType] = []

    def start(self, frame: FrameType | None) -> bool:
        """Begin to trace, from a step's end on; False when another tracer is there."""
        if sys.gettrace() is not None:
            return False
        frames = user_frames(frame)
        if frames:
            self._line = _line_of(frames[-1])
        self._last = [probe() for probe in self._probes]
        for each in frames:
            if may_read(each):
                each.f_trace = self._local
                self._traced.append(each)
        sys.settrace(self._call)
        if threading.gettrace() is None:
            threading.settrace(self._thread_began)
        return True

    def stop(self) -> None:
        """Trace no more; nothing stays on any frame."""
        self._look_beside()
        if sys.gettrace() == self._call:
            sys.settrace(None)
        if threading.gettrace() == self._thread_began:
            threading.settrace(None)
        for frame in self._traced:
            if frame.f_trace == self._local:
                frame.f_trace = None
            if is_function_frame(frame):
                read_locals(frame)
        self._traced = []
        self._probes = []
        self._last = []
        self._collections = []

    def _look_beside(self) -> None:
        """Note what other threads are at."""
        self.beside = self.beside or beside.are_others()
        for index, collection in enumerate(self._collections):
            if collection is not None:
                self.aliases[index] = beside.aliases(collection)

    def is_done(self) -> bool:
        """Whether enough was seen, or enough was spent; asked at the end of each step."""
        self.steps += 1
        if self.broken or self.seconds > MAX_SECONDS or self.steps >= MAX_STEPS:
            return True
        seen = [sum(stores.values()) for stores in self.stores]
        return all(count >= ENOUGH or (count and self.steps >= 2 * ENOUGH) for count in seen)

    def _call(self, frame: FrameType, event: str, arg: Any) -> Any:
        self._calls += 1
        if self._calls > MAX_CALLS or self.seconds > MAX_SECONDS:  # steps may never end again
            sys.settrace(None)
            return None
        if is_user_code(frame.f_code) and may_read(frame):
            return self._local
        return None

    def _thread_began(self, frame: FrameType, event: str, arg: Any) -> None:
        """Note that there is another thread, be it for a moment; it goes on without us."""
        self.beside = True
        sys.settrace(None)

    def _local(self, frame: FrameType, event: str, arg: Any) -> Any:
        start = thread_time_ns()
        try:
            self._look()
            if event == "line":
                self._line = _line_of(frame)
                self._ran.add((self._line.filename, self._line.number))
            elif event == "return":
                self._returned(frame)
        except Exception as error:  # a fault of ours must not reach the program
            self.broken = repr(error)
            return None
        finally:
            self.seconds += (thread_time_ns() - start) / 1e9
        return self._local

    def _look(self) -> None:
        for index, probe in enumerate(self._probes):
            state, last = probe(), self._last[index]
            if state == last:
                continue
            self._last[index] = state
            if last is None or state is None or self._line is None:
                continue
            if not _is_store(last, state):
                self._shortened[index].add((self._line.filename, self._line.number))
                continue
            self.stores[index][self._line] += 1
            self.gained[index] += _gained(last, state)
            self.outlived[index] = self._ran - self._shortened[index]
            if len(state) > 1:
                self.rebound[index][_outermost_change(last, state)] += 1

    def _returned(self, frame: FrameType) -> None:
        if frame in self._traced:
            self._traced.remove(frame)
            self._probes = [_blind if getattr(p, "frame", None) is frame else p for p in self._probes]
        back = user_caller(frame)
        self._line = _line_of(back) if back is not None else None


def _line_of(frame: FrameType) -> Line:
    back = user_caller(frame)
    caller = (back.f_code.co_filename, back.f_lineno) if back is not None else None
    return Line(frame.f_code.co_filename, frame.f_lineno, caller)


# --- probes -------------------------------------------------------------------------------------------------------

Probe = Callable[[], "tuple[Any, ...] | None"]
"""The state of a holder: one entry for each piece of its path, and one for its content."""


def _blind() -> tuple[Any, ...] | None:
    return None


def _is_store(last: tuple[Any, ...], state: tuple[Any, ...]) -> bool:
    """Whether the change is a store: not a collection that got shorter."""
    if last[:-1] == state[:-1] and isinstance(last[-1], int) and isinstance(state[-1], int):
        return state[-1] > last[-1]
    return True


def _gained(last: tuple[Any, ...], state: tuple[Any, ...]) -> int:
    sizes = last[-1], state[-1]
    return state[-1] - last[-1] if all(type(size) is int for size in sizes) else 0


def _outermost_change(last: tuple[Any, ...], state: tuple[Any, ...]) -> int:
    return next((i for i, (a, b) in enumerate(zip(last, state)) if a != b), len(state) - 1)


def _probe(suspect: Suspect, handles: Callable[[], int] | None) -> Probe:
    counts = suspect.entries > 0
    if counts and hasattr(type(suspect.spot.thing), "__len__"):
        collection = suspect.spot.thing  # however it is reached, it is this one that grows
        if suspect.is_filled:
            return lambda: (tuple(map(id, items_of(collection))),)
        return lambda: (len(collection),)
    if suspect.root is None:
        return (lambda: (handles(),)) if handles is not None else _blind
    namespace = suspect.root.variables
    origin = suspect.root.origin
    frame = origin if isinstance(origin, FrameType) else None
    labels = [spot.label for spot in suspect.chain]
    attached = suspect.kind == "graph"
    chains = suspect.gain.nodes > 0  # an item is made from what it was: it is written to where it is

    def read() -> tuple[Any, ...] | None:
        value: Any = (frame.f_locals if frame is not None else namespace).get(labels[0], _MISSING)
        state = [id(value)]
        values = [value]
        for label in labels[1:]:
            values = _below(values, label) if chains or label != ANY_ITEM else [_MISSING]
            state.append(0 if label == ANY_ITEM else _one_or_all([id(each) for each in values]))
        state.append(_one_or_all([_length(each) if counts else _content(each, attached) for each in values]))
        return tuple(state)

    read.frame = frame  # type: ignore[attr-defined]
    return read


_MISSING = object()
_PLAIN = (list, tuple, dict, deque)
"""Collections of which to read the items runs no code of the user's."""


def _below(values: list[Any], label: str) -> list[Any]:
    """What ``label`` leads to from each of some values; all items of a collection have one, and few are told apart."""
    if label != ANY_ITEM:
        return [step_into(value, label) for value in values]
    few = all(type(value) in _PLAIN for value in values) and sum(map(len, values)) <= MOST_ITEMS
    return [item for value in values for item in items_of(value)] if few else [_MISSING]


def _one_or_all(states: list[Any]) -> Any:
    return states[0] if len(states) == 1 else tuple(states)


def _length(value: Any) -> int:
    return len(value) if hasattr(type(value), "__len__") else 0


def _content(value: Any, attached: bool) -> Any:
    """What changes when a tensor is written to; of a graph that grows, when its graph is."""
    node = getattr(value, "grad_fn", None) if attached else None
    number = getattr(node, "_sequence_nr", None)
    if number is not None:
        return number()  # a write without a graph (under no_grad, or of a number) leaves it as it was
    version = getattr(value, "_version", None)
    return version if isinstance(version, int) else None


def step_into(value: Any, label: str) -> Any:
    """What ``label`` (a piece of a path) leads to from ``value``; a marker when it leads nowhere."""
    try:
        if label.startswith('["'):
            return dict.get(value, label[2:-2], _MISSING)
        if label == CONTENT:
            return value_of(value)
        if label.startswith("["):
            return value[int(label[1:-1])] if label != ANY_ITEM else _MISSING
        if label.startswith("<closure>"):
            return value.__closure__[value.__code__.co_freevars.index(label[len("<closure>.") :])].cell_contents
        if label.startswith("<default>"):
            return _default(value, label[len("<default>.") :])
        return _attribute(value, label[1:])
    except Exception:
        return _MISSING


def _default(function: Any, argument: str) -> Any:
    if argument in (function.__kwdefaults__ or {}):
        return function.__kwdefaults__[argument]
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    return function.__defaults__[names.index(argument) - len(names)]


def _attribute(value: Any, name: str) -> Any:
    own = value.__dict__ if isinstance(value, type) else object.__getattribute__(value, "__dict__")
    if name in own:
        found = own[name]
        return getattr(found, "__func__", found) if isinstance(found, (staticmethod, classmethod)) else found
    for part in ("_buffers", "_parameters", "_modules"):
        if part in own and name in own[part]:
            return own[part][name]
    return object.__getattribute__(value, name)
