"""Who held what when memory ended: a last look through the frames of the error, before it goes on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any

from gradguard.runtime import census
from gradguard.runtime.holders import describe
from gradguard.runtime.saved_tensors import SavedTensors
from gradguard.runtime.usercode import is_user_code

if TYPE_CHECKING:
    from gradguard.runtime.census import Spot
    from gradguard.runtime.torch_internals import TorchInternals

MOST = 5
LEAST_SHARE = 0.05
"""Of all bytes that variables hold: what has less is not worth a line."""

NODES = 2_000


@dataclass(frozen=True, slots=True)
class Held:
    """What one variable held.

    Args:
        path: the variable's, in the user's words.
        size: bytes of storages, and of what the graphs of its tensors saved (of many graphs alike, an estimate).
        tensors: how many.
        graphs: how many of them had a graph.
    """

    path: str
    size: int
    tensors: int
    graphs: int

    def __str__(self) -> str:
        graphs = f", {self.graphs} with a graph" if self.graphs else ""
        tensors = f"{self.tensors} tensor{'' if self.tensors == 1 else 's'}"
        return f"when memory ended, `{self.path}` held {self.size / 1e6:,.1f} MB ({tensors}{graphs})"


def holders(error: BaseException, internals: TorchInternals) -> list[Held]:
    """The variables that held most, largest first.

    Args:
        error: what was raised; the frames in its traceback are looked at.
        internals: of torch.
    """
    taken = census.take(0, _innermost_frame(error), internals, mark=False)
    try:
        with internals.without_overrides():
            sizes = _sizes(taken.top, internals)
        found = []
        for label, root in taken.roots.items():
            for variable in taken.top.below[label].below.values():
                for spot in _places(variable, sizes, internals.module_type):
                    below = list(spot.walk())
                    path = describe(spot.chain()[2:], root, "tensor").path
                    counts = sum(s.tensors for s in below), sum(s.attached for s in below)
                    found.append(Held(path, sizes[id(spot)], *counts))
        least = LEAST_SHARE * sum(each.size for each in found)
        return [each for each in sorted(found, key=lambda each: -each.size)[:MOST] if each.size > least]
    finally:
        taken.dissolve()


def _innermost_frame(error: BaseException) -> FrameType | None:
    """The innermost frame of the user's code in which an error was raised."""
    traceback, found = error.__traceback__, None
    while traceback is not None:
        if is_user_code(traceback.tb_frame.f_code):
            found = traceback.tb_frame
        traceback = traceback.tb_next
    return found


def _sizes(top: Spot, internals: TorchInternals) -> dict[int, int]:
    """Bytes at each spot and below it, by the spot's identity."""
    sizes: dict[int, int] = {}
    parents_first = [top]
    for spot in parents_first:
        parents_first += spot.below.values()
    for spot in reversed(parents_first):
        sizes[id(spot)] = _own(spot, internals) + sum(sizes[id(below)] for below in spot.below.values())
    return sizes


def _own(spot: Spot, internals: TorchInternals) -> int:
    """Bytes of a spot's tensors and of what their graphs saved; in a collection as much for each as for the last."""
    saved = 0
    if spot.slots and not spot.freed:
        last = [_saved_bytes(tensor.grad_fn, internals) for tensor in spot.slots]
        saved = max(last) if spot.chained else sum(last) * spot.attached // len(last)
    return spot.storage + spot.other + saved


def _saved_bytes(node: Any, internals: TorchInternals) -> int:
    """Bytes that the graph below ``node`` saved for its backward; parameters are somebody else's."""
    seen, waiting = {id(node): node}, [node]
    storages: dict[int, int] = {}
    others = set()
    saved = SavedTensors(internals.tensor_type)
    while waiting and len(seen) < NODES:
        each = waiting.pop()
        storages.update(map(internals.storage_of, saved.of(each).tensors))
        if (leaf := getattr(each, "variable", None)) is not None:
            others.add(internals.storage_of(leaf)[0])
        for following, _ in each.next_functions:
            if following is not None and id(following) not in seen:
                seen[id(following)] = following
                waiting.append(following)
    return sum(size for address, size in storages.items() if address not in others)


def _places(variable: Spot, sizes: dict[int, int], module_type: type) -> Iterator[Spot]:
    """The places that are meant by what a variable holds: of an object each attribute, of a model the whole."""
    waiting = [variable]
    while waiting:
        spot = waiting.pop()
        if not sizes[id(spot)]:
            continue
        if spot.length or spot.tensors or not spot.below or issubclass(type(spot.thing), module_type):
            yield spot
        else:
            waiting += spot.below.values()
