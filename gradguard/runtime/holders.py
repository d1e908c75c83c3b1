"""Who keeps it: two censuses, some steps apart, and the place that grew.

The holder is the deepest place that gained: a collection that got longer, a variable whose graph contains the graph
that it had before.
"""

from __future__ import annotations

import gc
import sys
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from gradguard.findings import Holder
from gradguard.runtime import caches, contexts, native, registries
from gradguard.runtime.census import Census
from gradguard.runtime.graph_size import devices_of
from gradguard.runtime.naming import describe, file_of, home, type_name
from gradguard.runtime.references import ANY_ITEM, CACHE_TYPES, TEE, tee_items
from gradguard.runtime.roots import Root
from gradguard.runtime.sensors.graphs import Held
from gradguard.runtime.spots import Spot

MOST_OF = 0.6
LEAST_ENTRIES = 2
TEE_BLOCK = 57
"""Items that ``itertools.tee`` frees together (CPython's ``itertoolsmodule.c``)."""

SEVERAL = 3
"""Graphs in one collection that are not there by chance."""

SAVED = "saved tensor cycle"
"""The path of what a pack hook gave back as it was: its graph holds it, and it holds the graph."""

MOST_PARTS = 8
"""Places that growth may be spread over, of which none is told by itself."""

LEAST_BYTES = 2_048
"""Bytes a step below which tensors without a graph are nobody's leak (a list of detached losses)."""

BYTES_OF_TENSOR = 460
"""What a tensor takes beside its elements, measured with torch 2.13: 383 on the C heap, and its Python object."""


@dataclass(slots=True)
class Gain:
    """What a spot and all below it gained between two censuses.

    Args:
        natives: objects of extensions, where these are what the heap grows by.
        cached: tensors in a cache or dict that is keyed by tensors: nobody finds what it keeps, however little that is.
    """

    tensors: int = 0
    attached: int = 0
    storage: int = 0
    other: int = 0
    nodes: int = 0
    hooks: int = 0
    logical: int = 0
    optimized: int = 0
    cached: int = 0
    natives: int = 0

    def add(self, other: Gain) -> None:
        """Count ``other`` too."""
        self.tensors += other.tensors
        self.attached += other.attached
        self.storage += other.storage
        self.other += other.other
        self.nodes += other.nodes
        self.hooks += other.hooks
        self.logical += other.logical
        self.optimized += other.optimized
        self.cached += other.cached
        self.natives += other.natives

    @property
    def weight(self) -> float:
        """One number to compare spots by, in bytes or what they roughly stand for."""
        nodes_and_objects = 1_000 * (self.nodes + self.attached + self.hooks) + BYTES_OF_TENSOR * self.tensors
        return max(nodes_and_objects, 0) + max(self.storage, 0) + max(self.other, 0)

    @property
    def data(self) -> int:
        """Bytes of what has no graph, tensor objects among them: many little ones are as much as a large one."""
        return self.storage + self.other + BYTES_OF_TENSOR * self.tensors


