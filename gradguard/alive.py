"""What a look at live memory gives, as plain frozen data: what there is by kind and holder, and the graph of a tensor.

Numbers and names only: nothing here keeps anything of the program alive.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Literal, get_args

from gradguard.findings import Place

# --- what is alive ------------------------------------------------------------------------------------------------

Kind = Literal["parameters", "gradients", "optimizer state", "buffers", "held by graphs", "other tensors"]
"""``held by graphs``: saved for a backward, with no variable that reaches it. ``other tensors``: inputs, results."""

KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class Amount:
    """The tensors of one kind on one device.

    Args:
        kind: which.
        device: as torch writes it (``cuda:0``).
        count: how many storages they have.
        bytes: of these storages.
    """

    kind: Kind
    device: str
    count: int
    bytes: int


@dataclass(frozen=True, slots=True)
class HeldBy:
    """A variable, or a part of it, and what it holds.

    Args:
        path: in the user's words (``Trainer.history``).
        type: of the object there.
        count: how many storages.
        bytes: of these, and of what the graphs of its tensors saved.
        in_graphs: the share of the graphs.
    """

    path: str
    type: str
    count: int
    bytes: int
    in_graphs: int


@dataclass(frozen=True, slots=True)
class Allocated:
    """What the caching allocator of a CUDA device says.

    Args:
        device: ``cuda:0``.
        allocated: bytes that tensors use.
        reserved: bytes that it took from the device, those that it keeps for reuse included.
    """

    device: str
    allocated: int
    reserved: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is alive at one moment; plain numbers and names, which keep nothing alive.

    Args:
        amounts: of each kind on each device, in the order of :data:`KINDS`; what there is none of is left out.
        holders: those that hold most, the largest first.
        unnamed: bytes that no variable leads to, neither directly nor through a graph.
        allocators: of each CUDA device that the program uses.
        step: of the watch; None without one.
        complete: whether nothing was left out for lack of time.
    """

    amounts: tuple[Amount, ...] = ()
    holders: tuple[HeldBy, ...] = ()
    unnamed: int = 0
    allocators: tuple[Allocated, ...] = ()
    step: int | None = None
    complete: bool = True

    def bytes(self, kind: Kind | None = None, device: str | None = None) -> int:
        """Bytes of one kind, or of all; on one device, or on all."""
        return sum(a.bytes for a in self.amounts if kind in (None, a.kind) and device in (None, a.device))

    def count(self, kind: Kind | None = None, device: str | None = None) -> int:
        """Storages of one kind, or of all; on one device, or on all."""
        return sum(a.count for a in self.amounts if kind in (None, a.kind) and device in (None, a.device))

    def __str__(self) -> str:
        from gradguard.report.snapshot_line import lines

        return "\n".join(lines(self))

    def show(self) -> None:
        """Print it on stderr: as a table where rich is installed, in plain lines where it is not."""
        try:
            from gradguard.report.snapshot_console import to_stderr
        except ImportError:
            print(self, file=sys.stderr)
            return
        to_stderr(self)


# --- the graph of a tensor ----------------------------------------------------------------------------------------

State = Literal["nothing", "alive", "freed", "partly freed", "packed"]
"""What became of the tensors that a node saved; ``packed``: a hook keeps them in a form of its own."""


@dataclass(frozen=True, slots=True)
class GraphNode:
    """One operation.

    Args:
        operation: as torch calls it (``AddmmBackward0``).
        shapes: of what the operation returned.
        state: what became of the tensors that it saved.
        saved: bytes of these, without the leaves and without what a node before has counted.
        leaves: the names of the leaves that go into it.
        step: in which step it was handed to backward, where a watch knows: after 256 steps it marks one in 32.
        line: the user's statement that made it, where anomaly mode noted it.
        number: by which a :class:`Link` refers to it.
        branches: what else goes into it, besides the next part of its chain.
    """

    operation: str
    shapes: tuple[tuple[int, ...], ...] = ()
    state: State = "nothing"
    saved: int = 0
    leaves: tuple[str, ...] = ()
    step: int | None = None
    line: Place | None = None
    number: int | None = None
    branches: tuple[tuple[Part, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Repeat:
    """The parts before, again.

    Args:
        nodes: how many nodes they have.
        times: how often they follow once more.
        saved: bytes that all of these hold.
    """

    nodes: int
    times: int
    saved: int


@dataclass(frozen=True, slots=True)
class Link:
    """A node that stands elsewhere.

    Args:
        operation: its operation.
        number: as at the node; None where that is not shown.
    """

    operation: str
    number: int | None


@dataclass(frozen=True, slots=True)
class More:
    """What there is no room for.

    Args:
        nodes: how many.
        saved: bytes that they hold.
    """

    nodes: int
    saved: int


Part = GraphNode | Repeat | Link | More
Chain = tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class TensorGraph:
    """The graph of one tensor.

    Args:
        tensor: its name where a variable is known, shape, type and device.
        why: why there is no graph; None where there is one.
        parts: from the result to the leaves.
        nodes: how many there are, leaves included.
        leaves: how many of them are leaves.
        states: how many nodes that saved something are in which state.
        saved: bytes of saved tensors that are alive.
        cut: the graph has more nodes than were read.
    """

    tensor: str
    why: str | None = None
    parts: Chain = ()
    nodes: int = 0
    leaves: int = 0
    states: dict[State, int] = field(default_factory=dict)
    saved: int = 0
    cut: bool = False
