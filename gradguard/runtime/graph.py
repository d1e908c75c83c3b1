"""The autograd graph of one tensor: read once into plain data, then arranged so that a person can read it.

A graph is drawn as a chain: from the result back along the longest way to the leaves. What else goes into a node is a
branch of it. Leaves stand beside the node that uses them, what repeats along a chain is said once.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Literal

from gradguard.findings import Place
from gradguard.runtime import census
from gradguard.runtime.saved_tensors import Saved, SavedTensors
from gradguard.runtime.sensors.graphs import KEY
from gradguard.runtime.steps import active
from gradguard.runtime.torch_internals import TorchInternals
from gradguard.runtime.usercode import is_user_file, shown

State = Literal["nothing", "alive", "freed", "partly freed", "packed"]
"""What became of the tensors that a node saved; ``packed``: a hook keeps them in a form of its own."""

MAX_NODES = 50_000
MAX_LINES = 100
MAX_NESTING = 5
MAX_PERIOD = 200
LEAST_LINES = 4
LEAST_TIMES = 3
"""What comes fewer times in a row is written out."""

_VIEWS = frozenset(
    f"{name}Backward0" for name in "T Transpose Permute View UnsafeView Expand Unsqueeze Squeeze ToCopy Alias".split()
)
_FRAME = re.compile(r'\s*File "(?P<file>.+)", line (?P<line>\d+)')


# --- what is shown ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GraphNode:
    """One operation.

    Args:
        operation: as torch calls it (``AddmmBackward0``).
        shapes: of what the operation returned.
        state: what became of the tensors that it saved.
        saved: bytes of these, without the leaves and without what a node before has counted.
        leaves: the names of the leaves that go into it.
        step: in which step it was handed to backward, where a watch knows.
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


def graph_of(tensor: Any, frame: FrameType | None) -> TensorGraph:
    """Read the graph of ``tensor``; nothing is changed, no hook runs, and nothing is kept.

    Args:
        tensor: any tensor.
        frame: from whose variables the leaves get their names.

    Raises:
        TypeError: if it is no tensor.
    """
    torch = sys.modules.get("torch")
    if torch is None or not issubclass(type(tensor), torch.Tensor):
        raise TypeError(f"show_graph() wants a torch.Tensor, and got {_article(type(tensor).__qualname__)}")
    internals = TorchInternals(torch)
    with internals.without_overrides():
        names, known = _names(frame, internals)
        title = _title(tensor, names.get(id(tensor)))
        if tensor.grad_fn is None:
            return TensorGraph(title, _why_none(tensor))
        nodes, cut = _read(tensor.grad_fn, names, known, internals)
    return TensorGraph(
        tensor=title,
        parts=arrange(nodes),
        nodes=len(nodes),
        leaves=sum(node.leaf is not None for node in nodes),
        states=dict(Counter(node.state for node in nodes if node.state != "nothing")),
        saved=sum(node.saved for node in nodes),
        cut=cut,
    )


def _article(word: str) -> str:
    return f"an {word}" if word[:1].lower() in "aeiou" else f"a {word}"


def _title(tensor: Any, name: str | None) -> str:
    kind = f"{str(tensor.dtype).removeprefix('torch.')} on {tensor.device}"
    return f"{name or 'a tensor'}, {_shape(tensor)} {kind}"


def _shape(tensor: Any) -> tuple[int, ...]:
    try:
        return tuple(int(size) for size in tensor.shape)
    except (RuntimeError, TypeError):  # nested, symbolic
        return ()


def _why_none(tensor: Any) -> str:
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return "no graph: autograd follows floating-point and complex tensors only"
    if tensor.is_inference():
        return "no graph: it was made under torch.inference_mode()"
    if tensor.requires_grad:
        return "no graph: it is a leaf, where the graphs of what is made from it end"
    return "no graph: detached, made under no_grad, or made from nothing that requires grad (torch does not say which)"


# --- reading ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Node:
    """One node as it was read: plain data.

    Args:
        operation: its name.
        inputs: indices of the nodes that it passes gradients to.
        leaf: the name of the leaf, if it is one.
    """

    operation: str
    inputs: tuple[int, ...] = ()
    leaf: str | None = None
    shapes: tuple[tuple[int, ...], ...] = ()
    state: State = "nothing"
    saved: int = 0
    step: int | None = None
    line: Place | None = None


