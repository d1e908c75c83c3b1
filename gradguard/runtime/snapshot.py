"""What is alive now: the bytes of each kind of tensor, and the variables that hold most of them.

A storage counts once, however many tensors look at it: for the first kind that fits, in the order of ``KINDS``.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from types import FrameType
from typing import Any

from gradguard.alive import KINDS, Allocated, Amount, HeldBy, Kind, Snapshot
from gradguard.runtime import census, training_threads
from gradguard.runtime.census import Reached
from gradguard.runtime.naming import describe
from gradguard.runtime.references import ANY_ITEM
from gradguard.runtime.saved_tensors import SavedTensors
from gradguard.runtime.spots import Spot
from gradguard.runtime.torch_internals import TorchInternals

MOST_HOLDERS = 10
MAX_NODES = 200_000
NEAR = 10_000
"""Objects in which the tensors of one optimizer's state are looked for."""


def take(frame: FrameType | None, step: int | None = None) -> Snapshot:
    """Count what is alive now.

    Args:
        frame: the innermost frame of the program.
        step: of the watch.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return Snapshot(step=step)
    internals = TorchInternals(torch)
    reached = census.tensors(frame, internals)
    try:
        with internals.without_overrides():
            return _Count(internals, reached).snapshot(step)
    finally:
        reached.dissolve()


Key = tuple[str, int]
"""Device and address of a storage."""


@dataclass(slots=True)
class _Storage:
    kind: Kind
    size: int


@dataclass(slots=True)
class _Share:
    chain: list[Spot]
    label: str
    count: int = 0
    size: int = 0
    in_graphs: int = 0


@dataclass(slots=True)
class _Alive:
    """All tensors, modules and optimizers that Python sees."""

    tensors: list[Any] = field(default_factory=list)
    modules: list[Any] = field(default_factory=list)
    optimizers: list[Any] = field(default_factory=list)


class _Count:
    """Gives every storage its kind, and each that a variable leads to its holder."""

    def __init__(self, internals: TorchInternals, reached: Reached) -> None:
        self._torch = internals
        self._reached = reached
        self._storages: dict[Key, _Storage] = {}
        self._shares: dict[int, _Share] = {}
        self._shared: set[Key] = set()
        self._saved_tensors = SavedTensors(internals.tensor_type)
        self._seen: dict[int, Any] = {}  # nodes: kept, or another could get the identity of one that is gone

    def snapshot(self, step: int | None) -> Snapshot:
        alive = _alive(self._torch)
        self._classify(alive)
        for spot, tensor in self._reached.tensors:
            self._share(self._holder(spot), tensor)
        for spot, tensor in self._reached.tensors:
            self._follow(tensor, self._holder(spot))
        for tensor in alive.tensors:
            self._follow(tensor, None)
        self._claim("other tensors", alive.tensors)
        return Snapshot(
            amounts=self._amounts(),
            holders=self._largest(),
            unnamed=sum(storage.size for key, storage in self._storages.items() if key not in self._shared),
            allocators=_allocators(self._torch),
            step=step,
            complete=self._reached.complete and len(self._seen) < MAX_NODES,
        )

    # --- kinds

    def _classify(self, alive: _Alive) -> None:
        parts = [part for module in alive.modules for part in self._torch.parts_of_module(module)]
        parameters = [tensor for tensor in alive.tensors if issubclass(type(tensor), self._torch.parameter_type)]
        self._claim("parameters", parameters + [tensor for _, tensor, is_parameter in parts if is_parameter])
        self._claim("gradients", _gradients(alive.tensors))
        self._claim("optimizer state", (t for o in alive.optimizers for t in _state(o, self._torch.tensor_type)))
        self._claim("buffers", (tensor for _, tensor, is_parameter in parts if not is_parameter))
        self._claim("other tensors", (tensor for _, tensor in self._reached.tensors))

    def _claim(self, kind: Kind, tensors: Iterable[Any]) -> None:
        for tensor in tensors:
            for key, size in self._parts(tensor):
                self._storages.setdefault(key, _Storage(kind, size))

    def _parts(self, tensor: Any) -> Iterator[tuple[Key, int]]:
        for part in _dense(tensor):
            address, size = self._torch.storage_of(part)
            if address and size:
                yield (str(part.device), address), size

    # --- graphs

    def _follow(self, tensor: Any, share: _Share | None) -> None:
        """What the graph of ``tensor`` saved, as far as no graph before had it."""
        waiting = [] if tensor.grad_fn is None else [tensor.grad_fn]
        while waiting and len(self._seen) < MAX_NODES:
            node = waiting.pop()
            if node is None or id(node) in self._seen:
                continue
            self._seen[id(node)] = node
            for saved in self._saved_tensors.of(node).tensors:
                self._claim("held by graphs", (saved,))
                if share is not None:
                    self._share(share, saved, in_graph=True)
            waiting += [following for following, _ in node.next_functions]

    # --- holders

    def _holder(self, spot: Spot) -> _Share:
        chain = spot.chain()
        variables, chain = chain[1], chain[2:]
        chain = chain[: _end_of_holder(chain, self._torch)]
        return self._shares.setdefault(id(chain[-1]), _Share(chain, variables.label))

    def _share(self, share: _Share, tensor: Any, in_graph: bool = False) -> None:
        for key, size in self._parts(tensor):
            if key not in self._shared:
                self._shared.add(key)
                share.count += 1
                share.size += size
                share.in_graphs += size if in_graph else 0

    # --- results

    def _amounts(self) -> tuple[Amount, ...]:
        found: dict[tuple[Kind, str], list[int]] = {}
        for (device, _), storage in self._storages.items():
            found.setdefault((storage.kind, device), []).append(storage.size)
        ordered = sorted(found.items(), key=lambda item: (KINDS.index(item[0][0]), item[0][1]))
        return tuple(Amount(kind, device, len(sizes), sum(sizes)) for (kind, device), sizes in ordered)

    def _largest(self) -> tuple[HeldBy, ...]:
        largest = sorted(self._shares.values(), key=lambda share: -share.size)[:MOST_HOLDERS]
        return tuple(self._described(share) for share in largest if share.size)

    def _described(self, share: _Share) -> HeldBy:
        holder = describe(share.chain, self._reached.roots[share.label], "")
        return HeldBy(holder.path, holder.type, share.count, share.size, share.in_graphs)


def _end_of_holder(chain: list[Spot], internals: TorchInternals) -> int:
    """How much of a path names the thing that a user would say holds the tensor at its end.

    A model holds its parameters, an optimizer its state, a list its items; a list that is an attribute of a model
    stands for itself.
    """
    optimizer_type = internals.torch.optim.Optimizer
    for at, spot in enumerate(chain[:-1]):
        cls = type(spot.thing)
        if chain[at + 1].label == ANY_ITEM or issubclass(cls, (internals.tensor_type, optimizer_type)):
            return at + 1
        if issubclass(cls, internals.module_type) and _leads_to_part(chain[at:], internals):
            return at + 1
    return len(chain)


def _leads_to_part(chain: list[Spot], internals: TorchInternals) -> bool:
    """Whether a path goes through submodules only, to a parameter or a buffer."""
    for spot, following in pairwise(chain):
        if not issubclass(type(spot.thing), internals.module_type):
            return False
        if following.label[1:] in {key for key, _, _ in internals.parts_of_module(spot.thing)}:
            return True
    return False


def _alive(internals: TorchInternals) -> _Alive:
    found = _Alive()
    kinds = (
        (internals.tensor_type, found.tensors),
        (internals.module_type, found.modules),
        (internals.torch.optim.Optimizer, found.optimizers),
    )
    for thing in gc.get_objects():
        for cls, things in kinds:
            if issubclass(type(thing), cls):
                things.append(thing)
    return found


def _gradients(tensors: list[Any]) -> Iterator[Any]:
    for tensor in tensors if not training_threads.are_others() else ():
        if (tensor.is_leaf or tensor.retains_grad) and tensor.grad is not None:  # of others, asking warns
            yield tensor.grad


def _state(optimizer: Any, tensor_type: type) -> Iterator[Any]:
    waiting = [getattr(optimizer, "state", None)]
    for _ in range(NEAR):
        if not waiting:
            return
        each = waiting.pop()
        if issubclass(type(each), tensor_type):
            yield each
        elif isinstance(each, dict):
            waiting += dict.values(each)
        elif isinstance(each, (list, tuple)):
            waiting += each


def _dense(tensor: Any) -> list[Any]:
    """The tensors with a storage that a tensor consists of: itself, unless it is sparse."""
    layout = str(tensor.layout)
    if layout == "torch.sparse_coo":
        return [tensor._indices(), tensor._values()]
    if layout in ("torch.sparse_csr", "torch.sparse_bsr"):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.detach().values()]
    if layout in ("torch.sparse_csc", "torch.sparse_bsc"):
        return [tensor.ccol_indices(), tensor.row_indices(), tensor.detach().values()]
    return [tensor]


def _allocators(internals: TorchInternals) -> tuple[Allocated, ...]:
    found = []
    for device in range(internals.cuda_devices()):
        stats = internals.stats(device)
        allocated, reserved = (int(stats[f"{name}_bytes"]["all"]["current"]) for name in ("allocated", "reserved"))
        found.append(Allocated(f"cuda:{device}", allocated, reserved))
    return tuple(found)
