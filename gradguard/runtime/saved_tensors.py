"""What a node of a graph saved for its backward, without running anybody's hooks.

``node._saved_self`` unpacks: it may run a user's hook, and a checkpoint recomputes its forward. So the raw form is
read, which tells whether there is a hook. Where it does not tell (torch 2.4),
a hook that would run is stopped before its first line.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from gradguard.runtime.references import ATOMS, references

RAW = "_raw_saved_"
RESULT = "_raw_saved_result"
NEAR = 64
"""Objects in which the tensors of one packed value are looked for."""


@dataclass(slots=True)
class Saved:
    """What one node saved.

    Args:
        tensors: those that are alive; drop them soon.
        count: how many were saved.
        freed: how many of these backward freed.
        packed: how many a hook turned into something else (``save_on_cpu``, a checkpoint).
        result: the tensor that the node returned, where it saved that; drop it soon.
    """

    tensors: list[Any] = field(default_factory=list)
    count: int = 0
    freed: int = 0
    packed: int = 0
    result: Any = None


class SavedTensors:
    """Reads what nodes saved.

    Args:
        tensor_type: ``torch.Tensor``.
    """

    def __init__(self, tensor_type: type) -> None:
        self._tensor_type = tensor_type
        self._names: dict[type, list[str]] = {}  # of each type of node

    def of(self, node: Any) -> Saved:
        """What ``node`` saved, and what a user's ``forward`` put on its ``ctx``."""
        found = Saved()
        cls = type(node)
        if cls not in self._names:
            self._names[cls] = [name for name in dir(cls) if name.startswith(RAW)]
        for name in self._names[cls]:
            self._read(node, name, found)
        own = getattr(node, "__dict__", None)
        if own:
            kept = list(self._tensors_in(own))
            found.tensors += kept
            found.count += len(kept)
        return found

    def _read(self, node: Any, name: str, found: Saved) -> None:
        try:
            raw = getattr(node, name)
        except RuntimeError:  # several tensors in one attribute, freed
            found.count += 1
            found.freed += 1
            return
        if not isinstance(raw, (list, tuple)):
            self._read_one(node, name, None, raw, found)
            return
        for index, each in enumerate(raw):
            self._read_one(node, name, index, each, found)

    def _read_one(self, node: Any, name: str, index: int | None, raw: Any, found: Saved) -> None:
        tells = hasattr(raw, "unpack_hook")
        if tells and raw.unpack_hook is not None:
            found.count += 1
            found.packed += 1
            found.tensors += self._tensors_in(raw.data)
            return
        value = raw.data if tells else None
        try:
            # Nothing there: it was never saved, or is freed. Without a hook, unpacking tells.
            value = (_unpack if tells else _unpack_unhooked)(node, name, index) if value is None else value
        except _HookMet:
            found.packed += 1
        except RuntimeError as error:  # the other error is a tensor changed in place: it is alive, its bytes unknown
            found.freed += "freed" in str(error)
        else:
            if not issubclass(type(value), self._tensor_type):
                return
            found.tensors.append(value)
            if name == RESULT:
                found.result = value
        found.count += 1

    def _tensors_in(self, packed: Any) -> Iterator[Any]:
        waiting, seen = deque([packed]), {id(packed)}
        for _ in range(NEAR):
            if not waiting:
                return
            each = waiting.popleft()
            if issubclass(type(each), self._tensor_type):
                yield each
                continue
            for _, value in references(each):
                if type(value) not in ATOMS and not callable(value) and id(value) not in seen:
                    seen.add(id(value))
                    waiting.append(value)


class _HookMet(BaseException):
    """A hook was about to run."""


def _unpack(node: Any, raw_name: str, index: int | None) -> Any:
    value = getattr(node, _plain(raw_name))
    return value if index is None else value[index]


def _unpack_unhooked(node: Any, raw_name: str, index: int | None) -> Any:
    name = _plain(raw_name)
    if sys.getprofile() is not None:
        raise RuntimeError("somebody profiles, and a profiler of C could not be put back")
    sys.setprofile(_trip)  # from here to the end no function of Python may be called
    try:
        value = getattr(node, name)
    finally:
        sys.setprofile(None)
    return value if index is None else value[index]


def _plain(raw_name: str) -> str:
    return "saved_tensors" if raw_name == f"{RAW}tensors" else raw_name.removeprefix("_raw")


def _trip(frame: FrameType, event: str, argument: object) -> None:
    if event == "call":
        raise _HookMet