@dataclass(slots=True)
class Suspect:
    """A place that grew.

    Args:
        kind: as in :class:`gradguard.findings.Leak`.
        gain: over ``steps`` steps.
        entries: how many items the collection gained; 0 for a single variable.
        holder: its name.
        chain: the spots from the root to it; what they hold is dropped with the diagnosis.
        root: the namespace in which the path begins.
        maxlen: of a bounded deque or cache.
        held: the graph that was stored last.
        home: the file in which the variable lives.
        graph_nodes: how many nodes it has.
        freed: it was backpropagated, and holds no saved tensors any more.
        is_bare: that was looked at: of the graphs nodes are left, and nothing else.
        inputs: a value made anew in each step, whose size grows: no leak, but it explains growth.
        wraps_tensors: what is stored is no tensor, but an object with tensors in it.
        graphs: tensors with a graph that the place and all below it hold now.
        items: what a collection holds that has no length: one end of ``itertools.tee``.
        is_filled: it was made with all its places, and these are filled: its length stays.
        asked: what the cache is asked for, if it is one of ``functools``.
    """

    kind: str
    gain: Gain
    steps: int
    entries: int
    holder: Holder
    chain: list[Spot] = field(default_factory=list)
    root: Root | None = None
    maxlen: int | None = None
    inputs: bool = False
    operation: str | None = None
    devices: tuple[str, ...] = ()
    held: Held | None = None
    graph_nodes: float = 0.0
    freed: bool = False
    home: str | None = None
    wraps_tensors: bool = False
    graphs: int = 0
    items: int = 0
    is_bare: bool = False
    is_filled: bool = False
    asked: caches.Asked | None = None

    @property
    def is_rare(self) -> bool:
        """Whether too little was stored to tell how often that happens; one new list of many graphs is not little."""
        return self.is_in_block or (self.entries == 1 and self.gain.attached < max(self.steps // 4, LEAST_ENTRIES))

    @property
    def is_in_block(self) -> bool:
        """Whether it is one end of ``itertools.tee`` and holds no more than what that frees together."""
        return self.holder.type == "itertools._tee" and self.items <= TEE_BLOCK

    @property
    def is_light(self) -> bool:
        """Whether it may be too little to be the growth: the weight of one graph is not seen, but several are kept."""
        return self.graphs < SEVERAL and not self.gain.natives and self.gain.data < LEAST_BYTES * self.steps

    @property
    def spot(self) -> Spot:
        """The place itself."""
        return self.chain[-1]


def compare(before: Census, after: Census, *, heap_grows: bool = False) -> list[Suspect]:
    """The places that grew from ``before`` to ``after``, the heaviest first.

    Args:
        before: an earlier census.
        after: a later one.
        heap_grows: what nobody tells the size of may be what the heap grows by.
    """
    steps = max(after.step - before.step, 1)
    gains: dict[int, Gain] = {}
    found: list[Suspect] = []
    for label, top in after.top.below.items():
        old_top = before.top.below.get(label)
        if old_top is None:
            continue
        for name, spot in top.below.items():
            old = old_top.below.get(name)
            if old is not None:
                _note_gains(old, spot, gains)
                found += _search(old, spot, gains, after.roots[label], steps)
    found = [s for s in _one_cycle(found) if not _is_unfreezing(s, before)]
    hidden = _behind_cxx(before, after, steps)
    found += [suspect for suspect in hidden if suspect.holder.path != SAVED or not found]
    found = found or _in_a_library(before, after, steps)
    if not found and after.orphans.tensors <= before.orphans.tensors + LEAST_ENTRIES:
        found = _larger_values(before, after, steps)
    if not found and heap_grows:
        found = _of_extensions(before, after, steps)
    return sorted(found, key=lambda s: -s.gain.weight)


def _one_cycle(found: list[Suspect]) -> list[Suspect]:
    """The gradients of all parameters that hold each other's graphs are one leak."""
    cycles = [suspect for suspect in found if suspect.kind == "cycle"]
    for other in cycles[1:]:
        cycles[0].gain.add(other.gain)
    return cycles[:1] + [suspect for suspect in found if suspect.kind != "cycle"]


def _larger_values(before: Census, after: Census, steps: int) -> list[Suspect]:
    """A variable whose tensor got larger, where nothing gained any: the inputs grow, and all that is made from them."""
    found = []
    for label, top in after.top.below.items():
        old_top = before.top.below.get(label)
        for name, spot in top.below.items() if old_top is not None else ():
            old = old_top.below.get(name) if old_top is not None else None
            if old is not None and old.tensors == spot.tensors == 1 and spot.storage > 1.1 * old.storage > 0:
                gain = Gain(storage=spot.storage - old.storage)
                found.append(_suspect(spot, gain, 0, after.roots[label], steps))
                found[-1].inputs = True
    return found[:1]


def _of_extensions(before: Census, after: Census, steps: int) -> list[Suspect]:
    """The collection of objects whose memory Python does not see, where nothing that it sees grows."""
    kept = native.grown(before.top, after.top, max(steps // 4, LEAST_ENTRIES))
    if kept is None:
        return []
    return [_suspect(kept.spot, Gain(natives=kept.objects), kept.entries, after.roots[kept.label], steps)]


def _note_gains(old: Spot, new: Spot, gains: dict[int, Gain]) -> None:
    """Note the gain of ``new`` and of each spot below it in ``gains``, by identity."""
    # A recursion as deep as the user's data would end in RecursionError: the spots come parents first.
    pairs: list[tuple[Spot | None, Spot]] = [(old, new)]
    for previous, spot in pairs:
        pairs += [(previous.below.get(label) if previous else None, below) for label, below in spot.below.items()]
    for previous, spot in reversed(pairs):
        if previous is not None and previous.length == 0 and _is_of_optimizer(spot):
            gains[id(spot)] = Gain()  # its first step makes its state: that is not done again
            continue
        gain = _own_gain(previous, spot)
        for below in spot.below.values():
            gain.add(gains[id(below)])
        for label, gone in previous.below.items() if previous else ():
            if label not in spot.below:  # what moved to another name was not gained
                gain.add(_loss(gone))
        if caches.is_keyed_by(spot.thing, _is_passing_tensor):
            gain.cached = gain.tensors
        gains[id(spot)] = gain


def _own_gain(old: Spot | None, new: Spot) -> Gain:
    empty = old or Spot(None, "")
    grown_chain = new.chained and new.nodes > empty.nodes
    return Gain(
        tensors=new.tensors - empty.tensors,
        attached=new.attached - empty.attached,
        storage=new.storage - empty.storage,
        other=new.other - empty.other,
        nodes=new.nodes - empty.nodes if grown_chain else 0,
        hooks=new.length - empty.length if new.label.endswith("_hooks") else 0,
        logical=new.logical - empty.logical,
        optimized=new.length - empty.length if _is_of_optimizer(new) else 0,
    )


def _is_of_optimizer(spot: Spot) -> bool:
    """Whether it is what an optimizer has one entry of for each group, or for each parameter."""
    return spot.label in (".param_groups", ".state") and spot.parent is not None and _is_optimizer(spot.parent.thing)


def _loss(gone: Spot) -> Gain:
    lost = Gain()
    for spot in gone.walk():
        lost.add(Gain(-spot.tensors, -spot.attached, -spot.storage, -spot.other, 0, 0, -spot.logical))
    return lost


# --- descending ---------------------------------------------------------------------------------------------------


def _search(
    old: Spot, new: Spot, gains: dict[int, Gain], root: Root, steps: int, *, is_part: bool = False
) -> list[Suspect]:
    """The suspects at ``new`` or below.

    Args:
        is_part: of what grows together with others, be it little by itself.
    """
    gain = gains[id(new)]
    if not is_part and not _matters(gain, steps):
        return []
    entries = new.length - old.length
    lasting = old.witness is None or old.witness() is not None
    grows = lasting and new.count == old.count and entries > 0 and (new.ident == old.ident or new.count > 1)
    filled = _filled(old, new) if lasting and entries == 0 else 0
    if filled >= max(steps // 8, LEAST_ENTRIES):
        return [_table(new, gain, filled, root, steps)]
    heavy = [
        (previous, below)
        for label, below in new.below.items()
        if (previous := old.below.get(label)) is not None
        and not (grows and label == ANY_ITEM)
        and _matters(gains[id(below)], steps)
    ]
    inside = sum(gains[id(below)].weight for _, below in heavy)
    if grows and _keeps_exceptions(new):
        return [_suspect(new, gain, entries, root, steps)]
    if heavy and (not grows or inside > MOST_OF * gain.weight):
        return [suspect for previous, below in heavy for suspect in _search(previous, below, gains, root, steps)]
    if grows:
        return [_suspect(new, gain, entries, root, steps)]
    if new.ident == old.ident and (parts := _parts(old, new, gains)):
        among = [s for pair in parts for s in _search(*pair, gains, root, steps, is_part=True)]
        if among:
            return among
    made_anew = not lasting and gain.nodes == 0
    if gain.nodes > 0 or gain.attached > LEAST_ENTRIES or gain.tensors > LEAST_ENTRIES:
        suspect = _suspect(_rebound(new), gain, 0, root, steps)
        suspect.inputs = made_anew  # a list of each step's own, longer each time
        return [suspect]
    if gain.storage >= LEAST_BYTES * steps:
        suspect = _suspect(_rebound(new), gain, 0, root, steps)
        suspect.inputs = True  # unless its statement reads its own old value: the source will tell
        return [suspect]
    return []


def _parts(old: Spot, new: Spot, gains: dict[int, Gain]) -> list[tuple[Spot, Spot]]:
    """What has a good share in the growth of an object that stays: two pools, each of which would be too light."""
    least = gains[id(new)].weight / MOST_PARTS
    pairs = [(old.below.get(label), below) for label, below in new.below.items()]
    return [(before, below) for before, below in pairs if before is not None and gains[id(below)].weight >= least > 0]


def _table(spot: Spot, gain: Gain, filled: int, root: Root, steps: int) -> Suspect:
    """A collection that was made with all its places: full it grows no more, which excuses all but graphs."""
    suspect = _suspect(spot, gain, filled, root, steps)
    suspect.is_filled = True
    if gain.attached <= 0:
        suspect.maxlen = spot.length
    return suspect


def _filled(old: Spot, new: Spot) -> int:
    """How many more places of a collection of a fixed length have something in them: ``rows = [None] * steps``."""
    items, before = new.below.get(ANY_ITEM), old.below.get(ANY_ITEM)
    if items is None or new.ident != old.ident or new.count != 1 or items.count > new.length:
        return 0
    return items.count - (before.count if before is not None else 0)


def _keeps_exceptions(spot: Spot) -> bool:
    """Whether the items of a collection are exceptions, or tuples and the like with one in them."""
    item = spot.below.get(ANY_ITEM)
    return item is not None and any(isinstance(s.thing, BaseException) for s in (item, *item.below.values()))


def _matters(gain: Gain, steps: int) -> bool:
    return (
        gain.nodes >= max(steps // 4, 2)
        or gain.attached > 0
        or gain.hooks >= LEAST_ENTRIES
        or gain.optimized >= max(steps // 8, LEAST_ENTRIES)
        or gain.cached >= max(steps // 4, LEAST_ENTRIES)
        or gain.data >= LEAST_BYTES * steps
    )


def _rebound(spot: Spot) -> Spot:
    """The variable that is bound anew: not the field of the tuple that is bound to it."""
    while spot.parent is not None and type(spot.parent.thing) is not dict and isinstance(spot.parent.thing, tuple):
        spot = spot.parent
    return spot


def _suspect(spot: Spot, gain: Gain, entries: int, root: Root, steps: int) -> Suspect:
    chain = spot.chain()[2:]  # without the top and the namespace
    things = [each.thing for each in chain]
    below = list(spot.walk())
    places = [spot, *spot.below.values()] if entries else [spot]
    attached = gain.attached > 0 or gain.nodes > 0
    cached = any(isinstance(thing, CACHE_TYPES) for thing in things)
    if gain.hooks > 0 and spot.label.endswith("_hooks"):
        kind = "hook"
    elif cached:
        kind = "cache"
    elif any(isinstance(each.thing, BaseException) for each in below):
        kind = "exception"
    elif attached:
        kind = "cycle" if spot.label == ".grad" else "graph"
    elif gain.tensors > 0 or gain.storage > 0:
        kind = "view" if gain.storage > 2 * gain.logical else "tensor"
    else:
        kind = "heap"
    of_optimizer = any(_is_optimizer(thing) for thing in things) and not (entries and _is_in_own_state(chain))
    if of_optimizer and kind != "graph":  # a state with a graph is one that is carried on, whoever keeps it
        kind = "optimizer"
    elif kind == "tensor" and any(_is_state(each.thing) for each in below):
        kind = "snapshot"
    limits = [caches.limit(thing) for thing in things]
    maxlen = spot.thing.maxlen if isinstance(spot.thing, deque) else next(filter(None, limits), None)
    heads = [tensor for each in below for tensor in each.slots]
    operation = heads[-1].grad_fn.name() if heads else None
    devices = {device for each in below for device in each.devices}
    if heads:  # a loss that was moved to the host has its graph where it was computed
        devices |= devices_of(heads[-1].grad_fn)
    held = Held(heads[-1].grad_fn) if kind == "graph" and heads else None
    holder = describe(chain, root, kind)
    nodes = sum(each.nodes for each in below if each.slots) / max(len(heads), 1)
    freed = any(each.freed for each in below)
    return Suspect(
        kind,
        gain,
        steps,
        entries,
        holder,
        chain,
        root,
        maxlen,
        False,
        operation,
        names_of(devices),
        held,
        nodes,
        freed,
        home(chain, root),
        wraps_tensors=not any(each.tensors for each in places),
        graphs=sum(each.attached for each in below),
        is_bare=bool(heads) and all(each.bare for each in below if each.slots),
        items=next((sum(1 for _ in tee_items(thing)) for thing in things if type(thing) is TEE), 0),
    )


def _is_state(thing: Any) -> bool:
    """Whether it is what ``state_dict()`` returned, or a copy."""
    return type(thing) is OrderedDict and "_metadata" in getattr(thing, "__dict__", ())


def _is_tensor(thing: Any) -> bool:
    return any(c.__module__ in ("torch", "torch._tensor") and c.__name__ == "Tensor" for c in type(thing).__mro__)


def _is_passing_tensor(thing: Any) -> bool:
    """Whether it is a tensor, and no parameter of a model: those are the same in every step."""
    return _is_tensor(thing) and not any(c.__name__ == "Parameter" for c in type(thing).__mro__)


def _is_optimizer(thing: Any) -> bool:
    return any(c.__module__ == "torch.optim.optimizer" and c.__name__ == "Optimizer" for c in type(thing).__mro__)


def _is_in_own_state(chain: list[Spot]) -> bool:
    """Whether it is a collection that an optimizer of the program's own, not of torch, keeps in its state."""
    return any(
        spot.label == ".state" and _is_optimizer(owner.thing) and not type(owner.thing).__module__.startswith("torch.")
        for owner, spot in pairwise(chain[:-1])
    )


def _is_unfreezing(suspect: Suspect, before: Census) -> bool:
    """Whether an optimizer was only given parameters that the model had already: there are so many, and no more."""
    if not _is_of_optimizer(suspect.spot):
        return False
    optimizer = suspect.chain[-2].thing
    parameters = sum(len(group["params"]) for group in optimizer.param_groups)
    if suspect.spot.label == ".state" and suspect.spot.length > parameters:
        return False  # it is kept by other keys: `state[p.data]` is a new tensor each time
    return all(id(parameter) in before.parameters for parameter in optimizer.param_groups[-1]["params"])


def _behind_cxx(before: Census, after: Census, steps: int) -> list[Suspect]:
    """What grew where no variable leads: cycles through C++."""
    least = max(steps // 8, LEAST_ENTRIES)
    found = _on_contexts(before, after, steps, least)
    for field_name, name, path in _CYCLES:
        gained = getattr(after.orphans, field_name) - getattr(before.orphans, field_name)
        if path == SAVED and _waits_for_the_collector(after.orphans.samples):
            continue
        if gained >= least:
            holder = Holder(name, path, "cycle", "internal")
            gain = Gain(tensors=gained, nodes=gained)
            found.append(Suspect("cycle", gain, steps, 0, holder, devices=names_of(after.orphans.devices)))
    return found[:1]


def _on_contexts(before: Census, after: Census, steps: int, least: int) -> list[Suspect]:
    """Views of outputs that contexts of the user's autograd functions keep."""
    gained = after.orphans.attached - before.orphans.attached
    kept = contexts.keeper(after.orphans.samples) if gained >= least else None
    if kept is None:
        return []
    holder, function = kept
    gain = Gain(tensors=gained, attached=gained)
    devices = names_of(after.orphans.devices)
    return [Suspect("cycle", gain, steps, 0, holder, devices=devices, home=file_of(function.__module__))]


def _in_a_library(before: Census, after: Census, steps: int) -> list[Suspect]:
    """What a collection of a library keeps: graphs that no variable of the user's leads to, and more of them."""
    gained = after.orphans.attached - before.orphans.attached
    kept = registries.keeper(after.orphans.samples) if gained >= max(steps // 4, LEAST_ENTRIES) else None
    if kept is None:
        return []
    spot = Spot(None, "")
    spot.thing = kept.collection
    holder = Holder(kept.path.rpartition(".")[2], kept.path, type_name(kept.collection), kept.scope)
    gain = Gain(tensors=gained, attached=gained)
    devices = names_of(after.orphans.devices)
    return [Suspect("graph", gain, steps, gained, holder, [spot], devices=devices, wraps_tensors=True)]


def names_of(devices: set[Any]) -> tuple[str, ...]:
    """Devices as torch writes them; the host's memory is what is left where there is no tensor."""
    return tuple(sorted(map(str, devices))) or ("cpu",)


def _waits_for_the_collector(samples: Sequence[Any]) -> bool:
    """Whether tensors that no variable reaches are held by objects of Python all the same: garbage that is to go soon.

    Args:
        samples: weak references to some of them.
    """
    return 2 * sum(_is_gone_or_held(reference) for reference in samples) >= len(samples)


def _is_gone_or_held(reference: Any) -> bool:
    tensor = reference()
    own = sys._getframe()
    return tensor is None or any(each is not own for each in gc.get_referrers(tensor))


_CYCLES = (
    ("second_order", "grad", "param.grad cycle (create_graph)"),
    ("hooked", "register_hook", "tensor hook"),
    ("attached", "saved_tensors_hooks", SAVED),
)