def _names(frame: FrameType | None, internals: TorchInternals) -> tuple[dict[int, str], set[int]]:
    """The name of each tensor that has one of its own; and the storages of parameters and buffers."""
    names: dict[int, str] = {}
    storages: set[int] = set()
    reached = census.tensors(frame, internals)
    for root in reached.roots.values():
        for name, value in list(root.variables.items()):
            if issubclass(type(value), internals.tensor_type):
                names[id(value)] = name
    for spot in reached.top.walk():
        if spot.count == 1 and spot.parent is not None:
            name = "".join(spot.path()[2:])
            names.setdefault(spot.ident, name)
            # An optimizer may have been looked at before; the model has the better name.
            for key, tensor, _ in parts_of_module(spot.thing, internals.module_type):
                names[id(tensor)] = f"{name}.{key}"
                storages.add(internals.storage_of(tensor)[0])
    reached.dissolve()
    return names, storages


def parts_of_module(thing: Any, module_type: type) -> list[tuple[str, Any, bool]]:
    """Name, tensor and whether it is a parameter, for each parameter and buffer of a module itself; else nothing."""
    if not issubclass(type(thing), module_type):
        return []
    own = object.__getattribute__(thing, "__dict__")
    return [
        (key, tensor, kind == "_parameters")
        for kind in ("_parameters", "_buffers")
        for key, tensor in list((own.get(kind) or {}).items())
        if tensor is not None
    ]


def _read(head: Any, names: dict[int, str], known: set[int], internals: TorchInternals) -> tuple[list[Node], bool]:
    """All nodes, the head first; and whether there are more."""
    nodes, inputs, cut = _nodes_below(head)
    counted = {0} | known
    for node in nodes:
        if hasattr(node, "variable"):
            counted.add(internals.storage_of(node.variable)[0])
    saved_tensors = SavedTensors(internals.tensor_type)
    with_notes = bool(active) or internals.torch.is_anomaly_enabled()
    found = []
    for node, below in zip(nodes, inputs):
        saved = saved_tensors.of(node)
        size = 0
        for address, count in map(internals.storage_of, saved.tensors):
            size += 0 if address in counted else count
            counted.add(address)
        metadata = node.metadata if with_notes and internals.has_node_metadata else {}
        found.append(
            Node(
                operation=node.name().rpartition("::")[2],
                inputs=below,
                leaf=_leaf(node, names),
                shapes=_shapes(node, saved),
                state=_state(saved),
                saved=size,
                step=getattr(metadata.get(KEY), "step", None),
                line=_line(metadata.get("traceback_")),
            )
        )
    return found, cut


def _nodes_below(head: Any) -> tuple[list[Any], list[tuple[int, ...]], bool]:
    index = {id(head): 0}
    nodes, inputs, cut = [head], [], False
    for node in nodes:  # grows while it is gone through
        below = []
        for following, _ in node.next_functions:
            if following is None:
                continue
            if id(following) not in index:
                if len(nodes) >= MAX_NODES:
                    cut = True
                    continue
                index[id(following)] = len(nodes)
                nodes.append(following)
            below.append(index[id(following)])
        inputs.append(tuple(dict.fromkeys(below)))
    return nodes, inputs, cut


def _state(saved: Saved) -> State:
    if not saved.count:
        return "nothing"
    if saved.freed:
        return "freed" if saved.freed == saved.count else "partly freed"
    return "packed" if saved.packed else "alive"


def _leaf(node: Any, names: dict[int, str]) -> str | None:
    variable = getattr(node, "variable", None)
    if variable is None:
        return None
    return names.get(id(variable)) or f"leaf {_shape(variable)}"


def _shapes(node: Any, saved: Saved) -> tuple[tuple[int, ...], ...]:
    """Of what the node returned; before torch 2.5 known only where that was saved."""
    try:
        return tuple(_shape(each) for each in node._input_metadata)
    except (AttributeError, RuntimeError):
        return () if saved.result is None else (_shape(saved.result),)


def _line(stack: Any) -> Place | None:
    """The innermost line of the user's in the stack that anomaly mode noted."""
    for entry in reversed(stack if isinstance(stack, list) else []):
        matched = _FRAME.match(str(entry))
        if matched and is_user_file(matched["file"]):
            code = str(entry).strip().splitlines()[1:2]
            return Place(shown(matched["file"]), int(matched["line"]), code[0].strip() if code else None)
    return None


# --- arranging (pure) ---------------------------------------------------------------------------------------------


def arrange(nodes: Sequence[Node], lines: int = MAX_LINES) -> Chain:
    """The graph as a chain with branches, folded and bounded.

    Args:
        nodes: the head first.
        lines: how many parts to show.
    """
    return _Arranger(nodes).arranged(lines)


@dataclass(slots=True, eq=False)
class _Entry:
    """A node on its chain, or at the end of one a link to a node on another."""

    index: int
    is_link: bool = False
    leaves: list[str] = field(default_factory=list)
    branches: list[_Chain] = field(default_factory=list)
    nodes: int = 1
    saved: int = 0
    signature: int = 0


@dataclass(slots=True, eq=False)
class _Chain:
    """Entries one after the other."""

    entries: list[_Entry]

    @property
    def nodes(self) -> int:
        return sum(entry.nodes for entry in self.entries)

    @property
    def saved(self) -> int:
        return sum(entry.saved for entry in self.entries)


class _Arranger:
    """Gives every node its place on one chain, finds what repeats, and writes down as much as there is room for."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self._depth = _depths(nodes)
        self._places: dict[int, tuple[_Chain, int]] = {}
        self._beside: set[int] = set()  # leaves and their views: they stand beside the nodes that use them
        self._signatures: dict[Any, int] = {}
        self._numbers: dict[int, int] = {}
        self._shown: list[int] = []
        self._linked: set[int] = set()

    def arranged(self, lines: int) -> Chain:
        chains = [self._chain(0)]
        for chain in chains:  # grows while it is gone through
            for entry in chain.entries:
                entry.branches += [self._chain(index) for index in self._waiting(entry)]
                chains += entry.branches
        for chain in reversed(chains):
            for entry in chain.entries:
                self._add_up(entry)
        self._written(chains[0], lines, 0)  # to see what is shown, and which of it is linked
        shown = [index for index in self._shown if index in self._linked]
        self._numbers = {index: number for number, index in enumerate(shown, 1)}
        return self._written(chains[0], lines, 0)[0]

    # --- chains

    def _chain(self, index: int) -> _Chain:
        """From ``index`` on along the longest way, as far as no other chain has gone it."""
        chain = _Chain([])
        while index not in self._places:
            self._places[index] = chain, len(chain.entries)
            chain.entries.append(self._entry(index))
            below = self._below(index)
            if not below:
                return chain
            index = max(below, key=lambda i: (i not in self._places, self._depth[i]))
        chain.entries.append(_Entry(index, is_link=True, nodes=0))
        return chain

    def _entry(self, index: int) -> _Entry:
        entry = _Entry(index, saved=self._nodes[index].saved)
        for each in self._nodes[index].inputs:
            leaf = self._as_leaf(each)
            if leaf is not None:
                name, ways = leaf
                entry.leaves.append(name)
                entry.nodes += len(set(ways) - self._beside)
                self._beside.update(ways)
        return entry

    def _below(self, index: int) -> list[int]:
        """The inputs that are more than a leaf."""
        return [each for each in self._nodes[index].inputs if self._as_leaf(each) is None]

    def _waiting(self, entry: _Entry) -> list[int]:
        """The inputs of a node that its own chain does not go on with."""
        if entry.is_link:
            return []
        chain, at = self._places[entry.index]
        following = chain.entries[at + 1].index if at + 1 < len(chain.entries) else None
        return [each for each in self._below(entry.index) if each != following]

    def _as_leaf(self, index: int) -> tuple[str, list[int]] | None:
        """The leaf that ``index`` is, or is a mere view of, and the nodes on the way to it."""
        ways, views = [index], []
        node = self._nodes[index]
        while node.leaf is None:
            if node.operation not in _VIEWS or len(node.inputs) != 1:
                return None
            views.append(node.operation.removesuffix("Backward0"))
            ways.append(node.inputs[0])
            node = self._nodes[node.inputs[0]]
        return node.leaf + "".join(f".{view}" for view in reversed(views)), ways

    # --- what repeats

    def _add_up(self, entry: _Entry) -> None:
        node = self._nodes[entry.index]
        for branch in entry.branches:
            entry.nodes += branch.nodes
            entry.saved += branch.saved
        looks: Any = (node.operation, node.shapes, node.state, *(re.sub(r"\d+", "#", leaf) for leaf in entry.leaves))
        below = tuple(tuple(each.signature for each in branch.entries) for branch in entry.branches)
        # A link has the look of its target: of each round to the round before, or of all to what they share.
        key = (entry.is_link, looks, below)
        entry.signature = self._signatures.setdefault(key, len(self._signatures))

    # --- writing

    def _written(self, chain: _Chain, lines: int, nesting: int) -> tuple[Chain, int]:
        """As many parts as there is room for, and how many lines they take."""
        entries = chain.entries
        parts: list[Part] = []
        used = at = 0
        rounds = _rounds([entry.signature for entry in entries])
        while at < len(entries):
            if used >= lines - 1 and (len(entries) - at > 1 or entries[at].branches):
                rest = entries[at:]
                parts.append(More(sum(e.nodes for e in rest), sum(e.saved for e in rest)))
                return tuple(parts), used + 1
            part, taken = self._part(entries[at], lines - used, nesting)
            parts.append(part)
            used, at = used + taken, at + 1
            if at in rounds:
                period, times = rounds[at]
                again = entries[at : at + period * times]
                parts.append(Repeat(sum(e.nodes for e in again[:period]), times, sum(e.saved for e in again)))
                used, at = used + 1, at + period * times
        return tuple(parts), used

    def _part(self, entry: _Entry, lines: int, nesting: int) -> tuple[Part, int]:
        node = self._nodes[entry.index]
        if entry.is_link:
            self._linked.add(entry.index)
            return Link(node.operation, self._numbers.get(entry.index)), 1
        self._shown.append(entry.index)
        branches, used = [], 1
        for branch in entry.branches:
            room = max((lines - used) // 3, LEAST_LINES)
            if nesting < MAX_NESTING:
                parts, taken = self._written(branch, room, nesting + 1)
            else:
                parts, taken = (More(branch.nodes, branch.saved),), 1
            branches.append(parts)
            used += taken
        return (
            GraphNode(
                operation=node.operation,
                shapes=node.shapes,
                state=node.state,
                saved=node.saved,
                leaves=tuple(entry.leaves),
                step=node.step,
                line=node.line,
                number=self._numbers.get(entry.index),
                branches=tuple(branches),
            ),
            used,
        )


def _depths(nodes: Sequence[Node]) -> list[int]:
    """The longest way from each node to a leaf."""
    waiting = [0] * len(nodes)
    for node in nodes:
        for each in node.inputs:
            waiting[each] += 1
    order = [index for index, count in enumerate(waiting) if not count]
    for index in order:  # grows while it is gone through
        for each in nodes[index].inputs:
            waiting[each] -= 1
            if not waiting[each]:
                order.append(each)
    depths = [0] * len(nodes)
    for index in reversed(order):
        depths[index] = 1 + max((depths[each] for each in nodes[index].inputs), default=0)
    return depths


def _rounds(signatures: Sequence[int]) -> dict[int, tuple[int, int]]:
    """Where a part of a chain is followed by itself.

    The position at which the second round begins; how many parts a round has, and how many rounds follow the first.
    """
    found: dict[int, tuple[int, int]] = {}
    same = _next_same(signatures)
    at = 0
    while at < len(signatures):
        best, following = (0, 0), same[at]
        while following is not None and following - at <= MAX_PERIOD:
            if following >= at + best[0] * (best[1] + 1):  # else a shorter round has covered it
                times = _times(signatures, at, following - at)
                if (following - at) * times > best[0] * best[1]:
                    best = following - at, times
            following = same[following]
        period, times = best
        if times + 1 >= LEAST_TIMES:
            found[at + period] = best
            at += period * (times + 1)
        else:
            at += 1
    return found


def _next_same(signatures: Sequence[int]) -> list[int | None]:
    found: list[int | None] = [None] * len(signatures)
    last: dict[int, int] = {}
    for at in range(len(signatures) - 1, -1, -1):
        found[at] = last.get(signatures[at])
        last[signatures[at]] = at
    return found


def _times(signatures: Sequence[int], at: int, period: int) -> int:
    """How often the ``period`` parts from ``at`` on follow once more."""
    end = at + period
    while end < len(signatures) and signatures[end] == signatures[end - period]:
        end += 1
    return (end - at - period) // period
